// IQ3_XXS and IQ3_S: magnitudes of four weights from a grid, signs beside it, in super-blocks of 256.
#pragma once

#include <cstddef>
#include <cstdint>

#include "colibri/core/half.hpp"
#include "colibri/quant/block_format.hpp"
#include "colibri/quant/decode.hpp"
#include "colibri/quant/iq_grids.hpp"

namespace colibri::quant {

/// 256 weights in 8 runs of 32: `(d/4 * scale) * code`, scales 1, 3, 5 .. 31, codes +- one of `iq3_xxs_values` with an
/// even number of minus signs in eight. 3.0625 bits per weight. `points[q]` is the number of the point of
/// `iq3_xxs_grid` for weights 4q .. 4q+3. A run has four bytes of `signs_scales`, together 32 bits, the lowest byte
/// first: four times seven signs of eight weights (see `even_signs`) and four bits s of the scale 2s+1.
struct iq3_xxs {
    static constexpr dtype type = dtype::iq3_xxs;
    static constexpr std::size_t block_size = 256;
    static constexpr std::size_t sub_size = 32;

    std::uint16_t d;  ///< f16
    std::uint8_t points[64];
    std::uint8_t signs_scales[32];

    [[nodiscard]] constexpr float scale() const noexcept { return f16_to_f32(d) * 0.25f; }
    [[nodiscard]] constexpr int sub_scale(std::size_t j) const noexcept { return signs_scales[j * 4 + 3] >> 4 << 1 | 1; }
    /// The four bytes of magnitudes of weights 4q .. 4q+3.
    [[nodiscard]] constexpr std::uint32_t point(std::size_t q) const noexcept { return iq3_xxs_grid[points[q]]; }
    /// The eight signs of weights 8g .. 8g+7.
    [[nodiscard]] constexpr std::uint32_t signs(std::size_t g) const noexcept {
        const std::uint8_t* const at = signs_scales + g / 4 * 4;
        const std::uint32_t bits = at[0] | at[1] * 0x100u | at[2] * 0x10000u | at[3] * 0x1000000u;
        return even_signs(bits >> (g % 4 * 7) & 127u);
    }
    [[nodiscard]] constexpr int code(std::size_t i) const noexcept {
        return signed_value(point(i / 4), i % 4, signs(i / 8), i % 8);
    }

    constexpr void decode(float* out) const noexcept { detail::decode_super(*this, out); }
};

/// 256 weights in 8 runs of 32: `(d * scale) * code`, scales 1, 3, 5 .. 31, codes +- one of `iq3_s_values`, any signs.
/// 3.4375 bits per weight. The number of the point of `iq3_s_grid` for weights 4q .. 4q+3 has its low eight bits in
/// `qs[q]` and the ninth in bit q%8 of `qh[q/8]`; bit i%8 of `sign_bits[i/8]` is the sign of weight i. The scale of
/// run j is 2s+1, s the low (even j) or high half of `scales[j/2]`.
struct iq3_s {
    static constexpr dtype type = dtype::iq3_s;
    static constexpr std::size_t block_size = 256;
    static constexpr std::size_t sub_size = 32;

    std::uint16_t d;  ///< f16
    std::uint8_t qs[64];
    std::uint8_t qh[8];
    std::uint8_t sign_bits[32];
    std::uint8_t scales[4];

    [[nodiscard]] constexpr float scale() const noexcept { return f16_to_f32(d); }
    [[nodiscard]] constexpr int sub_scale(std::size_t j) const noexcept {
        return (scales[j / 2] >> (j % 2 * 4) & 15) << 1 | 1;
    }
    /// The four bytes of magnitudes of weights 4q .. 4q+3.
    [[nodiscard]] constexpr std::uint32_t point(std::size_t q) const noexcept {
        return iq3_s_grid[static_cast<std::size_t>(qs[q] | (qh[q / 8] >> (q % 8) & 1) << 8)];
    }
    /// The eight signs of weights 8g .. 8g+7.
    [[nodiscard]] constexpr std::uint32_t signs(std::size_t g) const noexcept { return sign_bits[g]; }
    [[nodiscard]] constexpr int code(std::size_t i) const noexcept {
        return signed_value(point(i / 4), i % 4, signs(i / 8), i % 8);
    }

    constexpr void decode(float* out) const noexcept { detail::decode_super(*this, out); }
};

static_assert(super_format<iq3_xxs> && super_format<iq3_s>);

}  // namespace colibri::quant
