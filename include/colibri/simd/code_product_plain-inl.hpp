// Products of quantised weights and 8-bit activations in plain C++: the baseline. Part of kernels-inl.hpp.

/// One plane of a column's activations, or the part of it that belongs to one block.
struct PlainColumn {
    const std::int8_t* codes;
    const float* scales;
    const std::int16_t* sums;
};

/// Adds one block, in the order of docs/numerics.md ("Products").
template <class Format>
COLIBRI_ENTRY float AddBlock(float acc, const Format& block, const PlainColumn& plane, std::size_t b) {
    constexpr std::size_t runs = Format::block_size / quant::activation_run<Format::block_size>;
    const std::int8_t* y = plane.codes + b * Format::block_size;
    [[maybe_unused]] const std::int16_t* s = plane.sums + b * runs;
    const float scale = plane.scales[b];
    std::int8_t w[Format::block_size];
    for (std::size_t i = 0; i < Format::block_size; ++i) w[i] = static_cast<std::int8_t>(block.code(i));
    std::int32_t sum = 0;
    if constexpr (quant::super_format<Format>) {
        for (std::size_t j = 0; j < Format::block_size / Format::sub_size; ++j) {
            std::int32_t part = 0;
            for (std::size_t i = j * Format::sub_size; i < (j + 1) * Format::sub_size; ++i) part += w[i] * y[i];
            sum += block.sub_scale(j) * part;
        }
    } else {
        for (std::size_t i = 0; i < Format::block_size; ++i) sum += w[i] * y[i];
    }
    acc = Fma(static_cast<float>(sum), block.scale() * scale, acc);
    if constexpr (quant::super_minimum_format<Format>) {
        std::int32_t minimums = 0;
        for (std::size_t i = 0; i < runs; ++i) {
            minimums += block.sub_minimum(i * quant::activation_run<256> / Format::sub_size) * s[i];
        }
        acc = Fma(-static_cast<float>(minimums), block.minimum_scale() * scale, acc);
    } else if constexpr (quant::minimum_format<Format>) {
        acc = Fma(static_cast<float>(s[0]), block.minimum() * scale, acc);
    }
    return acc;
}

template <class Format>
COLIBRI_ENTRY void CodeProduct(const product_arguments& a, std::size_t row_begin, std::size_t row_end) {
    constexpr std::size_t per_chunk = quant::activation_chunk / Format::block_size;
    const std::size_t blocks = a.k / Format::block_size;
    for (std::size_t r = row_begin; r < row_end; ++r) {
        const auto* row = reinterpret_cast<const Format*>(a.weights + r * a.row_bytes);
        for (std::size_t j = 0; j < a.column_count; ++j) {
            const std::size_t c = ColumnOf(a, j);
            const PlainColumn plane{a.codes + c * a.code_stride, a.scales + c * a.scale_stride, a.sums + c * a.sum_stride};
            const PlainColumn residual{a.residual_codes + c * a.code_stride, a.residual_scales + c * a.scale_stride,
                                       a.residual_sums + c * a.sum_stride};
            const std::uint8_t* flags = a.flags + c * a.flag_stride;
            float acc = 0.0f;
            for (std::size_t first = 0; first < blocks; first += per_chunk) {
                const std::size_t n = blocks - first < per_chunk ? blocks - first : per_chunk;
                for (std::size_t b = 0; b < n; ++b) acc = AddBlock(acc, row[first + b], plane, first + b);
                const unsigned flagged = flags[first / per_chunk];
                for (std::size_t b = 0; b < n; ++b) {
                    if ((flagged >> b & 1u) != 0) acc = AddBlock(acc, row[first + b], residual, first + b);
                }
            }
            a.out[j * a.out_stride + r] = acc;
        }
    }
}
