// Sizes of memory as people write them.
#pragma once

#include <cmath>
#include <cstdint>
#include <string_view>

#include "colibri/core/error.hpp"
#include "colibri/core/escape.hpp"
#include "colibri/core/number.hpp"

namespace colibri {

namespace detail {

/// Which power of a thousand a unit's letter stands for, whatever its case; 0: it is none.
[[nodiscard]] constexpr unsigned unit_power(char letter) noexcept {
    switch (letter) {
        case 'K': case 'k': return 1;
        case 'M': case 'm': return 2;
        case 'G': case 'g': return 3;
        case 'T': case 't': return 4;
        default: return 0;
    }
}

}  // namespace detail

/// Bytes per second from "900M/s", "1.5G": K, M, G and T are powers of 1000, as speeds are told; "/s" may be left out, the unit not.
/// Errors: bad_value (not a speed, none at all, beyond 10^15).
[[nodiscard]] inline result<double> parse_byte_rate(std::string_view text) {
    std::string_view rest = text;
    if (rest.ends_with("/s")) rest.remove_suffix(2);
    const unsigned power = rest.empty() ? 0 : detail::unit_power(rest.back());
    if (power != 0) rest.remove_suffix(1);
    const auto number = parse_number<double>(rest);
    const double rate = number ? *number * std::pow(1000.0, power) : 0.0;
    if (power == 0 || !(rate > 0.0) || rate > 1e15) {
        return error{errc::bad_value, concat(quoted(text), " is no speed; write for example 900M/s or 1.5G/s")};
    }
    return rate;
}

/// Bytes from "1.5G", "1200M", "800MiB", "64k", "123456": K, M, G and T are powers of 1024, whatever their case; "B", "iB" may follow.
/// Rounded down to whole bytes. Errors: bad_value (what is wrong with it, and an example).
[[nodiscard]] inline result<std::uint64_t> parse_byte_size(std::string_view text) {
    const auto refuse = [&](std::string_view what) {
        return error{errc::bad_value, concat(quoted(text), " ", what, "; write for example 1.5G, 1200M or 800MiB")};
    };
    const std::size_t end = std::min(text.find_first_not_of("0123456789."), text.size());
    const std::string_view digits = text.substr(0, end);
    std::string_view unit = text.substr(end);
    if (unit.starts_with(' ')) unit.remove_prefix(1);
    unsigned shift = 0;
    if (!unit.empty()) {
        shift = 10 * detail::unit_power(unit.front());
        if (shift != 0) unit.remove_prefix(1);
        if (shift != 0 && (unit == "iB" || unit == "ib")) unit = {};
        if (unit == "B" || unit == "b") unit = {};
    }
    if (digits.empty() || !unit.empty()) return refuse("is not a size");
    if (digits.find('.') == std::string_view::npos) {
        const auto number = parse_number<std::uint64_t>(digits);
        if (!number || *number > (~std::uint64_t{0} >> shift)) return refuse("is too large");
        return *number << shift;
    }
    const auto number = parse_number<double>(digits);
    if (!number) return refuse("is not a size");
    if (shift == 0) return refuse("is not a whole number of bytes");
    const double bytes = std::floor(std::ldexp(*number, static_cast<int>(shift)));
    if (!(bytes < 0x1p63)) return refuse("is too large");
    return static_cast<std::uint64_t>(bytes);
}

}  // namespace colibri
