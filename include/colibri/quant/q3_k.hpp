// Q3_K: 3-bit codes in super-blocks of 256.
#pragma once

#include <cstddef>
#include <cstdint>

#include "colibri/core/half.hpp"
#include "colibri/quant/block_format.hpp"
#include "colibri/quant/decode.hpp"

namespace colibri::quant {

/// 256 weights in 16 runs of 16: `(d * scale) * code`, codes -4..3, scales -32..31. 3.4375 bits per weight. The low
/// two bits of the codes lie in `qs` as in Q2_K; the third is bit i/32 of `hmask[i % 32]` and, when clear, takes 4
/// off. 6-bit scales plus 32: the low four bits of run j are the low (j < 8) or high half of `scales[j % 8]`; the
/// upper two are bits 2*(j/4) and up of `scales[8 + j % 4]`.
struct q3_k {
    static constexpr dtype type = dtype::q3_k;
    static constexpr std::size_t block_size = 256;
    static constexpr std::size_t sub_size = 16;

    std::uint8_t hmask[32];
    std::uint8_t qs[64];
    std::uint8_t scales[12];
    std::uint16_t d;  ///< f16

    [[nodiscard]] constexpr float scale() const noexcept { return f16_to_f32(d); }
    [[nodiscard]] constexpr int sub_scale(std::size_t j) const noexcept {
        const int low = (scales[j % 8] >> (j / 8 * 4)) & 15;
        const int high = (scales[8 + j % 4] >> (j / 4 * 2)) & 3;
        return (low | high << 4) - 32;
    }
    [[nodiscard]] constexpr int code(std::size_t i) const noexcept {
        const int low = (qs[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2)) & 3;
        const int high = (hmask[i % 32] >> (i / 32)) & 1;
        return (low | high << 2) - 4;
    }

    constexpr void decode(float* out) const noexcept { detail::decode_super(*this, out); }
};

static_assert(super_format<q3_k>);

}  // namespace colibri::quant
