// Runs: the 16 or 32 weights of a format that share a scale and a minimum.
#pragma once

#include <cstddef>

#include "colibri/quant/block_format.hpp"

namespace colibri::quant {

/// Weights of a format that share a scale: 16 or 32.
template <code_format F>
inline constexpr std::size_t scale_run = 32;
template <super_format F>
inline constexpr std::size_t scale_run<F> = F::sub_size;

/// What the half float of a block's scale is multiplied with: a power of two.
template <code_format F>
inline constexpr float scale_unit = [] {
    switch (F::type) {
        case dtype::iq1_s: case dtype::iq1_m: case dtype::iq2_xxs: case dtype::iq2_xs: case dtype::iq2_s: return 0.125f;
        case dtype::iq3_xxs: return 0.25f;
        default: return 1.0f;
    }
}();

/// Whether a format adds a minimum to its weights.
template <code_format F>
inline constexpr bool has_minimums = minimum_format<F> || super_minimum_format<F>;

/// Scale of run j of a block: exact, a half float times an integer of at most 8 bits, or (NVFP4) an integer alone, and a power of two.
template <code_format F>
[[nodiscard]] constexpr float run_scale(const F& block, [[maybe_unused]] std::size_t j) noexcept {
    if constexpr (super_format<F>) return block.scale() * static_cast<float>(block.sub_scale(j));
    else return block.scale();
}

/// What is added to the weights of run j of a block: exact, a half float times an integer of at most 6 bits.
template <code_format F>
[[nodiscard]] constexpr float run_minimum(const F& block, [[maybe_unused]] std::size_t j) noexcept {
    if constexpr (super_minimum_format<F>) return -(block.minimum_scale() * static_cast<float>(block.sub_minimum(j)));
    else if constexpr (minimum_format<F>) return block.minimum();
    else return 0.0f;
}

}  // namespace colibri::quant
