// A plain transformer in Eigen: what the engine's logits are compared with.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numbers>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "oracle/config.hpp"
#include "oracle/file.hpp"
#include "oracle/rope.hpp"

namespace oracle {

/// What a run may do besides computing.
template <class Real>
struct run_options {
    /// Called with each key head (behind RoPE) and each value head before attention sees it: a cache's rounding.
    std::function<void(std::span<Real>)> store_k = {};
    std::function<void(std::span<Real>)> store_v = {};
    /// Called with intermediate results, one row per token: "embedding", then per layer "attn_norm", "q", "k", "v"
    /// (behind norms and RoPE), "attention", "attn_out" (the residual stream), "ffn_norm", "ffn_out" (the residual
    /// stream), and with layer -1 "result_norm".
    std::function<void(std::string_view name, Index layer, const matrix<Real>&)> trace = {};
};

/// All weights of a model, decoded; `Real` is the type that everything is computed in.
template <class Real = double>
class model {
public:
    explicit model(const std::filesystem::path& path) : model(file(path)) {}
    explicit model(const file& from);

    [[nodiscard]] const config& settings() const { return config_; }
    [[nodiscard]] Index vocabulary() const { return head_.rows() > 0 ? head_.rows() : embedding_.rows(); }

    /// Logits of every position of one sequence that starts at position 0: [tokens, vocabulary].
    [[nodiscard]] matrix<Real> logits(std::span<const std::int32_t> tokens,
                                      const run_options<Real>& options = {}) const;

    /// The `count` tokens that follow when the largest logit is taken each time.
    [[nodiscard]] std::vector<std::int32_t> greedy(std::vector<std::int32_t> tokens, std::size_t count) const;

private:
    struct feed_forward {
        matrix<Real> gate, up, down;
    };
    struct layer {
        row<Real> attn_norm, q_norm, k_norm, post_attention_norm, ffn_norm, post_ffw_norm;
        matrix<Real> q, k, v, output;
        row<Real> q_bias, k_bias, v_bias, output_bias;
        matrix<Real> router;
        std::vector<feed_forward> ffn;  ///< one, or one per expert
    };

    [[nodiscard]] matrix<Real> norm(const matrix<Real>& x, const row<Real>& weight) const;
    [[nodiscard]] matrix<Real> attention(const matrix<Real>& x, Index index, const run_options<Real>& options) const;
    [[nodiscard]] matrix<Real> feed(const matrix<Real>& x, const layer& of) const;
    [[nodiscard]] row<Real> run_expert(const row<Real>& x, const feed_forward& ffn) const;

    config config_;
    rotation global_;
    rotation local_;
    matrix<Real> embedding_;
    matrix<Real> head_;  ///< empty: the embedding is the head
    row<Real> output_norm_;
    std::vector<layer> layers_;
};

template <class Real>
model<Real>::model(const file& from) : config_(read_config(from)) {
    const auto factors = from.read_optional<Real>("rope_freqs.weight");
    global_ = make_rotation(config_, false, factors);
    local_ = make_rotation(config_, true, factors);
    embedding_ = from.read<Real>("token_embd.weight");
    if (from.has_tensor("output.weight")) head_ = from.read<Real>("output.weight");
    output_norm_ = from.read_row<Real>("output_norm.weight");
    for (Index i = 0; i < config_.layers; ++i) {
        const auto name = [&](const char* rest) { return "blk." + std::to_string(i) + "." + rest; };
        layer l;
        l.attn_norm = from.read_row<Real>(name("attn_norm.weight"));
        l.q_norm = from.read_optional<Real>(name("attn_q_norm.weight"));
        l.k_norm = from.read_optional<Real>(name("attn_k_norm.weight"));
        l.post_attention_norm = from.read_optional<Real>(name("post_attention_norm.weight"));
        l.ffn_norm = from.read_row<Real>(name("ffn_norm.weight"));
        l.post_ffw_norm = from.read_optional<Real>(name("post_ffw_norm.weight"));
        l.q = from.read<Real>(name("attn_q.weight"));
        l.k = from.read<Real>(name("attn_k.weight"));
        l.v = from.read<Real>(name("attn_v.weight"));
        l.output = from.read<Real>(name("attn_output.weight"));
        l.q_bias = from.read_optional<Real>(name("attn_q.bias"));
        l.k_bias = from.read_optional<Real>(name("attn_k.bias"));
        l.v_bias = from.read_optional<Real>(name("attn_v.bias"));
        l.output_bias = from.read_optional<Real>(name("attn_output.bias"));
        if (config_.experts == 0) {
            l.ffn.push_back({from.read<Real>(name("ffn_gate.weight")), from.read<Real>(name("ffn_up.weight")),
                             from.read<Real>(name("ffn_down.weight"))});
        } else {
            l.router = from.read<Real>(name("ffn_gate_inp.weight"));
            const auto gate = from.read<Real>(name("ffn_gate_exps.weight"));
            const auto up = from.read<Real>(name("ffn_up_exps.weight"));
            const auto down = from.read<Real>(name("ffn_down_exps.weight"));
            const Index inner = gate.rows() / config_.experts;
            for (Index e = 0; e < config_.experts; ++e) {
                l.ffn.push_back({gate.middleRows(e * inner, inner), up.middleRows(e * inner, inner),
                                 down.middleRows(e * config_.hidden, config_.hidden)});
            }
        }
        layers_.push_back(std::move(l));
    }
}

/// x / sqrt(mean of x^2 + epsilon) * weight, row by row.
template <class Real>
matrix<Real> model<Real>::norm(const matrix<Real>& x, const row<Real>& weight) const {
    matrix<Real> out(x.rows(), x.cols());
    for (Index t = 0; t < x.rows(); ++t) {
        const Real mean = x.row(t).squaredNorm() / static_cast<Real>(x.cols());
        out.row(t) = (x.row(t) / std::sqrt(mean + static_cast<Real>(config_.epsilon))).cwiseProduct(weight);
    }
    return out;
}

template <class Real>
matrix<Real> model<Real>::attention(const matrix<Real>& x, Index index, const run_options<Real>& options) const {
    const config& c = config_;
    const layer& l = layers_[static_cast<std::size_t>(index)];
    const Index tokens = x.rows();
    const auto project = [&](const matrix<Real>& weight, const row<Real>& bias) {
        matrix<Real> out = x * weight.transpose();
        if (bias.size() > 0) out.rowwise() += bias;
        return out;
    };
    matrix<Real> q = project(l.q, l.q_bias);
    matrix<Real> k = project(l.k, l.k_bias);
    matrix<Real> v = project(l.v, l.v_bias);

    // Each head on its own: norm, then rotation, then (keys and values) the cache.
    const auto prepare = [&](matrix<Real>& all, Index heads, const row<Real>& head_norm) {
        for (Index t = 0; t < tokens; ++t) {
            for (Index h = 0; h < heads; ++h) {
                auto head = all.row(t).segment(h * c.head, c.head);
                if (head_norm.size() > 0) head = norm(matrix<Real>(head), head_norm);
                if (c.rotates(index)) rotate(head, t, c.local_rope(index) ? local_ : global_);
            }
        }
    };
    prepare(q, c.heads, l.q_norm);
    prepare(k, c.kv_heads, l.k_norm);
    const auto store = [&](matrix<Real>& all, Index size, const std::function<void(std::span<Real>)>& rounding) {
        if (!rounding) return;
        for (Index t = 0; t < tokens; ++t) {
            for (Index h = 0; h < c.kv_heads; ++h) {
                rounding(std::span<Real>(all.row(t).data() + h * size, static_cast<std::size_t>(size)));
            }
        }
    };
    store(k, c.head, options.store_k);
    store(v, c.value_head, options.store_v);
    if (options.trace) {
        options.trace("q", index, q);
        options.trace("k", index, k);
        options.trace("v", index, v);
    }

    matrix<Real> out = matrix<Real>::Zero(tokens, c.heads * c.value_head);
    for (Index h = 0; h < c.heads; ++h) {
        const Index shared = h / (c.heads / c.kv_heads);
        for (Index t = 0; t < tokens; ++t) {
            const Index first = c.has_window(index) ? std::max<Index>(0, t - c.window + 1) : 0;
            const Index seen = t - first + 1;
            row<Real> scores = q.row(t).segment(h * c.head, c.head) *
                               k.block(first, shared * c.head, seen, c.head).transpose() *
                               static_cast<Real>(c.attention_scale);
            if (c.attention_cap > 0) {
                const auto cap = static_cast<Real>(c.attention_cap);
                scores = ((scores.array() / cap).tanh() * cap).matrix();
            }
            row<Real> weights = (scores.array() - scores.maxCoeff()).exp().matrix();
            weights /= weights.sum();
            out.row(t).segment(h * c.value_head, c.value_head) =
                weights * v.block(first, shared * c.value_head, seen, c.value_head);
        }
    }
    if (options.trace) options.trace("attention", index, out);
    out = out * l.output.transpose();
    if (l.output_bias.size() > 0) out.rowwise() += l.output_bias;
    return out;
}

/// down(f(gate x) * up x) with f = SiLU, or GELU in its tanh form.
template <class Real>
row<Real> model<Real>::run_expert(const row<Real>& x, const feed_forward& ffn) const {
    const row<Real> gate = x * ffn.gate.transpose();
    const row<Real> up = x * ffn.up.transpose();
    row<Real> activated(gate.size());
    for (Index i = 0; i < gate.size(); ++i) {
        const Real g = gate(i);
        const Real inner =
            static_cast<Real>(std::sqrt(2 / std::numbers::pi)) * (g + static_cast<Real>(0.044715) * g * g * g);
        activated(i) = config_.gelu ? g * (1 + std::tanh(inner)) / 2 : g / (1 + std::exp(-g));
    }
    return activated.cwiseProduct(up) * ffn.down.transpose();
}

template <class Real>
matrix<Real> model<Real>::feed(const matrix<Real>& x, const layer& of) const {
    matrix<Real> out = matrix<Real>::Zero(x.rows(), x.cols());
    for (Index t = 0; t < x.rows(); ++t) {
        if (config_.experts == 0) {
            out.row(t) = run_expert(x.row(t), of.ffn.front());
            continue;
        }
        // The best experts, weighted by the softmax over their router logits.
        const row<Real> scores = x.row(t) * of.router.transpose();
        std::vector<Index> order;
        for (Index e = 0; e < config_.experts; ++e) order.push_back(e);
        std::stable_sort(order.begin(), order.end(), [&](Index a, Index b) { return scores(a) > scores(b); });
        order.resize(static_cast<std::size_t>(config_.experts_used));
        Real sum = 0;
        for (const Index e : order) sum += std::exp(scores(e) - scores(order.front()));
        for (const Index e : order) {
            const Real share = std::exp(scores(e) - scores(order.front())) / sum;
            out.row(t) += share * run_expert(x.row(t), of.ffn[static_cast<std::size_t>(e)]);
        }
    }
    return out;
}

template <class Real>
matrix<Real> model<Real>::logits(std::span<const std::int32_t> tokens, const run_options<Real>& options) const {
    const auto trace = [&](std::string_view name, Index of, const matrix<Real>& values) {
        if (options.trace) options.trace(name, of, values);
    };
    matrix<Real> x(static_cast<Index>(tokens.size()), config_.hidden);
    for (Index t = 0; t < x.rows(); ++t) {
        const std::int32_t token = tokens[static_cast<std::size_t>(t)];
        if (token < 0 || token >= embedding_.rows())
            throw std::runtime_error("oracle: no token " + std::to_string(token));
        x.row(t) = embedding_.row(token) * static_cast<Real>(config_.embedding_scale);
    }
    trace("embedding", 0, x);
    for (Index i = 0; i < config_.layers; ++i) {
        const layer& l = layers_[static_cast<std::size_t>(i)];
        matrix<Real> normed = norm(x, l.attn_norm);
        trace("attn_norm", i, normed);
        matrix<Real> added = attention(normed, i, options);
        if (l.post_attention_norm.size() > 0) added = norm(added, l.post_attention_norm);
        x += added;
        trace("attn_out", i, x);
        normed = norm(x, l.ffn_norm);
        trace("ffn_norm", i, normed);
        added = feed(normed, l);
        if (l.post_ffw_norm.size() > 0) added = norm(added, l.post_ffw_norm);
        x += added;
        trace("ffn_out", i, x);
    }
    x = norm(x, output_norm_);
    trace("result_norm", -1, x);
    matrix<Real> out = x * (head_.rows() > 0 ? head_ : embedding_).transpose();
    if (config_.logit_cap > 0) {
        const auto cap = static_cast<Real>(config_.logit_cap);
        out = ((out.array() / cap).tanh() * cap).matrix();
    }
    return out;
}

template <class Real>
std::vector<std::int32_t> model<Real>::greedy(std::vector<std::int32_t> tokens, std::size_t count) const {
    const std::size_t start = tokens.size();
    while (tokens.size() < start + count) {
        const matrix<Real> all = logits(tokens);
        Index best = 0;
        all.row(all.rows() - 1).maxCoeff(&best);
        tokens.push_back(static_cast<std::int32_t>(best));
    }
    return {tokens.begin() + static_cast<std::ptrdiff_t>(start), tokens.end()};
}

}  // namespace oracle
