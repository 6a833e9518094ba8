// What one decoder architecture does differently from the next, as data.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "colibri/model/hparams.hpp"

namespace colibri {

/// Which elements of a head RoPE rotates together.
enum class rope_pairing : std::uint8_t {
    interleaved,  ///< 2i with 2i + 1 (the file's q and k rows are permuted for it)
    halves,       ///< i with i + d/2
};

/// The gate's function in the feed-forward: down(f(gate x) * up x).
enum class gate_function : std::uint8_t { silu, gelu };

/// What one layer's attention does.
struct layer_config {
    bool rotate = true;        ///< RoPE on queries and keys
    bool local_rope = false;   ///< the local base, unscaled, in place of the scaled global one
    std::uint32_t window = 0;  ///< sees positions within `window`, itself included; 0: all
};

/// A decoder of RMS norm, grouped-query attention and gated feed-forward. Tensors that an architecture may or may not have
/// (biases, head norms, experts, own output head) are found by name; what a name can't tell stands here.
struct decoder_config {
    rope_pairing pairing = rope_pairing::interleaved;
    gate_function gate = gate_function::silu;
    bool head_norms = false;        ///< RMS norm of each query and key head before RoPE: attn_q_norm, attn_k_norm
    bool qkv_bias = false;          ///< biases of Q, K and V are required
    bool post_norms = false;        ///< norms behind attention and feed-forward: post_attention_norm, post_ffw_norm
    bool experts_allowed = false;   ///< expert_count above 0 makes the feed-forward a mixture
    float embedding_scale = 1.0f;
    float attention_scale = 1.0f;   ///< factor of q.k
    std::vector<layer_config> layers;
};

/// The common ground: one entry per layer, all alike, attention scaled by 1/sqrt(head size).
[[nodiscard]] inline decoder_config plain_decoder(const hparams& h) {
    decoder_config config;
    config.attention_scale = 1.0f / std::sqrt(static_cast<float>(h.head_k));
    config.layers.resize(h.layers);
    return config;
}

}  // namespace colibri
