// MXFP4: 4-bit floats (E2M1) with a power of two for every 32.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "colibri/quant/block_format.hpp"
#include "colibri/quant/decode.hpp"
#include "colibri/quant/encode.hpp"

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

    /// The exponent is two below that of the largest magnitude, so that it becomes 4 to 8 times the scale (6 at most
    /// is representable); each code is the nearest value, the smaller code on a tie. The format has no NaN: a block
    /// with an infinity or a NaN decodes to infinities.
    [[nodiscard]] static constexpr mxfp4 encode(const float* in) noexcept {
        const std::uint32_t top = detail::largest_magnitude_bits<block_size>(in);
        mxfp4 out{};
        if (top >= detail::infinity_bits) {
            out.e = 255;
            for (auto& byte : out.qs) byte = 0x77;
            return out;
        }
        const std::uint32_t exponent = top >> 23;
        out.e = static_cast<std::uint8_t>(exponent > 2 ? exponent - 2 : 0);
        float values[16] = {};
        for (std::size_t code = 0; code < 16; ++code) {
            values[code] = out.scale() * static_cast<float>(mxfp4_values[code]);
        }
        // Code by code over all weights, so that the loops become vectors.
        std::int32_t least[block_size] = {};
        std::int32_t best[block_size] = {};
        for (std::size_t i = 0; i < block_size; ++i) least[i] = distance(values[0], in[i]);
        for (std::size_t code = 1; code < 16; ++code) {
            for (std::size_t i = 0; i < block_size; ++i) {
                const std::int32_t here = distance(values[code], in[i]);
                best[i] = here < least[i] ? static_cast<std::int32_t>(code) : best[i];
                least[i] = here < least[i] ? here : least[i];
            }
        }
        for (std::size_t i = 0; i < 16; ++i) out.qs[i] = static_cast<std::uint8_t>(best[i] | best[i + 16] << 4);
        return out;
    }

private:
    /// As a bit pattern, which has the same order and compares faster.
    [[nodiscard]] static constexpr std::int32_t distance(float a, float b) noexcept { return std::bit_cast<std::int32_t>(a - b) & 0x7fffffff; }
};

static_assert(code_format<mxfp4> && encodable_format<mxfp4>);

}  // namespace colibri::quant
