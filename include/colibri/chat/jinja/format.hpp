// Text made from a format: `'%s' % x`, `'{}'.format(x)` and the specifications inside.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "colibri/chat/jinja/access.hpp"
#include "colibri/chat/jinja/print.hpp"

namespace colibri::jinja::detail {

/// One specification: [[fill]align][sign][#][0][width][,][.precision][type].
struct format_spec {
    std::string fill = " ";
    char align = 0;  ///< '<', '>', '^', '=' or 0
    char sign = '-';
    char group = 0;  ///< ',' or '_'
    char type = 0;
    bool alternate = false;
    bool zero = false;  ///< padded with zeros behind the sign because of a 0 before the width
    std::size_t width = 0;
    std::optional<int> precision = {};
};

/// Most digits behind the point that a format may ask for.
inline constexpr int max_precision = 1000;

/// Reads digits at `at`. Stops if the number is beyond what memory could hold anyway.
[[nodiscard]] inline std::optional<std::size_t> read_count(const meter& m, std::string_view text, std::size_t& at) {
    if (at >= text.size() || text[at] < '0' || text[at] > '9') return std::nullopt;
    std::size_t out = 0;
    for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
        out = out * 10 + static_cast<std::size_t>(text[at] - '0');
        if (out > m.allowed().memory) fail_limit("a format asks for more than ", m.allowed().memory, " characters");
    }
    return out;
}

[[nodiscard]] inline int checked_precision(std::size_t wanted) {
    if (wanted > max_precision) fail_limit("a format asks for more than ", max_precision, " digits");
    return static_cast<int>(wanted);
}

[[nodiscard]] inline format_spec parse_spec(const meter& m, std::string_view text) {
    format_spec spec;
    std::size_t at = 0;
    const auto is_align = [](char c) { return c == '<' || c == '>' || c == '^' || c == '='; };
    if (!text.empty()) {
        const std::size_t fill = character_size(text, 0);
        if (fill < text.size() && is_align(text[fill])) {
            spec.fill = text.substr(0, fill);
            spec.align = text[fill];
            at = fill + 1;
        } else if (is_align(text[0])) {
            spec.align = text[0];
            at = 1;
        }
    }
    if (at < text.size() && (text[at] == '+' || text[at] == '-' || text[at] == ' ')) spec.sign = text[at++];
    if (at < text.size() && text[at] == '#') spec.alternate = ++at != 0;
    if (at < text.size() && text[at] == '0') {
        if (spec.align == 0) {
            spec.fill = "0";
            spec.align = '=';
            spec.zero = true;
        }
        ++at;
    }
    spec.width = read_count(m, text, at).value_or(0);
    if (at < text.size() && (text[at] == ',' || text[at] == '_')) spec.group = text[at++];
    if (at < text.size() && text[at] == '.') {
        ++at;
        const auto precision = read_count(m, text, at);
        if (!precision) fail_type("a format specification has no digits behind its point");
        spec.precision = static_cast<int>(std::min<std::size_t>(*precision, 1u << 30));
    }
    if (at < text.size()) spec.type = text[at++];
    if (at != text.size()) fail_type("'", text, "' is no format specification");
    return spec;
}

/// Puts `body` into the field, `prefix` (sign, 0x) before it: padding goes between the two for '='.
inline void append_field(string_builder& out, const format_spec& spec, std::string_view prefix, const string& body,
                         char align) {
    const std::size_t used = prefix.size() + body.length();
    const std::size_t pad = spec.width > used ? spec.width - used : 0;
    if (spec.align != 0) align = spec.align;
    const std::size_t left = align == '>' ? pad : align == '^' ? pad / 2 : 0;
    out.append_repeated(spec.fill, left, origin::trusted);
    out.append(prefix, origin::trusted);
    if (align == '=') out.append_repeated(spec.fill, pad, origin::trusted);
    out.append(body);
    if (align == '<' || align == '^') out.append_repeated(spec.fill, pad - left, origin::trusted);
}

inline void append_number(string_builder& out, const format_spec& spec, bool negative, std::string_view base_prefix,
                          std::string digits, std::size_t group_size = 3) {
    if (spec.group != 0) {
        std::size_t whole = digits.find_first_of(".e%");
        if (whole == std::string::npos) whole = digits.size();
        for (std::size_t at = whole; at > group_size; at -= group_size) digits.insert(at - group_size, 1, spec.group);
    }
    const std::string_view sign = negative ? "-" : spec.sign == '+' ? "+" : spec.sign == ' ' ? " " : "";
    append_field(out, spec, concat(sign, base_prefix), string(std::move(digits), origin::trusted), '>');
}

inline void append_integer(string_builder& out, const format_spec& spec, std::int64_t number) {
    const std::uint64_t size = number < 0 ? ~static_cast<std::uint64_t>(number) + 1 : static_cast<std::uint64_t>(number);
    const int base = spec.type == 'x' || spec.type == 'X' ? 16 : spec.type == 'o' ? 8 : spec.type == 'b' ? 2 : 10;
    char buffer[72];
    std::string digits(buffer, std::to_chars(buffer, buffer + sizeof buffer, size, base).ptr);
    if (spec.type == 'X') {
        for (char& c : digits) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    }
    const char prefix[] = {'0', spec.type, 0};
    append_number(out, spec, number < 0, spec.alternate && base != 10 ? prefix : "", std::move(digits),
                  base == 10 ? 3 : 4);
}

inline void append_real(string_builder& out, const format_spec& spec, double number) {
    char type = spec.type;
    const bool upper = type == 'E' || type == 'F' || type == 'G';
    if (upper) type = static_cast<char>(type - 'A' + 'a');
    const bool negative = std::signbit(number) && !std::isnan(number);
    const double size = std::fabs(number);
    std::string digits;
    if (!std::isfinite(size)) {
        digits = shortest(size);
    } else if (type == 0 && !spec.precision) {
        digits = shortest(size);
    } else {
        const int precision = checked_precision(static_cast<std::size_t>(spec.precision.value_or(6)));
        out.counter().step(10 + static_cast<std::uint64_t>(precision) / 8);
        if (type == 'f') digits = with_precision(size, std::chars_format::fixed, precision);
        else if (type == '%') digits = with_precision(size * 100, std::chars_format::fixed, precision);
        else if (type == 'e') digits = with_precision(size, std::chars_format::scientific, precision);
        else digits = with_precision(size, std::chars_format::general, precision);
        if (type == 0 && digits.find_first_of(".e") == std::string::npos) digits += ".0";
    }
    if (type == '%') digits += '%';
    if (upper) {
        for (char& c : digits) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    }
    append_number(out, spec, negative, "", std::move(digits));
}

inline void append_text(machine& m, string_builder& out, const format_spec& spec, const string& s, char align) {
    const std::size_t end = spec.precision ? s.offset_of(static_cast<std::size_t>(*spec.precision)) : s.size();
    append_field(out, spec, "", slice(m, s, 0, end), align);
}

/// `v` by `{:spec}`.
inline void append_formatted(machine& m, string_builder& out, const value& v, std::string_view specification) {
    if (specification.empty()) return append_printed(m, out, v);
    format_spec spec = parse_spec(m, specification);
    const auto one_of = [&](std::string_view types) { return spec.type == 0 || types.find(spec.type) != types.npos; };
    const auto wrong = [&] { fail_type("'", specification, "' does not format a ", type_name(v)); };
    if (v.is_string()) {
        if (spec.zero) spec.align = '<';
        if (!one_of("s") || spec.align == '=' || spec.group != 0 || spec.alternate || spec.sign != '-') wrong();
        return append_text(m, out, spec, v.as_string(), '<');
    }
    if (is_integral(v) && one_of("dxXobn")) {
        if (spec.precision) wrong();
        return append_integer(out, spec, integral(v));
    }
    if (is_integral(v) && spec.type == 'c') {
        const std::int64_t code = integral(v);
        if (code < 0 || code > 0x10FFFF) wrong();
        std::string character;
        colibri::text::append_utf8(character, static_cast<char32_t>(code));
        return append_field(out, spec, "", string(std::move(character), origin::untrusted), '<');
    }
    if (is_number(v) && one_of("eEfFgG%n")) return append_real(out, spec, real(v));
    wrong();
}

/// `format % given`. `given` is one value, a tuple of values, or a dict for `%(name)s`.
[[nodiscard]] inline string format_percent(machine& m, const string& format, const value& given) {
    m.touch_slowly(format.size());
    const bool tuple = given.is_list() && type_name(given) == "tuple";
    std::size_t used = 0;
    bool by_name = false;
    const auto next = [&]() -> const value& {
        const std::size_t count = tuple ? given.items().size() : 1;
        if (used >= count) fail_type("a format needs more values than it got");
        return tuple ? given.items()[used++] : (++used, given);
    };
    string_builder out(m);
    const std::string_view text = format.view();
    std::size_t at = 0;
    while (at < text.size()) {
        const std::size_t percent = std::min(text.find('%', at), text.size());
        out.append(format, at, percent);
        if (percent == text.size()) break;
        at = percent + 1;
        format_spec spec;
        const value* named = nullptr;
        if (at < text.size() && text[at] == '(') {
            const std::size_t end = text.find(')', at);
            if (end == std::string_view::npos) fail_type("a format has no ')' behind its name");
            if (!given.is_dict()) fail_type("a format with names needs a dict");
            named = given.find(text.substr(at + 1, end - at - 1));
            if (named == nullptr) fail_type("a format names a key that its dict doesn't have");
            by_name = true;
            at = end + 1;
        }
        for (; at < text.size(); ++at) {
            if (text[at] == '-') spec.align = '<';
            else if (text[at] == '+') spec.sign = '+';
            else if (text[at] == ' ') spec.sign = spec.sign == '+' ? '+' : ' ';
            else if (text[at] == '#') spec.alternate = true;
            else if (text[at] == '0') spec.fill = "0";
            else break;
        }
        const auto count = [&]() -> std::size_t {
            if (at >= text.size() || text[at] != '*') return read_count(m, text, at).value_or(0);
            ++at;
            const value& n = next();
            if (!is_integral(n)) fail_type("a format's * needs an integer");
            if (integral(n) < 0) spec.align = '<';
            const double size = std::fabs(real(n));
            if (size > static_cast<double>(m.allowed().memory)) fail_limit("a format asks for too many characters");
            return static_cast<std::size_t>(size);
        };
        spec.width = count();
        if (at < text.size() && text[at] == '.') {
            ++at;
            spec.precision = static_cast<int>(std::min<std::size_t>(count(), 1u << 30));
        }
        while (at < text.size() && (text[at] == 'l' || text[at] == 'h' || text[at] == 'L')) ++at;
        if (at >= text.size()) fail_type("a format ends behind its %");
        const char type = text[at++];
        if (type == '%') {
            out.append(format, at - 1, at);
            continue;
        }
        const value& v = named != nullptr ? *named : next();
        const bool zero = spec.fill == "0";
        if (spec.align == '<') spec.fill = " ";
        switch (type) {
            case 's':
            case 'r':
            case 'a': {
                spec.fill = " ";
                string_builder shown(m);
                if (type == 's') append_printed(m, shown, v);
                else append_inner(m, shown, v);
                append_text(m, out, spec, shown.finish(), '>');
                break;
            }
            case 'd':
            case 'i':
            case 'u':
            case 'x':
            case 'X':
            case 'o': {
                check_defined(v);
                const bool decimal = type == 'd' || type == 'i' || type == 'u';
                if (!is_integral(v) && !(decimal && v.is(kind::real))) {
                    fail_type("%", type, " needs an integer, not a ", type_name(v));
                }
                if (v.is(kind::real) && !(std::fabs(v.as_real()) < 9.2e18)) fail_limit("a number is too large for an integer");
                if (zero && spec.align == 0) spec.align = '=';
                spec.type = decimal ? 'd' : type;
                append_integer(out, spec, v.is(kind::real) ? static_cast<std::int64_t>(v.as_real()) : integral(v));
                break;
            }
            case 'e':
            case 'E':
            case 'f':
            case 'F':
            case 'g':
            case 'G':
                check_defined(v);
                if (!is_number(v)) fail_type("%", type, " needs a number, not a ", type_name(v));
                if (zero && spec.align == 0) spec.align = '=';
                spec.type = type;
                if (!spec.precision) spec.precision = 6;
                append_real(out, spec, real(v));
                break;
            case 'c':
                if (v.is_string() && v.as_string().length() == 1) {
                    append_field(out, spec, "", v.as_string(), '>');
                } else if (is_integral(v) && integral(v) >= 0 && integral(v) <= 0x10FFFF) {
                    std::string character;
                    colibri::text::append_utf8(character, static_cast<char32_t>(integral(v)));
                    append_field(out, spec, "", string(std::move(character), origin::untrusted), '>');
                } else {
                    fail_type("%c needs one character");
                }
                break;
            default: fail_type("a format has no conversion '%", escaped(std::string_view(&type, 1)), "'");
        }
    }
    const bool ignores_rest = by_name || given.is_dict() || given.is_undefined() ||
                              (given.is(kind::object) && given.as_object()->sequence()) || (given.is_list() && !tuple);
    if (!ignores_rest && used < (tuple ? given.items().size() : 1)) fail_type("a format got more values than it needs");
    return out.finish();
}

/// Walks `.name` and `[key]` behind the first part of a `{field}`.
[[nodiscard]] inline value follow_field(machine& m, value v, std::string_view path) {
    while (!path.empty()) {
        if (path.front() == '.') {
            const std::size_t end = std::min(path.find_first_of(".[", 1), path.size());
            v = get_attribute(m, v, string(std::string(path.substr(1, end - 1)), origin::trusted));
            path.remove_prefix(end);
        } else {
            const std::size_t end = path.find(']');
            if (path.front() != '[' || end == std::string_view::npos) fail_type("a format field is not well formed");
            const std::string_view key = path.substr(1, end - 1);
            std::int64_t n = 0;
            const bool index = parse_integer(key, 10, n) == parsed::yes;
            v = get_item(m, v, index ? value(n) : value(string(std::string(key), origin::trusted)));
            path.remove_prefix(end + 1);
        }
    }
    return v;
}

/// `format.format(...)`. `automatic` counts the fields without a name, also those inside of specifications.
[[nodiscard]] inline string format_braces(machine& m, const string& format, const arguments& given, std::size_t& automatic,
                                          int level = 0) {
    if (level > 2) fail_type("a format nests too deep");
    m.touch_slowly(format.size());
    string_builder out(m);
    const std::string_view text = format.view();
    std::size_t at = 0;
    while (at < text.size()) {
        const std::size_t brace = std::min(text.find_first_of("{}", at), text.size());
        out.append(format, at, brace);
        if (brace == text.size()) break;
        if (brace + 1 < text.size() && text[brace + 1] == text[brace]) {
            out.append(format, brace, brace + 1);
            at = brace + 2;
            continue;
        }
        if (text[brace] == '}') fail_type("a format has a single '}'");
        std::size_t end = brace + 1;
        for (int open = 1; end < text.size(); ++end) {
            if (text[end] == '{') ++open;
            if (text[end] == '}' && --open == 0) break;
        }
        if (end >= text.size()) fail_type("a format has a single '{'");
        const std::string_view field = text.substr(brace + 1, end - brace - 1);
        at = end + 1;
        std::size_t name_end = 0;
        for (bool inside = false; name_end < field.size(); ++name_end) {
            if (field[name_end] == '[') inside = true;
            else if (field[name_end] == ']') inside = false;
            else if (!inside && (field[name_end] == ':' || field[name_end] == '!')) break;
        }
        std::string_view name = field.substr(0, name_end), rest = field.substr(name_end);
        char conversion = 0;
        if (rest.size() > 1 && rest[0] == '!') {
            conversion = rest[1];
            rest.remove_prefix(2);
        }
        if (!rest.empty() && rest.front() != ':') fail_type("a format field is not well formed");
        if (!rest.empty()) rest.remove_prefix(1);
        const std::size_t first_end = std::min(name.find_first_of(".["), name.size());
        const std::string_view first = name.substr(0, first_end);
        std::int64_t index = 0;
        const bool counted = first.empty();
        if (counted) index = static_cast<std::int64_t>(automatic++);
        value v;
        if (counted || parse_integer(first, 10, index) == parsed::yes) {
            if (index < 0 || static_cast<std::size_t>(index) >= given.positional.size()) {
                fail_type("a format needs more values than it got");
            }
            v = given.positional[static_cast<std::size_t>(index)];
        } else {
            const value* found = nullptr;
            for (const auto& [key, item] : given.named) {
                if (key == first) found = &item;
            }
            if (found == nullptr) fail_type("a format names '", first, "', which it didn't get");
            v = *found;
        }
        v = follow_field(m, std::move(v), name.substr(first_end));
        if (conversion == 'r' || conversion == 's') {
            string_builder shown(m);
            if (conversion == 'r') append_inner(m, shown, v);
            else append_printed(m, shown, v);
            v = shown.finish();
        } else if (conversion != 0) {
            fail_type("a format has an unknown conversion");
        }
        if (rest.find('{') != std::string_view::npos) {
            const string spec = format_braces(m, string(std::string(rest), origin::trusted), given, automatic, level + 1);
            append_formatted(m, out, v, spec.view());
        } else {
            append_formatted(m, out, v, rest);
        }
    }
    return out.finish();
}

}  // namespace colibri::jinja::detail
