// How values look when they are printed.
#pragma once

#include <string_view>

#include "colibri/chat/jinja/compare.hpp"
#include "colibri/chat/jinja/number.hpp"
#include "colibri/text/unicode.hpp"

namespace colibri::jinja::detail {

/// White space as the language's strings have it: Unicode's, and the four separators U+001C to U+001F.
[[nodiscard]] inline bool is_space(char32_t code) noexcept {
    return (code >= 0x1C && code <= 0x1F) || colibri::text::is_white_space(code);
}

[[nodiscard]] inline bool is_printable(char32_t code) noexcept {
    namespace classes = colibri::text::classes;
    return code == ' ' || (colibri::text::properties(code) & (classes::other | classes::separator)) == 0;
}

/// Calls f(character, code, origin) for each character of `s`.
template <class F>
void for_each_character(const string& s, F&& f) {
    s.for_each_run(0, s.size(), [&](std::string_view run, origin from) {
        for (std::size_t at = 0; at < run.size();) {
            const std::size_t size = character_size(run, at);
            const std::string_view character = run.substr(at, size);
            f(character, code_of(character), from);
            at += size;
        }
    });
}

inline void append_hex(string_builder& out, std::string_view prefix, std::uint32_t number, int width, origin from) {
    char buffer[16];
    const auto end = std::to_chars(buffer, buffer + sizeof buffer, number, 16).ptr;
    std::string text(prefix);
    for (auto n = end - buffer; n < width; ++n) text += '0';
    text.append(buffer, end);
    out.append(text, from);
}

/// `s` in quotes, as in a printed list: single quotes unless only double ones spare an escape; what can't be shown escaped.
/// An escape has the origin of what it stands for.
inline void append_quoted(string_builder& out, const string& s) {
    out.counter().touch_each(s.size());
    const bool single = s.view().find('\'') != std::string_view::npos && s.view().find('"') == std::string_view::npos;
    const char32_t quote = single ? '"' : '\'';
    out.append(single ? "\"" : "'", origin::trusted);
    for_each_character(s, [&](std::string_view character, char32_t code, origin from) {
        if (code == colibri::text::replacement_character && character != "\xEF\xBF\xBD") {
            for (const char byte : character) append_hex(out, "\\x", static_cast<unsigned char>(byte), 2, from);
        } else if (code == quote || code == '\\') {
            out.append("\\", from);
            out.append(character, from);
        } else if (code == '\n' || code == '\r' || code == '\t') {
            out.append(code == '\n' ? "\\n" : code == '\r' ? "\\r" : "\\t", from);
        } else if (is_printable(code)) {
            out.append(character, from);
        } else if (code < 0x100) {
            append_hex(out, "\\x", code, 2, from);
        } else if (code < 0x10000) {
            append_hex(out, "\\u", code, 4, from);
        } else {
            append_hex(out, "\\U", code, 8, from);
        }
    });
    out.append(single ? "\"" : "'", origin::trusted);
}

inline void append_printed(machine& m, string_builder& out, const value& v);

/// `v` as it stands inside a printed list: strings in quotes.
inline void append_inner(machine& m, string_builder& out, const value& v) {
    if (v.is_string()) append_quoted(out, v.as_string());
    else if (v.is_undefined()) out.append("Undefined", origin::trusted);
    else append_printed(m, out, v);
}

inline void append_items(machine& m, string_builder& out, const value& list) {
    const flavour look = list.as_list().look;
    const bool tuple = look == flavour::tuple || look == flavour::group;
    const bool view = look != flavour::list && !tuple;
    if (view) out.append(concat(type_name(list), "("), origin::trusted);
    out.append(tuple ? "(" : "[", origin::trusted);
    bool first = true;
    for (const value& item : list.items()) {
        if (!first) out.append(", ", origin::trusted);
        first = false;
        append_inner(m, out, item);
    }
    if (tuple && list.items().size() == 1) out.append(",", origin::trusted);
    out.append(tuple ? ")" : view ? "])" : "]", origin::trusted);
}

/// `v` as `{{ v }}` shows it.
inline void append_printed(machine& m, string_builder& out, const value& v) {
    m.step();
    switch (v.kind()) {
        case kind::undefined: return;
        case kind::none: return out.append("None", origin::trusted);
        case kind::boolean: return out.append(v.as_bool() ? "True" : "False", origin::trusted);
        case kind::integer: return out.append(concat(v.as_int()), origin::trusted);
        case kind::real: return out.append(shortest(v.as_real()), origin::trusted);
        case kind::string: return out.append(v.as_string());
        case kind::list: {
            const nesting level(m);
            return append_items(m, out, v);
        }
        case kind::dict: {
            const nesting level(m);
            out.append("{", origin::trusted);
            bool first = true;
            for (const auto& [key, item] : v.members()) {
                if (!first) out.append(", ", origin::trusted);
                first = false;
                append_inner(m, out, key);
                out.append(": ", origin::trusted);
                append_inner(m, out, item);
            }
            return out.append("}", origin::trusted);
        }
        case kind::object: {
            const nesting level(m);
            return v.as_object()->print(m, out);
        }
    }
}

/// `v` as text: what `{{ v }}` shows. A string is itself.
[[nodiscard]] inline string to_string(machine& m, const value& v) {
    if (v.is_string()) return v.as_string();
    string_builder out(m);
    append_printed(m, out, v);
    return out.finish();
}

/// `v` as text, and safe for HTML: a safe string is itself, everything else gets its five special characters replaced.
[[nodiscard]] inline string html_escaped(machine& m, const value& v) {
    const string s = to_string(m, v);
    if (s.safe()) return s;
    m.touch_slowly(s.size());
    string_builder out(m);
    s.for_each_run(0, s.size(), [&](std::string_view run, origin from) {
        for (std::size_t at = 0; at < run.size();) {
            const std::size_t stop = std::min(run.find_first_of("&<>'\"", at), run.size());
            out.append(run.substr(at, stop - at), from);
            if (stop == run.size()) break;
            switch (run[stop]) {
                case '&': out.append("&amp;", from); break;
                case '<': out.append("&lt;", from); break;
                case '>': out.append("&gt;", from); break;
                case '\'': out.append("&#39;", from); break;
                default: out.append("&#34;", from);
            }
            at = stop + 1;
        }
    });
    return out.finish(true);
}

}  // namespace colibri::jinja::detail
