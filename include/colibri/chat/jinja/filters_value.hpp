// Filters on single values: numbers, defaults, attributes.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string_view>

#include "colibri/chat/jinja/arithmetic.hpp"

namespace colibri::jinja::detail::filters {

inline value abs(machine&, const value& self, const arguments& given) {
    expect_none("abs", given);
    if (self.is(kind::real)) return std::fabs(self.as_real());
    if (!is_integral(self)) fail_type("abs needs a number, not a ", type_name(self));
    return integral(self) < 0 ? negative(self) : value(integral(self));
}

inline value attr(machine& m, const value& self, const arguments& given) {
    const auto [name] = bind("attr", given, {"name"}, 1);
    const string& wanted = string_argument("attr", *name);
    if (auto found = own_attribute(m, self, wanted.view())) return *std::move(found);
    check_defined(self);
    return no_attribute(m, self, wanted.view());
}

inline value default_value(machine& m, const value& self, const arguments& given) {
    const auto [otherwise, boolean] = bind("default", given, {"default_value", "boolean"});
    if (!self.is_undefined() && !(boolean != nullptr && truth(m, *boolean) && !truth(m, self))) return self;
    return otherwise != nullptr ? *otherwise : value(string{});
}

/// Bytes of the longest text that is read as a number.
inline constexpr std::size_t max_number = 5000;

[[nodiscard]] inline value truncated(double number) {
    if (!(number > -9223372036854775809.0 && number < 9223372036854775808.0)) fail_overflow();
    return static_cast<std::int64_t>(number);
}

inline value to_int(machine& m, const value& self, const arguments& given) {
    const auto [otherwise, base] = bind("int", given, {"default", "base"});
    check_defined(self);
    const value fallback = otherwise != nullptr ? *otherwise : value(0);
    if (is_integral(self)) return integral(self);
    if (self.is(kind::real)) return std::isnan(self.as_real()) ? fallback : truncated(self.as_real());
    if (!self.is_string()) return fallback;
    const std::int64_t wanted = base != nullptr ? integer_argument("int", *base) : 10;
    const std::string_view text = trimmed(self.as_string().view());
    m.touch(self.as_string().size());
    if (text.size() > max_number) return fallback;
    std::int64_t out = 0;
    if (wanted == 0 || (wanted >= 2 && wanted <= 36)) {
        const parsed how = parse_integer(text, static_cast<int>(wanted), out);
        if (how == parsed::yes) return out;
        if (how == parsed::too_large) fail_overflow();
    }
    const auto number = parse_real(text);
    return number && std::isfinite(*number) ? truncated(*number) : fallback;
}

inline value to_float(machine& m, const value& self, const arguments& given) {
    const auto [otherwise] = bind("float", given, {"default"});
    check_defined(self);
    if (is_number(self)) return real(self);
    if (self.is_string()) {
        m.touch(self.as_string().size());
        if (trimmed(self.as_string().view()).size() > max_number) return otherwise != nullptr ? *otherwise : value(0.0);
        if (const auto number = parse_real(self.as_string().view())) return *number;
    }
    return otherwise != nullptr ? *otherwise : value(0.0);
}

/// `number` to so many decimal places, ties to the even digit of the exact value.
[[nodiscard]] inline double rounded(double number, std::int64_t places) {
    if (!std::isfinite(number) || places > 330) return number;
    if (places < -330) return std::copysign(0.0, number);
    if (places >= 0) {
        const auto text = with_precision(number, std::chars_format::fixed, static_cast<int>(places));
        return parse_real(text).value_or(number);
    }
    const double unit = std::pow(10.0, static_cast<double>(-places));
    return std::nearbyint(number / unit) * unit;
}

inline value round(machine& m, const value& self, const arguments& given) {
    const auto [precision, method] = bind("round", given, {"precision", "method"});
    if (method != nullptr) check_defined(self);
    if (!is_number(self)) fail_type("round needs a number, not a ", type_name(self));
    const std::int64_t places = precision != nullptr ? integer_argument("round", *precision) : 0;
    const std::string_view how = method != nullptr ? string_argument("round", *method).view() : "common";
    if (how != "common" && how != "ceil" && how != "floor") fail_type("round knows the methods common, ceil and floor");
    if (how != "common") {
        const double unit = std::pow(10.0, static_cast<double>(places)), scaled = real(self) * unit;
        return (how == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / unit;
    }
    m.step(static_cast<std::uint64_t>(std::clamp<std::int64_t>(places, 0, 330)));
    if (self.is(kind::real)) return rounded(self.as_real(), places);
    if (places >= 0) return integral(self);
    if (places < -18) return 0;
    std::int64_t unit = 1;
    for (std::int64_t i = places; i != 0; ++i) unit *= 10;
    const std::int64_t n = integral(self), quotient = floor_quotient(n, unit), rest = n - quotient * unit;
    const bool up = rest > unit / 2 || (rest == unit / 2 && quotient % 2 != 0);
    return calculate_integers(operation::multiply, quotient + (up ? 1 : 0), unit);
}

}  // namespace colibri::jinja::detail::filters
