// IQ2_XXS, IQ2_XS, IQ2_S: magnitudes of eight weights from a grid, signs beside it, in super-blocks of 256.
#pragma once

#include <cstddef>
#include <cstdint>

#include "colibri/core/half.hpp"
#include "colibri/quant/block_format.hpp"
#include "colibri/quant/decode.hpp"
#include "colibri/quant/iq_grids.hpp"

namespace colibri::quant {

/// 256 weights in 8 runs of 32: `(d/8 * scale) * code`, scales 1, 3, 5 .. 31, codes +-8, +-25, +-43 with an even number
/// of minus signs in eight. 2.0625 bits per weight. A run has 8 bytes of `qs`: the numbers of four points of
/// `iq2_xxs_grid`, then 32 bits, the lowest byte first: four times seven signs (see `even_signs`) and four bits s of
/// the scale 2s+1.
struct iq2_xxs {
    static constexpr dtype type = dtype::iq2_xxs;
    static constexpr std::size_t block_size = 256;
    static constexpr std::size_t sub_size = 32;

    std::uint16_t d;  ///< f16
    std::uint8_t qs[64];

    [[nodiscard]] constexpr float scale() const noexcept { return f16_to_f32(d) * 0.125f; }
    [[nodiscard]] constexpr int sub_scale(std::size_t j) const noexcept { return qs[j * 8 + 7] >> 4 << 1 | 1; }
    /// The eight bytes of magnitudes and the eight signs of weights 8g .. 8g+7.
    [[nodiscard]] constexpr std::uint64_t point(std::size_t g) const noexcept {
        return iq2_xxs_grid[qs[g / 4 * 8 + g % 4]];
    }
    [[nodiscard]] constexpr std::uint32_t signs(std::size_t g) const noexcept {
        const std::uint8_t* const at = qs + g / 4 * 8 + 4;
        const std::uint32_t bits = at[0] | at[1] * 0x100u | at[2] * 0x10000u | at[3] * 0x1000000u;
        return even_signs(bits >> (g % 4 * 7) & 127u);
    }
    [[nodiscard]] constexpr int code(std::size_t i) const noexcept {
        return signed_value(point(i / 8), i % 8, signs(i / 8), i % 8);
    }

    constexpr void decode(float* out) const noexcept { detail::decode_super(*this, out); }
};

/// 256 weights in 16 runs of 16: `(d/8 * scale) * code`, scales and codes as in IQ2_XXS. 2.3125 bits per weight.
/// `qs[g]` has, for weights 8g and on, the number of a point of `iq2_xs_grid` in the low nine bits and seven signs in
/// the upper ones. The scale of run j is 2s+1, s the low (even j) or high half of `scales[j/2]`.
struct iq2_xs {
    static constexpr dtype type = dtype::iq2_xs;
    static constexpr std::size_t block_size = 256;
    static constexpr std::size_t sub_size = 16;

    std::uint16_t d;  ///< f16
    std::uint16_t qs[32];
    std::uint8_t scales[8];

    [[nodiscard]] constexpr float scale() const noexcept { return f16_to_f32(d) * 0.125f; }
    [[nodiscard]] constexpr int sub_scale(std::size_t j) const noexcept {
        return (scales[j / 2] >> (j % 2 * 4) & 15) << 1 | 1;
    }
    /// The eight bytes of magnitudes and the eight signs of weights 8g .. 8g+7.
    [[nodiscard]] constexpr std::uint64_t point(std::size_t g) const noexcept { return iq2_xs_grid[qs[g] & 511u]; }
    [[nodiscard]] constexpr std::uint32_t signs(std::size_t g) const noexcept { return even_signs(qs[g] >> 9); }
    [[nodiscard]] constexpr int code(std::size_t i) const noexcept {
        return signed_value(point(i / 8), i % 8, signs(i / 8), i % 8);
    }

    constexpr void decode(float* out) const noexcept { detail::decode_super(*this, out); }
};

/// 256 weights in 16 runs of 16: `(d/8 * scale) * code`, scales as in IQ2_XS, any signs. 2.5625 bits per weight.
/// For weights 8g and on: the number of a point of `iq2_s_grid` has its low eight bits in `qs[g]` and the upper two in
/// bits 2*(g%4) and up of `qh[g/4]`; bit k of `sign_bits[g]` is the sign of weight 8g+k.
struct iq2_s {
    static constexpr dtype type = dtype::iq2_s;
    static constexpr std::size_t block_size = 256;
    static constexpr std::size_t sub_size = 16;

    std::uint16_t d;  ///< f16
    std::uint8_t qs[32];
    std::uint8_t sign_bits[32];
    std::uint8_t qh[8];
    std::uint8_t scales[8];

    [[nodiscard]] constexpr float scale() const noexcept { return f16_to_f32(d) * 0.125f; }
    [[nodiscard]] constexpr int sub_scale(std::size_t j) const noexcept {
        return (scales[j / 2] >> (j % 2 * 4) & 15) << 1 | 1;
    }
    /// The eight bytes of magnitudes and the eight signs of weights 8g .. 8g+7.
    [[nodiscard]] constexpr std::uint64_t point(std::size_t g) const noexcept {
        return iq2_s_grid[static_cast<std::size_t>(qs[g] | (qh[g / 4] >> (g % 4 * 2) & 3) << 8)];
    }
    [[nodiscard]] constexpr std::uint32_t signs(std::size_t g) const noexcept { return sign_bits[g]; }
    [[nodiscard]] constexpr int code(std::size_t i) const noexcept {
        return signed_value(point(i / 8), i % 8, signs(i / 8), i % 8);
    }

    constexpr void decode(float* out) const noexcept { detail::decode_super(*this, out); }
};

static_assert(super_format<iq2_xxs> && super_format<iq2_xs> && super_format<iq2_s>);

}  // namespace colibri::quant
