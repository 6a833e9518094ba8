// Mixture of experts: which experts a token goes to, and their weighted sum.
#pragma once

#include <algorithm>
#include <cstdint>

#include "colibri/model/matrix_products.hpp"
#include "colibri/model/model.hpp"
#include "colibri/model/scratch.hpp"
#include "colibri/simd/ops.hpp"
#include "colibri/simd/product.hpp"

namespace colibri {

/// Picks the `used` experts with the largest router logits (ties: the lower number) and weighs them by the softmax over just
/// these. `chosen` ascends, so that a token's sum has one order whatever else is in the batch.
inline void choose_experts(const float* logits, std::uint32_t experts, std::uint32_t used, std::uint32_t* chosen,
                           float* weights) noexcept {
    for (std::uint32_t slot = 0; slot < used; ++slot) {
        std::uint32_t best = experts;
        for (std::uint32_t e = 0; e < experts; ++e) {
            const bool taken = std::find(chosen, chosen + slot, e) != chosen + slot;
            if (!taken && (best == experts || logits[e] > logits[best])) best = e;
        }
        chosen[slot] = best;
    }
    std::sort(chosen, chosen + used);
    for (std::uint32_t slot = 0; slot < used; ++slot) weights[slot] = logits[chosen[slot]];
    simd::softmax(weights, weights, used);
}

/// Adds what the `used` experts of each token gave, ascending, whichever order they ran in: s.kept(t * used + i) is its i-th's.
inline void add_experts(layer_scratch& s, std::size_t tokens, std::uint32_t used, std::size_t hidden, thread_pool& pool) noexcept {
    pool.for_chunks(tokens, 1, [&](std::size_t begin, std::size_t end, unsigned) {
        for (std::size_t t = begin; t < end; ++t) {
            for (std::size_t i = t * used; i < (t + 1) * used; ++i) {
                simd::multiply_add(s.weights[i], s.kept(i), s.mixed(t), hidden);
            }
        }
    });
}

/// normed = sum over chosen experts of weight * down(f(gate x) * up x), x being what `s.input` holds and `s.router` the router's
/// logits. Each expert's tokens are gathered into one product. A token's sum ascends; experts run in the order in which their weights
/// are in place where there is memory to keep the results apart, else ascending. Mixtral: arXiv:2401.04088.
[[nodiscard]] inline result<void> mix_experts(const model& m, std::uint32_t layer, layer_scratch& s, thread_pool& pool,
                                              std::size_t tokens, const cancel_flag* cancel, const product_extras& extras = {}) {
    const auto& h = m.params();
    s.needed.clear();
    for (std::size_t t = 0; t < tokens; ++t) {
        std::uint32_t* chosen = s.chosen.data() + t * h.experts_used;
        choose_experts(s.router(t), h.experts, h.experts_used, chosen, s.weights.data() + t * h.experts_used);
        for (std::uint32_t i = 0; i < h.experts_used; ++i) {
            const auto at = std::lower_bound(s.needed.begin(), s.needed.end(), chosen[i]);
            if (at == s.needed.end() || *at != chosen[i]) s.needed.insert(at, chosen[i]);
        }
    }
    if (m.on_experts()) m.on_experts()(layer, s.needed);
    const auto group = m.tensors().layers[layer].experts;
    const auto tensors = std::span(m.tensors().groups[group].tensors);
    auto lease = m.weights().acquire(group, s.needed);
    if (!lease) return std::move(lease).error();
    const bool apart = tokens * h.experts_used <= s.tokens();
    // `input` refers to the normed rows until the last expert is done, so the sums need a place of their own.
    for (std::size_t t = 0; t < tokens; ++t) std::fill_n(s.mixed(t), h.hidden, 0.0f);
    while (true) {
        auto given = lease->next_expert(!apart);
        if (!given) return std::move(given).error();
        if (!*given) break;
        if (cancel != nullptr && cancel->requested()) return canceled_step();
        const std::uint32_t e = **given;
        s.columns.clear();
        s.places.clear();
        for (std::size_t t = 0; t < tokens; ++t) {
            for (std::uint32_t i = 0; i < h.experts_used; ++i) {
                if (s.chosen[t * h.experts_used + i] != e) continue;
                s.columns.push_back(static_cast<std::uint32_t>(t));
                s.places.push_back(static_cast<std::uint32_t>(t * h.experts_used + i));
            }
        }
        const std::size_t n = s.columns.size();
        const simd::product_job jobs[] = {
            {lease->expert(feed_forward_slots::gate, e), s.gate(0), h.feed_forward},
            {lease->expert(feed_forward_slots::up, e), s.up(0), h.feed_forward},
        };
        extras.tell(tensors.first(feed_forward_slots::down), s.input, e, s.columns);
        extras.products(jobs, s.input, s.columns, pool);  // packs the columns once
        pool.for_chunks(n, 1, [&](std::size_t begin, std::size_t end, unsigned) {
            for (std::size_t j = begin; j < end; ++j) apply_gate(m.config().gate, s.gate(j), s.up(j), h.feed_forward);
        });
        s.inner.assign(s.gate(0), n, h.feed_forward, h.feed_forward);
        const simd::product_job down{lease->expert(feed_forward_slots::down, e), s.expert_out(0), h.hidden};
        extras.tell(tensors.subspan(feed_forward_slots::down), s.inner, e);
        extras.products({&down, 1}, s.inner, {}, pool);
        pool.for_chunks(n, 1, [&](std::size_t begin, std::size_t end, unsigned) {
            for (std::size_t j = begin; j < end; ++j) {
                if (apart) std::copy_n(s.expert_out(j), h.hidden, s.kept(s.places[j]));
                else simd::multiply_add(s.weights[s.places[j]], s.expert_out(j), s.mixed(s.columns[j]), h.hidden);
            }
        });
    }
    if (apart) add_experts(s, tokens, h.experts_used, h.hidden, pool);
    for (std::size_t t = 0; t < tokens; ++t) std::copy_n(s.mixed(t), h.hidden, s.normed(t));
    return {};
}

}  // namespace colibri
