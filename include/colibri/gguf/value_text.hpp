// Metadata values as text for people and as JSON for programs.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>

#include "colibri/gguf/container.hpp"
#include "colibri/gguf/value.hpp"

namespace colibri::gguf {

/// How much of long values is shown.
struct value_style {
    std::size_t max_elements = 6;  ///< of an array, and of arrays in it
    std::size_t max_text = 160;    ///< bytes of a text
};

/// "u32", "string[49152]", "array[2]": type and, for arrays, element type and length.
[[nodiscard]] inline std::string type_text(const value& shown) {
    if (!shown.is_array()) return std::string(name(shown.type()));
    return concat(name(shown.element_type()), "[", shown.size(), "]");
}

/// A value for a person's eyes: numbers as they are, texts quoted and escaped, the rest of long arrays as "...".
[[nodiscard]] inline std::string value_text(const value& shown, const value_style& style = {});

/// A text as a JSON string. Bytes that aren't UTF-8 become U+FFFD, as JSON has no way to say them.
[[nodiscard]] inline std::string json_text(std::string_view text);

/// A value as JSON: numbers exact, "nan", "inf" and "-inf" as strings, arrays whole.
[[nodiscard]] inline std::string value_json(const value& shown);

namespace detail {

[[nodiscard]] inline std::string element_text(const value& shown, std::size_t i, const value_style& style) {
    const value_type type = shown.element_type();
    if (type == value_type::string) return quoted(shown.is_array() ? shown.text_at(i) : shown.text(), style.max_text);
    if (type == value_type::array) return value_text(shown.element(i), style);
    return visit_number(type, shown.number_bytes(i), [](auto number) { return concat(number); });
}

[[nodiscard]] inline std::string element_json(const value& shown, std::size_t i) {
    const value_type type = shown.element_type();
    if (type == value_type::string) return json_text(shown.is_array() ? shown.text_at(i) : shown.text());
    if (type == value_type::array) return value_json(shown.element(i));
    return visit_number(type, shown.number_bytes(i), []<class Number>(Number number) -> std::string {
        if constexpr (std::floating_point<Number>) {
            if (std::isnan(number)) return "\"nan\"";
            if (std::isinf(number)) return number > 0 ? "\"inf\"" : "\"-inf\"";
        }
        return concat(number);
    });
}

}  // namespace detail

inline std::string value_text(const value& shown, const value_style& style) {
    if (!shown.is_array()) return detail::element_text(shown, 0, style);
    std::string out = "[";
    const std::size_t count = std::min(shown.size(), style.max_elements);
    for (std::size_t i = 0; i < count; ++i) out += concat(i == 0 ? "" : ", ", detail::element_text(shown, i, style));
    if (count < shown.size()) out += count == 0 ? "..." : ", ...";
    out += ']';
    return out;
}

inline std::string json_text(std::string_view text) {
    constexpr std::string_view hex = "0123456789abcdef";
    std::string out = "\"";
    for (std::size_t i = 0; i < text.size();) {
        const auto byte = static_cast<unsigned char>(text[i]);
        if (byte >= 0x80) {
            const std::size_t length = detail::utf8_length(text.substr(i));
            if (length == 0) out += "\xef\xbf\xbd";
            out += text.substr(i, length);
            i += std::max<std::size_t>(length, 1);
            continue;
        }
        switch (byte) {
            case '"': out += "\\\""; break;
            case '\\': out += "\\\\"; break;
            case '\n': out += "\\n"; break;
            case '\r': out += "\\r"; break;
            case '\t': out += "\\t"; break;
            default:
                if (byte >= 0x20 && byte != 0x7f) out += static_cast<char>(byte);
                else (out += "\\u00") += {hex[byte >> 4], hex[byte & 15]};
        }
        ++i;
    }
    out += '"';
    return out;
}

inline std::string value_json(const value& shown) {
    if (!shown.is_array()) return detail::element_json(shown, 0);
    std::string out = "[";
    for (std::size_t i = 0; i < shown.size(); ++i) out += concat(i == 0 ? "" : ",", detail::element_json(shown, i));
    out += ']';
    return out;
}

}  // namespace colibri::gguf
