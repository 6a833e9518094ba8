// One layer of a decoder over a batch of tokens, and the memory it works in.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "colibri/core/buffer.hpp"
#include "colibri/core/thread_pool.hpp"
#include "colibri/kv/kv_cache.hpp"
#include "colibri/model/experts.hpp"
#include "colibri/model/matrix_products.hpp"
#include "colibri/model/model.hpp"
#include "colibri/model/scratch.hpp"
#include "colibri/simd/ops.hpp"
#include "colibri/simd/product.hpp"

namespace colibri {

/// Runs layers over the tokens in `scratch`. Work within a product is split over output rows, all else over tokens and heads, so
/// that neither threads nor the other tokens of the batch change a bit.
class layer_runner {
public:
    layer_runner(const model& m, kv_store& kv, layer_scratch& scratch, thread_pool& pool, std::size_t tokens,
                 const cancel_flag* cancel, const product_extras& extras = {}) noexcept
        : model_(m), h_(m.params()), kv_(kv), s_(scratch), pool_(pool), tokens_(tokens), cancel_(cancel), extras_(extras) {}

    /// Adds attention(norm(x)) to the residual stream and stores the tokens' keys and values.
    [[nodiscard]] result<void> attention(std::uint32_t layer) {
        const auto& v = model_.tensors().vectors[layer];
        const auto group = model_.tensors().layers[layer].attention;
        const auto tensors = std::span(model_.tensors().groups[group].tensors);
        auto lease = model_.weights().acquire(group);
        if (!lease) return std::move(lease).error();
        normalise(v.attention_norm);
        s_.input.assign(s_.normed(0), tokens_, h_.hidden, h_.hidden);
        const matrix_use inputs[] = {
            {attention_slots::q, s_.queries(0), s_.query_width()},
            {attention_slots::k, s_.keys(0), s_.key_width()},
            {attention_slots::v, s_.values(0), s_.value_width()},
        };
        extras_.tell(tensors.first(attention_slots::output), s_.input);
        if (auto ok = multiply(*lease, inputs, s_.input, pool_, cancel_, extras_); !ok) return ok;
        // Tokens side by side write to the same panels of keys: a thread takes several of a long prompt.
        const std::size_t chunk = std::clamp<std::size_t>(tokens_ / (std::size_t{4} * pool_.used()), 1, simd::key_lanes);
        pool_.for_chunks(tokens_, chunk, [&](std::size_t begin, std::size_t end, unsigned) {
            for (std::size_t t = begin; t < end; ++t) prepare_token(layer, t);
        });
        attention_job job;
        job.layer = layer;
        job.window = model_.config().layers[layer].window;
        job.scale = model_.config().attention_scale;
        job.softcap = h_.attention_softcap;
        job.queries = s_.queries(0);
        job.query_stride = s_.query_width();
        job.out = s_.attended(0);
        job.out_stride = s_.attended_width();
        s_.attention.run(job, kv_, pool_);
        s_.input.assign(s_.attended(0), tokens_, s_.attended_width(), s_.attended_width());
        extras_.tell(tensors.subspan(attention_slots::output), s_.input);
        const matrix_use output{attention_slots::output, s_.normed(0), h_.hidden};
        if (auto ok = multiply(*lease, output, s_.input, pool_, cancel_, extras_); !ok) return ok;
        add_to_residual(v.output_bias, v.post_attention_norm);
        return {};
    }

    /// Adds feed_forward(norm(x)) to the residual stream.
    [[nodiscard]] result<void> feed_forward(std::uint32_t layer) {
        const auto& v = model_.tensors().vectors[layer];
        const auto& groups = model_.tensors().layers[layer];
        const auto tensors = std::span(model_.tensors().groups[groups.feed_forward].tensors);
        auto lease = model_.weights().acquire(groups.feed_forward);
        if (!lease) return std::move(lease).error();
        normalise(v.feed_forward_norm);
        s_.input.assign(s_.normed(0), tokens_, h_.hidden, h_.hidden);
        if (h_.experts > 0) {
            extras_.tell(tensors, s_.input);
            if (auto ok = multiply(*lease, {0, s_.router(0), h_.experts}, s_.input, pool_, cancel_, extras_); !ok) return ok;
            *lease = {};
            if (auto ok = mix_experts(model_, layer, s_, pool_, tokens_, cancel_, extras_); !ok) return ok;
        } else {
            const matrix_use inputs[] = {
                {feed_forward_slots::gate, s_.gate(0), h_.feed_forward},
                {feed_forward_slots::up, s_.up(0), h_.feed_forward},
            };
            extras_.tell(tensors.first(feed_forward_slots::down), s_.input);
            if (auto ok = multiply(*lease, inputs, s_.input, pool_, cancel_, extras_); !ok) return ok;
            pool_.for_chunks(tokens_, 1, [&](std::size_t begin, std::size_t end, unsigned) {
                for (std::size_t t = begin; t < end; ++t) {
                    add_bias(s_.gate(t), v.gate_bias);
                    add_bias(s_.up(t), v.up_bias);
                    apply_gate(model_.config().gate, s_.gate(t), s_.up(t), h_.feed_forward);
                }
            });
            s_.input.assign(s_.gate(0), tokens_, h_.feed_forward, h_.feed_forward);
            extras_.tell(tensors.subspan(feed_forward_slots::down), s_.input);
            const matrix_use down{feed_forward_slots::down, s_.normed(0), h_.hidden};
            if (auto ok = multiply(*lease, down, s_.input, pool_, cancel_, extras_); !ok) return ok;
        }
        add_to_residual(v.down_bias, v.post_feed_forward_norm);
        return {};
    }

private:
    static void add_bias(float* x, const std::vector<float>& bias) noexcept {
        if (!bias.empty()) simd::add(x, bias.data(), x, bias.size());
    }

    void normalise(const std::vector<float>& weight) noexcept {
        pool_.for_chunks(tokens_, 1, [&](std::size_t begin, std::size_t end, unsigned) {
            for (std::size_t t = begin; t < end; ++t) {
                simd::rms_norm(s_.residual(t), weight.data(), s_.normed(t), h_.hidden, h_.norm_epsilon);
            }
        });
    }

    /// residual += norm(normed + bias), each part only where the layer has it.
    void add_to_residual(const std::vector<float>& bias, const std::vector<float>& post_norm) noexcept {
        pool_.for_chunks(tokens_, 1, [&](std::size_t begin, std::size_t end, unsigned) {
            for (std::size_t t = begin; t < end; ++t) {
                float* x = s_.normed(t);
                add_bias(x, bias);
                if (!post_norm.empty()) simd::rms_norm(x, post_norm.data(), x, h_.hidden, h_.norm_epsilon);
                simd::add(s_.residual(t), x, s_.residual(t), h_.hidden);
            }
        });
    }

    /// Biases, head norms and RoPE of one token's queries and keys; its keys and values go to the cache.
    void prepare_token(std::uint32_t layer, std::size_t t) noexcept {
        const auto& v = model_.tensors().vectors[layer];
        const auto& config = model_.config().layers[layer];
        float* q = s_.queries(t);
        float* k = s_.keys(t);
        add_bias(q, v.q_bias);
        add_bias(k, v.k_bias);
        add_bias(s_.values(t), v.v_bias);
        const float* cosine = s_.cosine(t, config.local_rope);
        const float* sine = s_.sine(t, config.local_rope);
        const auto prepare_head = [&](float* head, const std::vector<float>& norm) {
            if (!norm.empty()) simd::rms_norm(head, norm.data(), head, h_.head_k, h_.norm_epsilon);
            if (!config.rotate) return;
            if (model_.config().pairing == rope_pairing::halves) simd::rope_halves(head, cosine, sine, h_.rope_dimensions);
            else simd::rope_interleaved(head, cosine, sine, h_.rope_dimensions);
        };
        for (std::uint32_t head = 0; head < h_.heads; ++head) prepare_head(q + std::size_t{head} * h_.head_k, v.q_norm);
        for (std::uint32_t head = 0; head < h_.kv_heads; ++head) prepare_head(k + std::size_t{head} * h_.head_k, v.k_norm);
        kv_.store(layer, s_.sequence(t), s_.position(t), k, s_.values(t));
    }

    const model& model_;
    const hparams& h_;
    kv_store& kv_;
    layer_scratch& s_;
    thread_pool& pool_;
    std::size_t tokens_;
    const cancel_flag* cancel_;
    product_extras extras_;
};

}  // namespace colibri
