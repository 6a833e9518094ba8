// Attention of query heads over spans of cached positions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "colibri/gguf/tensor_type.hpp"
#include "colibri/simd/kernel_table.hpp"
#include "colibri/simd/targets.hpp"

namespace colibri::simd {
inline namespace COLIBRI_SIMD_ABI {

/// Positions of a span: attention over a sequence is cut at multiples of it, so that its bits depend neither on the ubatch nor on
/// the threads.
inline constexpr std::uint32_t attention_span = 256;

/// Whether keys and values can be kept in this format: f32, f16, bf16, q8_0, q4_0.
[[nodiscard]] constexpr bool is_kv_format(dtype type) noexcept { return kv_slot(type) < kv_slots; }

/// Rounds n floats to the format and writes them: f16 and bf16 to nearest even, q8_0 and q4_0 as quant's encoders do.
/// Preconditions: is_kv_format(type), n a multiple of its block size.
inline void store_row(dtype type, const float* in, std::byte* out, std::size_t n) noexcept {
    detail::kernels().store[kv_slot(type)](in, out, n);
}

/// scores[h * score_stride + j] = scale * dot(query h, key j) for all heads h and positions j.
/// Preconditions: is_kv_format(type); query h has keys.width floats at queries + h * query_stride.
inline void scores(dtype type, const head_rows& keys, const float* queries, std::size_t query_stride, std::size_t heads,
                   float scale, float* out, std::size_t score_stride) noexcept {
    detail::kernels().scores[kv_slot(type)](keys, queries, query_stride, heads, scale, out, score_stride);
}

/// out[h * out_stride + d] = sum over j of weights[h * weight_stride + j] * value j[d], j in order, starting from 0.
/// Precondition: is_kv_format(type).
inline void accumulate(dtype type, const head_rows& values, const float* weights, std::size_t weight_stride, std::size_t heads,
                       float* out, std::size_t out_stride) noexcept {
    detail::kernels().accumulate[kv_slot(type)](values, weights, weight_stride, heads, out, out_stride);
}

/// The query heads of one token that share a key/value head.
struct attention_query {
    const float* queries = nullptr;  ///< head h at queries + h * head_k
    std::size_t heads = 0;
    std::size_t head_k = 0;  ///< elements of a query and a key
    std::size_t head_v = 0;  ///< elements of a value
    float scale = 1.0f;      ///< multiplies every dot product
    float softcap = 0.0f;    ///< c of c * tanh(score / c); 0: off
};

/// Floats of scratch that an attention_state needs.
[[nodiscard]] constexpr std::size_t attention_scratch_floats(std::size_t heads, std::size_t head_v) noexcept {
    return heads * (attention_span + head_v + 4);
}

/// softmax(scale * q.K) V of some query heads, collected span by span. Maximum and sum run along (Milakov and Gimelshein 2018,
/// arXiv:1805.02867; Rabe and Staats 2021, arXiv:2112.05682). Holds no memory of its own.
class attention_state {
public:
    /// `out` gets heads x head_v floats; `scratch` has attention_scratch_floats(heads, head_v). Both outlive the state.
    attention_state(const attention_query& query, float* out, float* scratch) noexcept
        : query_(query),
          out_(out),
          scores_(scratch),
          part_(scratch + query.heads * attention_span),
          maximum_(part_ + query.heads * query.head_v),
          sum_(maximum_ + query.heads),
          factors_(sum_ + query.heads) {
        for (std::size_t h = 0; h < query.heads; ++h) {
            maximum_[h] = -std::numeric_limits<float>::infinity();
            sum_[h] = 0.0f;
        }
        for (std::size_t i = 0; i < query.heads * query.head_v; ++i) out_[i] = 0.0f;
    }

    /// Adds `count` positions whose keys and values are contiguous rows. For bits that don't depend on anything else a span
    /// never crosses a multiple of attention_span and spans come in ascending order.
    /// Preconditions: 1 <= count <= attention_span; both types is_kv_format; rows are whole blocks.
    void add_span(dtype key_type, const std::byte* keys, dtype value_type, const std::byte* values, std::size_t count) noexcept {
        const auto& table = detail::kernels();
        const head_rows key_rows{keys, row_bytes(key_type, query_.head_k), count, query_.head_k};
        const head_rows value_rows{values, row_bytes(value_type, query_.head_v), count, query_.head_v};
        table.scores[kv_slot(key_type)](key_rows, query_.queries, query_.head_k, query_.heads, query_.scale, scores_, attention_span);
        for (std::size_t h = 0; h < query_.heads; ++h) {
            float* scores = scores_ + h * attention_span;
            if (query_.softcap > 0.0f) table.softcap(scores, query_.softcap, count);
            const auto span = table.span_weights(scores, count);
            factors_[h] = span.maximum;
            factors_[query_.heads + h] = span.sum;
        }
        table.accumulate[kv_slot(value_type)](value_rows, scores_, attention_span, query_.heads, part_, query_.head_v);
        for (std::size_t h = 0; h < query_.heads; ++h) {
            merge_head(h, factors_[h], factors_[query_.heads + h], part_ + h * query_.head_v);
        }
    }

    /// Adds what `later` collected for the same queries over later spans. `later` must not be finished.
    void merge(const attention_state& later) noexcept {
        for (std::size_t h = 0; h < query_.heads; ++h) {
            if (later.sum_[h] != 0.0f) merge_head(h, later.maximum_[h], later.sum_[h], later.out_ + h * query_.head_v);
        }
    }

    /// Turns what was collected into the result; zeros if nothing was.
    void finish() noexcept {
        for (std::size_t h = 0; h < query_.heads; ++h) {
            const float sum = sum_[h];
            if (sum != 0.0f) detail::kernels().scale(out_ + h * query_.head_v, 1.0f / sum, query_.head_v);
        }
    }

private:
    [[nodiscard]] static constexpr std::size_t row_bytes(dtype type, std::size_t width) noexcept {
        switch (type) {
            case dtype::f32: return width * 4;
            case dtype::q8_0: return width / 32 * 34;
            case dtype::q4_0: return width / 32 * 18;
            default: return width * 2;
        }
    }

    void merge_head(std::size_t h, float maximum, float sum, const float* out) noexcept {
        const auto& table = detail::kernels();
        const float top = maximum_[h] > maximum ? maximum_[h] : maximum;
        float factors[2] = {maximum_[h] - top, maximum - top};
        table.exp(factors, factors, 2);
        table.blend(out_ + h * query_.head_v, factors[0], out, factors[1], query_.head_v);
        table.blend(&sum_[h], factors[0], &sum, factors[1], 1);
        maximum_[h] = top;
    }

    attention_query query_;
    float* out_;
    float* scores_;
    float* part_;
    float* maximum_;
    float* sum_;
    float* factors_;
};

}  // namespace COLIBRI_SIMD_ABI
}  // namespace colibri::simd
