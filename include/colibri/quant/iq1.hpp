// IQ1_S and IQ1_M: -1, 0 or 1 for each of eight weights from a grid, all moved by an eighth, in super-blocks of 256.
#pragma once

#include <cstddef>
#include <cstdint>

#include "colibri/core/half.hpp"
#include "colibri/quant/block_format.hpp"
#include "colibri/quant/decode.hpp"
#include "colibri/quant/iq_grids.hpp"

namespace colibri::quant {

/// 256 weights in 8 runs of 32: `(d/8 * scale) * code`, scales 1, 3, 5 .. 15, codes 8t+1 in some runs and 8t-1 in the
/// others, t = -1, 0, 1 from a point of `iq1_grid`. 1.5625 bits per weight. The number of the point of weights 8g and
/// on has its low eight bits in `qs[g]` and the upper three in bits 3*(g%4) and up of `qh[g/4]`; bits 12 to 14 of
/// `qh[j]` are s of run j's scale 2s+1; its top bit, when set, makes the codes 8t-1.
struct iq1_s {
    static constexpr dtype type = dtype::iq1_s;
    static constexpr std::size_t block_size = 256;
    static constexpr std::size_t sub_size = 32;

    std::uint16_t d;  ///< f16
    std::uint8_t qs[32];
    std::uint16_t qh[8];

    [[nodiscard]] constexpr float scale() const noexcept { return f16_to_f32(d) * 0.125f; }
    [[nodiscard]] constexpr int sub_scale(std::size_t j) const noexcept { return (qh[j] >> 12 & 7) << 1 | 1; }
    /// The eight signed bytes t of weights 8g .. 8g+7.
    [[nodiscard]] constexpr std::uint64_t point(std::size_t g) const noexcept {
        return iq1_grid[static_cast<std::size_t>(qs[g] | (qh[g / 4] >> (g % 4 * 3) & 7) << 8)];
    }
    /// What is added to 8t in weights 8g .. 8g+7: 1 or -1.
    [[nodiscard]] constexpr int shift(std::size_t g) const noexcept { return (qh[g / 4] & 0x8000) != 0 ? -1 : 1; }
    [[nodiscard]] constexpr int code(std::size_t i) const noexcept {
        return grid_value(point(i / 8), i % 8) * 8 + shift(i / 8);
    }

    constexpr void decode(float* out) const noexcept { detail::decode_super(*this, out); }
};

/// 256 weights in 16 runs of 16: `(d/8 * scale) * code`, scales and codes as in IQ1_S, but eight weights share the
/// shift. 1.75 bits per weight. The half of `qh[g/2]` for weights 8g and on (low for even g) has the upper three bits
/// of the point's number and then, when set, the minus of the shift. Bits 3*(j%4) and up of `scales[j/4]` are s of
/// run j's scale 2s+1. The four top bits of `scales[0]` to `scales[3]`, the lowest first, are the half float d.
struct iq1_m {
    static constexpr dtype type = dtype::iq1_m;
    static constexpr std::size_t block_size = 256;
    static constexpr std::size_t sub_size = 16;

    std::uint8_t qs[32];
    std::uint8_t qh[16];
    std::uint16_t scales[4];

    /// Bits of d.
    [[nodiscard]] constexpr std::uint16_t half_scale() const noexcept {
        const int d = scales[0] >> 12 | (scales[1] >> 12) << 4 | (scales[2] >> 12) << 8 | (scales[3] >> 12) << 12;
        return static_cast<std::uint16_t>(d);
    }
    [[nodiscard]] constexpr float scale() const noexcept { return f16_to_f32(half_scale()) * 0.125f; }
    [[nodiscard]] constexpr int sub_scale(std::size_t j) const noexcept {
        return (scales[j / 4] >> (j % 4 * 3) & 7) << 1 | 1;
    }
    /// The eight signed bytes t of weights 8g .. 8g+7.
    [[nodiscard]] constexpr std::uint64_t point(std::size_t g) const noexcept {
        return iq1_grid[static_cast<std::size_t>(qs[g] | (qh[g / 2] >> (g % 2 * 4) & 7) << 8)];
    }
    /// What is added to 8t in weights 8g .. 8g+7: 1 or -1.
    [[nodiscard]] constexpr int shift(std::size_t g) const noexcept {
        return (qh[g / 2] >> (g % 2 * 4) & 8) != 0 ? -1 : 1;
    }
    [[nodiscard]] constexpr int code(std::size_t i) const noexcept {
        return grid_value(point(i / 8), i % 8) * 8 + shift(i / 8);
    }

    constexpr void decode(float* out) const noexcept { detail::decode_super(*this, out); }
};

static_assert(super_format<iq1_s> && super_format<iq1_m>);

}  // namespace colibri::quant
