// Numbers as the template language writes and reads them.
#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "colibri/core/concat.hpp"

namespace colibri::jinja::detail {

/// `number` with the fewest digits that read back as the same double: "1.0", "0.1", "1e-07", "1e+16", "inf", "nan".
[[nodiscard]] inline std::string shortest(double number) {
    if (std::isnan(number)) return "nan";
    if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
    char buffer[64];
    const auto end = std::to_chars(buffer, buffer + sizeof buffer, number, std::chars_format::scientific).ptr;
    const std::string_view written(buffer, static_cast<std::size_t>(end - buffer));
    const std::size_t e = written.find('e');
    std::string digits;
    for (const char c : written.substr(0, e)) {
        if (c >= '0' && c <= '9') digits += c;
    }
    int exponent = 0;
    const char* from = written.data() + e + (written[e + 1] == '+' ? 2 : 1);
    std::from_chars(from, written.data() + written.size(), exponent);
    std::string out = written.front() == '-' ? "-" : "";
    if (exponent < -4 || exponent >= 16) {
        out += digits[0];
        if (digits.size() > 1) out += concat(".", std::string_view(digits).substr(1));
        const int size = exponent < 0 ? -exponent : exponent;
        return concat(out, exponent < 0 ? "e-" : "e+", size < 10 ? "0" : "", size);
    }
    if (exponent < 0) {
        out += "0.";
        out.append(static_cast<std::size_t>(-exponent - 1), '0');
        return out + digits;
    }
    const auto whole = static_cast<std::size_t>(exponent) + 1;
    if (digits.size() < whole) digits.append(whole - digits.size(), '0');
    out += digits.substr(0, whole);
    out += '.';
    return out + (digits.size() > whole ? digits.substr(whole) : "0");
}

/// `number` in one of to_chars' forms with a precision.
[[nodiscard]] inline std::string with_precision(double number, std::chars_format form, int precision) {
    std::string out(static_cast<std::size_t>(precision) + 400, '\0');  // 309 digits before the point, sign, exponent
    const auto end = std::to_chars(out.data(), out.data() + out.size(), number, form, precision).ptr;
    out.resize(static_cast<std::size_t>(end - out.data()));
    return out;
}

[[nodiscard]] constexpr bool is_blank(char c) noexcept { return c == ' ' || (c >= '\t' && c <= '\r'); }

[[nodiscard]] constexpr std::string_view trimmed(std::string_view text) noexcept {
    while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
    while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
    return text;
}

/// Takes single underscores between digits out; false if one stands elsewhere.
[[nodiscard]] inline bool strip_underscores(std::string_view text, std::string& out) {
    out.clear();
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '_') {
            out += text[i];
            continue;
        }
        const auto digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
        if (i == 0 || i + 1 == text.size() || !digit(text[i - 1]) || !digit(text[i + 1])) return false;
    }
    return true;
}

enum class parsed : std::uint8_t { yes, no, too_large };

/// An integer in the given base (2 to 36; 0: by its prefix): blanks around, sign, prefix and underscores allowed.
[[nodiscard]] inline parsed parse_integer(std::string_view text, int base, std::int64_t& out) {
    text = trimmed(text);
    bool negative = false;
    if (!text.empty() && (text.front() == '-' || text.front() == '+')) {
        negative = text.front() == '-';
        text.remove_prefix(1);
    }
    const auto prefixed = [&](char small, int its_base) {
        if (text.size() < 3 || text[0] != '0' || (text[1] | 0x20) != small) return false;
        if (base != 0 && base != its_base) return false;
        text.remove_prefix(text[2] == '_' ? 3 : 2);
        base = its_base;
        return true;
    };
    if (!prefixed('x', 16) && !prefixed('o', 8) && !prefixed('b', 2) && base == 0) base = 10;
    std::string digits;
    if (!strip_underscores(text, digits) || digits.empty()) return parsed::no;
    std::uint64_t size = 0;
    const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), size, base);
    if (problem == std::errc::invalid_argument || end != digits.data() + digits.size()) return parsed::no;
    const std::uint64_t most = (std::uint64_t{1} << 63) - (negative ? 0 : 1);
    if (problem != std::errc{} || size > most) return parsed::too_large;
    out = static_cast<std::int64_t>(negative ? ~size + 1 : size);
    return parsed::yes;
}

/// A real number: blanks around, sign, underscores, "inf", "nan" allowed. Too large ones become infinite.
[[nodiscard]] inline std::optional<double> parse_real(std::string_view text) {
    text = trimmed(text);
    std::string digits;
    if (!strip_underscores(text, digits)) return std::nullopt;
    std::string_view rest = digits;
    const bool negative = !rest.empty() && rest.front() == '-';
    if (!rest.empty() && (rest.front() == '-' || rest.front() == '+')) rest.remove_prefix(1);
    if (rest.empty() || rest.front() == '-' || rest.front() == '+') return std::nullopt;
    double out = 0;
    const auto [end, problem] = std::from_chars(rest.data(), rest.data() + rest.size(), out);
    if (end != rest.data() + rest.size() || problem == std::errc::invalid_argument) return std::nullopt;
    if (problem == std::errc::result_out_of_range) {
        // Too small or too large: the exponent's sign tells, and without one only many digits can be too large.
        const bool small = rest.find("e-") != rest.npos || rest.find("E-") != rest.npos || rest.starts_with("0.");
        out = small ? 0.0 : HUGE_VAL;
    }
    return negative ? -out : out;
}

}  // namespace colibri::jinja::detail
