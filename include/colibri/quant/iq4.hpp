// IQ4_NL and IQ4_XS: 4-bit codes that point into a table of unevenly spaced values.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "colibri/core/half.hpp"
#include "colibri/quant/block_format.hpp"
#include "colibri/quant/decode.hpp"

namespace colibri::quant {

/// The sixteen values that IQ4_NL and IQ4_XS codes stand for. Part of the file format.
inline constexpr std::array<std::int8_t, 16> iq4_values = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                           1,    13,   25,  38,  53,  69,  89,  113};

/// 32 weights: `d * iq4_values[code]`, codes packed as in Q4_0. 4.5 bits per weight.
struct iq4_nl {
    static constexpr dtype type = dtype::iq4_nl;
    static constexpr std::size_t block_size = 32;

    std::uint16_t d;  ///< f16
    std::uint8_t qs[16];

    [[nodiscard]] constexpr float scale() const noexcept { return f16_to_f32(d); }
    /// The value that the code stands for, -127..113.
    [[nodiscard]] constexpr int code(std::size_t i) const noexcept {
        return iq4_values[static_cast<std::size_t>((qs[i % 16] >> (i / 16 * 4)) & 15)];
    }

    constexpr void decode(float* out) const noexcept { detail::decode_codes(*this, out); }
};

/// 256 weights in 8 runs of 32: `(d * scale) * iq4_values[code]`, scales -32..31. 4.25 bits per weight. Run j has the
/// 16 bytes of `qs` from 16j, packed as in Q4_0. Its 6-bit scale plus 32: the low four bits are the low (even j) or
/// high half of `scales_l[j/2]`, the upper two are bits 2j and 2j+1 of `scales_h`.
struct iq4_xs {
    static constexpr dtype type = dtype::iq4_xs;
    static constexpr std::size_t block_size = 256;
    static constexpr std::size_t sub_size = 32;

    std::uint16_t d;  ///< f16
    std::uint16_t scales_h;
    std::uint8_t scales_l[4];
    std::uint8_t qs[128];

    [[nodiscard]] constexpr float scale() const noexcept { return f16_to_f32(d); }
    [[nodiscard]] constexpr int sub_scale(std::size_t j) const noexcept {
        const int low = (scales_l[j / 2] >> (j % 2 * 4)) & 15;
        const int high = (scales_h >> (j * 2)) & 3;
        return (low | high << 4) - 32;
    }
    /// The value that the code stands for, -127..113.
    [[nodiscard]] constexpr int code(std::size_t i) const noexcept {
        return iq4_values[static_cast<std::size_t>((qs[i / 32 * 16 + i % 16] >> (i % 32 / 16 * 4)) & 15)];
    }

    constexpr void decode(float* out) const noexcept { detail::decode_super(*this, out); }
};

static_assert(code_format<iq4_nl> && super_format<iq4_xs>);

}  // namespace colibri::quant
