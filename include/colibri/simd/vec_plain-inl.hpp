// Sixteen floats as four vectors of the compiler's own kind: the vector layer of targets without Highway. The compiler turns
// them into whatever the whole program's target has. Part of kernels-inl.hpp.

inline constexpr std::size_t kParts = 4;
typedef float PlainFloats __attribute__((vector_size(16)));
typedef std::int32_t PlainInts __attribute__((vector_size(16)));

struct Floats {
    PlainFloats v[kParts];
};
struct Ints {
    PlainInts v[kParts];
};

#define COLIBRI_EACH COLIBRI_UNROLL for (std::size_t i = 0; i < kParts; ++i)
#define COLIBRI_EACH_LANE for (std::size_t i = 0; i < 16; ++i)

#if defined(__x86_64__)
#define COLIBRI_VECTOR_REGISTER "+x"
#elif defined(__aarch64__)
#define COLIBRI_VECTOR_REGISTER "+w"
#else
#define COLIBRI_VECTOR_REGISTER "+m"
#endif
/// Keeps the compiler from fusing the products into a later sum (docs/numerics.md, "Fusing").
COLIBRI_KERNEL Floats Rounded(Floats a) {
    COLIBRI_EACH asm("" : COLIBRI_VECTOR_REGISTER(a.v[i]));
    return a;
}
COLIBRI_KERNEL float Rounded(float a) {
    asm("" : COLIBRI_VECTOR_REGISTER(a));
    return a;
}
#undef COLIBRI_VECTOR_REGISTER

COLIBRI_KERNEL Floats Set(float x) {
    Floats r;
    COLIBRI_EACH r.v[i] = PlainFloats{x, x, x, x};
    return r;
}
COLIBRI_KERNEL Floats Zero() { return Set(0.0f); }
COLIBRI_KERNEL Floats Load(const float* p) {
    Floats r;
    __builtin_memcpy(&r, p, sizeof r);
    return r;
}
COLIBRI_KERNEL void Store(Floats a, float* p) { __builtin_memcpy(p, &a, sizeof a); }
COLIBRI_KERNEL Floats LoadF16(const std::uint16_t* p) {
    float lanes[16];
    COLIBRI_EACH_LANE lanes[i] = f16_to_f32(p[i]);
    return Load(lanes);
}
COLIBRI_KERNEL Floats LoadBf16(const std::uint16_t* p) {
    float lanes[16];
    COLIBRI_EACH_LANE lanes[i] = bf16_to_f32(p[i]);
    return Load(lanes);
}
COLIBRI_KERNEL Floats LoadI8(const std::int8_t* p) {
    float lanes[16];
    COLIBRI_EACH_LANE lanes[i] = static_cast<float>(p[i]);
    return Load(lanes);
}
COLIBRI_KERNEL void StoreF16(Floats a, std::uint16_t* p) {
    float lanes[16];
    Store(a, lanes);
    COLIBRI_EACH_LANE p[i] = f32_to_f16(lanes[i]);
}

COLIBRI_KERNEL Floats Add(Floats a, Floats b) {
    COLIBRI_EACH a.v[i] += b.v[i];
    return a;
}
COLIBRI_KERNEL Floats Sub(Floats a, Floats b) {
    COLIBRI_EACH a.v[i] -= b.v[i];
    return a;
}
COLIBRI_KERNEL Floats Mul(Floats a, Floats b) {
    COLIBRI_EACH a.v[i] *= b.v[i];
    return Rounded(a);
}
COLIBRI_KERNEL Floats Div(Floats a, Floats b) {
    COLIBRI_EACH a.v[i] /= b.v[i];
    return a;
}
COLIBRI_KERNEL Floats Neg(Floats a) {
    COLIBRI_EACH a.v[i] = -a.v[i];
    return a;
}
/// a * b + c, rounded twice: there is no fused instruction.
COLIBRI_KERNEL Floats Fma(Floats a, Floats b, Floats c) { return Add(Mul(a, b), c); }
COLIBRI_KERNEL float Fma(float a, float b, float c) { return Rounded(a * b) + c; }
/// The larger; b if one is NaN.
COLIBRI_KERNEL Floats Max(Floats a, Floats b) {
    COLIBRI_EACH a.v[i] = a.v[i] > b.v[i] ? a.v[i] : b.v[i];
    return a;
}
/// The smaller; b if one is NaN.
COLIBRI_KERNEL Floats Min(Floats a, Floats b) {
    COLIBRI_EACH a.v[i] = a.v[i] < b.v[i] ? a.v[i] : b.v[i];
    return a;
}

COLIBRI_KERNEL Ints Bits(Floats a) {
    Ints r;
    COLIBRI_EACH r.v[i] = reinterpret_cast<PlainInts>(a.v[i]);
    return r;
}
COLIBRI_KERNEL Floats FromBits(Ints a) {
    Floats r;
    COLIBRI_EACH r.v[i] = reinterpret_cast<PlainFloats>(a.v[i]);
    return r;
}
COLIBRI_KERNEL Ints SetInt(std::int32_t x) {
    Ints r;
    COLIBRI_EACH r.v[i] = PlainInts{x, x, x, x};
    return r;
}
COLIBRI_KERNEL Ints Add(Ints a, Ints b) {
    COLIBRI_EACH a.v[i] += b.v[i];
    return a;
}
COLIBRI_KERNEL Ints Sub(Ints a, Ints b) {
    COLIBRI_EACH a.v[i] -= b.v[i];
    return a;
}
COLIBRI_KERNEL Ints And(Ints a, Ints b) {
    COLIBRI_EACH a.v[i] &= b.v[i];
    return a;
}
COLIBRI_KERNEL Ints Or(Ints a, Ints b) {
    COLIBRI_EACH a.v[i] |= b.v[i];
    return a;
}
template <int kBits>
COLIBRI_KERNEL Ints ShiftLeft(Ints a) {
    COLIBRI_EACH a.v[i] <<= kBits;
    return a;
}
/// Arithmetic.
template <int kBits>
COLIBRI_KERNEL Ints ShiftRight(Ints a) {
    COLIBRI_EACH a.v[i] >>= kBits;
    return a;
}

COLIBRI_KERNEL Ints Max(Ints a, Ints b) {
    COLIBRI_EACH a.v[i] = a.v[i] > b.v[i] ? a.v[i] : b.v[i];
    return a;
}
COLIBRI_KERNEL std::int32_t MaxLane(Ints a) {
    std::int32_t lanes[16];
    __builtin_memcpy(lanes, &a, sizeof a);
    std::int32_t top = lanes[0];
    COLIBRI_EACH_LANE top = lanes[i] > top ? lanes[i] : top;
    return top;
}
/// Lanes are within -128..127.
COLIBRI_KERNEL void StoreI8(Ints a, std::int8_t* p) {
    std::int32_t lanes[16];
    __builtin_memcpy(lanes, &a, sizeof a);
    COLIBRI_EACH_LANE p[i] = static_cast<std::int8_t>(lanes[i]);
}

/// Sum as a fixed tree: lanes 8, then 4, 2, 1 apart.
COLIBRI_KERNEL float Sum(Floats a) {
    const PlainFloats four = (a.v[0] + a.v[2]) + (a.v[1] + a.v[3]);
    return (four[0] + four[2]) + (four[1] + four[3]);
}
COLIBRI_KERNEL float MaxLane(Floats a) {
    float lanes[16];
    Store(a, lanes);
    float top = lanes[0];
    COLIBRI_EACH_LANE top = lanes[i] > top ? lanes[i] : top;
    return top;
}

/// Splits 32 floats into those at even and at odd places.
COLIBRI_KERNEL void LoadPairs(const float* p, Floats& even, Floats& odd) {
    float lanes[32];
    COLIBRI_EACH_LANE {
        lanes[i] = p[2 * i];
        lanes[16 + i] = p[2 * i + 1];
    }
    even = Load(lanes);
    odd = Load(lanes + 16);
}
COLIBRI_KERNEL void StorePairs(Floats even, Floats odd, float* p) {
    float lanes[32];
    Store(even, lanes);
    Store(odd, lanes + 16);
    COLIBRI_EACH_LANE {
        p[2 * i] = lanes[i];
        p[2 * i + 1] = lanes[16 + i];
    }
}

#undef COLIBRI_EACH
#undef COLIBRI_EACH_LANE
