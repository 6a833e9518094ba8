// qwen3: the dense Qwen 3 models.
#pragma once

#include "colibri/model/decoder_config.hpp"

namespace colibri::arch {

/// RoPE on halves; each query and key head is RMS-normed first.
[[nodiscard]] inline result<decoder_config> configure_qwen3(const hparams& h) {
    auto config = plain_decoder(h);
    config.pairing = rope_pairing::halves;
    config.head_norms = true;
    return config;
}

}  // namespace colibri::arch
