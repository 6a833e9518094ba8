// Sixteen floats as a plain array: the vector layer of targets without Highway. The compiler vectorises the loops as far as
// the whole program's target allows. Part of kernels-inl.hpp.

inline constexpr std::size_t kParts = 4;  // SSE2 registers, as the compiler is likely to lay them out

struct Floats {
    float v[16];
};
struct Ints {
    std::int32_t v[16];
};

#define COLIBRI_EACH for (std::size_t i = 0; i < 16; ++i)

/// Keeps the compiler from fusing the products into a later sum (docs/numerics.md, "Fusing").
COLIBRI_KERNEL Floats Rounded(Floats a) {
    asm("" : "+m"(a.v));
    return a;
}
COLIBRI_KERNEL float Rounded(float a) {
    asm("" : "+m"(a));
    return a;
}

COLIBRI_KERNEL Floats Set(float x) {
    Floats r;
    COLIBRI_EACH r.v[i] = x;
    return r;
}
COLIBRI_KERNEL Floats Zero() { return Set(0.0f); }
COLIBRI_KERNEL Floats Load(const float* p) {
    Floats r;
    COLIBRI_EACH r.v[i] = p[i];
    return r;
}
COLIBRI_KERNEL void Store(Floats a, float* p) { COLIBRI_EACH p[i] = a.v[i]; }
COLIBRI_KERNEL Floats LoadF16(const std::uint16_t* p) {
    Floats r;
    COLIBRI_EACH r.v[i] = f16_to_f32(p[i]);
    return r;
}
COLIBRI_KERNEL Floats LoadBf16(const std::uint16_t* p) {
    Floats r;
    COLIBRI_EACH r.v[i] = bf16_to_f32(p[i]);
    return r;
}
COLIBRI_KERNEL Floats LoadI8(const std::int8_t* p) {
    Floats r;
    COLIBRI_EACH r.v[i] = static_cast<float>(p[i]);
    return r;
}
COLIBRI_KERNEL void StoreF16(Floats a, std::uint16_t* p) { COLIBRI_EACH p[i] = f32_to_f16(a.v[i]); }

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
    __builtin_memcpy(&r, &a, sizeof r);
    return r;
}
COLIBRI_KERNEL Floats FromBits(Ints a) {
    Floats r;
    __builtin_memcpy(&r, &a, sizeof r);
    return r;
}
COLIBRI_KERNEL Ints SetInt(std::int32_t x) {
    Ints r;
    COLIBRI_EACH r.v[i] = x;
    return r;
}
COLIBRI_KERNEL Ints Add(Ints a, Ints b) {
    COLIBRI_EACH a.v[i] = static_cast<std::int32_t>(static_cast<std::uint32_t>(a.v[i]) + static_cast<std::uint32_t>(b.v[i]));
    return a;
}
COLIBRI_KERNEL Ints Sub(Ints a, Ints b) {
    COLIBRI_EACH a.v[i] = static_cast<std::int32_t>(static_cast<std::uint32_t>(a.v[i]) - static_cast<std::uint32_t>(b.v[i]));
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
    COLIBRI_EACH a.v[i] = static_cast<std::int32_t>(static_cast<std::uint32_t>(a.v[i]) << kBits);
    return a;
}
/// Arithmetic.
template <int kBits>
COLIBRI_KERNEL Ints ShiftRight(Ints a) {
    COLIBRI_EACH a.v[i] >>= kBits;
    return a;
}

/// Sum as a fixed tree: lanes 8, then 4, 2, 1 apart.
COLIBRI_KERNEL float Sum(Floats a) {
    for (std::size_t apart = 8; apart > 0; apart /= 2) {
        for (std::size_t i = 0; i < apart; ++i) a.v[i] += a.v[i + apart];
    }
    return a.v[0];
}
COLIBRI_KERNEL float MaxLane(Floats a) {
    float top = a.v[0];
    COLIBRI_EACH top = a.v[i] > top ? a.v[i] : top;
    return top;
}

/// Splits 32 floats into those at even and at odd places.
COLIBRI_KERNEL void LoadPairs(const float* p, Floats& even, Floats& odd) {
    COLIBRI_EACH {
        even.v[i] = p[2 * i];
        odd.v[i] = p[2 * i + 1];
    }
}
COLIBRI_KERNEL void StorePairs(Floats even, Floats odd, float* p) {
    COLIBRI_EACH {
        p[2 * i] = even.v[i];
        p[2 * i + 1] = odd.v[i];
    }
}

#undef COLIBRI_EACH
