// Weights that are floats: F32, F16, BF16.
#pragma once

#include <cstddef>
#include <cstdint>

#include "colibri/core/half.hpp"
#include "colibri/quant/block_format.hpp"

namespace colibri::quant {

/// One IEEE binary32 number.
struct f32 {
    static constexpr dtype type = dtype::f32;
    static constexpr std::size_t block_size = 1;

    float bits;

    [[nodiscard]] constexpr float value() const noexcept { return bits; }
    constexpr void decode(float* out) const noexcept { *out = bits; }
    [[nodiscard]] static constexpr f32 encode(const float* in) noexcept { return {*in}; }
};

/// One IEEE binary16 number. Encoding rounds to nearest even; too large becomes infinity.
struct f16 {
    static constexpr dtype type = dtype::f16;
    static constexpr std::size_t block_size = 1;

    std::uint16_t bits;

    [[nodiscard]] constexpr float value() const noexcept { return f16_to_f32(bits); }
    constexpr void decode(float* out) const noexcept { *out = value(); }
    [[nodiscard]] static constexpr f16 encode(const float* in) noexcept { return {f32_to_f16(*in)}; }
};

/// The upper half of an IEEE binary32 number. Encoding rounds to nearest even.
struct bf16 {
    static constexpr dtype type = dtype::bf16;
    static constexpr std::size_t block_size = 1;

    std::uint16_t bits;

    [[nodiscard]] constexpr float value() const noexcept { return bf16_to_f32(bits); }
    constexpr void decode(float* out) const noexcept { *out = value(); }
    [[nodiscard]] static constexpr bf16 encode(const float* in) noexcept { return {f32_to_bf16(*in)}; }
};

static_assert(float_format<f32> && float_format<f16> && float_format<bf16>);

}  // namespace colibri::quant
