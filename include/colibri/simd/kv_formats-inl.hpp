// Cached keys and values as floats, sixteen at a time, and back. Part of kernels-inl.hpp.

// Each has At(row, d): elements d..d+15 of a row, d a multiple of 16, decoded exactly as quant's scalar decode does.
struct KvF32 {
    static constexpr std::size_t bytes = 4;
    COLIBRI_KERNEL static Floats At(const std::byte* row, std::size_t d) { return Load(reinterpret_cast<const float*>(row) + d); }
};
struct KvF16 {
    static constexpr std::size_t bytes = 2;
    COLIBRI_KERNEL static Floats At(const std::byte* row, std::size_t d) {
        return LoadF16(reinterpret_cast<const std::uint16_t*>(row) + d);
    }
};
struct KvBf16 {
    static constexpr std::size_t bytes = 2;
    COLIBRI_KERNEL static Floats At(const std::byte* row, std::size_t d) {
        return LoadBf16(reinterpret_cast<const std::uint16_t*>(row) + d);
    }
};
struct KvQ8_0 {
    static constexpr std::size_t bytes = 0;  // whole blocks only
    COLIBRI_KERNEL static Floats At(const std::byte* row, std::size_t d) {
        const auto& block = reinterpret_cast<const quant::q8_0*>(row)[d / 32];
        return Mul(LoadI8(block.qs + d % 32), Set(f16_to_f32(block.d)));
    }
};
struct KvQ4_0 {
    static constexpr std::size_t bytes = 0;
    COLIBRI_KERNEL static Floats At(const std::byte* row, std::size_t d) {
        const auto& block = reinterpret_cast<const quant::q4_0*>(row)[d / 32];
        const int shift = d % 32 == 0 ? 0 : 4;
        std::int8_t codes[16];
        for (std::size_t i = 0; i < 16; ++i) codes[i] = static_cast<std::int8_t>(((block.qs[i] >> shift) & 15) - 8);
        return Mul(LoadI8(codes), Set(f16_to_f32(block.d)));
    }
};

/// The last width % 16 elements of a row, zeros behind.
template <class Format>
COLIBRI_KERNEL Floats KvTail(const std::byte* row, std::size_t d, std::size_t width) {
    alignas(16) std::byte copy[64] = {};
    if constexpr (Format::bytes != 0) {
        const std::size_t n = (width - d) * Format::bytes;
        for (std::size_t i = 0; i < n; ++i) copy[i] = row[d * Format::bytes + i];
    }
    return Format::At(copy, 0);
}

COLIBRI_ENTRY void StoreF32Row(const float* in, std::byte* out, std::size_t n) { __builtin_memcpy(out, in, n * sizeof(float)); }

COLIBRI_ENTRY void StoreF16Row(const float* in, std::byte* out, std::size_t n) {
    auto* halves = reinterpret_cast<std::uint16_t*>(out);
    std::size_t i = 0;
    for (; i + 16 <= n; i += 16) StoreF16(Load(in + i), halves + i);
    for (; i < n; ++i) halves[i] = f32_to_f16(in[i]);
}

COLIBRI_ENTRY void StoreBf16Row(const float* in, std::byte* out, std::size_t n) {
    auto* halves = reinterpret_cast<std::uint16_t*>(out);
    for (std::size_t i = 0; i < n; ++i) halves[i] = f32_to_bf16(in[i]);
}
