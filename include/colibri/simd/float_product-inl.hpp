// Products of float weights (F32, F16, BF16) and F32 activations. Part of kernels-inl.hpp.

// Rows and columns whose sums are kept in registers together.
inline constexpr std::size_t kFloatRows = kParts == 1 ? 4 : kParts == 2 ? 2 : 1;
inline constexpr std::size_t kFloatColumns = kParts == 1 ? 4 : kParts == 2 ? 3 : 2;

[[maybe_unused]] COLIBRI_KERNEL std::size_t ColumnOf(const product_arguments& a, std::size_t j) {
    return a.columns != nullptr ? a.columns[j] : j;
}

/// kRows rows times columns j..j+kColumns-1: 16 partial sums by k mod 16 each, one fused multiply-add per weight.
template <class Format, std::size_t kRows, std::size_t kColumns>
COLIBRI_KERNEL void FloatTile(const product_arguments& a, std::size_t r, std::size_t j) {
    const std::byte* rows[kRows];
    const float* x[kColumns];
    Floats sums[kRows][kColumns];
    COLIBRI_UNROLL for (std::size_t i = 0; i < kRows; ++i) {
        rows[i] = a.weights + (r + i) * a.row_bytes;
        COLIBRI_UNROLL for (std::size_t c = 0; c < kColumns; ++c) sums[i][c] = Zero();
    }
    COLIBRI_UNROLL for (std::size_t c = 0; c < kColumns; ++c) x[c] = a.x + ColumnOf(a, j + c) * a.x_stride;
    for (std::size_t k = 0; k < a.k; k += 16) {
        Floats columns[kColumns];
        COLIBRI_UNROLL for (std::size_t c = 0; c < kColumns; ++c) columns[c] = Load(x[c] + k);
        COLIBRI_UNROLL for (std::size_t i = 0; i < kRows; ++i) {
            const Floats w = Format::At(rows[i], k);
            COLIBRI_UNROLL for (std::size_t c = 0; c < kColumns; ++c) sums[i][c] = Fma(w, columns[c], sums[i][c]);
        }
    }
    COLIBRI_UNROLL for (std::size_t i = 0; i < kRows; ++i) {
        COLIBRI_UNROLL for (std::size_t c = 0; c < kColumns; ++c) a.out[(j + c) * a.out_stride + r + i] = Sum(sums[i][c]);
    }
}

/// One row times one column, any k.
template <class Format>
COLIBRI_KERNEL void FloatDot(const product_arguments& a, std::size_t r, std::size_t j) {
    const std::byte* row = a.weights + r * a.row_bytes;
    const float* x = a.x + ColumnOf(a, j) * a.x_stride;
    Floats sum = Zero();
    for (std::size_t k = 0; k < a.k; k += 16) {
        const std::size_t left = a.k - k;
        if (left >= 16) sum = Fma(Format::At(row, k), Load(x + k), sum);
        else sum = Fma(KvTail<Format>(row, k, a.k), LoadSome(x + k, left), sum);
    }
    a.out[j * a.out_stride + r] = Sum(sum);
}

template <class Format>
COLIBRI_ENTRY void FloatProduct(const product_arguments& a, std::size_t row_begin, std::size_t row_end) {
    const bool tiles = a.k % 16 == 0 && row_end - row_begin >= kFloatRows;
    for (std::size_t r = row_begin; r < row_end; r += tiles ? kFloatRows : 1) {
        std::size_t j = 0;
        if (tiles) {
            if (r + kFloatRows > row_end) r = row_end - kFloatRows;  // some rows twice, with the same result
            for (; j + kFloatColumns <= a.column_count; j += kFloatColumns) FloatTile<Format, kFloatRows, kFloatColumns>(a, r, j);
            for (; j < a.column_count; ++j) FloatTile<Format, kFloatRows, 1>(a, r, j);
        }
        for (; j < a.column_count; ++j) FloatDot<Format>(a, r, j);
    }
}
