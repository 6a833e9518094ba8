// The memory that layers work in, allocated once for the largest batch.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "colibri/core/buffer.hpp"
#include "colibri/core/checked.hpp"
#include "colibri/kv/attention.hpp"
#include "colibri/model/decoder_config.hpp"
#include "colibri/model/rope.hpp"
#include "colibri/simd/ops.hpp"
#include "colibri/simd/product.hpp"

namespace colibri {

/// Float matrices with one row per token of a batch (row strides are the widths named), a rope table, and per-thread scratch.
class layer_scratch {
public:
    layer_scratch() = default;

    /// Room for `tokens` tokens, `context` positions and `threads` workers. Errors: overflow, out_of_memory.
    [[nodiscard]] static result<layer_scratch> make(const hparams& h, const decoder_config& config, std::size_t tokens,
                                                    std::uint32_t context, unsigned threads) {
        layer_scratch s;
        s.widths_[residual_part] = h.hidden;
        s.widths_[normed_part] = h.hidden;
        s.widths_[query_part] = std::size_t{h.heads} * h.head_k;
        s.widths_[key_part] = std::size_t{h.kv_heads} * h.head_k;
        s.widths_[value_part] = std::size_t{h.kv_heads} * h.head_v;
        s.widths_[attended_part] = std::size_t{h.heads} * h.head_v;
        s.widths_[gate_part] = h.feed_forward;
        s.widths_[up_part] = h.feed_forward;
        s.widths_[router_part] = h.experts;
        s.widths_[expert_out_part] = h.experts > 0 ? h.hidden : 0;
        s.widths_[mixed_part] = h.experts > 0 ? h.hidden : 0;
        s.widths_[kept_part] = h.experts > 0 ? h.hidden : 0;
        s.pairs_ = h.rope_dimensions / 2;
        for (const auto& layer : config.layers) s.has_local_ = s.has_local_ || layer.local_rope;
        s.widths_[rope_part] = s.pairs_ * (s.has_local_ ? 4 : 2);
        for (std::size_t part = 0; part < part_count; ++part) {
            const auto floats = checked_mul<std::size_t>(s.widths_[part], tokens);
            const auto bytes = floats ? checked_mul<std::size_t>(*floats, sizeof(float)) : std::nullopt;
            if (!bytes) return error{errc::overflow, "a batch of this size doesn't fit memory; use a smaller ubatch"};
            auto buffer = aligned_buffer::allocate(*bytes);
            if (!buffer) return std::move(buffer).error();
            s.parts_[part] = *std::move(buffer);
        }
        const std::size_t widest = std::max({std::size_t{h.hidden}, s.widths_[attended_part]});
        auto input = simd::activations::make(tokens, std::max<std::size_t>(widest, h.experts > 0 ? 0 : h.feed_forward));
        if (!input) return std::move(input).error();
        s.input = *std::move(input);
        if (h.experts > 0) {
            auto inner = simd::activations::make(tokens, h.feed_forward);
            if (!inner) return std::move(inner).error();
            s.inner = *std::move(inner);
            s.chosen.resize(tokens * h.experts_used);
            s.weights.resize(tokens * h.experts_used);
            s.needed.reserve(h.experts);
            s.columns.reserve(tokens);
            s.places.reserve(tokens);
        }
        s.places_.resize(tokens);
        auto attention = batch_attention::make({h.heads, h.kv_heads, h.head_k, h.head_v, context, tokens, threads});
        if (!attention) return std::move(attention).error();
        s.attention = *std::move(attention);
        return s;
    }

    [[nodiscard]] float* residual(std::size_t t) noexcept { return row(residual_part, t); }
    [[nodiscard]] float* normed(std::size_t t) noexcept { return row(normed_part, t); }
    [[nodiscard]] float* queries(std::size_t t) noexcept { return row(query_part, t); }
    [[nodiscard]] float* keys(std::size_t t) noexcept { return row(key_part, t); }
    [[nodiscard]] float* values(std::size_t t) noexcept { return row(value_part, t); }
    [[nodiscard]] float* attended(std::size_t t) noexcept { return row(attended_part, t); }
    [[nodiscard]] float* gate(std::size_t t) noexcept { return row(gate_part, t); }
    [[nodiscard]] float* up(std::size_t t) noexcept { return row(up_part, t); }
    [[nodiscard]] float* router(std::size_t t) noexcept { return row(router_part, t); }
    [[nodiscard]] float* expert_out(std::size_t t) noexcept { return row(expert_out_part, t); }
    [[nodiscard]] float* mixed(std::size_t t) noexcept { return row(mixed_part, t); }
    [[nodiscard]] float* kept(std::size_t i) noexcept { return row(kept_part, i); }  ///< i below tokens()
    [[nodiscard]] std::size_t tokens() const noexcept { return places_.size(); }
    [[nodiscard]] std::size_t query_width() const noexcept { return widths_[query_part]; }
    [[nodiscard]] std::size_t key_width() const noexcept { return widths_[key_part]; }
    [[nodiscard]] std::size_t value_width() const noexcept { return widths_[value_part]; }
    [[nodiscard]] std::size_t attended_width() const noexcept { return widths_[attended_part]; }

    void set_token(std::size_t t, std::uint32_t position, std::uint32_t sequence) noexcept { places_[t] = {sequence, position}; }
    [[nodiscard]] std::uint32_t position(std::size_t t) const noexcept { return places_[t].position; }
    [[nodiscard]] std::uint32_t sequence(std::size_t t) const noexcept { return places_[t].sequence; }

    /// Lets `attention` take the first `tokens` tokens.
    void plan_attention(std::size_t tokens) noexcept { attention.plan(std::span(places_).first(tokens)); }

    /// Cosines and sines of the first `tokens` tokens' positions.
    void fill_rope(const rope_frequencies& global, const rope_frequencies& local, std::size_t tokens) noexcept {
        for (std::size_t t = 0; t < tokens; ++t) {
            float* table = row(rope_part, t);
            fill_rope_row(global, position(t), table, table + pairs_);
            if (has_local_) fill_rope_row(local, position(t), table + 2 * pairs_, table + 3 * pairs_);
        }
    }
    [[nodiscard]] const float* cosine(std::size_t t, bool local) noexcept { return row(rope_part, t) + (local ? 2 * pairs_ : 0); }
    [[nodiscard]] const float* sine(std::size_t t, bool local) noexcept { return cosine(t, local) + pairs_; }

    [[nodiscard]] std::uint64_t bytes() const noexcept {
        std::uint64_t sum = attention.bytes() + input.bytes() + inner.bytes();
        for (const auto& floats : parts_) sum += floats.size();
        return sum;
    }

    simd::activations input;  ///< what the next products are taken of
    batch_attention attention;
    simd::activations inner;  ///< the inner vectors of one expert
    std::vector<std::uint32_t> chosen;   ///< experts of each token, `experts_used` a token
    std::vector<float> weights;          ///< their weights
    std::vector<std::uint32_t> needed;   ///< experts of the batch, ascending
    std::vector<std::uint32_t> columns;  ///< tokens of one expert
    std::vector<std::uint32_t> places;   ///< and where `chosen` names it

private:
    enum part : std::size_t {
        residual_part, normed_part, query_part, key_part, value_part, attended_part, gate_part, up_part, router_part,
        expert_out_part, mixed_part, kept_part, rope_part, part_count
    };
    [[nodiscard]] float* row(part p, std::size_t t) noexcept { return parts_[p].as<float>().data() + t * widths_[p]; }

    std::size_t widths_[part_count] = {};
    aligned_buffer parts_[part_count];
    std::size_t pairs_ = 0;
    bool has_local_ = false;
    std::vector<token_place> places_;
};

/// gate = f(gate) * up, element by element.
inline void apply_gate(gate_function f, float* gate, const float* up, std::size_t n) noexcept {
    if (f == gate_function::gelu) simd::geglu(gate, up, gate, n);
    else simd::swiglu(gate, up, gate, n);
}

}  // namespace colibri
