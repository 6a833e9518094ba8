// Q8_0 and Q8_K: 8-bit codes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "colibri/core/half.hpp"
#include "colibri/quant/block_format.hpp"
#include "colibri/quant/decode.hpp"

namespace colibri::quant {

/// 32 weights: `d * code`, codes -128..127 (an encoder writes -127..127). 8.5 bits per weight.
struct q8_0 {
    static constexpr dtype type = dtype::q8_0;
    static constexpr std::size_t block_size = 32;

    std::uint16_t d;  ///< f16
    std::int8_t qs[32];

    [[nodiscard]] constexpr float scale() const noexcept { return f16_to_f32(d); }
    [[nodiscard]] constexpr int code(std::size_t i) const noexcept { return qs[i]; }

    constexpr void decode(float* out) const noexcept { detail::decode_codes(*this, out); }
};

/// 256 values: `d * code`, and the sum of the codes of each run of 16. An intermediate format: files don't hold it as
/// weights.
struct q8_k {
    static constexpr dtype type = dtype::q8_k;
    static constexpr std::size_t block_size = 256;

    float d;
    std::int8_t qs[256];
    std::int16_t bsums[16];

    [[nodiscard]] constexpr float scale() const noexcept { return d; }
    [[nodiscard]] constexpr int code(std::size_t i) const noexcept { return qs[i]; }

    constexpr void decode(float* out) const noexcept { detail::decode_codes(*this, out); }
};

static_assert(code_format<q8_0> && code_format<q8_k>);

}  // namespace colibri::quant
