// llama: LLaMA 1 to 3, Mistral, SmolLM and SmolLM2, Mixtral (with experts), and all that share their shape.
#pragma once

#include "colibri/model/decoder_config.hpp"

namespace colibri::arch {

/// Interleaved RoPE pairs, optional biases, optional experts (softmax over the chosen ones).
[[nodiscard]] inline result<decoder_config> configure_llama(const hparams& h) {
    auto config = plain_decoder(h);
    config.experts_allowed = true;
    return config;
}

}  // namespace colibri::arch
