// Settings as text made into JSON values.
#pragma once

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "colibri/core/number.hpp"

namespace colibri::repl {

/// A number, or a truth for "on" and "off", where the text is one, so that other programs needn't parse texts.
[[nodiscard]] inline nlohmann::ordered_json json_value(std::string_view text) {
    if (text == "on" || text == "off") return text == "on";
    if (const auto whole = parse_number<std::int64_t>(text)) return *whole;
    if (const auto whole = parse_number<std::uint64_t>(text)) return *whole;
    if (const auto real = parse_number<double>(text); real && std::isfinite(*real)) return *real;
    return std::string(text);
}

}  // namespace colibri::repl
