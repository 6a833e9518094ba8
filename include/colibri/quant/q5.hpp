// Q5_0 and Q5_1: 5-bit codes in blocks of 32.
#pragma once

#include <cstddef>
#include <cstdint>

#include "colibri/core/half.hpp"
#include "colibri/quant/block_format.hpp"
#include "colibri/quant/decode.hpp"
#include "colibri/quant/encode.hpp"

namespace colibri::quant {

/// 32 weights: `d * code`, codes -16..15, stored plus 16. 5.5 bits per weight.
/// The low four bits lie in `qs` as in Q4_0; the fifth of weight i is bit i%8 of `qh[i/8]`.
struct q5_0 {
    static constexpr dtype type = dtype::q5_0;
    static constexpr std::size_t block_size = 32;

    std::uint16_t d;  ///< f16
    std::uint8_t qh[4];
    std::uint8_t qs[16];

    [[nodiscard]] constexpr float scale() const noexcept { return f16_to_f32(d); }
    [[nodiscard]] constexpr int code(std::size_t i) const noexcept {
        const int low = (qs[i % 16] >> (i / 16 * 4)) & 15;
        const int high = (qh[i / 8] >> (i % 8)) & 1;
        return (low | high << 4) - 16;
    }

    constexpr void decode(float* out) const noexcept { detail::decode_codes(*this, out); }

    /// The scale maps the value of largest magnitude to -16. A block with an infinity or a NaN decodes to NaN.
    [[nodiscard]] static constexpr q5_0 encode(const float* in) noexcept {
        if (!detail::all_finite<block_size>(in)) return {detail::f16_nan, {}, {}};
        const float d = detail::extreme<block_size>(in) / -16.0f;
        float scaled[block_size] = {};
        detail::scale_values(in, 0.0f, detail::reciprocal(d), scaled);
        q5_0 out{f32_to_f16(d), {}, {}};
        for (std::size_t i = 0; i < block_size; ++i) {
            const int code = detail::to_code(scaled[i] + 16.5f, 31);
            out.qs[i % 16] = static_cast<std::uint8_t>(out.qs[i % 16] | (code & 15) << (i / 16 * 4));
            out.qh[i / 8] = static_cast<std::uint8_t>(out.qh[i / 8] | (code >> 4) << (i % 8));
        }
        return out;
    }
};

/// 32 weights: `d * code + m`, codes 0..31, packed as in Q5_0. 6 bits per weight.
struct q5_1 {
    static constexpr dtype type = dtype::q5_1;
    static constexpr std::size_t block_size = 32;

    std::uint16_t d;  ///< f16
    std::uint16_t m;  ///< f16
    std::uint8_t qh[4];
    std::uint8_t qs[16];

    [[nodiscard]] constexpr float scale() const noexcept { return f16_to_f32(d); }
    [[nodiscard]] constexpr float minimum() const noexcept { return f16_to_f32(m); }
    [[nodiscard]] constexpr int code(std::size_t i) const noexcept {
        const int low = (qs[i % 16] >> (i / 16 * 4)) & 15;
        const int high = (qh[i / 8] >> (i % 8)) & 1;
        return low | high << 4;
    }

    constexpr void decode(float* out) const noexcept { detail::decode_minimum(*this, out); }

    /// Code 0 is the least value, code 31 the greatest. A block with an infinity or a NaN decodes to NaN.
    [[nodiscard]] static constexpr q5_1 encode(const float* in) noexcept {
        if (!detail::all_finite<block_size>(in)) return {detail::f16_nan, detail::f16_nan, {}, {}};
        const auto [least, greatest] = detail::extent<block_size>(in);
        const float d = (greatest - least) / 31.0f;
        float scaled[block_size] = {};
        detail::scale_values(in, least, detail::reciprocal(d), scaled);
        q5_1 out{f32_to_f16(d), f32_to_f16(least), {}, {}};
        for (std::size_t i = 0; i < block_size; ++i) {
            const int code = detail::to_code(scaled[i] + 0.5f, 31);
            out.qs[i % 16] = static_cast<std::uint8_t>(out.qs[i % 16] | (code & 15) << (i / 16 * 4));
            out.qh[i / 8] = static_cast<std::uint8_t>(out.qh[i / 8] | (code >> 4) << (i % 8));
        }
        return out;
    }
};

static_assert(code_format<q5_0> && minimum_format<q5_1> && encodable_format<q5_0> && encodable_format<q5_1>);

}  // namespace colibri::quant
