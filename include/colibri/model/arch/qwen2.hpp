// qwen2: Qwen 1.5, Qwen 2 and 2.5.
#pragma once

#include "colibri/model/decoder_config.hpp"

namespace colibri::arch {

/// RoPE on halves; Q, K and V have biases.
[[nodiscard]] inline result<decoder_config> configure_qwen2(const hparams& h) {
    auto config = plain_decoder(h);
    config.pairing = rope_pairing::halves;
    config.qkv_bias = true;
    return config;
}

}  // namespace colibri::arch
