// smollm3: SmolLM3.
#pragma once

#include "colibri/model/decoder_config.hpp"

namespace colibri::arch {

/// A llama whose every fourth layer has no RoPE. The file doesn't say so; the architecture does.
[[nodiscard]] inline result<decoder_config> configure_smollm3(const hparams& h) {
    auto config = plain_decoder(h);
    for (std::uint32_t i = 3; i < h.layers; i += 4) config.layers[i].rotate = false;
    return config;
}

}  // namespace colibri::arch
