// Numbers from text, without the locale: a comma locale changes nothing.
#pragma once

#include <charconv>
#include <concepts>
#include <optional>
#include <string_view>

namespace colibri {

/// The number that `text` is, all of it, or nothing: no white space, no leftover, no overflow. A leading '+' is allowed.
/// Integers are decimal; floating point takes the forms of `strtod` but always with a point ("1e-3", "inf", "nan").
template <class T>
    requires(std::integral<T> || std::floating_point<T>)
[[nodiscard]] std::optional<T> parse_number(std::string_view text) noexcept {
    if (text.size() > 1 && text.front() == '+' && text[1] != '-') text.remove_prefix(1);
    T out{};
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), out);
    if (problem != std::errc{} || end != text.data() + text.size() || text.empty()) return std::nullopt;
    return out;
}

}  // namespace colibri
