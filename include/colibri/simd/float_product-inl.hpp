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
    const std::size_t whole = a.k / 16 * 16;
    for (std::size_t k = 0; k < whole; k += 16) {
        Floats columns[kColumns];
        COLIBRI_UNROLL for (std::size_t c = 0; c < kColumns; ++c) columns[c] = Load(x[c] + k);
        COLIBRI_UNROLL for (std::size_t i = 0; i < kRows; ++i) {
            const Floats w = Format::At(rows[i], k);
            COLIBRI_UNROLL for (std::size_t c = 0; c < kColumns; ++c) sums[i][c] = Fma(w, columns[c], sums[i][c]);
        }
    }
    if (whole < a.k) {
        COLIBRI_UNROLL for (std::size_t i = 0; i < kRows; ++i) {
            const Floats w = KvTail<Format>(rows[i], whole, a.k);
            COLIBRI_UNROLL for (std::size_t c = 0; c < kColumns; ++c) {
                sums[i][c] = Fma(w, LoadSome(x[c] + whole, a.k - whole), sums[i][c]);
            }
        }
    }
    COLIBRI_UNROLL for (std::size_t i = 0; i < kRows; ++i) {
        COLIBRI_UNROLL for (std::size_t c = 0; c < kColumns; ++c) a.out[(j + c) * a.out_stride + r + i] = Sum(sums[i][c]);
    }
}

template <class Format, std::size_t kRows>
COLIBRI_KERNEL void FloatRows(const product_arguments& a, std::size_t r) {
    std::size_t j = 0;
    for (; j + kFloatColumns <= a.column_count; j += kFloatColumns) FloatTile<Format, kRows, kFloatColumns>(a, r, j);
    for (; j < a.column_count; ++j) FloatTile<Format, kRows, 1>(a, r, j);
}

template <class Format>
COLIBRI_ENTRY void FloatProduct(const product_arguments& a, std::size_t row_begin, std::size_t row_end) {
    std::size_t r = row_begin;
    for (; r + kFloatRows <= row_end; r += kFloatRows) FloatRows<Format, kFloatRows>(a, r);
    for (; r < row_end; ++r) FloatRows<Format, 1>(a, r);
}
