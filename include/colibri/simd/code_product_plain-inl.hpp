// Products of quantised weights and 8-bit activations in plain C++: the baseline. Part of kernels-inl.hpp.

/// Adds group g of 32 weights, in the order of docs/numerics.md ("Products").
template <class Format, class Block>
COLIBRI_ENTRY float AddGroup(float acc, const Block* row, const quant::activation_plane& y, std::size_t g) {
    constexpr std::size_t run = quant::scale_run<Format>;
    const Block& block = row[g * 32 / Format::block_size];
    const std::size_t within = g * 32 % Format::block_size;
    std::int8_t w[32];
    for (std::size_t i = 0; i < 32; ++i) w[i] = static_cast<std::int8_t>(block.code(within + i));
    for (std::size_t j = 0; j < 32 / run; ++j) {
        std::int32_t sum = 0;
        for (std::size_t i = j * run; i < (j + 1) * run; ++i) sum += w[i] * y.codes[g * 32 + i];
        acc = Fma(static_cast<float>(sum), Rounded(run_scale(block, within / run + j) * y.scales[g]), acc);
        if constexpr (quant::has_minimums<Format>) {
            const float weighted = run == 32 ? y.weighted[g] : y.scales[g] * static_cast<float>(y.sums[2 * g + j]);
            acc = Fma(run_minimum(block, within / run + j), weighted, acc);
        }
    }
    return acc;
}

/// Row r times a column. Panels are put back into the file's layout, chunk by chunk.
template <class Format, bool kPanels>
COLIBRI_ENTRY float PlainDot(const product_arguments& a, std::size_t r, std::size_t column) {
    constexpr std::size_t per_chunk = 256 / Format::block_size;
    const quant::activation_view y = a.activations.column(column);
    const std::byte* start = kPanels ? a.weights + r / 16 * a.row_bytes : a.weights + r * a.row_bytes;
    float acc = 0.0f;
    for (std::size_t first = 0; first * 32 < a.k; first += 8) {
        const std::size_t n = a.k / 32 - first < 8 ? a.k / 32 - first : 8;
        using Block = std::conditional_t<kPanels, quant::detail::panel_block<Format>, Format>;
        Block unpacked[per_chunk];
        const Block* blocks = reinterpret_cast<const Block*>(start) + first / 8 * per_chunk;
        if constexpr (kPanels) {
            for (std::size_t b = 0; b * Format::block_size < n * 32; ++b) quant::detail::unpack_block<Format>(start, b, n, r % 16, unpacked[b]);
            blocks = unpacked;
            start += quant::panel_layout<Format>::chunk_bytes(n);
        }
        const auto at = [first](const quant::activation_plane& p) {
            return quant::activation_plane{p.codes + first * 32, p.scales + first, p.weighted + first, p.sums + first * 2};
        };
        for (std::size_t g = 0; g < n; ++g) acc = AddGroup<Format>(acc, blocks, at(y.plane), g);
        for (unsigned flagged = y.flags[first / 8]; flagged != 0; flagged &= flagged - 1) {
            acc = AddGroup<Format>(acc, blocks, at(y.residual), static_cast<std::size_t>(__builtin_ctz(flagged)));
        }
    }
    return acc;
}

template <class Format, bool kPanels>
COLIBRI_ENTRY void PlainProduct(const product_arguments& a, std::size_t row_begin, std::size_t row_end) {
    for (std::size_t r = row_begin; r < row_end; ++r) {
        for (std::size_t j = 0; j < a.column_count; ++j) {
            a.out[j * a.out_stride + r] = PlainDot<Format, kPanels>(a, r, ColumnOf(a, j));
        }
    }
}

template <class Format>
COLIBRI_ENTRY void CodeProduct(const product_arguments& a, std::size_t row_begin, std::size_t row_end) {
    PlainProduct<Format, false>(a, row_begin, row_end);
}
template <class Format>
COLIBRI_ENTRY void PanelProduct(const product_arguments& a, std::size_t row_begin, std::size_t row_end) {
    PlainProduct<Format, true>(a, row_begin, row_end);
}
