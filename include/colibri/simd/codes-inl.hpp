// How each block format's codes, scales and minimums get into vectors. Part of kernels-inl.hpp.
//
// Codes<Format> has
//   super            whether blocks are super-blocks of 256 (else shorter)
//   max_code         largest unsigned code; 255: codes are signed 8-bit numbers
//   zero             what the unsigned codes are too large by
//   minimums         whether there are minimums
//   Get<sub>(block)  codes 32*sub .. 32*sub+31 as bytes: unsigned; or, with max_code 255 on targets whose dot takes them, signed
//   GetGroup(block, g)  the same, for blocks of 64 and 128
// shorter blocks:  Scale4(rows, b), Minimum4(rows, b): of the b-th 32 weights of four rows (NVFP4: of the b-th 16)
// super-blocks:  Scale4, Minimum4: what all of a block's factors are multiplied with; Scales(block), Minimums(block): sixteen signed factors, one for 16 weights each

template <class Format>
struct Codes;

/// Zero point of signed codes: they stay signed, or become unsigned by flipping the top bit.
inline constexpr int kSignedZero = kSignedDot ? 0 : 128;
COLIBRI_KERNEL Bytes32 FromSigned(Bytes32 codes) {
    if constexpr (kSignedDot) return codes;
    else return Xor(codes, Set32(0x80));
}

COLIBRI_KERNEL Bytes32 LowNibbles(Bytes32 a) { return And(a, Set32(15)); }
COLIBRI_KERNEL Bytes32 HighNibbles(Bytes32 a) { return And(ShiftRightRaw<4>(a), Set32(15)); }

/// 16 bytes: their low halves, then their high halves.
COLIBRI_KERNEL Bytes32 Nibbles16(const std::uint8_t* p) {
#if HWY_MAX_BYTES >= 32
    const hn::Repartition<std::uint16_t, Tag16> d16;
    const auto low = hn::LoadU(Tag16(), p);
    const auto high = hn::BitCast(Tag16(), hn::ShiftRight<4>(hn::BitCast(d16, low)));
    Bytes32 r;
    r.v[0] = hn::Combine(HalfTag(), high, low);
    return LowNibbles(r);
#else
    Bytes32 r;
    r.v[0] = hn::LoadU(HalfTag(), p);
    r.v[1] = hn::BitCast(HalfTag(), hn::ShiftRight<4>(hn::BitCast(hn::Repartition<std::uint16_t, HalfTag>(), r.v[0])));
    return LowNibbles(r);
#endif
}

/// For bit i of 32: which byte has it, and where.
struct FifthBitTables {
    alignas(32) std::uint8_t byte[32];
    alignas(32) std::uint8_t bit[32];
};
constexpr FifthBitTables MakeFifthBitTables() {
    FifthBitTables t{};
    for (std::size_t i = 0; i < 32; ++i) {
        t.byte[i] = static_cast<std::uint8_t>(i / 8);
        t.bit[i] = static_cast<std::uint8_t>(1u << (i % 8));
    }
    return t;
}
inline constexpr FifthBitTables kFifthBit = MakeFifthBitTables();
/// kValue where bit i of the 32 bits at p is set, else 0.
template <std::uint8_t kValue>
COLIBRI_KERNEL Bytes32 BitBytes(const std::uint8_t* p) {
    std::uint32_t bits;
    __builtin_memcpy(&bits, p, 4);
    const hn::Repartition<std::uint32_t, HalfTag> d32;
    const Bytes32 byte = Load32(kFifthBit.byte);
    const Bytes32 bit = Load32(kFifthBit.bit);
    Bytes32 r;
    COLIBRI_UNROLL for (std::size_t i = 0; i < kHalfParts; ++i) {
        const auto spread = hn::TableLookupBytes(hn::BitCast(HalfTag(), hn::Set(d32, bits)), byte.v[i]);
        const auto set = hn::Eq(hn::And(spread, bit.v[i]), bit.v[i]);
        r.v[i] = hn::VecFromMask(HalfTag(), set);
        if constexpr (kValue != 255) r.v[i] = hn::And(r.v[i], hn::Set(HalfTag(), kValue));
    }
    return r;
}
COLIBRI_KERNEL Bytes32 FifthBits(const std::uint8_t* p) { return BitBytes<16>(p); }

/// The bits of a block's scale.
template <class Format>
COLIBRI_KERNEL std::uint16_t HalfOf(const Format& b) {
    return b.d;
}
/// IQ1_M's lie in the top bits of four numbers.
COLIBRI_KERNEL std::uint16_t HalfOf(const quant::iq1_m& b) {
    return static_cast<std::uint16_t>(b.scales[0] >> 12 | (b.scales[1] >> 8 & 0xf0) | (b.scales[2] >> 4 & 0xf00) |
                                      (b.scales[3] & 0xf000));
}

/// The half floats `field` of block b of four rows.
template <class Format>
COLIBRI_KERNEL Floats4 Halves4(const Format* const (&rows)[4], std::size_t b, std::uint16_t Format::*field) {
    return HalvesToFloats(rows[0][b].*field | static_cast<std::uint64_t>(rows[1][b].*field) << 16 |
                          static_cast<std::uint64_t>(rows[2][b].*field) << 32 |
                          static_cast<std::uint64_t>(rows[3][b].*field) << 48);
}

template <class Format>
struct ScaleInD {
    COLIBRI_KERNEL static Floats4 Scale4(const Format* const (&rows)[4], std::size_t b) {
        if constexpr (Format::block_size != 256) b /= Format::block_size / 32;
        const auto d = HalvesToFloats(HalfOf(rows[0][b]) | static_cast<std::uint64_t>(HalfOf(rows[1][b])) << 16 |
                                      static_cast<std::uint64_t>(HalfOf(rows[2][b])) << 32 |
                                      static_cast<std::uint64_t>(HalfOf(rows[3][b])) << 48);
        constexpr float unit = quant::scale_unit<Format>;
        if constexpr (unit == 1.0f) return d;
        else return MulRounded(d, hn::Set(Floats4Tag(), unit));  // a power of two
    }
    COLIBRI_KERNEL static Floats4 Minimum4(const Format* const (&)[4], std::size_t) { return hn::Zero(Floats4Tag()); }
};
template <class Format>
struct MinimumInM : ScaleInD<Format> {
    COLIBRI_KERNEL static Floats4 Minimum4(const Format* const (&rows)[4], std::size_t b) { return Halves4(rows, b, &Format::m); }
};
template <class Format>
struct MinimumInDmin : ScaleInD<Format> {
    COLIBRI_KERNEL static Floats4 Minimum4(const Format* const (&rows)[4], std::size_t b) { return Halves4(rows, b, &Format::dmin); }
};

template <>
struct Codes<quant::q4_0> : ScaleInD<quant::q4_0> {
    static constexpr bool super = false, minimums = false;
    static constexpr int max_code = 15, zero = 8;
    template <std::size_t kSub>
    COLIBRI_KERNEL static Bytes32 Get(const quant::q4_0& b) {
        return Nibbles16(b.qs);
    }
};

template <>
struct Codes<quant::q4_1> : MinimumInM<quant::q4_1> {
    static constexpr bool super = false, minimums = true;
    static constexpr int max_code = 15, zero = 0;
    template <std::size_t kSub>
    COLIBRI_KERNEL static Bytes32 Get(const quant::q4_1& b) {
        return Nibbles16(b.qs);
    }
};

template <>
struct Codes<quant::q5_0> : ScaleInD<quant::q5_0> {
    static constexpr bool super = false, minimums = false;
    static constexpr int max_code = 31, zero = 16;
    template <std::size_t kSub>
    COLIBRI_KERNEL static Bytes32 Get(const quant::q5_0& b) {
        return Or(Nibbles16(b.qs), FifthBits(b.qh));
    }
};

template <>
struct Codes<quant::q5_1> : MinimumInM<quant::q5_1> {
    static constexpr bool super = false, minimums = true;
    static constexpr int max_code = 31, zero = 0;
    template <std::size_t kSub>
    COLIBRI_KERNEL static Bytes32 Get(const quant::q5_1& b) {
        return Or(Nibbles16(b.qs), FifthBits(b.qh));
    }
};

template <>
struct Codes<quant::q8_0> : ScaleInD<quant::q8_0> {
    static constexpr bool super = false, minimums = false;
    static constexpr int max_code = 255, zero = kSignedZero;
    template <std::size_t kSub>
    COLIBRI_KERNEL static Bytes32 Get(const quant::q8_0& b) {
        return FromSigned(Load32(b.qs));
    }
};

template <>
struct Codes<quant::iq4_nl> : ScaleInD<quant::iq4_nl> {
    static constexpr bool super = false, minimums = false;
    static constexpr int max_code = 255, zero = kSignedZero;
    template <std::size_t kSub>
    COLIBRI_KERNEL static Bytes32 Get(const quant::iq4_nl& b) {
        return FromSigned(LookUp(&quant::iq4_values, Nibbles16(b.qs)));
    }
};

template <>
struct Codes<quant::mxfp4> {
    static constexpr bool super = false, minimums = false;
    static constexpr int max_code = 24, zero = 12;
    alignas(16) static constexpr std::uint8_t values[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};
    template <std::size_t kSub>
    COLIBRI_KERNEL static Bytes32 Get(const quant::mxfp4& b) {
        return LookUp(values, Nibbles16(b.qs));
    }
    /// 2^(e-128): an exponent field of e-1, and a subnormal below e = 2.
    COLIBRI_KERNEL static Floats4 Scale4(const quant::mxfp4* const (&rows)[4], std::size_t b) {
        const hn::CappedTag<std::uint32_t, 1> one;
        const hn::CappedTag<std::uint8_t, 4> d8;
        const Words4Tag d;
        const auto packed = static_cast<std::uint32_t>(rows[0][b].e) | static_cast<std::uint32_t>(rows[1][b].e) << 8 |
                            static_cast<std::uint32_t>(rows[2][b].e) << 16 | static_cast<std::uint32_t>(rows[3][b].e) << 24;
        const auto e = hn::PromoteTo(d, hn::BitCast(d8, hn::Set(one, packed)));
        const auto normal = hn::ShiftLeft<23>(hn::Sub(e, hn::Set(d, 1)));
        const auto subnormal = hn::ShiftLeft<21>(hn::Add(e, hn::Set(d, 1)));
        return hn::BitCast(Floats4Tag(), hn::IfThenElse(hn::Lt(e, hn::Set(d, 2)), subnormal, normal));
    }
    COLIBRI_KERNEL static Floats4 Minimum4(const quant::mxfp4* const (&)[4], std::size_t) { return hn::Zero(Floats4Tag()); }
};

// ---- super-blocks

using Factors16 = hn::Vec<Tag16>;

COLIBRI_KERNEL Factors16 SubFromAll(Factors16 a, std::uint8_t x) { return hn::Sub(a, hn::Set(Tag16(), x)); }

/// Two times eight bytes, the first in the lowest bits.
COLIBRI_KERNEL Factors16 Pack16(std::uint64_t low, std::uint64_t high) {
    const hn::CappedTag<std::uint64_t, 2> d64;
    const hn::CappedTag<std::uint64_t, 1> one;
    return hn::BitCast(Tag16(), hn::Combine(d64, hn::Set(one, high), hn::Set(one, low)));
}
/// Eight bytes, each twice.
COLIBRI_KERNEL Factors16 Twice8(std::uint64_t bytes) {
    const auto all = Pack16(bytes, 0);
    return hn::InterleaveLower(Tag16(), all, all);
}
[[maybe_unused]] COLIBRI_KERNEL std::uint64_t LoadBytes8(const std::uint8_t* p) {
    std::uint64_t out;
    __builtin_memcpy(&out, p, 8);
    return out;
}
[[maybe_unused]] COLIBRI_KERNEL std::uint32_t LoadBytes4(const std::uint8_t* p) {
    std::uint32_t out;
    __builtin_memcpy(&out, p, 4);
    return out;
}

/// Four times eight bytes, or eight times four, the first in the lowest bits.
COLIBRI_KERNEL Bytes32 Four8(std::uint64_t a, std::uint64_t b, std::uint64_t c, std::uint64_t e) {
    Bytes32 r;
#if HWY_MAX_BYTES >= 32
    r.v[0] = hn::Combine(HalfTag(), Pack16(c, e), Pack16(a, b));
#else
    r.v[0] = Pack16(a, b);
    r.v[1] = Pack16(c, e);
#endif
    return r;
}
COLIBRI_KERNEL std::uint64_t Pair4(std::uint32_t a, std::uint32_t b) { return a | static_cast<std::uint64_t>(b) << 32; }
COLIBRI_KERNEL Bytes32 Eight4(std::uint32_t a, std::uint32_t b, std::uint32_t c, std::uint32_t e, std::uint32_t f, std::uint32_t g,
                              std::uint32_t h, std::uint32_t i) {
    return Four8(Pair4(a, b), Pair4(c, e), Pair4(f, g), Pair4(h, i));
}

/// The scales and minimums of Q4_K and Q5_K (see quant::packed_scales), four bytes at a time.
COLIBRI_KERNEL Factors16 PackedScales(const quant::packed_scales& p) {
    const std::uint32_t first = LoadBytes4(p.bytes);
    const std::uint32_t third = LoadBytes4(p.bytes + 8);
    const std::uint32_t high = (third & 0x0f0f0f0fu) | ((first >> 6) & 0x03030303u) << 4;
    return Twice8((first & 0x3f3f3f3fu) | static_cast<std::uint64_t>(high) << 32);
}
COLIBRI_KERNEL Factors16 PackedMinimums(const quant::packed_scales& p) {
    const std::uint32_t second = LoadBytes4(p.bytes + 4);
    const std::uint32_t third = LoadBytes4(p.bytes + 8);
    const std::uint32_t high = ((third >> 4) & 0x0f0f0f0fu) | ((second >> 6) & 0x03030303u) << 4;
    return Twice8((second & 0x3f3f3f3fu) | static_cast<std::uint64_t>(high) << 32);
}

template <>
struct Codes<quant::q4_k> : MinimumInDmin<quant::q4_k> {
    static constexpr bool super = true, minimums = true;
    static constexpr int max_code = 15, zero = 0;
    template <std::size_t kSub>
    COLIBRI_KERNEL static Bytes32 Get(const quant::q4_k& b) {
        return And(ShiftRightRaw<kSub % 2 * 4>(Load32(b.qs + kSub / 2 * 32)), Set32(15));
    }
    COLIBRI_KERNEL static Factors16 Scales(const quant::q4_k& b) { return PackedScales(b.scales); }
    COLIBRI_KERNEL static Factors16 Minimums(const quant::q4_k& b) { return PackedMinimums(b.scales); }
};

template <>
struct Codes<quant::q5_k> : MinimumInDmin<quant::q5_k> {
    static constexpr bool super = true, minimums = true;
    static constexpr int max_code = 31, zero = 0;
    template <std::size_t kSub>
    COLIBRI_KERNEL static Bytes32 Get(const quant::q5_k& b) {
        const Bytes32 low = And(ShiftRightRaw<kSub % 2 * 4>(Load32(b.qs + kSub / 2 * 32)), Set32(15));
        const Bytes32 bits = Load32(b.qh);
        if constexpr (kSub < 4) return Or(low, And(ShiftLeftRaw<4 - kSub>(bits), Set32(16)));
        else return Or(low, And(ShiftRightRaw<kSub - 4>(bits), Set32(16)));
    }
    COLIBRI_KERNEL static Factors16 Scales(const quant::q5_k& b) { return PackedScales(b.scales); }
    COLIBRI_KERNEL static Factors16 Minimums(const quant::q5_k& b) { return PackedMinimums(b.scales); }
};

template <>
struct Codes<quant::q6_k> : ScaleInD<quant::q6_k> {
    static constexpr bool super = true, minimums = false;
    static constexpr int max_code = 63, zero = 32;
    template <std::size_t kSub>
    COLIBRI_KERNEL static Bytes32 Get(const quant::q6_k& b) {
        const Bytes32 low = And(ShiftRightRaw<kSub % 4 / 2 * 4>(Load32(b.ql + kSub / 4 * 64 + kSub % 2 * 32)), Set32(15));
        const Bytes32 bits = Load32(b.qh + kSub / 4 * 32);
        constexpr int shift = 4 - 2 * static_cast<int>(kSub % 4);
        if constexpr (shift >= 0) return Or(low, And(ShiftLeftRaw<shift>(bits), Set32(48)));
        else return Or(low, And(ShiftRightRaw<-shift>(bits), Set32(48)));
    }
    COLIBRI_KERNEL static Factors16 Scales(const quant::q6_k& b) {
        return hn::LoadU(Tag16(), reinterpret_cast<const std::uint8_t*>(b.scales));
    }
    COLIBRI_KERNEL static Factors16 Minimums(const quant::q6_k&) { return hn::Zero(Tag16()); }
};

template <>
struct Codes<quant::q3_k> : ScaleInD<quant::q3_k> {
    static constexpr bool super = true, minimums = false;
    static constexpr int max_code = 7, zero = 4;
    template <std::size_t kSub>
    COLIBRI_KERNEL static Bytes32 Get(const quant::q3_k& b) {
        const Bytes32 low = And(ShiftRightRaw<kSub % 4 * 2>(Load32(b.qs + kSub / 4 * 32)), Set32(3));
        const Bytes32 bits = Load32(b.hmask);
        if constexpr (kSub < 2) return Or(low, And(ShiftLeftRaw<2 - kSub>(bits), Set32(4)));
        else return Or(low, And(ShiftRightRaw<kSub - 2>(bits), Set32(4)));
    }
    COLIBRI_KERNEL static Factors16 Scales(const quant::q3_k& b) {
        const std::uint64_t low = LoadBytes8(b.scales);
        const std::uint64_t top = LoadBytes4(b.scales + 8);
        const std::uint64_t first = (top & 0x03030303u) | ((top >> 2) & 0x03030303u) << 32;
        const std::uint64_t second = ((top >> 4) & 0x03030303u) | ((top >> 6) & 0x03030303u) << 32;
        constexpr std::uint64_t nibbles = 0x0f0f0f0f0f0f0f0fu;
        return SubFromAll(Pack16((low & nibbles) | first << 4, ((low >> 4) & nibbles) | second << 4), 32);
    }
    COLIBRI_KERNEL static Factors16 Minimums(const quant::q3_k&) { return hn::Zero(Tag16()); }
};

template <>
struct Codes<quant::q2_k> : MinimumInDmin<quant::q2_k> {
    static constexpr bool super = true, minimums = true;
    static constexpr int max_code = 3, zero = 0;
    template <std::size_t kSub>
    COLIBRI_KERNEL static Bytes32 Get(const quant::q2_k& b) {
        return And(ShiftRightRaw<kSub % 4 * 2>(Load32(b.qs + kSub / 4 * 32)), Set32(3));
    }
    COLIBRI_KERNEL static Factors16 Scales(const quant::q2_k& b) {
        return hn::And(hn::LoadU(Tag16(), b.scales), hn::Set(Tag16(), std::uint8_t{15}));
    }
    COLIBRI_KERNEL static Factors16 Minimums(const quant::q2_k& b) {
        const hn::Repartition<std::uint16_t, Tag16> d16;
        const auto shifted = hn::ShiftRight<4>(hn::BitCast(d16, hn::LoadU(Tag16(), b.scales)));
        return hn::And(hn::BitCast(Tag16(), shifted), hn::Set(Tag16(), std::uint8_t{15}));
    }
};

template <>
struct Codes<quant::iq4_xs> : ScaleInD<quant::iq4_xs> {
    static constexpr bool super = true, minimums = false;
    static constexpr int max_code = 255, zero = kSignedZero;
    template <std::size_t kSub>
    COLIBRI_KERNEL static Bytes32 Get(const quant::iq4_xs& b) {
        return FromSigned(LookUp(&quant::iq4_values, Nibbles16(b.qs + kSub * 16)));
    }
    COLIBRI_KERNEL static Factors16 Scales(const quant::iq4_xs& b) {
        // Nibble j and bit pair j of two numbers, spread to byte j.
        std::uint64_t low = LoadBytes4(b.scales_l);
        low = (low | low << 16) & 0x0000ffff0000ffffu;
        low = (low | low << 8) & 0x00ff00ff00ff00ffu;
        low = (low | low << 4) & 0x0f0f0f0f0f0f0f0fu;
        std::uint64_t high = b.scales_h;
        high = (high | high << 24) & 0x000000ff000000ffu;
        high = (high | high << 12) & 0x000f000f000f000fu;
        high = (high | high << 6) & 0x0303030303030303u;
        return SubFromAll(Twice8(low | high << 4), 32);
    }
    COLIBRI_KERNEL static Factors16 Minimums(const quant::iq4_xs&) { return hn::Zero(Tag16()); }
};
