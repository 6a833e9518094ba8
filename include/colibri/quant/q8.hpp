// Q8_0 and Q8_K: 8-bit codes.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "colibri/core/half.hpp"
#include "colibri/quant/activation.hpp"
#include "colibri/quant/block_format.hpp"
#include "colibri/quant/decode.hpp"
#include "colibri/quant/encode.hpp"

namespace colibri::quant {

/// 32 weights: `d * code`, codes -128..127 (an encoder writes -127..127). 8.5 bits per weight.
struct q8_0 {
    static constexpr dtype type = dtype::q8_0;
    static constexpr std::size_t block_size = 32;

    std::uint16_t d;  ///< f16
    std::int8_t qs[32];

    [[nodiscard]] constexpr float scale() const noexcept { return f16_to_f32(d); }
    [[nodiscard]] constexpr int code(std::size_t i) const noexcept { return qs[i]; }

    constexpr void decode(float* out) const noexcept { detail::decode_codes(*this, out); }

    /// The scale maps the largest magnitude to 127; codes are rounded to the nearest, ties away from zero. A block
    /// with an infinity or a NaN decodes to NaN.
    [[nodiscard]] static constexpr q8_0 encode(const float* in) noexcept {
        const std::uint32_t top = detail::largest_magnitude_bits<block_size>(in);
        if (top >= detail::infinity_bits) return {detail::f16_nan, {}};
        const float d = std::bit_cast<float>(top) / 127.0f;
        float scaled[block_size] = {};
        detail::scale_values(in, 0.0f, detail::reciprocal(d), scaled);
        q8_0 out{f32_to_f16(d), {}};
        int codes[block_size] = {};  // a loop of its own, which becomes vectors
        for (std::size_t i = 0; i < block_size; ++i) codes[i] = detail::nearest_away(scaled[i]);
        for (std::size_t i = 0; i < block_size; ++i) out.qs[i] = static_cast<std::int8_t>(codes[i]);
        return out;
    }
};

/// 256 values: `d * code`, and the sum of the codes of each run of 16. An intermediate format: files don't hold it as
/// weights.
struct q8_k {
    static constexpr dtype type = dtype::q8_k;
    static constexpr std::size_t block_size = 256;

    float d;
    std::int8_t qs[256];
    std::int16_t bsums[16];

    [[nodiscard]] constexpr float scale() const noexcept { return d; }
    [[nodiscard]] constexpr int code(std::size_t i) const noexcept { return qs[i]; }

    constexpr void decode(float* out) const noexcept { detail::decode_codes(*this, out); }

    /// As activations are quantised (see `quantise_group`): ties to even, NaN where a value isn't finite.
    [[nodiscard]] static constexpr q8_k encode(const float* in) noexcept {
        q8_k out{};
        quantise_values<block_size>(in, block_size, out.qs, &out.d, out.bsums);
        return out;
    }
};

static_assert(code_format<q8_0> && code_format<q8_k> && encodable_format<q8_0> && encodable_format<q8_k>);

}  // namespace colibri::quant
