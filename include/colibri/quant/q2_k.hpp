// Q2_K: 2-bit codes in super-blocks of 256.
#pragma once

#include <cstddef>
#include <cstdint>

#include "colibri/core/half.hpp"
#include "colibri/quant/block_format.hpp"
#include "colibri/quant/decode.hpp"

namespace colibri::quant {

/// 256 weights in 16 runs of 16: `(d * scale) * code - dmin * minimum`, codes 0..3. 2.625 bits per weight.
/// `scales[j]` holds run j's 4-bit scale in its low and the 4-bit minimum in its high half. Each half of 128 weights
/// has 32 bytes of `qs`: byte l holds weights l, l+32, l+64, l+96 of the half, from the lowest bit pair up.
struct q2_k {
    static constexpr dtype type = dtype::q2_k;
    static constexpr std::size_t block_size = 256;
    static constexpr std::size_t sub_size = 16;

    std::uint8_t scales[16];
    std::uint8_t qs[64];
    std::uint16_t d;     ///< f16, multiplies the scales
    std::uint16_t dmin;  ///< f16, multiplies the minimums

    [[nodiscard]] constexpr float scale() const noexcept { return f16_to_f32(d); }
    [[nodiscard]] constexpr float minimum_scale() const noexcept { return f16_to_f32(dmin); }
    [[nodiscard]] constexpr int sub_scale(std::size_t j) const noexcept { return scales[j] & 15; }
    [[nodiscard]] constexpr int sub_minimum(std::size_t j) const noexcept { return scales[j] >> 4; }
    [[nodiscard]] constexpr int code(std::size_t i) const noexcept {
        return (qs[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2)) & 3;
    }

    constexpr void decode(float* out) const noexcept { detail::decode_super_minimum(*this, out); }
};

static_assert(super_minimum_format<q2_k>);

}  // namespace colibri::quant
