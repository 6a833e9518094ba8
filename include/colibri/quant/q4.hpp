// Q4_0 and Q4_1: 4-bit codes in blocks of 32.
#pragma once

#include <cstddef>
#include <cstdint>

#include "colibri/core/half.hpp"
#include "colibri/quant/block_format.hpp"
#include "colibri/quant/decode.hpp"
#include "colibri/quant/encode.hpp"

namespace colibri::quant {

/// 32 weights: `d * code`, codes -8..7, stored plus 8. 4.5 bits per weight.
/// Byte l of `qs` holds weight l in its low and weight l+16 in its high half.
struct q4_0 {
    static constexpr dtype type = dtype::q4_0;
    static constexpr std::size_t block_size = 32;

    std::uint16_t d;  ///< f16
    std::uint8_t qs[16];

    [[nodiscard]] constexpr float scale() const noexcept { return f16_to_f32(d); }
    [[nodiscard]] constexpr int code(std::size_t i) const noexcept { return ((qs[i % 16] >> (i / 16 * 4)) & 15) - 8; }

    constexpr void decode(float* out) const noexcept { detail::decode_codes(*this, out); }

    /// The scale maps the value of largest magnitude to -8. A block with an infinity or a NaN decodes to NaN.
    [[nodiscard]] static constexpr q4_0 encode(const float* in) noexcept {
        if (!detail::all_finite<block_size>(in)) return {detail::f16_nan, {}};
        const float d = detail::extreme<block_size>(in) / -8.0f;
        float scaled[block_size] = {};
        detail::scale_values(in, 0.0f, detail::reciprocal(d), scaled);
        q4_0 out{f32_to_f16(d), {}};
        for (std::size_t i = 0; i < 16; ++i) {
            const int low = detail::to_code(scaled[i] + 8.5f, 15);
            const int high = detail::to_code(scaled[i + 16] + 8.5f, 15);
            out.qs[i] = static_cast<std::uint8_t>(low | high << 4);
        }
        return out;
    }
};

/// 32 weights: `d * code + m`, codes 0..15, packed as in Q4_0. 5 bits per weight.
struct q4_1 {
    static constexpr dtype type = dtype::q4_1;
    static constexpr std::size_t block_size = 32;

    std::uint16_t d;  ///< f16
    std::uint16_t m;  ///< f16
    std::uint8_t qs[16];

    [[nodiscard]] constexpr float scale() const noexcept { return f16_to_f32(d); }
    [[nodiscard]] constexpr float minimum() const noexcept { return f16_to_f32(m); }
    [[nodiscard]] constexpr int code(std::size_t i) const noexcept { return (qs[i % 16] >> (i / 16 * 4)) & 15; }

    constexpr void decode(float* out) const noexcept { detail::decode_minimum(*this, out); }

    /// Code 0 is the least value, code 15 the greatest. A block with an infinity or a NaN decodes to NaN.
    [[nodiscard]] static constexpr q4_1 encode(const float* in) noexcept {
        if (!detail::all_finite<block_size>(in)) return {detail::f16_nan, detail::f16_nan, {}};
        const auto [least, greatest] = detail::extent<block_size>(in);
        const float d = (greatest - least) / 15.0f;
        float scaled[block_size] = {};
        detail::scale_values(in, least, detail::reciprocal(d), scaled);
        q4_1 out{f32_to_f16(d), f32_to_f16(least), {}};
        for (std::size_t i = 0; i < 16; ++i) {
            const int low = detail::to_code(scaled[i] + 0.5f, 15);
            const int high = detail::to_code(scaled[i + 16] + 0.5f, 15);
            out.qs[i] = static_cast<std::uint8_t>(low | high << 4);
        }
        return out;
    }
};

static_assert(code_format<q4_0> && minimum_format<q4_1> && encodable_format<q4_0> && encodable_format<q4_1>);

}  // namespace colibri::quant
