// Truth, equality and order of values; lengths and names of types.
#pragma once

#include <compare>
#include <cstdint>
#include <string_view>

#include "colibri/chat/jinja/machine.hpp"

namespace colibri::jinja::detail {

/// The language's name for a value's type ("str"), as its messages use it.
[[nodiscard]] inline std::string_view type_name(const value& v) noexcept {
    switch (v.kind()) {
        case kind::undefined: return "Undefined";
        case kind::none: return "NoneType";
        case kind::boolean: return "bool";
        case kind::integer: return "int";
        case kind::real: return "float";
        case kind::string: return "str";
        case kind::dict: return "dict";
        case kind::object: return v.as_object()->type_name();
        case kind::list: break;
    }
    switch (v.as_list().look) {
        case flavour::list: return "list";
        case flavour::tuple:
        case flavour::group: return "tuple";
        case flavour::keys: return "dict_keys";
        case flavour::values: return "dict_values";
        case flavour::items: return "dict_items";
    }
    return "list";
}

/// Stops: an undefined value was used where it can't be.
[[noreturn]] inline void fail_undefined(const value& v) {
    const auto& why = v.as_undefined();
    fail(why && why->forbidden ? failure_kind::security : failure_kind::undefined, why ? why->message : "undefined value");
}

inline void check_defined(const value& v) {
    if (v.is_undefined()) fail_undefined(v);
}

[[nodiscard]] inline bool is_number(const value& v) noexcept {
    return v.is(kind::integer) || v.is(kind::real) || v.is(kind::boolean);
}
[[nodiscard]] inline bool is_integral(const value& v) noexcept { return v.is(kind::integer) || v.is(kind::boolean); }
/// Precondition: is_integral.
[[nodiscard]] inline std::int64_t integral(const value& v) noexcept {
    return v.is(kind::boolean) ? (v.as_bool() ? 1 : 0) : v.as_int();
}
/// Precondition: is_number.
[[nodiscard]] inline double real(const value& v) noexcept {
    return v.is(kind::real) ? v.as_real() : static_cast<double>(integral(v));
}

[[nodiscard]] inline bool truth(machine& m, const value& v) {
    switch (v.kind()) {
        case kind::undefined:
        case kind::none: return false;
        case kind::boolean: return v.as_bool();
        case kind::integer: return v.as_int() != 0;
        case kind::real: return v.as_real() != 0;
        case kind::string: return !v.as_string().empty();
        case kind::list: return !v.items().empty();
        case kind::dict: return v.as_dict().size() != 0;
        case kind::object: return v.as_object()->truth(m);
    }
    return false;
}

/// Number of items or characters; nothing if the value has no length.
[[nodiscard]] inline std::optional<std::size_t> length_of(machine& m, const value& v) {
    switch (v.kind()) {
        case kind::undefined: return 0;
        case kind::string: return v.as_string().length();
        case kind::list: return v.items().size();
        case kind::dict: return v.as_dict().size();
        case kind::object: return v.as_object()->length(m);
        default: return std::nullopt;
    }
}

/// Exact order of an integer and a double; unordered for NaN.
[[nodiscard]] inline std::partial_ordering compare_mixed(std::int64_t a, double b) noexcept {
    if (b != b) return std::partial_ordering::unordered;
    if (b >= 9223372036854775808.0) return std::partial_ordering::less;
    if (b < -9223372036854775808.0) return std::partial_ordering::greater;
    const auto whole = static_cast<std::int64_t>(b);  // towards zero
    if (a != whole) return a <=> whole;
    return 0.0 <=> b - static_cast<double>(whole);
}

[[nodiscard]] inline std::partial_ordering compare_numbers(const value& a, const value& b) noexcept {
    if (is_integral(a) && is_integral(b)) return integral(a) <=> integral(b);
    if (is_integral(a)) return compare_mixed(integral(a), b.as_real());
    if (is_integral(b)) return 0 <=> compare_mixed(integral(b), a.as_real());
    return a.as_real() <=> b.as_real();
}

/// a == b. Lists, tuples and views are equal if they have the same type and equal items in order; dicts whatever the order.
[[nodiscard]] inline bool equal(machine& m, const value& a, const value& b) {
    m.step();
    if (is_number(a) && is_number(b)) return compare_numbers(a, b) == 0;
    if (a.kind() != b.kind()) return false;
    switch (a.kind()) {
        case kind::string:
            m.touch(std::min(a.as_string().size(), b.as_string().size()));
            return a.as_string() == b.as_string();
        case kind::list: {
            const nesting level(m);
            const auto &x = a.items(), &y = b.items();
            if (type_name(a) != type_name(b) || x.size() != y.size()) return false;
            for (std::size_t i = 0; i < x.size(); ++i) {
                if (!equal(m, x[i], y[i])) return false;
            }
            return true;
        }
        case kind::dict: {
            const nesting level(m);
            if (a.as_dict().size() != b.as_dict().size()) return false;
            for (const auto& [key, item] : a.members()) {
                const value* other = b.as_dict().find(key);
                if (other == nullptr || !equal(m, item, *other)) return false;
            }
            return true;
        }
        case kind::object: return a.as_object() == b.as_object();
        default: return true;  // both undefined or both none
    }
}

/// The order of two numbers, strings, lists or tuples. Stops for everything else.
[[nodiscard]] inline std::partial_ordering order(machine& m, const value& a, const value& b) {
    m.step();
    if (is_number(a) && is_number(b)) return compare_numbers(a, b);
    check_defined(a);
    check_defined(b);
    if (a.is_string() && b.is_string()) {
        m.touch(std::min(a.as_string().size(), b.as_string().size()));
        return a.as_string().view().compare(b.as_string().view()) <=> 0;
    }
    if (a.is_list() && b.is_list() && type_name(a) == type_name(b) && type_name(a).find('_') == std::string_view::npos) {
        const nesting level(m);
        const auto &x = a.items(), &y = b.items();
        for (std::size_t i = 0; i < x.size() && i < y.size(); ++i) {
            if (!equal(m, x[i], y[i])) return order(m, x[i], y[i]);
        }
        return x.size() <=> y.size();
    }
    fail_type("a ", type_name(a), " and a ", type_name(b), " have no order");
}

}  // namespace colibri::jinja::detail
