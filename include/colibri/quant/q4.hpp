// Q4_0 and Q4_1: 4-bit codes in blocks of 32.
#pragma once

#include <cstddef>
#include <cstdint>

#include "colibri/core/half.hpp"
#include "colibri/quant/block_format.hpp"
#include "colibri/quant/decode.hpp"

namespace colibri::quant {

/// 32 weights: `d * code`, codes -8..7, stored plus 8. 4.5 bits per weight.
/// Byte l of `qs` holds weight l in its low and weight l+16 in its high half.
struct q4_0 {
    static constexpr dtype type = dtype::q4_0;
    static constexpr std::size_t block_size = 32;

    std::uint16_t d;  ///< f16
    std::uint8_t qs[16];

    [[nodiscard]] constexpr float scale() const noexcept { return f16_to_f32(d); }
    [[nodiscard]] constexpr int code(std::size_t i) const noexcept { return ((qs[i % 16] >> (i / 16 * 4)) & 15) - 8; }

    constexpr void decode(float* out) const noexcept { detail::decode_codes(*this, out); }
};

/// 32 weights: `d * code + m`, codes 0..15, packed as in Q4_0. 5 bits per weight.
struct q4_1 {
    static constexpr dtype type = dtype::q4_1;
    static constexpr std::size_t block_size = 32;

    std::uint16_t d;  ///< f16
    std::uint16_t m;  ///< f16
    std::uint8_t qs[16];

    [[nodiscard]] constexpr float scale() const noexcept { return f16_to_f32(d); }
    [[nodiscard]] constexpr float minimum() const noexcept { return f16_to_f32(m); }
    [[nodiscard]] constexpr int code(std::size_t i) const noexcept { return (qs[i % 16] >> (i / 16 * 4)) & 15; }

    constexpr void decode(float* out) const noexcept { detail::decode_minimum(*this, out); }
};

static_assert(code_format<q4_0> && minimum_format<q4_1>);

}  // namespace colibri::quant
