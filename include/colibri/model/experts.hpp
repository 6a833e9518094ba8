// Mixture of experts: which experts a token goes to, and their weighted sum.
#pragma once

#include <algorithm>
#include <cstdint>

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

/// normed = sum over chosen experts of weight * down(f(gate x) * up x), x being what `s.input` holds. Each expert's tokens are
/// gathered into one product; experts run in ascending order. `router`: [hidden, experts]. Mixtral: arXiv:2401.04088.
[[nodiscard]] inline result<void> mix_experts(const model& m, weights::group_id group, const tensor_ref& router, layer_scratch& s,
                                              thread_pool& pool, std::size_t tokens) {
    const auto& h = m.params();
    simd::product(router, s.input, s.router(0), h.experts, pool);
    s.needed.clear();
    for (std::size_t t = 0; t < tokens; ++t) {
        std::uint32_t* chosen = s.chosen.data() + t * h.experts_used;
        choose_experts(s.router(t), h.experts, h.experts_used, chosen, s.weights.data() + t * h.experts_used);
        for (std::uint32_t i = 0; i < h.experts_used; ++i) {
            const auto at = std::lower_bound(s.needed.begin(), s.needed.end(), chosen[i]);
            if (at == s.needed.end() || *at != chosen[i]) s.needed.insert(at, chosen[i]);
        }
    }
    auto lease = m.weights().acquire(group, s.needed);
    if (!lease) return std::move(lease).error();
    // `input` refers to the normed rows until the last expert is done, so the sums need a place of their own.
    for (std::size_t t = 0; t < tokens; ++t) std::fill_n(s.mixed(t), h.hidden, 0.0f);
    for (const std::uint32_t e : s.needed) {
        s.columns.clear();
        s.column_weights.clear();
        for (std::size_t t = 0; t < tokens; ++t) {
            for (std::uint32_t i = 0; i < h.experts_used; ++i) {
                if (s.chosen[t * h.experts_used + i] != e) continue;
                s.columns.push_back(static_cast<std::uint32_t>(t));
                s.column_weights.push_back(s.weights[t * h.experts_used + i]);
            }
        }
        const std::size_t n = s.columns.size();
        const simd::product_job jobs[] = {
            {lease->expert(feed_forward_slots::gate, e), s.gate(0), h.feed_forward},
            {lease->expert(feed_forward_slots::up, e), s.up(0), h.feed_forward},
        };
        simd::products(jobs, s.input, s.columns, pool);  // packs the columns once
        pool.for_chunks(n, 1, [&](std::size_t begin, std::size_t end, unsigned) {
            for (std::size_t j = begin; j < end; ++j) apply_gate(m.config().gate, s.gate(j), s.up(j), h.feed_forward);
        });
        s.inner.assign(s.gate(0), n, h.feed_forward, h.feed_forward);
        simd::product(lease->expert(feed_forward_slots::down, e), s.inner, s.expert_out(0), h.hidden, pool);
        pool.for_chunks(n, 1, [&](std::size_t begin, std::size_t end, unsigned) {
            for (std::size_t j = begin; j < end; ++j) {
                simd::multiply_add(s.column_weights[j], s.expert_out(j), s.mixed(s.columns[j]), h.hidden);
            }
        });
    }
    for (std::size_t t = 0; t < tokens; ++t) std::copy_n(s.mixed(t), h.hidden, s.normed(t));
    return {};
}

}  // namespace colibri
