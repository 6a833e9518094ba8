// + - * / // % ** and unary minus on values.
#pragma once

#include <cmath>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "colibri/chat/jinja/format.hpp"
#include "colibri/chat/jinja/iterate.hpp"

namespace colibri::jinja::detail {

/// Binary operators, by their token.
enum class operation : std::uint8_t { add, subtract, multiply, divide, floor_divide, modulo, power };

[[nodiscard]] constexpr std::string_view symbol(operation op) noexcept {
    constexpr std::string_view symbols[] = {"+", "-", "*", "/", "//", "%", "**"};
    return symbols[static_cast<std::size_t>(op)];
}

[[noreturn]] inline void fail_overflow() { fail_limit("a number is beyond 64 bits"); }

/// a ~ b without making text of either first.
[[nodiscard]] inline string join_two(machine& m, const string& a, const string& b, bool safe = false) {
    string_builder out(m);
    out.reserve(a.size() + b.size());
    out.append(a);
    out.append(b);
    return out.finish(safe);
}

[[nodiscard]] inline value repeated(machine& m, const value& v, std::int64_t times) {
    const auto count = times > 0 ? static_cast<std::size_t>(times) : 0;
    if (v.is_string()) {
        const string& s = v.as_string();
        if (s.empty() || count == 0) return string{};
        if (count > m.allowed().memory / s.size()) fail_limit("it makes a text of more than ", m.allowed().memory, " bytes");
        string_builder out(m);
        if (s.uniform()) {
            out.append_repeated(s.view(), count, s.origin_at(0));
            return out.finish(s.safe());
        }
        for (std::size_t i = 0; i < count; ++i) {
            m.step();
            out.append(s);
        }
        return out.finish(s.safe());
    }
    const auto& items = v.items();
    if (!items.empty() && count > m.allowed().memory / sizeof(value) / items.size()) {
        fail_limit("it makes a list that needs more than ", m.allowed().memory, " bytes");
    }
    m.need(items.size() * count * sizeof(value));
    m.step(items.size() * count / 4);
    std::vector<value> out;
    out.reserve(items.size() * count);
    for (std::size_t i = 0; i < count; ++i) out.insert(out.end(), items.begin(), items.end());
    return m.make_list(std::move(out), v.as_list().look == flavour::list ? flavour::list : flavour::tuple);
}

[[nodiscard]] inline std::int64_t floor_quotient(std::int64_t a, std::int64_t b) {
    if (b == -1) {
        std::int64_t out = 0;
        if (__builtin_sub_overflow(std::int64_t{0}, a, &out)) fail_overflow();
        return out;
    }
    const std::int64_t quotient = a / b;
    return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

[[nodiscard]] inline double floor_remainder(double a, double b) noexcept {
    const double rest = std::fmod(a, b);
    if (rest == 0) return std::copysign(0.0, b);
    return (rest < 0) != (b < 0) ? rest + b : rest;
}

[[nodiscard]] inline value integer_power(std::int64_t base, std::int64_t exponent) {
    if (exponent < 0) {
        if (base == 0) fail_type("0 has no negative power");
        return std::pow(static_cast<double>(base), static_cast<double>(exponent));
    }
    std::int64_t out = 1;
    for (std::int64_t rest = exponent; rest != 0; rest >>= 1) {
        if ((rest & 1) != 0 && __builtin_mul_overflow(out, base, &out)) fail_overflow();
        if (rest > 1 && __builtin_mul_overflow(base, base, &base)) fail_overflow();
    }
    return out;
}

[[nodiscard]] inline value calculate_integers(operation op, std::int64_t a, std::int64_t b) {
    std::int64_t out = 0;
    if (b == 0 && (op == operation::divide || op == operation::floor_divide || op == operation::modulo)) {
        fail_type("division by zero");
    }
    switch (op) {
        case operation::add:
            if (__builtin_add_overflow(a, b, &out)) fail_overflow();
            return out;
        case operation::subtract:
            if (__builtin_sub_overflow(a, b, &out)) fail_overflow();
            return out;
        case operation::multiply:
            if (__builtin_mul_overflow(a, b, &out)) fail_overflow();
            return out;
        case operation::divide: return static_cast<double>(a) / static_cast<double>(b);
        case operation::floor_divide: return floor_quotient(a, b);
        case operation::modulo: {
            if (b == -1) return 0;
            const std::int64_t rest = a % b;
            return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
        }
        case operation::power: return integer_power(a, b);
    }
    return {};
}

[[nodiscard]] inline value calculate_reals(operation op, double a, double b) {
    if (b == 0 && (op == operation::divide || op == operation::floor_divide || op == operation::modulo)) {
        fail_type("division by zero");
    }
    switch (op) {
        case operation::add: return a + b;
        case operation::subtract: return a - b;
        case operation::multiply: return a * b;
        case operation::divide: return a / b;
        case operation::floor_divide: return std::floor((a - floor_remainder(a, b)) / b + 0.5);
        case operation::modulo: return floor_remainder(a, b);
        case operation::power: {
            if (a == 0 && b < 0) fail_type("0 has no negative power");
            const double out = std::pow(a, b);
            if (std::isinf(out) && std::isfinite(a) && std::isfinite(b)) fail_limit("a number is too large");
            if (std::isnan(out) && !std::isnan(a) && !std::isnan(b)) fail_type("a negative number has no such power");
            return out;
        }
    }
    return {};
}

/// a op b. Stops for types that don't go together, division by zero, and integers beyond 64 bits.
[[nodiscard]] inline value calculate(machine& m, operation op, const value& a, const value& b) {
    m.step();
    if (is_integral(a) && is_integral(b)) return calculate_integers(op, integral(a), integral(b));
    if (is_number(a) && is_number(b)) return calculate_reals(op, real(a), real(b));
    if (op == operation::modulo && a.is_string()) return format_percent(m, a.as_string(), b);
    check_defined(a);
    check_defined(b);
    if (op == operation::add) {
        if (a.is_string() && b.is_string()) {
            const string &x = a.as_string(), &y = b.as_string();
            if (!x.safe() && !y.safe()) {
                if (x.empty()) return b;
                if (y.empty()) return a;
                return join_two(m, x, y);
            }
            return join_two(m, html_escaped(m, x), html_escaped(m, y), true);
        }
        if (a.is_list() && b.is_list() && type_name(a) == type_name(b) && type_name(a).find('_') == std::string_view::npos) {
            m.need((a.items().size() + b.items().size()) * sizeof(value));
            std::vector<value> out;
            out.reserve(a.items().size() + b.items().size());
            out.insert(out.end(), a.items().begin(), a.items().end());
            out.insert(out.end(), b.items().begin(), b.items().end());
            return m.make_list(std::move(out), a.as_list().look == flavour::list ? flavour::list : flavour::tuple);
        }
    }
    if (op == operation::multiply) {
        const auto repeatable = [](const value& v) {
            return v.is_string() || (v.is_list() && type_name(v).find('_') == std::string_view::npos);
        };
        if (repeatable(a) && is_integral(b)) return repeated(m, a, integral(b));
        if (repeatable(b) && is_integral(a)) return repeated(m, b, integral(a));
    }
    fail_type("a ", type_name(a), " ", symbol(op), " a ", type_name(b), " is not possible");
}

[[nodiscard]] inline value negative(const value& v) {
    check_defined(v);
    if (v.is(kind::real)) return -v.as_real();
    if (!is_integral(v)) fail_type("a ", type_name(v), " has no negative");
    return calculate_integers(operation::subtract, 0, integral(v));
}

[[nodiscard]] inline value positive(const value& v) {
    check_defined(v);
    if (v.is(kind::real)) return v;
    if (!is_integral(v)) fail_type("a ", type_name(v), " has no sign");
    return integral(v);
}

}  // namespace colibri::jinja::detail
