// Arithmetic that the encoders share: scales and codes without undefined conversions, whatever the input.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace colibri::quant::detail {

inline constexpr std::uint32_t infinity_bits = 0x7f800000u;
inline constexpr std::uint16_t f16_nan = 0x7e00;

/// Makes the values in `v` final: what follows sees each one rounded to float. g++ fuses a*b+c into one rounding
/// wherever the function's target has FMA, which would make codes depend on compiler flags; it can't fuse across
/// this. The loops before and behind it still vectorise.
template <std::size_t N>
constexpr void settle(float (&v)[N]) noexcept {
    if (!std::is_constant_evaluated()) asm("" : "+m"(v));
}

/// Largest |x| of N values as a bit pattern; at least `infinity_bits` if there is an infinity or a NaN among them.
template <std::size_t N>
[[nodiscard]] constexpr std::uint32_t largest_magnitude_bits(const float* x) noexcept {
    std::int32_t top = 0;  // signed: plain x86-64 has no vector comparison of unsigned numbers
    for (std::size_t i = 0; i < N; ++i) {
        const std::int32_t magnitude = std::bit_cast<std::int32_t>(x[i]) & 0x7fffffff;
        top = magnitude > top ? magnitude : top;
    }
    return static_cast<std::uint32_t>(top);
}

template <std::size_t N>
[[nodiscard]] constexpr bool all_finite(const float* x) noexcept {
    return largest_magnitude_bits<N>(x) < infinity_bits;
}

/// The value of largest magnitude with its sign; the first of several; 0 if all are 0. Precondition: all finite.
template <std::size_t N>
[[nodiscard]] constexpr float extreme(const float* x) noexcept {
    // Two passes: the first has no order and so becomes vectors.
    const std::uint32_t top = largest_magnitude_bits<N>(x);
    if (top == 0) return 0.0f;
    std::size_t i = 0;
    while ((std::bit_cast<std::uint32_t>(x[i]) & 0x7fffffffu) != top) ++i;
    return x[i];
}

struct extent_of_values {
    float least;
    float greatest;
};

/// Least and greatest of N finite values; of equal ones (both zeros) the first.
template <std::size_t N>
[[nodiscard]] constexpr extent_of_values extent(const float* x) noexcept {
    extent_of_values out{x[0], x[0]};
    for (std::size_t i = 1; i < N; ++i) {
        if (x[i] < out.least) out.least = x[i];
        if (x[i] > out.greatest) out.greatest = x[i];
    }
    return out;
}

/// 1 / d, or 0 where that isn't finite: the codes of such a block don't matter, its scale is 0 as a half float.
[[nodiscard]] constexpr float reciprocal(float d) noexcept {
    const float magnitude = d < 0.0f ? -d : d;
    return magnitude > 0x1p-128f ? 1.0f / d : 0.0f;
}

/// v without its fraction, held to 0..top; 0 for a NaN.
[[nodiscard]] constexpr int to_code(float v, int top) noexcept {
    if (!(v > 0.0f)) return 0;
    return v < static_cast<float>(top) ? static_cast<int>(v) : top;
}

/// Nearest integer of v, ties away from zero, for |v| below 2^31; v must be a rounded value (see `settle`).
[[nodiscard]] constexpr int nearest_away(float v) noexcept {
    const int whole = static_cast<int>(v);
    const float rest = v - static_cast<float>(whole);
    return whole + static_cast<int>(rest >= 0.5f) - static_cast<int>(rest <= -0.5f);
}

/// Nearest integer of v, ties to even, for |v| below 2^22; v must be a rounded value (see `settle`).
[[nodiscard]] constexpr float nearest_even(float v) noexcept { return (v + 0x1.8p23f) - 0x1.8p23f; }

/// Writes `(x[i] - least) * inverse`, each operation rounded.
template <std::size_t N>
constexpr void scale_values(const float* x, float least, float inverse, float (&out)[N]) noexcept {
    for (std::size_t i = 0; i < N; ++i) out[i] = (x[i] - least) * inverse;
    settle(out);
}

}  // namespace colibri::quant::detail
