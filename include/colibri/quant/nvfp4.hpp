// NVFP4: 4-bit floats (E2M1) with an 8-bit float (E4M3 without sign) for every 16.
#pragma once

#include <cstddef>
#include <cstdint>

#include "colibri/quant/block_format.hpp"
#include "colibri/quant/decode.hpp"
#include "colibri/quant/mxfp4.hpp"

namespace colibri::quant {

/// 64 weights in 4 runs of 16: `(2^-10 * scale) * mxfp4_values[code]`. 4.5 bits per weight. Run j has the 8 bytes of
/// `qs` from 8j: byte l holds weight l of the run in its low and weight l+8 in its high half. The scale is the float
/// `d[j]` in units of 2^-9, an integer, as the codes are twice their values: exponent e in bits 3 to 6, mantissa m
/// below: m for e = 0, else (8+m) * 2^(e-1). The top bit means nothing; 0x7f, NaN in E4M3, is 0, as in the
/// reference decoder.
struct nvfp4 {
    static constexpr dtype type = dtype::nvfp4;
    static constexpr std::size_t block_size = 64;
    static constexpr std::size_t sub_size = 16;

    std::uint8_t d[4];
    std::uint8_t qs[32];

    [[nodiscard]] constexpr float scale() const noexcept { return 0x1p-10f; }
    [[nodiscard]] constexpr int sub_scale(std::size_t j) const noexcept {
        const int exponent = d[j] >> 3 & 15;
        const int mantissa = d[j] & 7;
        if (d[j] == 0x7f) return 0;
        return exponent == 0 ? mantissa : (8 + mantissa) << (exponent - 1);
    }
    /// Twice the value that the code stands for, -12..12.
    [[nodiscard]] constexpr int code(std::size_t i) const noexcept {
        return mxfp4_values[static_cast<std::size_t>((qs[i / 16 * 8 + i % 8] >> (i % 16 / 8 * 4)) & 15)];
    }

    constexpr void decode(float* out) const noexcept { detail::decode_super(*this, out); }
};

static_assert(super_format<nvfp4>);

}  // namespace colibri::quant
