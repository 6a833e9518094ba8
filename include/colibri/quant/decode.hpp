// The order of operations that gives codes their values, shared by the formats of one shape.
#pragma once

#include <cstddef>

#include "colibri/quant/rounding.hpp"

namespace colibri::quant::detail {

/// `scale * code`: one rounding.
template <class F>
constexpr void decode_codes(const F& block, float* out) noexcept {
    const float d = block.scale();
    for (std::size_t i = 0; i < F::block_size; ++i) out[i] = d * static_cast<float>(block.code(i));
}

/// `scale * code + minimum`: the product is rounded, then the sum.
template <class F>
constexpr void decode_minimum(const F& block, float* out) noexcept {
    const float d = block.scale();
    float products[F::block_size] = {};
    for (std::size_t i = 0; i < F::block_size; ++i) products[i] = d * static_cast<float>(block.code(i));
    add_rounded(products, block.minimum(), out);
}

/// `(scale * sub_scale) * code`: both products are rounded.
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

/// `(scale * sub_scale) * code - minimum_scale * sub_minimum`: every product is rounded, then the difference.
template <class F>
constexpr void decode_super_minimum(const F& block, float* out) noexcept {
    const float d = block.scale();
    const float dmin = block.minimum_scale();
    for (std::size_t j = 0; j < F::block_size / F::sub_size; ++j) {
        const float run_scale = d * static_cast<float>(block.sub_scale(j));
        const float run_minimum = settled(dmin * static_cast<float>(block.sub_minimum(j)));
        float products[F::sub_size] = {};
        for (std::size_t i = 0; i < F::sub_size; ++i) {
            products[i] = run_scale * static_cast<float>(block.code(j * F::sub_size + i));
        }
        add_rounded(products, -run_minimum, out + j * F::sub_size);
    }
}

}  // namespace colibri::quant::detail
