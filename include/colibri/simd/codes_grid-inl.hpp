// Codes of the formats with ternary weights, with blocks of 64 and 128, and of those whose weights are points of a grid. Part of
// kernels-inl.hpp; see codes-inl.hpp.

// ---- blocks of 64 and 128: GetGroup(block, g) for codes 32g and on

template <>
struct Codes<quant::q1_0> : ScaleInD<quant::q1_0> {
    static constexpr bool super = false, minimums = false;
    static constexpr int max_code = 2, zero = 1;
    COLIBRI_KERNEL static Bytes32 GetGroup(const quant::q1_0& b, std::size_t g) { return BitBytes<2>(b.qs + g * 4); }
};

/// For codes of two bits each, four in a byte: which byte of eight has code i, which bits of it, and what they mean there.
struct PairTables {
    alignas(32) std::uint8_t byte[32];
    alignas(32) std::uint8_t low[32];   ///< of the byte's low half
    alignas(32) std::uint8_t high[32];  ///< of its high half
    alignas(16) std::uint8_t value[16] = {0, 1, 2, 3, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0};
};
constexpr PairTables MakePairTables() {
    PairTables t{};
    for (std::size_t i = 0; i < 32; ++i) {
        t.byte[i] = static_cast<std::uint8_t>(i / 4);
        const auto bits = static_cast<std::uint8_t>(i % 2 == 0 ? 3 : 12);
        (i % 4 < 2 ? t.low : t.high)[i] = bits;
    }
    return t;
}
inline constexpr PairTables kPairs = MakePairTables();

template <>
struct Codes<quant::q2_0> : ScaleInD<quant::q2_0> {
    static constexpr bool super = false, minimums = false;
    static constexpr int max_code = 3, zero = 1;
    COLIBRI_KERNEL static Bytes32 GetGroup(const quant::q2_0& b, std::size_t g) {
        const auto eight = Pack16(LoadBytes8(b.qs + g * 8), 0);
        alignas(16) std::uint8_t bytes[16];
        hn::Store(eight, Tag16(), bytes);
        const Bytes32 spread = LookUp(bytes, Load32(kPairs.byte));
        const Bytes32 bits = Or(And(spread, Load32(kPairs.low)), And(ShiftRightRaw<4>(spread), Load32(kPairs.high)));
        return LookUp(kPairs.value, bits);
    }
};

/// The floats of NVFP4's scales, half of them as the codes are doubled (see quant::nvfp4), in the lanes of d.
template <class D, class V>
COLIBRI_KERNEL hn::Vec<hn::Rebind<float, D>> HalfE4m3(D d, V bytes) {
    const auto bits = hn::And(bytes, hn::Set(d, 0x7f));
    // Exponent and mantissa as a float's, too small by 2^120; subnormals become normal.
    const auto small = hn::BitCast(hn::Rebind<float, D>(), hn::ShiftLeft<20>(bits));
    const auto value = hn::Mul(small, hn::Set(hn::Rebind<float, D>(), 0x1p119f));
    const auto nan = hn::Eq(bytes, hn::Set(d, 0x7f));
    return hn::BitCast(hn::Rebind<float, D>(), hn::IfThenElse(nan, hn::Zero(d), hn::BitCast(d, value)));
}

template <>
struct Codes<quant::nvfp4> {
    static constexpr bool super = false, minimums = false;
    static constexpr int max_code = 24, zero = 12;
    static constexpr const std::uint8_t (&values)[16] = Codes<quant::mxfp4>::values;
    COLIBRI_KERNEL static Bytes32 GetGroup(const quant::nvfp4& b, std::size_t g) {
        constexpr std::uint64_t nibbles = 0x0f0f0f0f0f0f0f0fu;
        const std::uint64_t first = LoadBytes8(b.qs + g * 16);
        const std::uint64_t second = LoadBytes8(b.qs + g * 16 + 8);
        return LookUp(values, Four8(first & nibbles, first >> 4 & nibbles, second & nibbles, second >> 4 & nibbles));
    }
    /// Of run j (16 weights) of four rows.
    COLIBRI_KERNEL static Floats4 Scale4(const quant::nvfp4* const (&rows)[4], std::size_t j) {
        const hn::CappedTag<std::uint32_t, 1> one;
        const hn::CappedTag<std::uint8_t, 4> d8;
        const std::size_t b = j / 4;
        const std::size_t i = j % 4;
        const auto packed = static_cast<std::uint32_t>(rows[0][b].d[i]) | static_cast<std::uint32_t>(rows[1][b].d[i]) << 8 |
                            static_cast<std::uint32_t>(rows[2][b].d[i]) << 16 | static_cast<std::uint32_t>(rows[3][b].d[i]) << 24;
        return HalfE4m3(Words4Tag(), hn::PromoteTo(Words4Tag(), hn::BitCast(d8, hn::Set(one, packed))));
    }
    COLIBRI_KERNEL static Floats4 Minimum4(const quant::nvfp4* const (&)[4], std::size_t) { return hn::Zero(Floats4Tag()); }
};

// ---- ternary super-blocks: one scale for all runs

template <class Format>
struct OneScale : ScaleInD<Format> {
    static constexpr bool super = true, minimums = false;
    COLIBRI_KERNEL static Factors16 Scales(const Format&) { return hn::Set(Tag16(), std::uint8_t{1}); }
    COLIBRI_KERNEL static Factors16 Minimums(const Format&) { return hn::Zero(Tag16()); }
};

template <>
struct Codes<quant::tq2_0> : OneScale<quant::tq2_0> {
    static constexpr int max_code = 3, zero = 1;
    template <std::size_t kSub>
    COLIBRI_KERNEL static Bytes32 Get(const quant::tq2_0& b) {
        return And(ShiftRightRaw<kSub % 4 * 2>(Load32(b.qs + kSub / 4 * 32)), Set32(3));
    }
};

template <>
struct Codes<quant::tq1_0> : OneScale<quant::tq1_0> {
    static constexpr int max_code = 2, zero = 1;
    template <std::size_t kSub>
    COLIBRI_KERNEL static Bytes32 Get(const quant::tq1_0& b) {
        if constexpr (kSub < 5) return Digit(Times<kSub>(Load32(b.qs)));
        else if constexpr (kSub == 5) return Digit(Halves(Times<0>(Part(b)), Times<1>(Part(b))));
        else if constexpr (kSub == 6) return Digit(Halves(Times<2>(Part(b)), Times<3>(Part(b))));
        else return Digit(Halves(Times<4>(Part(b)), Last(b)));
    }

private:
    COLIBRI_KERNEL static Bytes32 Part(const quant::tq1_0& b) { return LoadTwice16(b.qs + 32); }
    /// The last 16: four bytes times 1, 3, 9 and 27, twice.
    COLIBRI_KERNEL static Bytes32 Last(const quant::tq1_0& b) {
        const std::uint32_t x = LoadBytes4(b.qh);
        const auto times = [](std::uint32_t v, std::uint32_t n) HWY_ATTR {
            return (((v & 0x00ff00ffu) * n) & 0x00ff00ffu) | ((((v >> 8) & 0x00ff00ffu) * n) & 0x00ff00ffu) << 8;
        };
        const std::uint64_t low = x | static_cast<std::uint64_t>(times(x, 3)) << 32;
        const std::uint64_t high = times(x, 9) | static_cast<std::uint64_t>(times(x, 27)) << 32;
        return Four8(low, high, low, high);
    }
    /// The first 16 of a, then the last 16 of b.
    COLIBRI_KERNEL static Bytes32 Halves(Bytes32 a, Bytes32 b) {
        Bytes32 r;
#if HWY_MAX_BYTES >= 32
        r.v[0] = hn::ConcatUpperLower(HalfTag(), b.v[0], a.v[0]);
#else
        r.v[0] = a.v[0];
        r.v[1] = b.v[1];
#endif
        return r;
    }
    /// Every byte times 3^kPower, modulo 256.
    template <std::size_t kPower>
    COLIBRI_KERNEL static Bytes32 Times(Bytes32 a) {
        if constexpr (kPower == 0) {
            return a;
        } else {
            a = Times<kPower - 1>(a);
            return AddBytes(AddBytes(a, a), a);
        }
    }
    /// The whole part of 3/256 times each byte: how many of 86 and 171 it reaches.
    COLIBRI_KERNEL static Bytes32 Digit(Bytes32 a) {
        COLIBRI_UNROLL for (std::size_t i = 0; i < kHalfParts; ++i) {
            const auto one = hn::Set(HalfTag(), std::uint8_t{1});
            const auto first = hn::Min(hn::SaturatedSub(a.v[i], hn::Set(HalfTag(), std::uint8_t{85})), one);
            const auto second = hn::Min(hn::SaturatedSub(a.v[i], hn::Set(HalfTag(), std::uint8_t{170})), one);
            a.v[i] = hn::Add(first, second);
        }
        return a;
    }
};

// ---- grids

using quant::even_sign_masks;

/// A table of quant/ without a call of std::array's functions.
template <class Table>
COLIBRI_KERNEL const typename Table::value_type* TableOf(const Table& table) {
    return reinterpret_cast<const typename Table::value_type*>(&table);
}

/// `magnitude` with minus where `negative` is 0xff (else 0), and the zero point added.
COLIBRI_KERNEL Bytes32 WithSigns(Bytes32 magnitude, Bytes32 negative, std::uint8_t zero) {
    return AddBytes(Xor(magnitude, negative), SubBytes(Set32(zero), negative));
}
/// The masks of 32 sign bits.
COLIBRI_KERNEL Bytes32 SignMasks(const std::uint8_t* bits) { return BitBytes<255>(bits); }
/// The masks of four times seven sign bits, the eighth making the number of signs even.
COLIBRI_KERNEL Bytes32 EvenSignMasks(std::uint32_t bits) {
    const auto* mask = TableOf(even_sign_masks);
    return Four8(mask[bits & 127], mask[bits >> 7 & 127], mask[bits >> 14 & 127], mask[bits >> 21 & 127]);
}

/// Low half bytes, then high half bytes, interleaved, each as 2s+1.
COLIBRI_KERNEL Factors16 OddScales(std::uint64_t halves) {
    constexpr std::uint64_t nibbles = 0x0f0f0f0f0f0f0f0fu;
    const auto low = Pack16(halves & nibbles, 0);
    const auto high = Pack16(halves >> 4 & nibbles, 0);
    const auto s = hn::InterleaveLower(Tag16(), low, high);
    return hn::Add(hn::Add(s, s), hn::Set(Tag16(), std::uint8_t{1}));
}

/// 2s+1 from the upper halves of eight bytes kApart apart, each twice.
template <std::size_t kApart>
COLIBRI_KERNEL Factors16 TopScales(const std::uint8_t* p) {
    std::uint64_t scales = 0;
    COLIBRI_UNROLL for (std::size_t j = 0; j < 8; ++j) scales |= static_cast<std::uint64_t>(p[j * kApart] >> 4) << (8 * j);
    return Twice8(scales << 1 | 0x0101010101010101u);
}

template <class Format>
struct GridCodes : ScaleInD<Format> {
    static constexpr bool super = true, minimums = false;
    COLIBRI_KERNEL static Factors16 Minimums(const Format&) { return hn::Zero(Tag16()); }
};

template <>
struct Codes<quant::iq2_xxs> : GridCodes<quant::iq2_xxs> {
    static constexpr int max_code = 86, zero = 43;
    template <std::size_t kSub>
    COLIBRI_KERNEL static Bytes32 Get(const quant::iq2_xxs& b) {
        const std::uint8_t* p = b.qs + kSub * 8;
        const auto* grid = TableOf(quant::iq2_xxs_grid);
        return WithSigns(Four8(grid[p[0]], grid[p[1]], grid[p[2]], grid[p[3]]), EvenSignMasks(LoadBytes4(p + 4)), zero);
    }
    COLIBRI_KERNEL static Factors16 Scales(const quant::iq2_xxs& b) { return TopScales<8>(b.qs + 7); }
};

template <>
struct Codes<quant::iq2_xs> : GridCodes<quant::iq2_xs> {
    static constexpr int max_code = 86, zero = 43;
    template <std::size_t kSub>
    COLIBRI_KERNEL static Bytes32 Get(const quant::iq2_xs& b) {
        const std::uint16_t* p = b.qs + kSub * 4;
        const auto* grid = TableOf(quant::iq2_xs_grid);
        const auto* mask = TableOf(even_sign_masks);
        return WithSigns(Four8(grid[p[0] & 511], grid[p[1] & 511], grid[p[2] & 511], grid[p[3] & 511]),
                         Four8(mask[p[0] >> 9], mask[p[1] >> 9], mask[p[2] >> 9], mask[p[3] >> 9]), zero);
    }
    COLIBRI_KERNEL static Factors16 Scales(const quant::iq2_xs& b) { return OddScales(LoadBytes8(b.scales)); }
};

template <>
struct Codes<quant::iq2_s> : GridCodes<quant::iq2_s> {
    static constexpr int max_code = 86, zero = 43;
    template <std::size_t kSub>
    COLIBRI_KERNEL static Bytes32 Get(const quant::iq2_s& b) {
        const std::uint8_t* p = b.qs + kSub * 4;
        const std::uint32_t high = b.qh[kSub];
        const auto* grid = TableOf(quant::iq2_s_grid);
        return WithSigns(Four8(grid[p[0] | (high << 8 & 0x300)], grid[p[1] | (high << 6 & 0x300)],
                               grid[p[2] | (high << 4 & 0x300)], grid[p[3] | (high << 2 & 0x300)]),
                         SignMasks(b.sign_bits + kSub * 4), zero);
    }
    COLIBRI_KERNEL static Factors16 Scales(const quant::iq2_s& b) { return OddScales(LoadBytes8(b.scales)); }
};

template <>
struct Codes<quant::iq3_xxs> : GridCodes<quant::iq3_xxs> {
    static constexpr int max_code = 124, zero = 62;
    template <std::size_t kSub>
    COLIBRI_KERNEL static Bytes32 Get(const quant::iq3_xxs& b) {
        const std::uint8_t* p = b.points + kSub * 8;
        const auto* grid = TableOf(quant::iq3_xxs_grid);
        return WithSigns(Eight4(grid[p[0]], grid[p[1]], grid[p[2]], grid[p[3]], grid[p[4]], grid[p[5]], grid[p[6]], grid[p[7]]),
                         EvenSignMasks(LoadBytes4(b.signs_scales + kSub * 4)), zero);
    }
    COLIBRI_KERNEL static Factors16 Scales(const quant::iq3_xxs& b) { return TopScales<4>(b.signs_scales + 3); }
};

template <>
struct Codes<quant::iq3_s> : GridCodes<quant::iq3_s> {
    static constexpr int max_code = 30, zero = 15;
    template <std::size_t kSub>
    COLIBRI_KERNEL static Bytes32 Get(const quant::iq3_s& b) {
        const std::uint8_t* p = b.qs + kSub * 8;
        const std::uint32_t high = b.qh[kSub];
        const auto* grid = TableOf(quant::iq3_s_grid);
        return WithSigns(Eight4(grid[p[0] | (high << 8 & 256)], grid[p[1] | (high << 7 & 256)], grid[p[2] | (high << 6 & 256)],
                                grid[p[3] | (high << 5 & 256)], grid[p[4] | (high << 4 & 256)], grid[p[5] | (high << 3 & 256)],
                                grid[p[6] | (high << 2 & 256)], grid[p[7] | (high << 1 & 256)]),
                         SignMasks(b.sign_bits + kSub * 4), zero);
    }
    COLIBRI_KERNEL static Factors16 Scales(const quant::iq3_s& b) {
        const auto s = OddScales(LoadBytes4(b.scales));
        return hn::InterleaveLower(Tag16(), s, s);
    }
};

/// Four points of IQ1's grid times 8, with a zero point of 9: `added` is 9 and what each eight are moved by.
COLIBRI_KERNEL Bytes32 TimesEight(Bytes32 t, Bytes32 added) {
    t = AddBytes(t, t);
    t = AddBytes(t, t);
    return AddBytes(AddBytes(t, t), added);
}

template <>
struct Codes<quant::iq1_s> : GridCodes<quant::iq1_s> {
    static constexpr int max_code = 18, zero = 9;
    template <std::size_t kSub>
    COLIBRI_KERNEL static Bytes32 Get(const quant::iq1_s& b) {
        const std::uint8_t* p = b.qs + kSub * 4;
        const std::uint32_t high = b.qh[kSub];
        const auto* grid = TableOf(quant::iq1_grid);
        return TimesEight(Four8(grid[p[0] | (high << 8 & 0x700)], grid[p[1] | (high << 5 & 0x700)],
                                grid[p[2] | (high << 2 & 0x700)], grid[p[3] | (high >> 1 & 0x700)]),
                          Set32(static_cast<std::uint8_t>(zero + 1 - (high >> 14 & 2))));
    }
    COLIBRI_KERNEL static Factors16 Scales(const quant::iq1_s& b) {
        const hn::Repartition<std::uint16_t, Tag16> d16;
        const auto s = hn::And(hn::ShiftRight<12>(hn::LoadU(d16, b.qh)), hn::Set(d16, 7));
        const auto odd = hn::Add(hn::Add(s, s), hn::Set(d16, 1));
        return hn::BitCast(Tag16(), hn::Or(odd, hn::ShiftLeft<8>(odd)));
    }
};

template <>
struct Codes<quant::iq1_m> : GridCodes<quant::iq1_m> {
    static constexpr int max_code = 18, zero = 9;
    template <std::size_t kSub>
    COLIBRI_KERNEL static Bytes32 Get(const quant::iq1_m& b) {
        const std::uint8_t* p = b.qs + kSub * 4;
        const std::uint32_t h = b.qh[2 * kSub];
        const std::uint32_t i = b.qh[2 * kSub + 1];
        const auto* grid = TableOf(quant::iq1_grid);
        constexpr std::uint64_t all = 0x0101010101010101u;
        return TimesEight(Four8(grid[p[0] | (h << 8 & 0x700)], grid[p[1] | (h << 4 & 0x700)], grid[p[2] | (i << 8 & 0x700)],
                                grid[p[3] | (i << 4 & 0x700)]),
                          Four8(all * (10 - (h >> 2 & 2)), all * (10 - (h >> 6 & 2)), all * (10 - (i >> 2 & 2)),
                                all * (10 - (i >> 6 & 2))));
    }
    COLIBRI_KERNEL static Factors16 Scales(const quant::iq1_m& b) {
        std::uint64_t s[2];
        COLIBRI_UNROLL for (std::size_t i = 0; i < 2; ++i) {
            // Twice four times three bits, to a byte each.
            std::uint64_t x = (b.scales[2 * i] & 0xfffu) | static_cast<std::uint64_t>(b.scales[2 * i + 1] & 0xfffu) << 32;
            x = (x & 0x0000003f0000003fu) | (x & 0x00000fc000000fc0u) << 10;
            x = (x & 0x0007000700070007u) | (x & 0x0038003800380038u) << 5;
            s[i] = x << 1 | 0x0101010101010101u;
        }
        return Pack16(s[0], s[1]);
    }
};
