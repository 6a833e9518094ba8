// gemma2 and gemma3.
#pragma once

#include "colibri/model/decoder_config.hpp"

namespace colibri::arch {

/// What both share: embeddings times sqrt(hidden), tanh-GELU gates, norms behind attention and feed-forward, RoPE on halves.
/// `layers_of_27b`: the 27B size is known by its number of layers and scales attention by 1/sqrt(hidden / heads).
[[nodiscard]] inline decoder_config gemma_decoder(const hparams& h, std::uint32_t layers_of_27b) {
    auto config = plain_decoder(h);
    config.pairing = rope_pairing::halves;
    config.gate = gate_function::gelu;
    config.post_norms = true;
    config.embedding_scale = std::sqrt(static_cast<float>(h.hidden));
    if (h.layers == layers_of_27b) {
        config.attention_scale = 1.0f / std::sqrt(static_cast<float>(h.hidden) / static_cast<float>(h.heads));
    }
    return config;
}

/// Window on layers 0, 2, 4, ...; soft caps on scores and logits.
[[nodiscard]] inline result<decoder_config> configure_gemma2(const hparams& h) {
    auto config = gemma_decoder(h, 46);
    for (std::uint32_t i = 0; i < h.layers; i += 2) config.layers[i].window = h.window;
    return config;
}

/// Five window layers (local RoPE base, unscaled) to one global layer; RMS norm of query and key heads.
[[nodiscard]] inline result<decoder_config> configure_gemma3(const hparams& h) {
    auto config = gemma_decoder(h, 62);
    config.head_norms = true;
    if (h.window == 0) return config;  // without a window all layers are global
    for (std::uint32_t i = 0; i < h.layers; ++i) {
        if (i % 6 == 5) continue;
        config.layers[i].window = h.window;
        config.layers[i].local_rope = true;
    }
    return config;
}

}  // namespace colibri::arch
