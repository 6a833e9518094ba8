// Blocks of one type turned into blocks of another, with everything that isn't a number noticed.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>

#include "colibri/core/concat.hpp"
#include "colibri/core/error.hpp"
#include "colibri/quant/encode_levels.hpp"
#include "colibri/quant/encode_tensor.hpp"
#include "colibri/quant/rows.hpp"

namespace colibri::quantize {

/// What one call of `convert_values` turns. Sizes are those of the same whole blocks of both types.
struct values_to_convert {
    dtype from;
    dtype to;
    std::span<const std::byte> in;
    std::span<std::byte> out;
    std::span<const float> importance;  ///< of `columns` columns, or empty
    std::uint64_t columns;              ///< of a row
    std::uint64_t column;               ///< of the first value; not 0 only within one row
};

/// A value that stops the work.
struct bad_value {
    std::uint64_t index;  ///< from the first value of the call
    error what;
};

namespace detail {

[[nodiscard]] inline std::size_t first_not_finite(std::span<const float> x) noexcept {
    return static_cast<std::size_t>(std::ranges::find_if(x, [](float v) { return !std::isfinite(v); }) - x.begin());
}

/// The value that `convert_row` found first, if any.
[[nodiscard]] inline std::optional<bad_value> convert_row(const values_to_convert& work, std::span<const std::byte> in, std::span<std::byte> out,
                                                          std::span<const float> importance, std::span<float> values) {
    if (work.from == dtype::f16 && in.size() == 2 * values.size()) {
        quant::detail::widen_halves(in.data(), values.size(), values.data());
    } else if (auto ok = quant::decode_row(work.from, in, values); !ok) {
        return bad_value{0, std::move(ok).error()};
    }
    const std::uint32_t largest = quant::detail::largest_bits(values.data(), values.size());
    if (largest >= quant::detail::infinity_bits) {
        const std::size_t at = first_not_finite(values);
        return bad_value{at, error{errc::bad_value, concat(std::isnan(values[at]) ? "is not a number (NaN)" : "is infinite")}};
    }
    if (work.from == work.to) {
        std::memcpy(out.data(), in.data(), in.size());
        return std::nullopt;
    }
    if (auto ok = quant::encode_row(work.to, values, importance, out); !ok) return bad_value{0, std::move(ok).error()};
    // No type has a smaller range than half floats, in which all scales are that aren't BF16, F32 or powers of two.
    constexpr float safe = 32768.0f;
    if (std::bit_cast<float>(largest) < safe) return std::nullopt;
    const std::size_t worst = static_cast<std::size_t>(
        std::ranges::max_element(values, {}, [](float v) { return std::fabs(v); }) - values.begin());
    const float value = values[worst];
    if (auto ok = quant::decode_row(work.to, out, values); !ok) return bad_value{0, std::move(ok).error()};
    if (quant::detail::largest_bits(values.data(), values.size()) < quant::detail::infinity_bits) return std::nullopt;
    return bad_value{worst, error{errc::bad_value, concat("is ", value, ", too large for ", name(work.to), "; write BF16 or F32")}};
}

}  // namespace detail

/// Turns values row by row; `scratch` has room for a row of the call's values. The first value that is infinite, no number, or too large
/// for the new type ends it. Importance that is 0 everywhere counts as none where the type can do without. Allocates only for errors.
[[nodiscard]] inline std::optional<bad_value> convert_values(const values_to_convert& work, std::span<float> scratch) {
    const auto from = *find_dtype(static_cast<std::uint32_t>(work.from));
    const auto to = *find_dtype(static_cast<std::uint32_t>(work.to));
    const std::uint64_t values = work.in.size() / from.block_bytes * from.block_size;
    const std::uint64_t row = std::min(values, work.columns);
    for (std::uint64_t at = 0; at < values; at += row) {
        const auto in = work.in.subspan(at / from.block_size * from.block_bytes, row / from.block_size * from.block_bytes);
        const auto out = work.out.subspan(at / to.block_size * to.block_bytes, row / to.block_size * to.block_bytes);
        const auto importance = work.importance.empty() ? work.importance : work.importance.subspan(work.column, row);
        if (auto bad = detail::convert_row(work, in, out, importance, scratch.first(row))) {
            bad->index += at;
            return bad;
        }
    }
    return std::nullopt;
}

}  // namespace colibri::quantize
