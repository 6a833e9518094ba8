// Keeps a compiler from fusing a product into the sum that follows it.
#pragma once

#include <cstddef>
#include <type_traits>

namespace colibri::quant::detail {

/// Makes the values in `v` final: what follows sees each one rounded to float. g++ fuses a*b+c into one rounding
/// wherever the function's target has FMA, which would make a value depend on compiler flags; it can't fuse across
/// this. The loops before and behind it still vectorise.
template <std::size_t N>
constexpr void settle(float (&v)[N]) noexcept {
    if (!std::is_constant_evaluated()) asm("" : "+m"(v));
}

/// The same for one value.
[[nodiscard]] constexpr float settled(float v) noexcept {
    if (!std::is_constant_evaluated()) {
#if defined(__x86_64__)
        asm("" : "+x"(v));
#elif defined(__aarch64__)
        asm("" : "+w"(v));
#else
        asm("" : "+m"(v));
#endif
    }
    return v;
}

/// Writes `products[i] + addend` for all i, with both operations rounded.
template <std::size_t N>
constexpr void add_rounded(float (&products)[N], float addend, float* out) noexcept {
    settle(products);
    for (std::size_t i = 0; i < N; ++i) out[i] = products[i] + addend;
}

}  // namespace colibri::quant::detail
