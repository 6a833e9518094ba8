// The order of operations that gives codes their values, shared by the formats of one shape.
#pragma once

#include <cstddef>

namespace colibri::quant::detail {

// A half float has 11 significant bits, a run's scale at most 6 where there are minimums, a code at most 5: their
// products fit the 24 bits of a float, so they are exact and the result is the same whether or not a compiler fuses
// the difference into them (g++ does where the target has FMA).

/// `scale * code`.
template <class F>
constexpr void decode_codes(const F& block, float* out) noexcept {
    const float d = block.scale();
    for (std::size_t i = 0; i < F::block_size; ++i) out[i] = d * static_cast<float>(block.code(i));
}

/// `scale * code + minimum`.
template <class F>
constexpr void decode_minimum(const F& block, float* out) noexcept {
    const float d = block.scale();
    const float m = block.minimum();
    for (std::size_t i = 0; i < F::block_size; ++i) out[i] = d * static_cast<float>(block.code(i)) + m;
}

/// `(scale * sub_scale) * code`.
template <class F>
constexpr void decode_super(const F& block, float* out) noexcept {
    const float d = block.scale();
    for (std::size_t j = 0; j < F::block_size / F::sub_size; ++j) {
        const float run_scale = d * static_cast<float>(block.sub_scale(j));
        for (std::size_t i = j * F::sub_size; i < (j + 1) * F::sub_size; ++i) {
            out[i] = run_scale * static_cast<float>(block.code(i));
        }
    }
}

/// `(scale * sub_scale) * code - minimum_scale * sub_minimum`.
template <class F>
constexpr void decode_super_minimum(const F& block, float* out) noexcept {
    const float d = block.scale();
    const float dmin = block.minimum_scale();
    for (std::size_t j = 0; j < F::block_size / F::sub_size; ++j) {
        const float run_scale = d * static_cast<float>(block.sub_scale(j));
        const float run_minimum = dmin * static_cast<float>(block.sub_minimum(j));
        for (std::size_t i = j * F::sub_size; i < (j + 1) * F::sub_size; ++i) {
            out[i] = run_scale * static_cast<float>(block.code(i)) - run_minimum;
        }
    }
}

}  // namespace colibri::quant::detail
