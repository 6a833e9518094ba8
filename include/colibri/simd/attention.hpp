// Attention of query rows over spans of cached positions.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "colibri/core/checked.hpp"
#include "colibri/gguf/tensor_type.hpp"
#include "colibri/simd/kernel_table.hpp"
#include "colibri/simd/targets.hpp"

namespace colibri::simd {
inline namespace COLIBRI_SIMD_ABI {

/// Positions of a span: attention over a sequence is cut at multiples of it, so that its bits depend neither on the ubatch nor on
/// the threads. Also the floats from one row of scores to the next.
inline constexpr std::uint32_t attention_span = 256;

/// Whether keys and values can be kept in this format: f32, f16, bf16, q8_0, q4_0.
[[nodiscard]] constexpr bool is_kv_format(dtype type) noexcept { return kv_slot(type) < kv_slots; }

/// Bytes of a row of `width` elements. Preconditions: is_kv_format(type), width a multiple of its block size.
[[nodiscard]] constexpr std::size_t kv_row_bytes(dtype type, std::size_t width) noexcept {
    switch (type) {
        case dtype::f32: return width * 4;
        case dtype::q8_0: return width / 32 * 34;
        case dtype::q4_0: return width / 32 * 18;
        default: return width * 2;
    }
}

/// Rounds n floats to the format and writes them: f16 and bf16 to nearest even, q8_0 and q4_0 as quant's encoders do.
/// Preconditions: is_kv_format(type), n a multiple of its block size.
inline void store_row(dtype type, const float* in, std::byte* out, std::size_t n) noexcept {
    detail::kernels().store[kv_slot(type)](in, out, n);
}

/// The same for a key, which goes to lane `lane` < key_lanes of a panel of key_lanes * kv_row_bytes(type, n) bytes. Lanes of one
/// panel may be written from different threads at once.
inline void store_key(dtype type, const float* in, std::byte* panel, std::size_t lane, std::size_t n) noexcept {
    detail::kernels().store_key[kv_slot(type)](in, panel, lane, n);
}

/// scores[r * attention_span + j] = scale * dot(query r, key j) for the positions j of each row. What stands between them and the
/// next multiples of key_lanes is overwritten too.
/// Preconditions: is_kv_format(type); queries[r] has keys.width floats.
inline void scores(dtype type, const head_rows& keys, const float* const* queries, const span_range* ranges, std::size_t rows,
                   float scale, float* out) noexcept {
    detail::kernels().scores[kv_slot(type)](keys, queries, ranges, rows, scale, out);
}

/// out[r * out_stride + d] = sum over row r's positions j of weights[r * attention_span + j] * value j[d], ascending, from 0.
/// Preconditions: is_kv_format(type); weights has rows + 1 rows, whose last one is read at most.
inline void accumulate(dtype type, const head_rows& values, const float* weights, const span_range* ranges, std::size_t rows,
                       float* out, std::size_t out_stride) noexcept {
    detail::kernels().accumulate[kv_slot(type)](values, weights, ranges, rows, out, out_stride);
}

/// Query rows - heads of one or several tokens - that share a key/value head.
struct attention_rows {
    const float* const* queries = nullptr;  ///< row r: head_k floats
    std::size_t count = 0;
    std::size_t head_k = 0;  ///< elements of a query and a key
    std::size_t head_v = 0;  ///< elements of a value
    float scale = 1.0f;      ///< multiplies every dot product
    float softcap = 0.0f;    ///< c of c * tanh(score / c); 0: off
};

/// One span of a key/value head in a cache: panels of keys and rows of values from a multiple of attention_span on.
struct attention_source {
    dtype key_type = dtype::f32;
    const std::byte* keys = nullptr;
    dtype value_type = dtype::f32;
    const std::byte* values = nullptr;
};

/// What rows make of a span, or of several: softmax weights relative to a maximum, their sum, and the weighted sum of values.
struct attention_part {
    float* maxima = nullptr;  ///< one a row; -infinity: no position yet
    float* sums = nullptr;    ///< one a row
    float* values = nullptr;  ///< row r at values + r * head_v
};

/// Rows from which keys and values are decoded once to floats instead of once for every tile of rows.
inline constexpr std::size_t unpacked_rows = 17;

/// Floats of scratch that attend_span takes.
[[nodiscard]] constexpr std::size_t attention_scratch_floats(std::size_t rows, std::size_t head_k, std::size_t head_v) noexcept {
    return attention_span * (rows + 1 + (rows < unpacked_rows ? 0 : head_k + round_up(head_v, std::size_t{16}) + 16));
}

/// softmax(scale * q.K) V of each row over its positions in one span, not yet divided by the sum. The bits of a row don't depend
/// on the other rows. A row without positions gets (-infinity, 0, 0). Allocates nothing.
/// Preconditions: both types is_kv_format; ranges lie within the span; `scratch` has attention_scratch_floats.
inline void attend_span(const attention_rows& rows, const span_range* ranges, const attention_source& span, const attention_part& out,
                        float* scratch) noexcept {
    const auto& table = detail::kernels();
    float* scores = scratch;
    head_rows keys{span.keys, kv_row_bytes(span.key_type, rows.head_k), rows.head_k};
    head_rows values{span.values, kv_row_bytes(span.value_type, rows.head_v), rows.head_v};
    std::size_t key_slot = kv_slot(span.key_type);
    std::size_t value_slot = kv_slot(span.value_type);
    if (rows.count >= unpacked_rows) {
        span_range all{attention_span, 0};
        for (std::size_t r = 0; r < rows.count; ++r) {
            if (ranges[r].begin >= ranges[r].end) continue;
            all = {std::min(all.begin, ranges[r].begin), std::max(all.end, ranges[r].end)};
        }
        float* unpacked = scratch + (rows.count + 1) * attention_span;
        if (span.key_type != dtype::f32) {
            table.unpack_keys[key_slot](keys, all, unpacked, rows.head_k);
            keys = {reinterpret_cast<const std::byte*>(unpacked), rows.head_k * sizeof(float), rows.head_k};
            key_slot = kv_slots;
        }
        unpacked += rows.head_k * attention_span;
        if (span.value_type != dtype::f32) {
            // Rows a power of two apart would fall into few sets of the cache.
            const std::size_t stride = round_up(rows.head_v, std::size_t{16}) + 16;
            table.unpack_values[value_slot](values, all, unpacked, stride);
            values = {reinterpret_cast<const std::byte*>(unpacked), stride * sizeof(float), rows.head_v};
            value_slot = kv_slots;
        }
    }
    table.scores[key_slot](keys, rows.queries, ranges, rows.count, rows.scale, scores);
    table.span_weights(scores, ranges, rows.count, rows.softcap, out.maxima, out.sums);
    table.accumulate[value_slot](values, scores, ranges, rows.count, out.values, rows.head_v);
}

/// Rows' results over all spans so far: maximum and sum run along (Milakov and Gimelshein 2018, arXiv:1805.02867; Rabe and Staats
/// 2021, arXiv:2112.05682). Row r's values are at totals[r].
struct attention_totals {
    float* maxima = nullptr;
    float* sums = nullptr;
    float* const* values = nullptr;
};

/// Nothing collected yet.
inline void start_totals(const attention_rows& rows, const attention_totals& out) noexcept {
    std::fill_n(out.maxima, rows.count, -std::numeric_limits<float>::infinity());
    std::fill_n(out.sums, rows.count, 0.0f);
    for (std::size_t r = 0; r < rows.count; ++r) std::fill_n(out.values[r], rows.head_v, 0.0f);
}

/// Adds the next span. For bits that depend on nothing else spans come in ascending order.
inline void merge_span(const attention_rows& rows, const attention_part& span, const attention_totals& out) noexcept {
    detail::kernels().merge_spans(rows.count, span.maxima, span.sums, span.values, rows.head_v, rows.head_v, out.maxima, out.sums,
                                  out.values);
}

/// Turns what was collected into the result; zeros for a row without positions.
inline void finish_totals(const attention_rows& rows, const attention_totals& out) noexcept {
    const auto& table = detail::kernels();
    for (std::size_t r = 0; r < rows.count; ++r) {
        if (out.sums[r] != 0.0f) table.scale(out.values[r], 1.0f / out.sums[r], rows.head_v);
    }
}

}  // namespace COLIBRI_SIMD_ABI
}  // namespace colibri::simd
