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
#if COLIBRI_VNNI
inline constexpr bool kSignedDot = false;  // signed codes are made unsigned with a zero point of 128
COLIBRI_KERNEL WordVec DotUnsigned(WordVec acc, ByteVec w, ByteVec y) {
    // Not through Highway or intrinsics: its target string has no avx512vnni in 1.0.3.
    asm("vpdpbusd %2, %1, %0" : "+v"(acc.raw) : "v"(w.raw), "v"(y.raw));
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
COLIBRI_KERNEL WordVec DotSigned(WordVec acc, ByteVec w, ByteVec y) {
    const int8x16_t a = vreinterpretq_s8_u8(w.raw);
    const int8x16_t b = vreinterpretq_s8_u8(y.raw);
    const int16x8_t low = vmull_s8(vget_low_s8(a), vget_low_s8(b));
    const int16x8_t high = vmull_high_s8(a, b);
    return WordVec(vpadalq_s16(acc.raw, vpaddq_s16(low, high)));  // 2 * 128 * 127 fits 16 bits
}
COLIBRI_KERNEL WordVec DotUnsigned(WordVec acc, ByteVec w, ByteVec y) { return DotSigned(acc, w, y); }
#endif

/// acc + a * b of 16-bit numbers, two neighbours added: the first numbers in the low halves of the words.
COLIBRI_KERNEL WordVec PairProducts(WordVec acc, WordVec a, WordVec b) {
#if !HWY_ARCH_X86
    const int16x8_t x = vreinterpretq_s16_s32(a.raw);
    const int16x8_t y = vreinterpretq_s16_s32(b.raw);
    return WordVec(vaddq_s32(acc.raw, vpaddq_s32(vmull_s16(vget_low_s16(x), vget_low_s16(y)), vmull_high_s16(x, y))));
#elif HWY_MAX_BYTES >= 64
    return hn::Add(acc, WordVec{_mm512_madd_epi16(a.raw, b.raw)});
#elif HWY_MAX_BYTES == 32
    return hn::Add(acc, WordVec{_mm256_madd_epi16(a.raw, b.raw)});
#else
    return hn::Add(acc, WordVec{_mm_madd_epi16(a.raw, b.raw)});
#endif
}

template <bool kSigned>
COLIBRI_KERNEL WordVec Dot(WordVec acc, ByteVec w, ByteVec y) {
    if constexpr (kSigned) return DotSigned(acc, w, y);
    else return DotUnsigned(acc, w, y);
}

/// acc + the dots of kAdds pairs of vectors. Where products go through 16 bits, that many pair sums fit: they are added there.
template <bool kSigned, std::size_t kAdds>
COLIBRI_KERNEL WordVec DotSeveral(WordVec acc, const ByteVec (&w)[kAdds], const ByteVec (&y)[kAdds]) {
#if COLIBRI_VNNI || !HWY_ARCH_X86
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

#if HWY_MAX_BYTES >= 32
COLIBRI_KERNEL Words4 AddHalves(hn::Vec<hn::CappedTag<std::int32_t, 8>> a) {
    return hn::Add(hn::LowerHalf(Words4Tag(), a), hn::UpperHalf(Words4Tag(), a));
}
#endif

/// Four rows' sums over the first 32 of the 64 products, and over the others.
COLIBRI_KERNEL void SumHalves(const Words64 (&rows)[4], Words4& first, Words4& second) {
    const WordTag d;
#if HWY_MAX_BYTES >= 64
    const auto all = SumOfFour(d, rows[0].v[0], rows[1].v[0], rows[2].v[0], rows[3].v[0]);
    const hn::CappedTag<std::int32_t, 8> d8;
    first = AddHalves(hn::LowerHalf(d8, all));
    second = AddHalves(hn::UpperHalf(d8, all));
#elif HWY_MAX_BYTES == 32
    first = AddHalves(SumOfFour(d, rows[0].v[0], rows[1].v[0], rows[2].v[0], rows[3].v[0]));
    second = AddHalves(SumOfFour(d, rows[0].v[1], rows[1].v[1], rows[2].v[1], rows[3].v[1]));
#else
    WordVec low[4];
    WordVec high[4];
    COLIBRI_UNROLL for (std::size_t r = 0; r < 4; ++r) {
        low[r] = hn::Add(rows[r].v[0], rows[r].v[1]);
        high[r] = hn::Add(rows[r].v[2], rows[r].v[3]);
    }
    first = SumOfFour(d, low[0], low[1], low[2], low[3]);
    second = SumOfFour(d, high[0], high[1], high[2], high[3]);
#endif
}

/// Four rows' sums over all 64 products.
COLIBRI_KERNEL Words4 SumAll(const Words64 (&rows)[4]) {
    WordVec one[4];
    COLIBRI_UNROLL for (std::size_t r = 0; r < 4; ++r) {
        one[r] = rows[r].v[0];
        COLIBRI_UNROLL for (std::size_t i = 1; i < kByteParts; ++i) one[r] = hn::Add(one[r], rows[r].v[i]);
    }
    const auto all = SumOfFour(WordTag(), one[0], one[1], one[2], one[3]);
#if HWY_MAX_BYTES >= 64
    const hn::CappedTag<std::int32_t, 8> d8;
    return AddHalves(hn::Add(hn::LowerHalf(d8, all), hn::UpperHalf(d8, all)));
#elif HWY_MAX_BYTES == 32
    return AddHalves(all);
#else
    return all;
#endif
}

/// Sixteen 8-bit factors (scales or minimums, one for 16 weights each) spread to the lanes that they multiply in chunk kChunk of
/// 64 weights: signed words with VNNI, else signed shorts for pair sums.
struct Factors {
    COLIBRI_KERNEL Factors() {}
#if COLIBRI_VNNI || !HWY_ARCH_X86
    WordVec v[kByteParts];
#else
    ShortVec v[kByteParts];
#endif
};
#if COLIBRI_VNNI || !HWY_ARCH_X86
using FactorTag = WordTag;
inline constexpr std::size_t kFactorBytes = 4;
#else
using FactorTag = ShortTag;
inline constexpr std::size_t kFactorBytes = 2;
#endif
/// For every chunk: which factor goes to the top byte of a lane; zeros below, an arithmetic shift brings it down.
struct SpreadTable {
    alignas(64) std::uint8_t index[4][64];
};
constexpr SpreadTable MakeSpreadTable() {
    SpreadTable t{};
    for (std::size_t chunk = 0; chunk < 4; ++chunk) {
        for (std::size_t b = 0; b < 64; ++b) {
            const bool top = b % kFactorBytes == kFactorBytes - 1;
            t.index[chunk][b] = top ? static_cast<std::uint8_t>(4 * chunk + b / 16) : std::uint8_t{0x80};
        }
    }
    return t;
}
inline constexpr SpreadTable kSpread = MakeSpreadTable();

template <std::size_t kChunk>
COLIBRI_KERNEL Factors SpreadFactors(hn::Vec<Tag16> factors) {
#if HWY_MAX_BYTES >= 64
    const ByteVec table{_mm512_broadcast_i32x4(factors.raw)};
#elif HWY_MAX_BYTES == 32
    const ByteVec table{_mm256_broadcastsi128_si256(factors.raw)};
#else
    const ByteVec table = factors;
#endif
    Factors r;
    COLIBRI_EACH {
        const auto placed = hn::TableLookupBytesOr0(table, hn::Load(ByteTag(), kSpread.index[kChunk] + i * kBytes));
        r.v[i] = hn::ShiftRight<static_cast<int>(8 * (kFactorBytes - 1))>(hn::BitCast(FactorTag(), placed));
    }
    return r;
}

/// acc + w * y * factor over 64 weights.
template <bool kSigned>
COLIBRI_KERNEL Words64 ScaledDot(Words64 acc, Bytes64 w, Bytes64 y, Factors f) {
    COLIBRI_EACH {
#if COLIBRI_VNNI || !HWY_ARCH_X86
        acc.v[i] = hn::Add(acc.v[i], hn::Mul(Dot<kSigned>(ZeroWords(), w.v[i], y.v[i]), f.v[i]));
#else
        if constexpr (kSigned) acc.v[i] = AddPairs(acc.v[i], PairsSigned(w.v[i], y.v[i]), f.v[i]);
        else acc.v[i] = AddPairs(acc.v[i], PairsUnsigned(w.v[i], y.v[i]), f.v[i]);
#endif
    }
    return acc;
}

/// Four partial sums of factors[i] * sums[i], i < 16, the factors signed.
COLIBRI_KERNEL Words4 DotSums(hn::Vec<Tag16> factors, const std::int16_t* sums) {
    const hn::CappedTag<std::int16_t, 8> d16;
    const hn::CappedTag<std::int8_t, 8> d8;
    const auto bytes = hn::BitCast(hn::CappedTag<std::int8_t, 16>(), factors);
    const auto low = hn::PromoteTo(d16, hn::LowerHalf(d8, bytes));
    const auto high = hn::PromoteTo(d16, hn::UpperHalf(d8, bytes));
    auto rest = hn::Zero(Words4Tag());
    auto sum = hn::ReorderWidenMulAccumulate(Words4Tag(), low, hn::LoadU(d16, sums), hn::Zero(Words4Tag()), rest);
    sum = hn::ReorderWidenMulAccumulate(Words4Tag(), high, hn::LoadU(d16, sums + 8), sum, rest);
    return hn::Add(sum, rest);
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
