// Q6_K: 6-bit codes in super-blocks of 256.
#pragma once

#include <cstddef>
#include <cstdint>

#include "colibri/core/half.hpp"
#include "colibri/quant/block_format.hpp"
#include "colibri/quant/decode.hpp"

namespace colibri::quant {

/// 256 weights in 16 runs of 16: `(d * scale) * code`, codes -32..31, signed 8-bit scales. 6.5625 bits per weight.
/// Each half of 128 weights has 64 bytes of `ql` and 32 of `qh`. Low four bits: weights 0..63 of the half are the
/// low, 64..127 the high halves of the `ql` bytes. Upper two: byte l of `qh` holds those of weights l, l+32, l+64,
/// l+96, lowest pair first.
struct q6_k {
    static constexpr dtype type = dtype::q6_k;
    static constexpr std::size_t block_size = 256;
    static constexpr std::size_t sub_size = 16;

    std::uint8_t ql[128];
    std::uint8_t qh[64];
    std::int8_t scales[16];
    std::uint16_t d;  ///< f16

    [[nodiscard]] constexpr float scale() const noexcept { return f16_to_f32(d); }
    [[nodiscard]] constexpr int sub_scale(std::size_t j) const noexcept { return scales[j]; }
    [[nodiscard]] constexpr int code(std::size_t i) const noexcept {
        const int low = (ql[i / 128 * 64 + i % 64] >> (i % 128 / 64 * 4)) & 15;
        const int high = (qh[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2)) & 3;
        return (low | high << 4) - 32;
    }

    constexpr void decode(float* out) const noexcept { detail::decode_super(*this, out); }
};

static_assert(super_format<q6_k>);

}  // namespace colibri::quant
