// Joins text and numbers without a stream and without the locale.
#pragma once

#include <charconv>
#include <concepts>
#include <string>
#include <string_view>

namespace colibri {
namespace detail {

inline void append_part(std::string& out, std::string_view part) { out += part; }
inline void append_part(std::string& out, char part) { out += part; }

template <std::same_as<bool> T>  // a template, so that a pointer never becomes a bool here
void append_part(std::string& out, T part) {
    out += part ? "true" : "false";
}

template <class T>
    requires(std::integral<T> || std::floating_point<T>) && (!std::same_as<T, char>) && (!std::same_as<T, bool>)
void append_part(std::string& out, T number) {
    char digits[64];
    const auto end = std::to_chars(digits, digits + sizeof digits, number).ptr;
    out.append(digits, end);
}

}  // namespace detail

/// Text of all parts, one behind the other. Numbers are written in their shortest exact form with a point,
/// whatever the locale is; `bool` as true/false. Allocates the result only.
template <class... Parts>
[[nodiscard]] std::string concat(const Parts&... parts) {
    std::string out;
    (detail::append_part(out, parts), ...);
    return out;
}

}  // namespace colibri
