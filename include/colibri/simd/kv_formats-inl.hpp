// Cached keys and values as floats, sixteen at a time, and back. Part of kernels-inl.hpp.

#if COLIBRI_PLAIN_TARGET
template <bool kHigh>
COLIBRI_KERNEL Floats LoadNibbles(const std::uint8_t* p) {
    std::int8_t codes[16];
    for (std::size_t i = 0; i < 16; ++i) codes[i] = static_cast<std::int8_t>((kHigh ? p[i] >> 4 : p[i] & 15) - 8);
    return LoadI8(codes);
}
COLIBRI_KERNEL Floats SetF16(std::uint16_t bits) { return Set(f16_to_f32(bits)); }
#else
/// The low or high halves of 16 bytes, less 8.
template <bool kHigh>
COLIBRI_KERNEL Floats LoadNibbles(const std::uint8_t* p) {
    const hn::RebindToUnsigned<FloatTag> du;
    const hn::Rebind<std::uint8_t, FloatTag> d8;
    Floats r;
    COLIBRI_UNROLL for (std::size_t i = 0; i < kParts; ++i) {
        const auto bytes = hn::PromoteTo(du, hn::LoadU(d8, p + i * kLanes));
        const auto codes = hn::BitCast(IntTag(), kHigh ? hn::ShiftRight<4>(bytes) : hn::And(bytes, hn::Set(du, 15)));
        r.v[i] = hn::ConvertTo(FloatTag(), hn::Sub(codes, hn::Set(IntTag(), 8)));
    }
    return r;
}
#if HWY_TARGET == HWY_SSE4 || HWY_TARGET == HWY_SSSE3
COLIBRI_KERNEL Floats SetF16(std::uint16_t bits) { return Set(f16_to_f32(bits)); }
#else
COLIBRI_KERNEL Floats SetF16(std::uint16_t bits) {
    const hn::Rebind<hwy::float16_t, FloatTag> d16;
    const hn::RebindToUnsigned<decltype(d16)> du;
    const auto value = hn::PromoteTo(FloatTag(), hn::BitCast(d16, hn::Set(du, bits)));
    Floats r;
    COLIBRI_UNROLL for (std::size_t i = 0; i < kParts; ++i) r.v[i] = value;
    return r;
}
#endif
#endif

// Each has
//   run                    elements of a row that share a scale: 1 or 32
//   bytes                  of such a run
//   cached                 whether the rows are in the CPU's cache for sure
//   At(row, d)             elements d..d+15 of a row, decoded exactly as quant's scalar decode does; d a multiple of 16 if run > 1
//   parts, KeyScale, KeyAt, Key   element d + i, of part k, of the 16 keys of a panel; d starts a part: 32 / parts elements
struct KvF32 {
    static constexpr std::size_t run = 1, parts = 1, bytes = 4;
    static constexpr bool cached = false;
    COLIBRI_KERNEL static Floats At(const std::byte* row, std::size_t d) { return Load(reinterpret_cast<const float*>(row) + d); }
    COLIBRI_KERNEL static Floats KeyScale(const std::byte*, std::size_t) { return Zero(); }
    COLIBRI_KERNEL static const std::byte* KeyAt(const std::byte* panel, std::size_t d, std::size_t i) {
        return panel + key_lanes * bytes * (d + i);
    }
    template <std::size_t kPart>
    COLIBRI_KERNEL static Floats Key(const std::byte* panel, std::size_t d, std::size_t i, Floats) {
        return At(KeyAt(panel, d, i), 0);
    }
    COLIBRI_KERNEL static void StoreSixteen(const float* in, std::byte* out) { Store(Load(in), reinterpret_cast<float*>(out)); }
};
struct KvUnpacked : KvF32 {
    static constexpr bool cached = true;
};
struct KvF16 {
    static constexpr std::size_t run = 1, parts = 1, bytes = 2;
    static constexpr bool cached = false;
    COLIBRI_KERNEL static Floats At(const std::byte* row, std::size_t d) {
        return LoadF16(reinterpret_cast<const std::uint16_t*>(row) + d);
    }
    COLIBRI_KERNEL static Floats KeyScale(const std::byte*, std::size_t) { return Zero(); }
    COLIBRI_KERNEL static const std::byte* KeyAt(const std::byte* panel, std::size_t d, std::size_t i) {
        return panel + key_lanes * bytes * (d + i);
    }
    template <std::size_t kPart>
    COLIBRI_KERNEL static Floats Key(const std::byte* panel, std::size_t d, std::size_t i, Floats) {
        return At(KeyAt(panel, d, i), 0);
    }
    COLIBRI_KERNEL static void StoreSixteen(const float* in, std::byte* out) {
        StoreF16(Load(in), reinterpret_cast<std::uint16_t*>(out));
    }
};
struct KvBf16 {
    static constexpr std::size_t run = 1, parts = 1, bytes = 2;
    static constexpr bool cached = false;
    COLIBRI_KERNEL static Floats At(const std::byte* row, std::size_t d) {
        return LoadBf16(reinterpret_cast<const std::uint16_t*>(row) + d);
    }
    COLIBRI_KERNEL static Floats KeyScale(const std::byte*, std::size_t) { return Zero(); }
    COLIBRI_KERNEL static const std::byte* KeyAt(const std::byte* panel, std::size_t d, std::size_t i) {
        return panel + key_lanes * bytes * (d + i);
    }
    template <std::size_t kPart>
    COLIBRI_KERNEL static Floats Key(const std::byte* panel, std::size_t d, std::size_t i, Floats) {
        return At(KeyAt(panel, d, i), 0);
    }
    COLIBRI_KERNEL static void StoreSixteen(const float* in, std::byte* out) {
        auto* halves = reinterpret_cast<std::uint16_t*>(out);
        for (std::size_t i = 0; i < 16; ++i) halves[i] = f32_to_bf16(in[i]);
    }
};
struct KvQ8_0 {
    using Block = quant::q8_0;
    static constexpr std::size_t run = 32, parts = 1, bytes = sizeof(Block);
    static constexpr bool cached = false;
    COLIBRI_KERNEL static Floats At(const std::byte* row, std::size_t d) {
        const auto& block = reinterpret_cast<const Block*>(row)[d / 32];
        return Mul(LoadI8(block.qs + d % 32), SetF16(block.d));
    }
    COLIBRI_KERNEL static Floats KeyScale(const std::byte* panel, std::size_t d) {
        return LoadF16(reinterpret_cast<const key_block<Block>*>(panel)[d / 32].d);
    }
    COLIBRI_KERNEL static const std::byte* KeyAt(const std::byte* panel, std::size_t d, std::size_t i) {
        return reinterpret_cast<const std::byte*>(reinterpret_cast<const key_block<Block>*>(panel)[d / 32].qs[i]);
    }
    template <std::size_t kPart>
    COLIBRI_KERNEL static Floats Key(const std::byte* panel, std::size_t d, std::size_t i, Floats scale) {
        return Mul(LoadI8(reinterpret_cast<const std::int8_t*>(KeyAt(panel, d, i))), scale);
    }
};
struct KvQ4_0 {
    using Block = quant::q4_0;
    static constexpr std::size_t run = 32, parts = 2, bytes = sizeof(Block);
    static constexpr bool cached = false;
    COLIBRI_KERNEL static Floats At(const std::byte* row, std::size_t d) {
        const auto& block = reinterpret_cast<const Block*>(row)[d / 32];
        const Floats codes = d % 32 == 0 ? LoadNibbles<false>(block.qs) : LoadNibbles<true>(block.qs);
        return Mul(codes, SetF16(block.d));
    }
    COLIBRI_KERNEL static Floats KeyScale(const std::byte* panel, std::size_t d) {
        return LoadF16(reinterpret_cast<const key_block<Block>*>(panel)[d / 32].d);
    }
    COLIBRI_KERNEL static const std::byte* KeyAt(const std::byte* panel, std::size_t d, std::size_t i) {
        return reinterpret_cast<const std::byte*>(reinterpret_cast<const key_block<Block>*>(panel)[d / 32].qs[i]);
    }
    template <std::size_t kPart>
    COLIBRI_KERNEL static Floats Key(const std::byte* panel, std::size_t d, std::size_t i, Floats scale) {
        return Mul(LoadNibbles<kPart == 1>(reinterpret_cast<const std::uint8_t*>(KeyAt(panel, d, i))), scale);
    }
};

/// The last width % 16 elements of a row, zeros behind.
template <class Format>
COLIBRI_KERNEL Floats KvTail(const std::byte* row, std::size_t d, std::size_t width) {
    alignas(16) std::byte copy[64] = {};
    if constexpr (Format::run == 1) {  // blocks are whole
        const std::size_t n = (width - d) * Format::bytes;
        for (std::size_t i = 0; i < n; ++i) copy[i] = row[d * Format::bytes + i];
    }
    return Format::At(copy, 0);
}

/// Puts n numbers of a float format one behind the other.
template <class Format>
COLIBRI_ENTRY void StoreRow(const float* in, std::byte* out, std::size_t n) {
    std::size_t i = 0;
    for (; i + 16 <= n; i += 16) Format::StoreSixteen(in + i, out + i * Format::bytes);
    if (i == n) return;
    float rest[16];
    std::byte stored[16 * Format::bytes];
    Store(LoadSome(in + i, n - i), rest);
    Format::StoreSixteen(rest, stored);
    __builtin_memcpy(out + i * Format::bytes, stored, (n - i) * Format::bytes);
}

/// Puts n numbers of a float format into one lane of a panel.
template <class Format>
COLIBRI_ENTRY void StoreKey(const float* in, std::byte* panel, std::size_t lane, std::size_t n) {
    for (std::size_t i = 0; i < n; i += 16) {
        const std::size_t count = n - i < 16 ? n - i : 16;
        float some[16];
        std::byte stored[16 * Format::bytes];
        Store(count == 16 ? Load(in + i) : LoadSome(in + i, count), some);
        Format::StoreSixteen(some, stored);
        std::byte* to = panel + (i * key_lanes + lane) * Format::bytes;
        for (std::size_t k = 0; k < count; ++k) {
            __builtin_memcpy(to + k * key_lanes * Format::bytes, stored + k * Format::bytes, Format::bytes);
        }
    }
}
