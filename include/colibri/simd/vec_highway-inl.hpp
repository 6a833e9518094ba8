// Sixteen floats in one, two or four Highway vectors: what the canonical order's 16 virtual lanes lie in. Part of kernels-inl.hpp.

namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::CappedTag<float, 16>;
using IntTag = hn::RebindToSigned<FloatTag>;
inline constexpr std::size_t kLanes = HWY_LANES(float) < 16 ? HWY_LANES(float) : 16;
inline constexpr std::size_t kParts = 16 / kLanes;

// The constructors are written out because g++ gives implicit ones no target, and can't inline Highway's into them on ARM then.
struct Floats {
    COLIBRI_KERNEL Floats() {}
    hn::Vec<FloatTag> v[kParts];
};
struct Ints {
    COLIBRI_KERNEL Ints() {}
    hn::Vec<IntTag> v[kParts];
};

#define COLIBRI_EACH COLIBRI_UNROLL for (std::size_t i = 0; i < kParts; ++i)

#if HWY_ARCH_ARM
#define COLIBRI_VECTOR_REGISTER "+w"
#else
#define COLIBRI_VECTOR_REGISTER "+v"
#endif

/// Keeps the compiler from fusing the products into a later sum (docs/numerics.md, "Fusing").
COLIBRI_KERNEL Floats Rounded(Floats a) {
    COLIBRI_EACH asm("" : COLIBRI_VECTOR_REGISTER(a.v[i].raw));
    return a;
}
COLIBRI_KERNEL float Rounded(float a) {
    asm("" : COLIBRI_VECTOR_REGISTER(a));
    return a;
}
#undef COLIBRI_VECTOR_REGISTER

COLIBRI_KERNEL Floats Set(float x) {
    Floats r;
    COLIBRI_EACH r.v[i] = hn::Set(FloatTag(), x);
    return r;
}
COLIBRI_KERNEL Floats Zero() {
    Floats r;
    COLIBRI_EACH r.v[i] = hn::Zero(FloatTag());
    return r;
}
COLIBRI_KERNEL Floats Load(const float* p) {
    Floats r;
    COLIBRI_EACH r.v[i] = hn::LoadU(FloatTag(), p + i * kLanes);
    return r;
}
COLIBRI_KERNEL void Store(Floats a, float* p) { COLIBRI_EACH hn::StoreU(a.v[i], FloatTag(), p + i * kLanes); }

COLIBRI_KERNEL Floats LoadBf16(const std::uint16_t* p) {
    const hn::RebindToUnsigned<FloatTag> du;
    const hn::Rebind<std::uint16_t, FloatTag> d16;
    Floats r;
    COLIBRI_EACH r.v[i] = hn::BitCast(FloatTag(), hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(d16, p + i * kLanes))));
    return r;
}
COLIBRI_KERNEL Floats LoadI8(const std::int8_t* p) {
    const hn::Rebind<std::int8_t, FloatTag> d8;
    Floats r;
    COLIBRI_EACH r.v[i] = hn::ConvertTo(FloatTag(), hn::PromoteTo(IntTag(), hn::LoadU(d8, p + i * kLanes)));
    return r;
}

COLIBRI_KERNEL Floats Add(Floats a, Floats b) {
    COLIBRI_EACH a.v[i] = hn::Add(a.v[i], b.v[i]);
    return a;
}
COLIBRI_KERNEL Floats Sub(Floats a, Floats b) {
    COLIBRI_EACH a.v[i] = hn::Sub(a.v[i], b.v[i]);
    return a;
}
COLIBRI_KERNEL Floats Mul(Floats a, Floats b) {
    COLIBRI_EACH a.v[i] = hn::Mul(a.v[i], b.v[i]);
    return Rounded(a);
}
COLIBRI_KERNEL Floats Div(Floats a, Floats b) {
    COLIBRI_EACH a.v[i] = hn::Div(a.v[i], b.v[i]);
    return a;
}
COLIBRI_KERNEL Floats Neg(Floats a) {
    COLIBRI_EACH a.v[i] = hn::Neg(a.v[i]);
    return a;
}
/// a * b + c; one rounding on targets with FMA, two on others.
COLIBRI_KERNEL Floats Fma(Floats a, Floats b, Floats c) {
#if HWY_NATIVE_FMA
    COLIBRI_EACH c.v[i] = hn::MulAdd(a.v[i], b.v[i], c.v[i]);
    return c;
#else
    return Add(Mul(a, b), c);
#endif
}
COLIBRI_KERNEL float Fma(float a, float b, float c) {
#if HWY_NATIVE_FMA
    return __builtin_fmaf(a, b, c);
#else
    return Rounded(a * b) + c;
#endif
}
#if HWY_ARCH_X86
/// The larger; b if one is NaN.
COLIBRI_KERNEL Floats Max(Floats a, Floats b) {
    COLIBRI_EACH a.v[i] = hn::Max(a.v[i], b.v[i]);
    return a;
}
/// The smaller; b if one is NaN.
COLIBRI_KERNEL Floats Min(Floats a, Floats b) {
    COLIBRI_EACH a.v[i] = hn::Min(a.v[i], b.v[i]);
    return a;
}
#else
COLIBRI_KERNEL Floats Max(Floats a, Floats b) {
    COLIBRI_EACH a.v[i] = hn::IfThenElse(hn::Gt(a.v[i], b.v[i]), a.v[i], b.v[i]);
    return a;
}
COLIBRI_KERNEL Floats Min(Floats a, Floats b) {
    COLIBRI_EACH a.v[i] = hn::IfThenElse(hn::Lt(a.v[i], b.v[i]), a.v[i], b.v[i]);
    return a;
}
#endif

COLIBRI_KERNEL Ints Bits(Floats a) {
    Ints r;
    COLIBRI_EACH r.v[i] = hn::BitCast(IntTag(), a.v[i]);
    return r;
}
COLIBRI_KERNEL Floats FromBits(Ints a) {
    Floats r;
    COLIBRI_EACH r.v[i] = hn::BitCast(FloatTag(), a.v[i]);
    return r;
}
COLIBRI_KERNEL Ints SetInt(std::int32_t x) {
    Ints r;
    COLIBRI_EACH r.v[i] = hn::Set(IntTag(), x);
    return r;
}
COLIBRI_KERNEL Ints Add(Ints a, Ints b) {
    COLIBRI_EACH a.v[i] = hn::Add(a.v[i], b.v[i]);
    return a;
}
COLIBRI_KERNEL Ints Sub(Ints a, Ints b) {
    COLIBRI_EACH a.v[i] = hn::Sub(a.v[i], b.v[i]);
    return a;
}
COLIBRI_KERNEL Ints And(Ints a, Ints b) {
    COLIBRI_EACH a.v[i] = hn::And(a.v[i], b.v[i]);
    return a;
}
COLIBRI_KERNEL Ints Or(Ints a, Ints b) {
    COLIBRI_EACH a.v[i] = hn::Or(a.v[i], b.v[i]);
    return a;
}
template <int kBits>
COLIBRI_KERNEL Ints ShiftLeft(Ints a) {
    COLIBRI_EACH a.v[i] = hn::ShiftLeft<kBits>(a.v[i]);
    return a;
}
/// Arithmetic.
template <int kBits>
COLIBRI_KERNEL Ints ShiftRight(Ints a) {
    COLIBRI_EACH a.v[i] = hn::ShiftRight<kBits>(a.v[i]);
    return a;
}

#if HWY_TARGET == HWY_SSE4 || HWY_TARGET == HWY_SSSE3
// No F16C: the bits become a float 2^112 too small (exact, subnormals included), then infinities and NaNs get their exponent.
COLIBRI_KERNEL Floats LoadF16(const std::uint16_t* p) {
    const FloatTag df;
    const hn::Rebind<std::uint16_t, FloatTag> d16;
    const hn::RebindToUnsigned<FloatTag> du;
    Floats r;
    COLIBRI_EACH {
        const auto half = hn::PromoteTo(du, hn::LoadU(d16, p + i * kLanes));
        const auto sign = hn::ShiftLeft<16>(hn::And(half, hn::Set(du, 0x8000u)));
        const auto small = hn::BitCast(df, hn::ShiftLeft<13>(hn::And(half, hn::Set(du, 0x7fffu))));
        const auto value = hn::Mul(small, hn::Set(df, 0x1p112f));
        const auto special = hn::BitCast(du, hn::VecFromMask(df, hn::Ge(value, hn::Set(df, 65536.0f))));
        const auto exponent = hn::And(special, hn::Set(du, 0x7f800000u));
        r.v[i] = hn::BitCast(df, hn::Or(hn::Or(hn::BitCast(du, value), exponent), sign));
    }
    return r;
}
COLIBRI_KERNEL void StoreF16(Floats a, std::uint16_t* p) {
    float values[16];
    Store(a, values);
    for (std::size_t i = 0; i < 16; ++i) p[i] = f32_to_f16(values[i]);
}
#else
COLIBRI_KERNEL Floats LoadF16(const std::uint16_t* p) {
    const hn::Rebind<hwy::float16_t, FloatTag> d16;
    const hn::RebindToUnsigned<decltype(d16)> du;
    Floats r;
    COLIBRI_EACH r.v[i] = hn::PromoteTo(FloatTag(), hn::BitCast(d16, hn::LoadU(du, p + i * kLanes)));
    return r;
}
COLIBRI_KERNEL void StoreF16(Floats a, std::uint16_t* p) {
    const hn::Rebind<hwy::float16_t, FloatTag> d16;
    const hn::RebindToUnsigned<decltype(d16)> du;
    COLIBRI_EACH hn::StoreU(hn::BitCast(du, hn::DemoteTo(d16, a.v[i])), du, p + i * kLanes);
}
#endif

COLIBRI_KERNEL Ints Max(Ints a, Ints b) {
    COLIBRI_EACH a.v[i] = hn::Max(a.v[i], b.v[i]);
    return a;
}
/// Lanes are within -128..127.
COLIBRI_KERNEL void StoreI8(Ints a, std::int8_t* p) {
    const hn::Rebind<std::int8_t, FloatTag> d8;
    COLIBRI_EACH hn::StoreU(hn::DemoteTo(d8, a.v[i]), d8, p + i * kLanes);
}

/// Lanes 8 apart, then 4 apart, combined: what is left of 16 lanes fits one 128-bit vector.
template <class T, class V, class Combine>
COLIBRI_KERNEL hn::Vec<hn::CappedTag<T, 4>> FoldTo4(const V (&a)[kParts], Combine combine) {
#if HWY_MAX_BYTES >= 64
    const hn::CappedTag<T, 8> d8;
    const auto half = combine(hn::LowerHalf(d8, a[0]), hn::UpperHalf(d8, a[0]));
#elif HWY_MAX_BYTES == 32
    const auto half = combine(a[0], a[1]);
#endif
#if HWY_MAX_BYTES >= 32
    const hn::CappedTag<T, 4> d4;
    return combine(hn::LowerHalf(d4, half), hn::UpperHalf(d4, half));
#else
    return combine(combine(a[0], a[2]), combine(a[1], a[3]));
#endif
}
struct AddVectors {
    template <class V>
    COLIBRI_KERNEL V operator()(V a, V b) const {
        return hn::Add(a, b);
    }
};
struct MaxVectors {
    template <class V>
    COLIBRI_KERNEL V operator()(V a, V b) const {
        return hn::Max(a, b);
    }
};

/// Sum as a fixed tree: lanes 8, then 4, 2, 1 apart.
COLIBRI_KERNEL float Sum(Floats a) {
    auto four = FoldTo4<float>(a.v, AddVectors());
    four = hn::Add(four, hn::Shuffle1032(four));
    return hn::GetLane(hn::Add(four, hn::Shuffle2301(four)));
}
COLIBRI_KERNEL float MaxLane(Floats a) {
    auto four = FoldTo4<float>(a.v, MaxVectors());
    four = hn::Max(four, hn::Shuffle1032(four));
    return hn::GetLane(hn::Max(four, hn::Shuffle2301(four)));
}

COLIBRI_KERNEL std::int32_t MaxLane(Ints a) {
    auto four = FoldTo4<std::int32_t>(a.v, MaxVectors());
    four = hn::Max(four, hn::Shuffle1032(four));
    return hn::GetLane(hn::Max(four, hn::Shuffle2301(four)));
}

/// Splits 32 floats into those at even and at odd places.
COLIBRI_KERNEL void LoadPairs(const float* p, Floats& even, Floats& odd) {
    COLIBRI_EACH hn::LoadInterleaved2(FloatTag(), p + 2 * i * kLanes, even.v[i], odd.v[i]);
}
COLIBRI_KERNEL void StorePairs(Floats even, Floats odd, float* p) {
    COLIBRI_EACH hn::StoreInterleaved2(even.v[i], odd.v[i], FloatTag(), p + 2 * i * kLanes);
}

#undef COLIBRI_EACH
