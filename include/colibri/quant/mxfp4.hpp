// MXFP4: 4-bit floats (E2M1) with a power of two for every 32.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "colibri/quant/block_format.hpp"
#include "colibri/quant/decode.hpp"

namespace colibri::quant {

/// Twice the values of the sixteen E2M1 codes; code 8 (minus zero) is plain 0. Part of the file format.
inline constexpr std::array<std::int8_t, 16> mxfp4_values = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/// 32 weights: `2^(e-128) * mxfp4_values[code]`, codes packed as in Q4_0. 4.25 bits per weight.
/// The exponent 255, NaN in the OCP microscaling text, is the ordinary 2^127 here, as in the reference decoder.
struct mxfp4 {
    static constexpr dtype type = dtype::mxfp4;
    static constexpr std::size_t block_size = 32;

    std::uint8_t e;
    std::uint8_t qs[16];

    /// 2^(e-128), exact: subnormal for e below 2.
    [[nodiscard]] constexpr float scale() const noexcept {
        const std::uint32_t bits = e < 2 ? 0x200000u << e : static_cast<std::uint32_t>(e - 1) << 23;
        return std::bit_cast<float>(bits);
    }
    /// Twice the value that the code stands for, -12..12.
    [[nodiscard]] constexpr int code(std::size_t i) const noexcept {
        return mxfp4_values[static_cast<std::size_t>((qs[i % 16] >> (i / 16 * 4)) & 15)];
    }

    constexpr void decode(float* out) const noexcept { detail::decode_codes(*this, out); }
};

static_assert(code_format<mxfp4>);

}  // namespace colibri::quant
