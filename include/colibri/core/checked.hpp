// Sums and products of sizes that come from outside.
#pragma once

#include <concepts>
#include <optional>

namespace colibri {

/// a + b, or nothing if it doesn't fit T.
template <std::unsigned_integral T>
[[nodiscard]] constexpr std::optional<T> checked_add(T a, T b) noexcept {
    T out{};
    if (__builtin_add_overflow(a, b, &out)) return std::nullopt;
    return out;
}

/// a * b, or nothing if it doesn't fit T.
template <std::unsigned_integral T>
[[nodiscard]] constexpr std::optional<T> checked_mul(T a, T b) noexcept {
    T out{};
    if (__builtin_mul_overflow(a, b, &out)) return std::nullopt;
    return out;
}

/// Smallest multiple of `step` (a power of two) that is at least `n`, or nothing if it doesn't fit.
template <std::unsigned_integral T>
[[nodiscard]] constexpr std::optional<T> checked_round_up(T n, T step) noexcept {
    const auto sum = checked_add<T>(n, static_cast<T>(step - 1));
    if (!sum) return std::nullopt;
    return static_cast<T>(*sum & ~(step - 1));
}

/// Smallest multiple of `step` (any number above 0) that is at least `n`; both small enough not to overflow.
template <std::unsigned_integral T>
[[nodiscard]] constexpr T round_up(T n, T step) noexcept {
    return static_cast<T>((n + step - 1) / step * step);
}

}  // namespace colibri
