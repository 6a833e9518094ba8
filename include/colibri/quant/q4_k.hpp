// Q4_K and Q5_K: 4- and 5-bit codes in super-blocks of 256 with 6-bit scales and minimums.
#pragma once

#include <cstddef>
#include <cstdint>

#include "colibri/core/half.hpp"
#include "colibri/quant/block_format.hpp"
#include "colibri/quant/decode.hpp"

namespace colibri::quant {

/// Eight 6-bit scales and eight 6-bit minimums in 12 bytes, as Q4_K and Q5_K pack them.
/// Runs 0..3: the scale is the low six bits of byte j, the minimum those of byte j+4. Runs 4..7: the low four bits of
/// scale and minimum are the low and high half of byte j+4; their upper two bits are the top two bits of bytes j-4
/// and j.
struct packed_scales {
    std::uint8_t bytes[12];

    [[nodiscard]] constexpr int scale(std::size_t j) const noexcept {
        return j < 4 ? bytes[j] & 63 : (bytes[j + 4] & 15) | (bytes[j - 4] >> 6) << 4;
    }
    [[nodiscard]] constexpr int minimum(std::size_t j) const noexcept {
        return j < 4 ? bytes[j + 4] & 63 : bytes[j + 4] >> 4 | (bytes[j] >> 6) << 4;
    }
};

/// 256 weights in 8 runs of 32: `(d * scale) * code - dmin * minimum`, codes 0..15. 4.5 bits per weight.
/// Each quarter of 64 weights has 32 bytes of `qs`: byte l holds weight l in its low and weight l+32 in its high half.
struct q4_k {
    static constexpr dtype type = dtype::q4_k;
    static constexpr std::size_t block_size = 256;
    static constexpr std::size_t sub_size = 32;

    std::uint16_t d;     ///< f16, multiplies the scales
    std::uint16_t dmin;  ///< f16, multiplies the minimums
    packed_scales scales;
    std::uint8_t qs[128];

    [[nodiscard]] constexpr float scale() const noexcept { return f16_to_f32(d); }
    [[nodiscard]] constexpr float minimum_scale() const noexcept { return f16_to_f32(dmin); }
    [[nodiscard]] constexpr int sub_scale(std::size_t j) const noexcept { return scales.scale(j); }
    [[nodiscard]] constexpr int sub_minimum(std::size_t j) const noexcept { return scales.minimum(j); }
    [[nodiscard]] constexpr int code(std::size_t i) const noexcept {
        return (qs[i / 64 * 32 + i % 32] >> (i % 64 / 32 * 4)) & 15;
    }

    constexpr void decode(float* out) const noexcept { detail::decode_super_minimum(*this, out); }
};

/// As Q4_K with a fifth bit: codes 0..31; the top bit of weight i is bit i/32 of `qh[i % 32]`. 5.5 bits per weight.
struct q5_k {
    static constexpr dtype type = dtype::q5_k;
    static constexpr std::size_t block_size = 256;
    static constexpr std::size_t sub_size = 32;

    std::uint16_t d;     ///< f16, multiplies the scales
    std::uint16_t dmin;  ///< f16, multiplies the minimums
    packed_scales scales;
    std::uint8_t qh[32];
    std::uint8_t qs[128];

    [[nodiscard]] constexpr float scale() const noexcept { return f16_to_f32(d); }
    [[nodiscard]] constexpr float minimum_scale() const noexcept { return f16_to_f32(dmin); }
    [[nodiscard]] constexpr int sub_scale(std::size_t j) const noexcept { return scales.scale(j); }
    [[nodiscard]] constexpr int sub_minimum(std::size_t j) const noexcept { return scales.minimum(j); }
    [[nodiscard]] constexpr int code(std::size_t i) const noexcept {
        const int low = (qs[i / 64 * 32 + i % 32] >> (i % 64 / 32 * 4)) & 15;
        const int high = (qh[i % 32] >> (i / 32)) & 1;
        return low | high << 4;
    }

    constexpr void decode(float* out) const noexcept { detail::decode_super_minimum(*this, out); }
};

static_assert(super_minimum_format<q4_k> && super_minimum_format<q5_k>);

}  // namespace colibri::quant
