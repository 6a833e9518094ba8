// Scores of keys and weighted sums of values over one span. Part of kernels-inl.hpp.

// Query heads and pieces of 16 elements that are worked on together: as many accumulators as the registers hold.
#if COLIBRI_PLAIN_TARGET
inline constexpr std::size_t kHeadTile = 1;
#else
inline constexpr std::size_t kHeadTile = kParts == 1 ? 4 : 2;
#endif
inline constexpr std::size_t kPieceTile = kParts == 1 ? 4 : kParts == 2 ? 2 : 1;

/// Scores of kHeads query heads (one, unless the width is a multiple of 16) against all keys: partial sums by element mod 16, added as a tree, then scaled.
template <class Format, std::size_t kHeads>
COLIBRI_KERNEL void ScoreHeads(const head_rows& keys, const float* queries, std::size_t query_stride, float scale, float* scores,
                               std::size_t score_stride) {
    const std::size_t whole = keys.width / 16 * 16;
    for (std::size_t j = 0; j < keys.count; ++j) {
        const std::byte* row = keys.rows + j * keys.row_bytes;
        Floats sums[kHeads];
        COLIBRI_UNROLL for (std::size_t h = 0; h < kHeads; ++h) sums[h] = Zero();
        for (std::size_t d = 0; d < whole; d += 16) {
            const Floats key = Format::At(row, d);
            COLIBRI_UNROLL for (std::size_t h = 0; h < kHeads; ++h) {
                sums[h] = Fma(key, Load(queries + h * query_stride + d), sums[h]);
            }
        }
        if (kHeads == 1 && whole < keys.width) {
            sums[0] = Fma(KvTail<Format>(row, whole, keys.width), LoadSome(queries + whole, keys.width - whole), sums[0]);
        }
        COLIBRI_UNROLL for (std::size_t h = 0; h < kHeads; ++h) scores[h * score_stride + j] = Rounded(Sum(sums[h]) * scale);
    }
}

template <class Format>
COLIBRI_ENTRY void Scores(const head_rows& keys, const float* queries, std::size_t query_stride, std::size_t heads, float scale,
                            float* scores, std::size_t score_stride) {
    std::size_t h = 0;
    for (; keys.width % 16 == 0 && h + kHeadTile <= heads; h += kHeadTile) {
        ScoreHeads<Format, kHeadTile>(keys, queries + h * query_stride, query_stride, scale, scores + h * score_stride, score_stride);
    }
    for (; h < heads; ++h) {
        ScoreHeads<Format, 1>(keys, queries + h * query_stride, query_stride, scale, scores + h * score_stride, score_stride);
    }
}

/// Elements d..d+16*kPieces-1 of the weighted sums of kHeads heads.
template <class Format, std::size_t kHeads, std::size_t kPieces>
COLIBRI_KERNEL void SumPieces(const head_rows& values, std::size_t d, const float* weights, std::size_t weight_stride, float* out,
                              std::size_t out_stride) {
    Floats sums[kHeads][kPieces];
    COLIBRI_UNROLL for (std::size_t h = 0; h < kHeads; ++h) {
        COLIBRI_UNROLL for (std::size_t p = 0; p < kPieces; ++p) sums[h][p] = Zero();
    }
    for (std::size_t j = 0; j < values.count; ++j) {
        const std::byte* row = values.rows + j * values.row_bytes;
        COLIBRI_UNROLL for (std::size_t p = 0; p < kPieces; ++p) {
            const Floats value = Format::At(row, d + 16 * p);
            COLIBRI_UNROLL for (std::size_t h = 0; h < kHeads; ++h) {
                sums[h][p] = Fma(Set(weights[h * weight_stride + j]), value, sums[h][p]);
            }
        }
    }
    COLIBRI_UNROLL for (std::size_t h = 0; h < kHeads; ++h) {
        COLIBRI_UNROLL for (std::size_t p = 0; p < kPieces; ++p) Store(sums[h][p], out + h * out_stride + d + 16 * p);
    }
}

/// The last width % 16 elements.
template <class Format>
COLIBRI_KERNEL void SumTail(const head_rows& values, const float* weights, float* out) {
    const std::size_t d = values.width / 16 * 16;
    Floats sum = Zero();
    for (std::size_t j = 0; j < values.count; ++j) {
        sum = Fma(Set(weights[j]), KvTail<Format>(values.rows + j * values.row_bytes, d, values.width), sum);
    }
    StoreSome(sum, out + d, values.width - d);
}

template <class Format, std::size_t kHeads>
COLIBRI_KERNEL void SumHeads(const head_rows& values, const float* weights, std::size_t weight_stride, float* out,
                             std::size_t out_stride) {
    std::size_t d = 0;
    for (; d + 16 * kPieceTile <= values.width; d += 16 * kPieceTile) {
        SumPieces<Format, kHeads, kPieceTile>(values, d, weights, weight_stride, out, out_stride);
    }
    for (; d + 16 <= values.width; d += 16) SumPieces<Format, kHeads, 1>(values, d, weights, weight_stride, out, out_stride);
}

template <class Format>
COLIBRI_ENTRY void Accumulate(const head_rows& values, const float* weights, std::size_t weight_stride, std::size_t heads,
                                float* out, std::size_t out_stride) {
    std::size_t h = 0;
    for (; h + kHeadTile <= heads; h += kHeadTile) {
        SumHeads<Format, kHeadTile>(values, weights + h * weight_stride, weight_stride, out + h * out_stride, out_stride);
    }
    for (; h < heads; ++h) {
        SumHeads<Format, 1>(values, weights + h * weight_stride, weight_stride, out + h * out_stride, out_stride);
    }
    if (values.width % 16 == 0) return;
    for (h = 0; h < heads; ++h) SumTail<Format>(values, weights + h * weight_stride, out + h * out_stride);
}
