// Values as JSON text, byte for byte as published templates expect it.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "colibri/chat/jinja/print.hpp"

namespace colibri::jinja {
namespace detail {

/// How JSON is laid out.
struct json_style {
    std::optional<std::string> indent = {};  ///< one level; nothing: all on one line
    std::string between = ", ";              ///< between items; "," if there is an indent and nobody says otherwise
    std::string colon = ": ";
    bool ascii = false;                      ///< characters beyond ASCII as \u and four hexadecimal digits
    bool sorted = false;                     ///< members by key
};

/// `s` as a JSON string. An escape has the origin of what it stands for.
inline void append_json_string(string_builder& out, const string& s, bool ascii) {
    if (ascii) out.counter().touch_each(s.size());
    else out.counter().touch_slowly(s.size());
    out.append("\"", origin::trusted);
    s.for_each_run(0, s.size(), [&](std::string_view run, origin from) {
        const auto plain = [&](char c) {
            const auto byte = static_cast<unsigned char>(c);
            return byte >= 0x20 && c != '"' && c != '\\' && (!ascii || byte < 0x7f);
        };
        for (std::size_t at = 0; at < run.size();) {
            std::size_t stop = at;
            while (stop < run.size() && plain(run[stop])) ++stop;
            out.append(run.substr(at, stop - at), from);
            if ((at = stop) == run.size()) break;
            switch (run[at]) {
                case '"': out.append("\\\"", from); break;
                case '\\': out.append("\\\\", from); break;
                case '\n': out.append("\\n", from); break;
                case '\r': out.append("\\r", from); break;
                case '\t': out.append("\\t", from); break;
                case '\b': out.append("\\b", from); break;
                case '\f': out.append("\\f", from); break;
                default: {
                    const std::size_t size = character_size(run, at);
                    const char32_t code = code_of(run.substr(at, size));
                    if (code < 0x10000) {
                        append_hex(out, "\\u", code, 4, from);
                    } else {
                        append_hex(out, "\\u", 0xD800 + ((code - 0x10000) >> 10), 4, from);
                        append_hex(out, "\\u", 0xDC00 + ((code - 0x10000) & 0x3FF), 4, from);
                    }
                    at += size;
                    continue;
                }
            }
            ++at;
        }
    });
    out.append("\"", origin::trusted);
}

[[nodiscard]] inline std::string json_number(double number) {
    if (std::isnan(number)) return "NaN";
    if (std::isinf(number)) return number < 0 ? "-Infinity" : "Infinity";
    return shortest(number);
}

inline void append_json_key(string_builder& out, const value& key, bool ascii) {
    const auto quoted_text = [&](const std::string& text) { out.append(concat("\"", text, "\""), origin::trusted); };
    switch (key.kind()) {
        case kind::string: return append_json_string(out, key.as_string(), ascii);
        case kind::integer: return quoted_text(concat(key.as_int()));
        case kind::real: return quoted_text(json_number(key.as_real()));
        case kind::boolean: return quoted_text(key.as_bool() ? "true" : "false");
        case kind::none: return quoted_text("null");
        default: fail_type("a ", type_name(key), " can't be a key in JSON");
    }
}

inline void append_json(machine& m, string_builder& out, const value& v, const json_style& style, std::size_t level = 0) {
    m.step();
    const auto line = [&](std::size_t deep) {
        if (!style.indent) return;
        out.append("\n", origin::trusted);
        out.append_repeated(*style.indent, deep, origin::trusted);
    };
    switch (v.kind()) {
        case kind::none: return out.append("null", origin::trusted);
        case kind::boolean: return out.append(v.as_bool() ? "true" : "false", origin::trusted);
        case kind::integer: return out.append(concat(v.as_int()), origin::trusted);
        case kind::real: return out.append(json_number(v.as_real()), origin::trusted);
        case kind::string: return append_json_string(out, v.as_string(), style.ascii);
        case kind::list: {
            if (type_name(v).find('_') != std::string_view::npos) break;
            if (v.items().empty()) return out.append("[]", origin::trusted);
            const nesting deeper(m);
            out.append("[", origin::trusted);
            for (std::size_t i = 0; i < v.items().size(); ++i) {
                if (i != 0) out.append(style.between, origin::trusted);
                line(level + 1);
                append_json(m, out, v.items()[i], style, level + 1);
            }
            line(level);
            return out.append("]", origin::trusted);
        }
        case kind::dict: {
            if (v.members().empty()) return out.append("{}", origin::trusted);
            const nesting deeper(m);
            std::vector<const value::pair*> members;
            for (const auto& member : v.members()) members.push_back(&member);
            if (style.sorted) {
                m.step(members.size());
                std::ranges::stable_sort(members, [&](const auto* a, const auto* b) { return order(m, a->first, b->first) < 0; });
            }
            out.append("{", origin::trusted);
            for (std::size_t i = 0; i < members.size(); ++i) {
                if (i != 0) out.append(style.between, origin::trusted);
                line(level + 1);
                append_json_key(out, members[i]->first, style.ascii);
                out.append(style.colon, origin::trusted);
                append_json(m, out, members[i]->second, style, level + 1);
            }
            line(level);
            return out.append("}", origin::trusted);
        }
        default: break;
    }
    fail_type("a ", type_name(v), " has no JSON form");
}

}  // namespace detail

/// `v` as JSON text on one line, or indented by `indent` blanks a level if that is not 0. Code: template_runtime (something in
/// it has no JSON form), limit.
[[nodiscard]] inline result<std::string> to_json(const value& v, std::size_t indent = 0) {
    try {
        limits wide;
        wide.steps = ~std::uint64_t{0} / 2;
        wide.memory = ~std::size_t{0} / 4;
        detail::machine m(wide, {});
        detail::string_builder out(m);
        detail::json_style style;
        if (indent != 0) {
            style.indent = std::string(indent, ' ');
            style.between = ",";
        }
        detail::append_json(m, out, v, style);
        return std::string(out.view());
    } catch (const detail::stopped& why) {
        return to_error(why.what);
    }
}

}  // namespace colibri::jinja
