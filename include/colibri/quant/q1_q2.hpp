// Q1_0 and Q2_0: one and two bits, in the order of the weights.
#pragma once

#include <cstddef>
#include <cstdint>

#include "colibri/core/half.hpp"
#include "colibri/quant/block_format.hpp"
#include "colibri/quant/decode.hpp"

namespace colibri::quant {

/// 128 weights: `d * code`, codes -1 and 1: bit i%8 of `qs[i/8]` clear and set. 1.125 bits per weight.
struct q1_0 {
    static constexpr dtype type = dtype::q1_0;
    static constexpr std::size_t block_size = 128;

    std::uint16_t d;  ///< f16
    std::uint8_t qs[16];

    [[nodiscard]] constexpr float scale() const noexcept { return f16_to_f32(d); }
    [[nodiscard]] constexpr int code(std::size_t i) const noexcept { return ((qs[i / 8] >> (i % 8)) & 1) * 2 - 1; }

    constexpr void decode(float* out) const noexcept { detail::decode_codes(*this, out); }
};

/// 64 weights: `d * code`, codes -1..2, stored plus 1 in bit pair i%4 of `qs[i/4]`. 2.25 bits per weight.
struct q2_0 {
    static constexpr dtype type = dtype::q2_0;
    static constexpr std::size_t block_size = 64;

    std::uint16_t d;  ///< f16
    std::uint8_t qs[16];

    [[nodiscard]] constexpr float scale() const noexcept { return f16_to_f32(d); }
    [[nodiscard]] constexpr int code(std::size_t i) const noexcept { return ((qs[i / 4] >> (i % 4 * 2)) & 3) - 1; }

    constexpr void decode(float* out) const noexcept { detail::decode_codes(*this, out); }
};

static_assert(code_format<q1_0> && code_format<q2_0>);

}  // namespace colibri::quant
