// Q5_0 and Q5_1: 5-bit codes in blocks of 32.
#pragma once

#include <cstddef>
#include <cstdint>

#include "colibri/core/half.hpp"
#include "colibri/quant/block_format.hpp"
#include "colibri/quant/decode.hpp"

namespace colibri::quant {

/// 32 weights: `d * code`, codes -16..15, stored plus 16. 5.5 bits per weight.
/// The low four bits lie in `qs` as in Q4_0; the fifth of weight i is bit i%8 of `qh[i/8]`.
struct q5_0 {
    static constexpr dtype type = dtype::q5_0;
    static constexpr std::size_t block_size = 32;

    std::uint16_t d;  ///< f16
    std::uint8_t qh[4];
    std::uint8_t qs[16];

    [[nodiscard]] constexpr float scale() const noexcept { return f16_to_f32(d); }
    [[nodiscard]] constexpr int code(std::size_t i) const noexcept {
        const int low = (qs[i % 16] >> (i / 16 * 4)) & 15;
        const int high = (qh[i / 8] >> (i % 8)) & 1;
        return (low | high << 4) - 16;
    }

    constexpr void decode(float* out) const noexcept { detail::decode_codes(*this, out); }
};

/// 32 weights: `d * code + m`, codes 0..31, packed as in Q5_0. 6 bits per weight.
struct q5_1 {
    static constexpr dtype type = dtype::q5_1;
    static constexpr std::size_t block_size = 32;

    std::uint16_t d;  ///< f16
    std::uint16_t m;  ///< f16
    std::uint8_t qh[4];
    std::uint8_t qs[16];

    [[nodiscard]] constexpr float scale() const noexcept { return f16_to_f32(d); }
    [[nodiscard]] constexpr float minimum() const noexcept { return f16_to_f32(m); }
    [[nodiscard]] constexpr int code(std::size_t i) const noexcept {
        const int low = (qs[i % 16] >> (i / 16 * 4)) & 15;
        const int high = (qh[i / 8] >> (i % 8)) & 1;
        return low | high << 4;
    }

    constexpr void decode(float* out) const noexcept { detail::decode_minimum(*this, out); }
};

static_assert(code_format<q5_0> && minimum_format<q5_1>);

}  // namespace colibri::quant
