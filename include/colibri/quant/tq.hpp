// TQ1_0 and TQ2_0: -1, 0 or 1 and one scale for 256 weights.
#pragma once

#include <cstddef>
#include <cstdint>

#include "colibri/core/half.hpp"
#include "colibri/quant/block_format.hpp"
#include "colibri/quant/decode.hpp"

namespace colibri::quant {

/// 256 weights: `d * code`, codes -1..1. 1.6875 bits per weight. A byte holds up to five codes plus 1 as the digits of a
/// fraction in base 3, times 256 and rounded up: digit n is the whole part of 3/256 times (byte * 3^n mod 256).
/// Bytes 0..31 of `qs` hold weights m, m+32 .. m+128, bytes 32..47 weights 160+m, 176+m .. 224+m (m counts the bytes of
/// each part), `qh` weights 240+m, 244+m, 248+m, 252+m.
struct tq1_0 {
    static constexpr dtype type = dtype::tq1_0;
    static constexpr std::size_t block_size = 256;

    std::uint8_t qs[48];
    std::uint8_t qh[4];
    std::uint16_t d;  ///< f16

    [[nodiscard]] constexpr float scale() const noexcept { return f16_to_f32(d); }
    [[nodiscard]] constexpr int code(std::size_t i) const noexcept {
        if (i < 160) return digit(qs[i % 32], i / 32);
        if (i < 240) return digit(qs[32 + i % 16], (i - 160) / 16);
        return digit(qh[i % 4], (i - 240) / 4);
    }

    constexpr void decode(float* out) const noexcept { detail::decode_codes(*this, out); }

private:
    [[nodiscard]] static constexpr int digit(std::uint8_t byte, std::size_t n) noexcept {
        constexpr int powers[] = {1, 3, 9, 27, 81};
        return ((byte * powers[n] & 255) * 3 >> 8) - 1;
    }
};

/// 256 weights: `d * code`, codes -1..2, stored plus 1, packed as in Q2_K. 2.0625 bits per weight.
struct tq2_0 {
    static constexpr dtype type = dtype::tq2_0;
    static constexpr std::size_t block_size = 256;

    std::uint8_t qs[64];
    std::uint16_t d;  ///< f16

    [[nodiscard]] constexpr float scale() const noexcept { return f16_to_f32(d); }
    [[nodiscard]] constexpr int code(std::size_t i) const noexcept {
        return ((qs[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2)) & 3) - 1;
    }

    constexpr void decode(float* out) const noexcept { detail::decode_codes(*this, out); }
};

static_assert(code_format<tq1_0> && code_format<tq2_0>);

}  // namespace colibri::quant
