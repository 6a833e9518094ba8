// Vectors of 8-bit codes and sums of their products. Part of kernels-inl.hpp.

using ByteTag = hn::CappedTag<std::uint8_t, 64>;
using WordTag = hn::Repartition<std::int32_t, ByteTag>;
using HalfTag = hn::CappedTag<std::uint8_t, 32>;
using Tag16 = hn::CappedTag<std::uint8_t, 16>;
using Words4Tag = hn::CappedTag<std::int32_t, 4>;
using Floats4Tag = hn::CappedTag<float, 4>;
inline constexpr std::size_t kBytes = HWY_LANES(std::uint8_t) < 64 ? HWY_LANES(std::uint8_t) : 64;
inline constexpr std::size_t kByteParts = 64 / kBytes;
inline constexpr std::size_t kHalfBytes = kBytes < 32 ? kBytes : 32;
inline constexpr std::size_t kHalfParts = 32 / kHalfBytes;

using ByteVec = hn::Vec<ByteTag>;
using WordVec = hn::Vec<WordTag>;
using Words4 = hn::Vec<Words4Tag>;
using Floats4 = hn::Vec<Floats4Tag>;

struct Bytes32 {
    COLIBRI_KERNEL Bytes32() {}
    hn::Vec<HalfTag> v[kHalfParts];
};
struct Bytes64 {
    COLIBRI_KERNEL Bytes64() {}
    ByteVec v[kByteParts];
};
/// Sums of the products of four neighbours; 64 products in all.
struct Words64 {
    COLIBRI_KERNEL Words64() {}
    WordVec v[kByteParts];
};

#define COLIBRI_EACH COLIBRI_UNROLL for (std::size_t i = 0; i < kByteParts; ++i)
#define COLIBRI_EACH_HALF COLIBRI_UNROLL for (std::size_t i = 0; i < kHalfParts; ++i)

COLIBRI_KERNEL Bytes32 Load32(const void* p) {
    Bytes32 r;
    COLIBRI_EACH_HALF r.v[i] = hn::LoadU(HalfTag(), static_cast<const std::uint8_t*>(p) + i * kHalfBytes);
    return r;
}
COLIBRI_KERNEL void Store32(Bytes32 a, std::uint8_t* p) { COLIBRI_EACH_HALF hn::StoreU(a.v[i], HalfTag(), p + i * kHalfBytes); }
COLIBRI_KERNEL Bytes64 Load64(const void* p) {
    Bytes64 r;
    COLIBRI_EACH r.v[i] = hn::LoadU(ByteTag(), static_cast<const std::uint8_t*>(p) + i * kBytes);
    return r;
}
COLIBRI_KERNEL Bytes32 Set32(std::uint8_t x) {
    Bytes32 r;
    COLIBRI_EACH_HALF r.v[i] = hn::Set(HalfTag(), x);
    return r;
}
COLIBRI_KERNEL Bytes32 And(Bytes32 a, Bytes32 b) {
    COLIBRI_EACH_HALF a.v[i] = hn::And(a.v[i], b.v[i]);
    return a;
}
COLIBRI_KERNEL Bytes32 Or(Bytes32 a, Bytes32 b) {
    COLIBRI_EACH_HALF a.v[i] = hn::Or(a.v[i], b.v[i]);
    return a;
}
COLIBRI_KERNEL Bytes32 Xor(Bytes32 a, Bytes32 b) {
    COLIBRI_EACH_HALF a.v[i] = hn::Xor(a.v[i], b.v[i]);
    return a;
}
COLIBRI_KERNEL Bytes32 AddBytes(Bytes32 a, Bytes32 b) {
    COLIBRI_EACH_HALF a.v[i] = hn::Add(a.v[i], b.v[i]);
    return a;
}
COLIBRI_KERNEL Bytes32 SubBytes(Bytes32 a, Bytes32 b) {
    COLIBRI_EACH_HALF a.v[i] = hn::Sub(a.v[i], b.v[i]);
    return a;
}
/// Every byte shifted, what comes from its neighbour not removed.
template <int kBits>
COLIBRI_KERNEL Bytes32 ShiftRightRaw(Bytes32 a) {
    const hn::Repartition<std::uint16_t, HalfTag> d16;
    if constexpr (kBits != 0) {
        COLIBRI_EACH_HALF a.v[i] = hn::BitCast(HalfTag(), hn::ShiftRight<kBits>(hn::BitCast(d16, a.v[i])));
    }
    return a;
}
template <int kBits>
COLIBRI_KERNEL Bytes32 ShiftLeftRaw(Bytes32 a) {
    const hn::Repartition<std::uint16_t, HalfTag> d16;
    COLIBRI_EACH_HALF a.v[i] = hn::BitCast(HalfTag(), hn::ShiftLeft<kBits>(hn::BitCast(d16, a.v[i])));
    return a;
}
/// 16 bytes p, then the same 16 again, as 32.
COLIBRI_KERNEL Bytes32 LoadTwice16(const void* p) {
    Bytes32 r;
    COLIBRI_EACH_HALF r.v[i] = hn::LoadDup128(HalfTag(), static_cast<const std::uint8_t*>(p));
    return r;
}
/// table[index] for every byte; indices below 16.
COLIBRI_KERNEL Bytes32 LookUp(const void* table, Bytes32 index) {
    const Bytes32 t = LoadTwice16(table);
    COLIBRI_EACH_HALF index.v[i] = hn::TableLookupBytes(t.v[i], index.v[i]);
    return index;
}
COLIBRI_KERNEL Bytes64 Join(Bytes32 low, Bytes32 high) {
    Bytes64 r;
#if HWY_MAX_BYTES >= 64
    r.v[0] = hn::Combine(ByteTag(), high.v[0], low.v[0]);
#else
    COLIBRI_EACH_HALF {
        r.v[i] = low.v[i];
        r.v[kHalfParts + i] = high.v[i];
    }
#endif
    return r;
}

COLIBRI_KERNEL WordVec ZeroWords() { return hn::Zero(WordTag()); }

// acc + the sums of w * y over four neighbours, y signed. Unsigned: w at most 127 (255 with VNNI). Signed: any w.
#if COLIBRI_DOT && HWY_ARCH_X86
inline constexpr bool kSignedDot = false;  // signed codes are made unsigned with a zero point of 128
COLIBRI_KERNEL WordVec DotUnsigned(WordVec acc, ByteVec w, ByteVec y) {
    // Not through Highway or intrinsics: its target strings lack the features.
#if HWY_MAX_BYTES >= 64
    asm("vpdpbusd %2, %1, %0" : "+v"(acc.raw) : "v"(w.raw), "v"(y.raw));
#else
    asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(acc.raw) : "x"(w.raw), "x"(y.raw));
#endif
    return acc;
}
COLIBRI_KERNEL WordVec DotSigned(WordVec acc, ByteVec w, ByteVec y) { return DotUnsigned(acc, w, y); }
#elif HWY_ARCH_X86
inline constexpr bool kSignedDot = true;
using ShortTag = hn::Repartition<std::int16_t, ByteTag>;
using ShortVec = hn::Vec<ShortTag>;
/// Sums of two neighbours' products; must stay below 2^15.
COLIBRI_KERNEL ShortVec PairsUnsigned(ByteVec w, ByteVec y) {
#if HWY_MAX_BYTES >= 64
    return ShortVec{_mm512_maddubs_epi16(w.raw, y.raw)};
#elif HWY_MAX_BYTES == 32
    return ShortVec{_mm256_maddubs_epi16(w.raw, y.raw)};
#else
    return ShortVec{_mm_maddubs_epi16(w.raw, y.raw)};
#endif
}
COLIBRI_KERNEL ShortVec PairsSigned(ByteVec w, ByteVec y) {
    // |w| * (y with w's sign): 2 * 128 * 127 still fits.
    const hn::RebindToSigned<ByteTag> di;
#if HWY_MAX_BYTES >= 64
    const auto signed_y = hn::IfThenElse(hn::Lt(hn::BitCast(di, w), hn::Zero(di)), hn::Neg(hn::BitCast(di, y)), hn::BitCast(di, y)).raw;
    return ShortVec{_mm512_maddubs_epi16(hn::Abs(hn::BitCast(di, w)).raw, signed_y)};
#elif HWY_MAX_BYTES == 32
    return ShortVec{_mm256_maddubs_epi16(hn::Abs(hn::BitCast(di, w)).raw, _mm256_sign_epi8(y.raw, w.raw))};
#else
    return ShortVec{_mm_maddubs_epi16(hn::Abs(hn::BitCast(di, w)).raw, _mm_sign_epi8(y.raw, w.raw))};
#endif
}
/// acc + pair sums times `factors`, two neighbours added.
COLIBRI_KERNEL WordVec AddPairs(WordVec acc, ShortVec pairs, ShortVec factors) {
#if HWY_MAX_BYTES >= 64
    return hn::Add(acc, WordVec{_mm512_madd_epi16(pairs.raw, factors.raw)});
#elif HWY_MAX_BYTES == 32
    return hn::Add(acc, WordVec{_mm256_madd_epi16(pairs.raw, factors.raw)});
#else
    return hn::Add(acc, WordVec{_mm_madd_epi16(pairs.raw, factors.raw)});
#endif
}
COLIBRI_KERNEL WordVec DotUnsigned(WordVec acc, ByteVec w, ByteVec y) {
    return AddPairs(acc, PairsUnsigned(w, y), hn::Set(ShortTag(), std::int16_t{1}));
}
COLIBRI_KERNEL WordVec DotSigned(WordVec acc, ByteVec w, ByteVec y) {
    return AddPairs(acc, PairsSigned(w, y), hn::Set(ShortTag(), std::int16_t{1}));
}
#else
inline constexpr bool kSignedDot = true;
#if COLIBRI_DOT
COLIBRI_KERNEL WordVec DotSigned(WordVec acc, ByteVec w, ByteVec y) {
    // The assembler has to be told; what it allows then is more than this function's own target, until the next function's.
    asm(".arch armv8.2-a+crypto+dotprod\n\tsdot %0.4s, %1.16b, %2.16b" : "+w"(acc.raw) : "w"(w.raw), "w"(y.raw));
    return acc;
}
#else
COLIBRI_KERNEL WordVec DotSigned(WordVec acc, ByteVec w, ByteVec y) {
    const int8x16_t a = vreinterpretq_s8_u8(w.raw);
    const int8x16_t b = vreinterpretq_s8_u8(y.raw);
    const int16x8_t low = vmull_s8(vget_low_s8(a), vget_low_s8(b));
    const int16x8_t high = vmull_high_s8(a, b);
    return WordVec(vpadalq_s16(acc.raw, vpaddq_s16(low, high)));  // 2 * 128 * 127 fits 16 bits
}
#endif
COLIBRI_KERNEL WordVec DotUnsigned(WordVec acc, ByteVec w, ByteVec y) { return DotSigned(acc, w, y); }
#endif

template <bool kSigned>
COLIBRI_KERNEL WordVec Dot(WordVec acc, ByteVec w, ByteVec y) {
    if constexpr (kSigned) return DotSigned(acc, w, y);
    else return DotUnsigned(acc, w, y);
}

/// acc + the dots of kAdds pairs of vectors. Where products go through 16 bits, that many pair sums fit: they are added there.
template <bool kSigned, std::size_t kAdds>
COLIBRI_KERNEL WordVec DotSeveral(WordVec acc, const ByteVec (&w)[kAdds], const ByteVec (&y)[kAdds]) {
#if COLIBRI_DOT || !HWY_ARCH_X86
    COLIBRI_UNROLL for (std::size_t i = 0; i < kAdds; ++i) acc = Dot<kSigned>(acc, w[i], y[i]);
    return acc;
#else
    if constexpr (kSigned) {
        COLIBRI_UNROLL for (std::size_t i = 0; i < kAdds; ++i) acc = DotSigned(acc, w[i], y[i]);
        return acc;
    } else {
        ShortVec pairs = PairsUnsigned(w[0], y[0]);
        COLIBRI_UNROLL for (std::size_t i = 1; i < kAdds; ++i) pairs = hn::Add(pairs, PairsUnsigned(w[i], y[i]));
        return AddPairs(acc, pairs, hn::Set(ShortTag(), std::int16_t{1}));
    }
#endif
}

/// Lane by lane of 128 bits: {sum of a's four words, of b's, of c's, of d's}.
template <class D, class V>
COLIBRI_KERNEL V SumOfFour(D d, V a, V b, V c, V e) {
    const hn::Repartition<std::int64_t, D> d64;
    const auto ab = hn::Add(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b));
    const auto ce = hn::Add(hn::InterleaveLower(d, c, e), hn::InterleaveUpper(d, c, e));
    const auto low = hn::InterleaveLower(d64, hn::BitCast(d64, ab), hn::BitCast(d64, ce));
    const auto high = hn::InterleaveUpper(d64, hn::BitCast(d64, ab), hn::BitCast(d64, ce));
    return hn::Add(hn::BitCast(d, low), hn::BitCast(d, high));
}

/// Four rows' sums over each 16 of the 64 products.
COLIBRI_KERNEL void SumRuns(const Words64 (&rows)[4], Words4 (&runs)[4]) {
    const WordTag d;
#if HWY_MAX_BYTES >= 64
    const auto all = SumOfFour(d, rows[0].v[0], rows[1].v[0], rows[2].v[0], rows[3].v[0]);
    const hn::CappedTag<std::int32_t, 8> d8;
    const auto low = hn::LowerHalf(d8, all);
    const auto high = hn::UpperHalf(d8, all);
    runs[0] = hn::LowerHalf(Words4Tag(), low);
    runs[1] = hn::UpperHalf(Words4Tag(), low);
    runs[2] = hn::LowerHalf(Words4Tag(), high);
    runs[3] = hn::UpperHalf(Words4Tag(), high);
#elif HWY_MAX_BYTES == 32
    COLIBRI_UNROLL for (std::size_t i = 0; i < 2; ++i) {
        const auto all = SumOfFour(d, rows[0].v[i], rows[1].v[i], rows[2].v[i], rows[3].v[i]);
        runs[2 * i] = hn::LowerHalf(Words4Tag(), all);
        runs[2 * i + 1] = hn::UpperHalf(Words4Tag(), all);
    }
#else
    COLIBRI_UNROLL for (std::size_t i = 0; i < 4; ++i) {
        runs[i] = SumOfFour(d, rows[0].v[i], rows[1].v[i], rows[2].v[i], rows[3].v[i]);
    }
#endif
}

/// Four half floats, the first in the lowest bits, as floats.
COLIBRI_KERNEL Floats4 HalvesToFloats(std::uint64_t halves) {
    const hn::CappedTag<std::uint64_t, 1> d64;
#if HWY_TARGET == HWY_SSE4 || HWY_TARGET == HWY_SSSE3
    const hn::CappedTag<std::uint32_t, 4> du;
    const hn::CappedTag<std::uint16_t, 4> d16;
    const auto half = hn::PromoteTo(du, hn::BitCast(d16, hn::Set(d64, halves)));
    const auto sign = hn::ShiftLeft<16>(hn::And(half, hn::Set(du, 0x8000u)));
    const auto small = hn::BitCast(Floats4Tag(), hn::ShiftLeft<13>(hn::And(half, hn::Set(du, 0x7fffu))));
    const auto value = hn::Mul(small, hn::Set(Floats4Tag(), 0x1p112f));
    const auto special = hn::BitCast(du, hn::VecFromMask(Floats4Tag(), hn::Ge(value, hn::Set(Floats4Tag(), 65536.0f))));
    const auto exponent = hn::And(special, hn::Set(du, 0x7f800000u));
    return hn::BitCast(Floats4Tag(), hn::Or(hn::Or(hn::BitCast(du, value), exponent), sign));
#else
    const hn::CappedTag<hwy::float16_t, 4> d16;
    return hn::PromoteTo(Floats4Tag(), hn::BitCast(d16, hn::Set(d64, halves)));
#endif
}
COLIBRI_KERNEL Floats4 MulRounded(Floats4 a, Floats4 b) {
    return hn::Mul(a, b);  // only ever a factor of an Fma4: nothing to fuse
}
COLIBRI_KERNEL Floats4 Fma4(Floats4 a, Floats4 b, Floats4 c) {
#if HWY_NATIVE_FMA
    return hn::MulAdd(a, b, c);
#else
    return hn::Add(hn::Mul(a, b), c);
#endif
}

#undef COLIBRI_EACH
#undef COLIBRI_EACH_HALF
