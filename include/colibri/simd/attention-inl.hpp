// Scores of keys, weighted sums of values and the merge of spans for several query rows. Part of kernels-inl.hpp.

// Query rows that are worked on together, and vectors of 16 keys or elements beside them: as many sums as the registers hold.
#if COLIBRI_PLAIN_TARGET
inline constexpr std::size_t kRowTile = 2;
#elif HWY_ARCH_ARM
inline constexpr std::size_t kRowTile = 4;
#else
inline constexpr std::size_t kRowTile = kParts == 1 ? 8 : kParts == 2 ? 6 : 2;
#endif
template <std::size_t kRows>
constexpr std::size_t TileVectors() {
    if (kParts == 1) return kRows <= 2 ? 4 : 2;
    return kRows <= 2 && (kParts == 2 || kRowTile == 4) ? 2 : 1;
}
/// Panels that all rows use before the next ones are touched.
inline constexpr std::size_t kPanelGroup = 4;
/// Positions whose values all rows use before the next ones are touched.
inline constexpr std::size_t kValueChunk = 64;
/// Floats from one row of scores to the next: the positions of a span.
inline constexpr std::size_t kScoreStride = 256;

/// Asks for what lies `ahead` bytes behind p, which may be past the end. Hardware prefetchers stop at pages and see short rows: from
/// DRAM the loops below took twice the time without this.
template <class Format>
COLIBRI_KERNEL void PrefetchBehind(const std::byte* p, std::size_t ahead) {
    if constexpr (!Format::cached) __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(p) + ahead), 0, 2);
}

/// Rows of the next tile when `left` are left: a tile may have one row more, which then is the last one twice.
COLIBRI_KERNEL std::size_t NextTile(std::size_t left) {
    if (left + 1 >= kRowTile && left > 1) return kRowTile;
    return left >= 3 ? 4 : left;
}

/// Rows row..row+rows-1, of which a tile of kRows takes the last one twice if it is one too large.
struct RowTile {
    std::size_t row;
    std::size_t rows;
    COLIBRI_KERNEL std::size_t At(std::size_t i) const { return row + (i < rows ? i : rows - 1); }
};

/// sums += key element * query element for elements d..d+n-1, one after the other.
template <class Format, std::size_t kPart, std::size_t kRows, std::size_t kVectors>
COLIBRI_KERNEL void ScoreRun(const std::byte* const (&panels)[kVectors], std::size_t d, std::size_t n,
                             std::size_t ahead, const float* const (&queries)[kRows], Floats (&sums)[kRows][kVectors]) {
    Floats scale[kVectors];
    COLIBRI_UNROLL for (std::size_t v = 0; v < kVectors; ++v) scale[v] = Format::KeyScale(panels[v], d);
    for (std::size_t i = 0; i < n; ++i) {
        Floats key[kVectors];
        COLIBRI_UNROLL for (std::size_t v = 0; v < kVectors; ++v) PrefetchBehind<Format>(Format::KeyAt(panels[v], d, i), ahead);
        COLIBRI_UNROLL for (std::size_t v = 0; v < kVectors; ++v) key[v] = Format::template Key<kPart>(panels[v], d, i, scale[v]);
        COLIBRI_UNROLL for (std::size_t r = 0; r < kRows; ++r) {
            const Floats query = Set(queries[r][d + i]);
            COLIBRI_UNROLL for (std::size_t v = 0; v < kVectors; ++v) sums[r][v] = Fma(key[v], query, sums[r][v]);
        }
    }
}

/// Scores of a tile of rows against the keys of kVectors panels: a lane for each key, so nothing is added across lanes.
template <class Format, std::size_t kRows, std::size_t kVectors>
COLIBRI_KERNEL void ScoreTile(const head_rows& keys, std::size_t panel, const float* const* queries, RowTile tile, float scale,
                              float* scores) {
    const std::byte* panels[kVectors];
    const float* q[kRows];
    const std::size_t ahead = kPanelGroup * key_lanes * keys.row_bytes;
    Floats sums[kRows][kVectors];
    COLIBRI_UNROLL for (std::size_t v = 0; v < kVectors; ++v) panels[v] = keys.rows + (panel + v) * key_lanes * keys.row_bytes;
    COLIBRI_UNROLL for (std::size_t r = 0; r < kRows; ++r) {
        q[r] = queries[tile.At(r)];
        COLIBRI_UNROLL for (std::size_t v = 0; v < kVectors; ++v) sums[r][v] = Zero();
    }
    if constexpr (Format::run == 1) {
        ScoreRun<Format, 0>(panels, 0, keys.width, ahead, q, sums);
    } else {
        for (std::size_t d = 0; d < keys.width; d += 32) {
            ScoreRun<Format, 0>(panels, d, 32 / Format::parts, ahead, q, sums);
            if constexpr (Format::parts == 2) {
                const float* second[kRows];
                COLIBRI_UNROLL for (std::size_t r = 0; r < kRows; ++r) second[r] = q[r] + 16;
                ScoreRun<Format, 1>(panels, d, 16, ahead, second, sums);
            }
        }
    }
    COLIBRI_UNROLL for (std::size_t r = 0; r < kRows; ++r) {
        COLIBRI_UNROLL for (std::size_t v = 0; v < kVectors; ++v) {
            Store(Mul(sums[r][v], Set(scale)), scores + tile.At(r) * kScoreStride + (panel + v) * key_lanes);
        }
    }
}

template <class Format, std::size_t kRows>
COLIBRI_KERNEL void ScoreRows(const head_rows& keys, std::size_t panel, std::size_t end, const float* const* queries, RowTile tile,
                              float scale, float* scores) {
    constexpr std::size_t vectors = TileVectors<kRows>();
    for (; panel + vectors <= end; panel += vectors) ScoreTile<Format, kRows, vectors>(keys, panel, queries, tile, scale, scores);
    if constexpr (vectors > 1) {
        for (; panel < end; ++panel) ScoreTile<Format, kRows, 1>(keys, panel, queries, tile, scale, scores);
    }
}

/// The positions that any row takes.
COLIBRI_KERNEL span_range UnionOf(const span_range* ranges, std::size_t rows) {
    span_range all{~std::uint32_t{0}, 0};
    for (std::size_t r = 0; r < rows; ++r) {
        if (ranges[r].begin >= ranges[r].end) continue;
        if (ranges[r].begin < all.begin) all.begin = ranges[r].begin;
        if (ranges[r].end > all.end) all.end = ranges[r].end;
    }
    return all.end == 0 ? span_range{} : all;
}

/// scores[r * 256 + j] = scale * (query r . key j) for the positions of row r; others in the same panels of 16 get whatever comes out.
template <class Format>
COLIBRI_ENTRY void Scores(const head_rows& keys, const float* const* queries, const span_range* ranges, std::size_t rows,
                          float scale, float* scores) {
    const span_range all = UnionOf(ranges, rows);
    const std::size_t last = (all.end + key_lanes - 1) / key_lanes;
    for (std::size_t group = all.begin / key_lanes; group < last; group += kPanelGroup) {
        const std::size_t group_end = group + kPanelGroup < last ? group + kPanelGroup : last;
        for (std::size_t r = 0; r < rows;) {
            const std::size_t size = NextTile(rows - r);
            const RowTile tile{r, size < rows - r ? size : rows - r};
            const span_range range = UnionOf(ranges + r, tile.rows);
            const std::size_t range_begin = range.begin / key_lanes;
            const std::size_t range_end = (range.end + key_lanes - 1) / key_lanes;
            const std::size_t begin = group > range_begin ? group : range_begin;
            const std::size_t end = group_end < range_end ? group_end : range_end;
            r += tile.rows;
            if (begin >= end) continue;
            if (size == kRowTile) {
                ScoreRows<Format, kRowTile>(keys, begin, end, queries, tile, scale, scores);
            } else if (size == 4) {
                if constexpr (kRowTile > 4) ScoreRows<Format, 4>(keys, begin, end, queries, tile, scale, scores);
            } else if (size == 2) {
                if constexpr (kRowTile > 2) ScoreRows<Format, 2>(keys, begin, end, queries, tile, scale, scores);
            } else {
                ScoreRows<Format, 1>(keys, begin, end, queries, tile, scale, scores);
            }
        }
    }
}

/// What a tile of weighted sums works on.
struct SumArguments {
    const head_rows* values;
    const float* weights;
    const span_range* ranges;
    float* out;
    std::size_t out_stride;
};

/// Elements d..d+15 of one row of values, zeros where it has fewer.
template <class Format>
COLIBRI_KERNEL Floats ValueAt(const std::byte* row, std::size_t d, std::size_t width) {
    if (Format::run == 1 && width < 16) return KvTail<Format>(row, 0, width);
    return Format::At(row, d);
}

/// Adds positions begin..end-1 to elements d..d+16*kVectors-1 of the sums of a tile of rows.
template <class Format, std::size_t kRows, std::size_t kVectors>
COLIBRI_KERNEL void SumTile(const SumArguments& a, RowTile tile, std::size_t d, std::size_t begin, std::size_t end) {
    Floats sums[kRows][kVectors];
    const float* weights = a.weights + tile.row * kScoreStride;
    COLIBRI_UNROLL for (std::size_t r = 0; r < kRows; ++r) {
        const float* out = a.out + tile.At(r) * a.out_stride + d;
        COLIBRI_UNROLL for (std::size_t v = 0; v < kVectors; ++v) sums[r][v] = Load(out + 16 * v);
    }
    const std::size_t ahead = kValueChunk * a.values->row_bytes;
    const std::byte* row = a.values->rows + begin * a.values->row_bytes;
    for (std::size_t j = begin; j < end; ++j, row += a.values->row_bytes) {
        Floats value[kVectors];
        for (std::size_t v = 0; v < kVectors; v += 2) PrefetchBehind<Format>(row + (d + 16 * v) / Format::run * Format::bytes, ahead);
        COLIBRI_UNROLL for (std::size_t v = 0; v < kVectors; ++v) value[v] = Format::At(row, d + 16 * v);
        COLIBRI_UNROLL for (std::size_t r = 0; r < kRows; ++r) {
            const Floats weight = Set(weights[r * kScoreStride + j]);
            COLIBRI_UNROLL for (std::size_t v = 0; v < kVectors; ++v) sums[r][v] = Fma(weight, value[v], sums[r][v]);
        }
    }
    COLIBRI_UNROLL for (std::size_t r = 0; r < kRows; ++r) {
        if (r > 0 && r == tile.rows) break;  // one row too many: made of weights that are nobody's
        float* out = a.out + tile.At(r) * a.out_stride + d;
        COLIBRI_UNROLL for (std::size_t v = 0; v < kVectors; ++v) Store(sums[r][v], out + 16 * v);
    }
}

/// The same for the last width % 16 elements of one row, from the last 16 of the values if there are as many.
template <class Format>
COLIBRI_ENTRY void SumTail(const SumArguments& a, std::size_t r, std::size_t begin, std::size_t end) {
    const std::size_t width = a.values->width;
    const std::size_t d = width < 16 ? 0 : width - 16;
    const std::size_t fresh = width % 16;  // the elements before them belong to a tile
    const std::size_t all = width - d;
    float* out = a.out + r * a.out_stride;
    float lanes[16];
    Floats sum = LoadSome(out + d, all);
    for (std::size_t j = begin; j < end; ++j) {
        const Floats value = ValueAt<Format>(a.values->rows + j * a.values->row_bytes, d, width);
        sum = Fma(Set(a.weights[r * kScoreStride + j]), value, sum);
    }
    Store(sum, lanes);
    for (std::size_t i = 0; i < fresh; ++i) out[width - fresh + i] = lanes[all - fresh + i];
}

COLIBRI_KERNEL std::size_t Larger(std::size_t a, std::size_t b) { return a > b ? a : b; }
COLIBRI_KERNEL std::size_t Smaller(std::size_t a, std::size_t b) { return a < b ? a : b; }

/// A tile of rows over positions begin..end-1, of which each row takes those of its range: all together where all take part, and
/// each alone before and after, since a weight of 0 would not keep infinities out.
template <class Format, std::size_t kRows, std::size_t kVectors>
COLIBRI_KERNEL void SumRows(const SumArguments& a, RowTile tile, std::size_t d, std::size_t begin, std::size_t end) {
    std::size_t first = begin;
    std::size_t last = end;
    for (std::size_t r = 0; r < tile.rows; ++r) {
        first = Larger(first, a.ranges[tile.row + r].begin);
        last = Smaller(last, a.ranges[tile.row + r].end);
    }
    const bool together = first < last;
    for (std::size_t r = 0; kRows > 1 && r < tile.rows; ++r) {
        const std::size_t from = Larger(begin, a.ranges[tile.row + r].begin);
        const std::size_t to = Smaller(together ? first : end, a.ranges[tile.row + r].end);
        if (from < to) SumTile<Format, 1, kVectors>(a, {tile.row + r, 1}, d, from, to);
    }
    if (!together) return;
    SumTile<Format, kRows, kVectors>(a, tile, d, first, last);
    for (std::size_t r = 0; kRows > 1 && r < tile.rows; ++r) {
        const std::size_t to = Smaller(end, a.ranges[tile.row + r].end);
        if (last < to) SumTile<Format, 1, kVectors>(a, {tile.row + r, 1}, d, last, to);
    }
}

/// A tile of rows over all elements from d to before d_end.
template <class Format, std::size_t kRows>
COLIBRI_KERNEL void SumElements(const SumArguments& a, RowTile tile, std::size_t d, std::size_t d_end, std::size_t begin,
                                std::size_t end) {
    constexpr std::size_t vectors = TileVectors<kRows>();
    for (; d + 16 * vectors <= d_end; d += 16 * vectors) SumRows<Format, kRows, vectors>(a, tile, d, begin, end);
    if constexpr (vectors > 1) {
        for (; d + 16 <= d_end; d += 16) SumRows<Format, kRows, 1>(a, tile, d, begin, end);
    }
}

/// out[r * out_stride + d] = sum of weights[r * 256 + j] * value j[d] over the positions j of row r, ascending, starting from +0.
template <class Format>
COLIBRI_ENTRY void Accumulate(const head_rows& values, const float* weights, const span_range* ranges, std::size_t rows, float* out,
                              std::size_t out_stride) {
    const SumArguments a{&values, weights, ranges, out, out_stride};
    const std::size_t width = values.width;
    for (std::size_t r = 0; r < rows; ++r) {
        for (std::size_t d = 0; d < width; ++d) out[r * out_stride + d] = 0.0f;
    }
    const span_range all = UnionOf(ranges, rows);
    for (std::size_t begin = all.begin; begin < all.end; begin += kValueChunk) {
        const std::size_t end = Smaller(begin + kValueChunk, all.end);
        for (std::size_t d = 0; d < width / 16 * 16; d += 64) {
            const std::size_t d_end = Smaller(d + 64, width / 16 * 16);
            for (std::size_t r = 0; r < rows;) {
                const std::size_t size = NextTile(rows - r);
                const RowTile tile{r, Smaller(size, rows - r)};
                r += tile.rows;
                if (size == kRowTile) {
                    SumElements<Format, kRowTile>(a, tile, d, d_end, begin, end);
                } else if (size == 4) {
                    if constexpr (kRowTile > 4) SumElements<Format, 4>(a, tile, d, d_end, begin, end);
                } else if (size == 2) {
                    if constexpr (kRowTile > 2) SumElements<Format, 2>(a, tile, d, d_end, begin, end);
                } else {
                    SumElements<Format, 1>(a, tile, d, d_end, begin, end);
                }
            }
        }
        if constexpr (Format::run == 1) {
            for (std::size_t r = 0; width % 16 != 0 && r < rows; ++r) {
                const std::size_t from = Larger(begin, ranges[r].begin);
                const std::size_t to = Smaller(end, ranges[r].end);
                if (from < to) SumTail<Format>(a, r, from, to);
            }
        }
    }
}

/// Scores of each row become exp(score - maximum), 0 in the rest of the vectors of 16 that it takes part in; their maximum and sum.
/// A row without positions gets (-infinity, 0).
COLIBRI_ENTRY void SpanWeights(float* scores, const span_range* ranges, std::size_t rows, float softcap, float* maxima, float* sums) {
    for (std::size_t r = 0; r < rows; ++r) {
        float* row = scores + r * kScoreStride;
        const std::size_t begin = ranges[r].begin;
        const std::size_t end = ranges[r].end;
        if (begin >= end) {
            maxima[r] = -__builtin_inff();
            sums[r] = 0.0f;
            continue;
        }
        const std::size_t first = begin / 16 * 16;
        const std::size_t last = (end + 15) / 16 * 16;
        if (softcap > 0.0f) {
            const SoftcapOp cap{Set(softcap)};
            for (std::size_t i = first; i < last; i += 16) Store(cap(Load(row + i), Zero()), row + i);
        }
        for (std::size_t i = first; i < begin; ++i) row[i] = -__builtin_inff();
        for (std::size_t i = end; i < last; ++i) row[i] = -__builtin_inff();
        Floats tops = Set(-__builtin_inff());
        Floats more = tops;
        std::size_t at = first;
        for (; at + 32 <= last; at += 32) {
            tops = Max(Load(row + at), tops);
            more = Max(Load(row + at + 16), more);
        }
        if (at < last) tops = Max(Load(row + at), tops);
        maxima[r] = MaxLane(Max(tops, more));
        const Floats top = Set(maxima[r]);
        Floats sum = Zero();
        for (std::size_t i = first; i < last; i += 16) {
            const Floats weight = Exp(Sub(Load(row + i), top));
            Store(weight, row + i);
            sum = Add(sum, weight);
        }
        sums[r] = Sum(sum);
    }
}

/// Adds one span's maxima, sums and weighted sums of values to the totals of each row that has positions in it.
COLIBRI_ENTRY void MergeSpans(std::size_t rows, const float* maxima, const float* sums, const float* values, std::size_t value_stride,
                              std::size_t width, float* total_maxima, float* total_sums, float* const* totals) {
    for (std::size_t base = 0; base < rows; base += 16) {
        const std::size_t n = rows - base < 16 ? rows - base : 16;
        const Floats maximum = LoadSome(maxima + base, n);
        const Floats total_maximum = LoadSome(total_maxima + base, n);
        const Floats top = Max(total_maximum, maximum);
        const Floats total_factor = Exp(Sub(total_maximum, top));
        const Floats factor = Exp(Sub(maximum, top));
        const Floats sum = Fma(LoadSome(sums + base, n), factor, Mul(LoadSome(total_sums + base, n), total_factor));
        float tops[16], total_factors[16], factors[16], new_sums[16];
        Store(top, tops);
        Store(total_factor, total_factors);
        Store(factor, factors);
        Store(sum, new_sums);
        for (std::size_t i = 0; i < n; ++i) {
            const std::size_t r = base + i;
            if (sums[r] == 0.0f) continue;
            total_maxima[r] = tops[i];
            total_sums[r] = new_sums[i];
            ForEach(totals[r], values + r * value_stride, totals[r], width, BlendOp{Set(total_factors[i]), Set(factors[i])});
        }
    }
}

/// Bytes to prefetch ahead where the next ones follow at once.
inline constexpr std::size_t kUnpackAhead = 2048;

/// Keys of the panels that `positions` touch as panels of floats, 16 * out_stride floats each.
template <class Format>
COLIBRI_ENTRY void UnpackKeys(const head_rows& from, span_range positions, float* out, std::size_t out_stride) {
    for (std::size_t panel = positions.begin / key_lanes; panel * key_lanes < positions.end; ++panel) {
        const std::byte* in = from.rows + panel * key_lanes * from.row_bytes;
        float* to = out + panel * key_lanes * out_stride;
        for (std::size_t d = 0; d < from.width; d += Format::run) {
            const Floats scale = Format::KeyScale(in, d);
            for (std::size_t i = 0; i < key_lanes * Format::bytes; i += 64) PrefetchBehind<Format>(Format::KeyAt(in, d, 0) + i, kUnpackAhead);
            if constexpr (Format::parts == 2) {
                COLIBRI_UNROLL for (std::size_t i = 0; i < 16; ++i) {
                    Store(Format::template Key<0>(in, d, i, scale), to + (d + i) * key_lanes);
                    Store(Format::template Key<1>(in, d, i, scale), to + (d + 16 + i) * key_lanes);
                }
            } else {
                for (std::size_t i = 0; i < Format::run; ++i) {
                    Store(Format::template Key<0>(in, d, i, scale), to + (d + i) * key_lanes);
                }
            }
        }
    }
}

/// Values of the positions as rows of floats.
template <class Format>
COLIBRI_ENTRY void UnpackValues(const head_rows& from, span_range positions, float* out, std::size_t out_stride) {
    for (std::size_t j = positions.begin; j < positions.end; ++j) {
        const std::byte* in = from.rows + j * from.row_bytes;
        float* to = out + j * out_stride;
        std::size_t d = 0;
        for (std::size_t i = 0; i < from.row_bytes; i += 64) PrefetchBehind<Format>(in + i, kUnpackAhead);
        for (; d + 16 <= from.width; d += 16) Store(Format::At(in, d), to + d);
        if (d < from.width) StoreSome(KvTail<Format>(in, d, from.width), to + d, from.width - d);
    }
}
