// The values of tensors of any type, run by run.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include "colibri/quant/rows.hpp"

namespace colibri::quant {

/// Values that are handed over at once; a multiple of every block size.
inline constexpr std::size_t values_at_once = 2048;

namespace detail {

/// Calls `use` with the C++ type of a type that is one number an element, and isn't a weight format; false for others.
template <class Use>
constexpr bool visit_plain(dtype type, Use&& use) {
    switch (type) {
        case dtype::i8: use(std::type_identity<std::int8_t>{}); return true;
        case dtype::i16: use(std::type_identity<std::int16_t>{}); return true;
        case dtype::i32: use(std::type_identity<std::int32_t>{}); return true;
        case dtype::i64: use(std::type_identity<std::int64_t>{}); return true;
        case dtype::f64: use(std::type_identity<double>{}); return true;
        default: return false;
    }
}

}  // namespace detail

/// Whether `for_values` knows the type.
[[nodiscard]] constexpr bool has_values(dtype type) noexcept {
    return is_supported(type) || detail::visit_plain(type, [](auto) {});
}

/// Calls `use(values, first)` for at most values_at_once values at a time of the whole blocks in `bytes`: a span of float for
/// weights, of double for other numbers (64-bit integers are rounded); `first` counts from 0. Nothing for a type without values.
template <class Use>
void for_values(dtype type, std::span<const std::byte> bytes, Use&& use) {
    const bool plain = detail::visit_plain(type, [&]<class T>(std::type_identity<T>) {
        double values[values_at_once];
        const std::size_t count = bytes.size() / sizeof(T);
        for (std::size_t first = 0; first < count; first += values_at_once) {
            const std::size_t now = std::min(values_at_once, count - first);
            for (std::size_t i = 0; i < now; ++i) {
                T number{};
                std::memcpy(&number, bytes.data() + (first + i) * sizeof(T), sizeof(T));
                values[i] = static_cast<double>(number);
            }
            use(std::span<const double>(values, now), first);
        }
    });
    if (plain || !is_supported(type)) return;
    (void)visit_format(type, [&]<class F>(std::type_identity<F>) {
        static_assert(values_at_once % F::block_size == 0);
        float values[values_at_once];
        const std::size_t count = bytes.size() / sizeof(F);
        constexpr std::size_t run = values_at_once / F::block_size;
        for (std::size_t first = 0; first < count; first += run) {
            const std::size_t now = std::min(run, count - first);
            for (std::size_t i = 0; i < now; ++i) {
                F block;
                std::memcpy(&block, bytes.data() + (first + i) * sizeof(F), sizeof(F));
                block.decode(values + i * F::block_size);
            }
            use(std::span<const float>(values, now * F::block_size), first * F::block_size);
        }
    });
}

}  // namespace colibri::quant
