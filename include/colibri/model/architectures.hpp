// The architectures that can be run, by their name in GGUF files.
#pragma once

#include <array>
#include <string_view>

#include "colibri/model/arch/gemma.hpp"
#include "colibri/model/arch/llama.hpp"
#include "colibri/model/arch/qwen2.hpp"
#include "colibri/model/arch/qwen3.hpp"
#include "colibri/model/arch/smollm3.hpp"
#include "colibri/model/decoder_config.hpp"

namespace colibri {

/// One row of the table: a name and how its decoder is set up.
struct architecture {
    std::string_view name;
    result<decoder_config> (*configure)(const hparams&);
};

inline constexpr std::array architectures = {
    architecture{"llama", &arch::configure_llama},   architecture{"qwen2", &arch::configure_qwen2},
    architecture{"qwen3", &arch::configure_qwen3},   architecture{"gemma2", &arch::configure_gemma2},
    architecture{"gemma3", &arch::configure_gemma3}, architecture{"smollm3", &arch::configure_smollm3},
};

/// The row named `name`. Errors: unsupported, with the list of what can be run.
[[nodiscard]] inline result<architecture> find_architecture(std::string_view name) {
    std::string known;
    for (const auto& row : architectures) {
        if (row.name == name) return row;
        if (!known.empty()) known += ", ";
        known += row.name;
    }
    return error{errc::unsupported, concat("general.architecture is ", quoted(name, 64),
                                           ", which can't be run here; these can: ", known)};
}

}  // namespace colibri
