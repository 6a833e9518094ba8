// Products of quantised weights and 8-bit activations in plain C++: the baseline. Part of kernels-inl.hpp.

/// One row times one column, in the order of docs/numerics.md ("Products").
template <class Format>
COLIBRI_ENTRY float CodeDot(const Format* row, const std::int8_t* codes, const float* scales, const std::int16_t* sums,
                              std::size_t k) {
    constexpr std::size_t run = quant::activation_run<Format::block_size>;
    float acc = 0.0f;
    for (std::size_t b = 0; b < k / Format::block_size; ++b) {
        const Format& block = row[b];
        const std::int8_t* y = codes + b * Format::block_size;
        [[maybe_unused]] const std::int16_t* s = sums + b * (Format::block_size / run);
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
        acc = Fma(static_cast<float>(sum), block.scale() * scales[b], acc);
        if constexpr (quant::super_minimum_format<Format>) {
            std::int32_t minimums = 0;
            for (std::size_t i = 0; i < Format::block_size / run; ++i) minimums += block.sub_minimum(i * run / Format::sub_size) * s[i];
            acc = Fma(-static_cast<float>(minimums), block.minimum_scale() * scales[b], acc);
        } else if constexpr (quant::minimum_format<Format>) {
            acc = Fma(static_cast<float>(s[0]), block.minimum() * scales[b], acc);
        }
    }
    return acc;
}

template <class Format>
COLIBRI_ENTRY void CodeProduct(const product_arguments& a, std::size_t row_begin, std::size_t row_end) {
    for (std::size_t r = row_begin; r < row_end; ++r) {
        const auto* row = reinterpret_cast<const Format*>(a.weights + r * a.row_bytes);
        for (std::size_t j = 0; j < a.column_count; ++j) {
            const std::size_t c = ColumnOf(a, j);
            a.out[j * a.out_stride + r] = CodeDot<Format>(row, a.codes + c * a.code_stride, a.scales + c * a.scale_stride,
                                                          a.sums + c * a.sum_stride, a.k);
        }
    }
}
