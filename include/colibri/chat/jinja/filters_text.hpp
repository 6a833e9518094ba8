// Filters that make text of a value.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

#include "colibri/chat/jinja/arithmetic.hpp"
#include "colibri/chat/jinja/text_ops.hpp"
#include "colibri/chat/jinja/tojson.hpp"

namespace colibri::jinja::detail::filters {

template <letter_case Case>
value cased(machine& m, const value& self, const arguments& given) {
    expect_none("this filter", given);
    return change_case(m, to_string(m, self), Case);
}

inline value center(machine& m, const value& self, const arguments& given) {
    const auto [width] = bind("center", given, {"width"});
    return pad(m, to_string(m, self), width != nullptr ? integer_argument("center", *width) : 80, string(" ", origin::trusted), 1, 1);
}

inline value escape(machine& m, const value& self, const arguments& given) {
    expect_none("escape", given);
    return html_escaped(m, self);
}

/// The same bytes, `safe` or not.
[[nodiscard]] inline string marked_safe(machine& m, const string& s, bool safe) {
    if (s.safe() == safe || s.empty()) return s;
    string_builder out(m);
    out.append(s);
    return out.finish(safe);
}

inline value forceescape(machine& m, const value& self, const arguments& given) {
    expect_none("forceescape", given);
    return html_escaped(m, marked_safe(m, to_string(m, self), false));
}

inline value safe(machine& m, const value& self, const arguments& given) {
    expect_none("safe", given);
    return marked_safe(m, to_string(m, self), true);
}

inline value to_text(machine& m, const value& self, const arguments& given) {
    expect_none("string", given);
    return to_string(m, self);
}

inline value format(machine& m, const value& self, const arguments& given) {
    const string s = to_string(m, self);
    if (given.named.empty()) return format_percent(m, s, m.make_tuple(given.positional));
    if (!given.positional.empty()) fail_type("format takes arguments by position or by name, not both");
    auto members = std::make_shared<dict_data>();
    for (const auto& [key, item] : given.named) m.put(*members, key, item);
    return format_percent(m, s, m.make_dict(std::move(members)));
}

inline value indent(machine& m, const value& self, const arguments& given) {
    const auto [width, first, blank] = bind("indent", given, {"width", "first", "blank"});
    check_defined(self);
    const string& s = string_argument("indent", self);
    const bool first_too = first != nullptr && truth(m, *first), blank_too = blank != nullptr && truth(m, *blank);
    string shift(std::string(4, ' '), origin::trusted);
    if (width != nullptr && width->is_string()) {
        shift = width->as_string();
    } else if (width != nullptr) {
        shift = repeated(m, string(" ", origin::trusted), integer_argument("indent", *width)).as_string();
    }
    m.touch_slowly(s.size());
    string_builder out(m);
    if (first_too) out.append(shift);
    bool later = false;
    const auto line = [&](std::size_t begin, std::size_t end) {
        if (later) out.append("\n", begin > 0 ? s.origin_at(begin - 1) : origin::trusted);
        if (later && (blank_too || begin != end)) out.append(shift);
        out.append(s, begin, end);
        later = true;
    };
    std::size_t last_behind = 0;
    bool open = true;  // the text ends without a line break, or is empty: nothing follows the last line
    for_each_line(s.view(), [&](std::size_t begin, std::size_t end, std::size_t behind) {
        line(begin, end);
        last_behind = behind;
        open = behind == end;
    });
    if (s.empty() || !open) line(last_behind, last_behind);
    return out.finish(s.safe());
}

inline value replace(machine& m, const value& self, const arguments& given) {
    const auto [old, fresh, most] = bind("replace", given, {"old", "new", "count"}, 2);
    const std::int64_t count = most != nullptr && !most->is_none() ? integer_argument("replace", *most) : -1;
    return detail::replace(m, to_string(m, self), to_string(m, *old), to_string(m, *fresh), count);
}

inline value trim(machine& m, const value& self, const arguments& given) {
    const auto [set] = bind("trim", given, {"chars"});
    if (set == nullptr || set->is_none()) return strip(m, to_string(m, self), ends::both);
    return strip(m, to_string(m, self), ends::both, &string_argument("trim", *set));
}

/// The first letter of each word in upper case; words begin behind blanks and behind - ( { [ <.
inline value title(machine& m, const value& self, const arguments& given) {
    expect_none("title", given);
    const string s = to_string(m, self);
    const std::string_view text = s.view();
    string_builder out(m);
    const auto separates = [&](std::size_t at, std::size_t size) {
        return is_space(code_of(text.substr(at, size))) || std::string_view("-({[<").find(text[at]) != std::string_view::npos;
    };
    std::size_t at = 0;
    while (at < text.size()) {
        std::size_t size = character_size(text, at);
        if (separates(at, size)) {
            out.append(s, at, at + size);
            at += size;
            continue;
        }
        out.append(change_case(m, slice(m, s, at, at + size), letter_case::upper));
        const std::size_t begin = at += size;
        while (at < text.size() && !separates(at, size = character_size(text, at))) at += size;
        out.append(change_case(m, slice(m, s, begin, at), letter_case::lower));
    }
    return out.finish(s.safe());
}

inline value truncate(machine& m, const value& self, const arguments& given) {
    const auto [length, kill, end, leeway] = bind("truncate", given, {"length", "killwords", "end", "leeway"});
    const string tail = end != nullptr ? string_argument("truncate", *end) : string("...", origin::trusted);
    const std::int64_t most = length != nullptr ? integer_argument("truncate", *length) : 255;
    const std::int64_t spare = leeway != nullptr && !leeway->is_none() ? integer_argument("truncate", *leeway) : 5;
    const auto length_of_self = length_of(m, self);
    if (!length_of_self) fail_type("truncate needs text, not a ", type_name(self));
    const auto size = static_cast<std::int64_t>(*length_of_self), tail_size = static_cast<std::int64_t>(tail.length());
    if (most < tail_size || spare < 0) fail_type("truncate got a length that its end doesn't fit into");
    if (size <= most || size - most <= spare) return self;
    const string& s = string_argument("truncate", self);
    m.touch(s.size());
    std::size_t cut = s.offset_of(static_cast<std::size_t>(most - tail_size));
    if (kill == nullptr || !truth(m, *kill)) {
        const std::size_t blank = s.view().substr(0, cut).rfind(' ');
        if (blank != std::string_view::npos) cut = blank;
    }
    return join_two(m, slice(m, s, 0, cut), tail);
}

inline value wordcount(machine& m, const value& self, const arguments& given) {
    expect_none("wordcount", given);
    namespace classes = colibri::text::classes;
    const string s = to_string(m, self);
    m.touch_slowly(s.size());
    std::int64_t words = 0;
    bool inside = false;
    for_each_character(s, [&](std::string_view, char32_t code, origin) {
        const bool word = code == '_' || (colibri::text::properties(code) & (classes::letter | classes::number)) != 0;
        if (word && !inside) ++words;
        inside = word;
    });
    return words;
}

/// `s` percent-encoded for a URL's path, or for its query.
inline void append_url(string_builder& out, const string& s, bool query) {
    out.counter().touch_each(s.size());
    s.for_each_run(0, s.size(), [&](std::string_view run, origin from) {
        for (const char c : run) {
            const auto byte = static_cast<unsigned char>(c);
            const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
                               c == '.' || c == '-' || c == '~' || (c == '/' && !query);
            constexpr std::string_view hex = "0123456789ABCDEF";
            const char escaped[] = {'%', hex[byte >> 4], hex[byte & 15]};
            if (plain) out.append(std::string_view(&c, 1), from);
            else if (c == ' ' && query) out.append("+", from);
            else out.append(std::string_view(escaped, 3), from);
        }
    });
}

inline value urlencode(machine& m, const value& self, const arguments& given) {
    expect_none("urlencode", given);
    string_builder out(m);
    if (self.is_string() || try_iterate(m, self) == nullptr) {
        append_url(out, to_string(m, self), false);
        return out.finish();
    }
    bool first = true;
    const auto pair = [&](const value& key, const value& item) {
        if (!first) out.append("&", origin::trusted);
        first = false;
        append_url(out, to_string(m, key), true);
        out.append("=", origin::trusted);
        append_url(out, to_string(m, item), true);
    };
    if (self.is_dict()) {
        for (const auto& [key, item] : self.members()) pair(key, item);
    } else {
        for_each_item(m, self, [&](const value& item) {
            const auto both = collect(m, item);
            if (both.size() != 2) fail_type("urlencode needs pairs");
            pair(both[0], both[1]);
            return true;
        });
    }
    return out.finish();
}

/// Without HTML comments and tags, runs of blanks as one, the usual entities as characters.
inline value striptags(machine& m, const value& self, const arguments& given) {
    expect_none("striptags", given);
    const string s = to_string(m, self);
    const std::string_view text = s.view();
    m.touch_each(text.size());
    string_builder bare(m);
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t open = std::min(text.find('<', at), text.size());
        bare.append(s, at, open);
        if (open == text.size()) break;
        const bool comment = text.substr(open).starts_with("<!--");
        const std::size_t close = comment ? text.find("-->", open) : text.find('>', open);
        if (close == text.npos) {
            bare.append(s, open, text.size());
            break;
        }
        at = close + (comment ? 3 : 1);
    }
    const value words = split_blanks(m, bare.finish(), -1, false);
    static constexpr std::pair<std::string_view, std::string_view> entities[] = {
        {"&amp;", "&"}, {"&lt;", "<"}, {"&gt;", ">"}, {"&quot;", "\""}, {"&#34;", "\""}, {"&#39;", "'"}, {"&apos;", "'"}};
    string_builder out(m);
    for (const value& word : words.items()) {
        if (out.size() != 0) out.append(" ", origin::untrusted);
        const string& w = word.as_string();
        for (std::size_t at = 0; at < w.size();) {
            const auto known = std::ranges::find_if(entities, [&](const auto& e) { return w.view().substr(at).starts_with(e.first); });
            if (known == std::end(entities)) {
                const std::size_t next = std::min(w.view().find('&', at + 1), w.size());
                out.append(w, at, next);
                at = next;
            } else {
                out.append(known->second, w.origin_at(at));
                at += known->first.size();
            }
        }
    }
    return out.finish();
}

inline value tojson(machine& m, const value& self, const arguments& given) {
    const auto [ascii, indent, separators, sort] = bind("tojson", given, {"ensure_ascii", "indent", "separators", "sort_keys"});
    json_style style;
    style.ascii = ascii != nullptr && truth(m, *ascii);
    style.sorted = sort != nullptr && truth(m, *sort);
    if (indent != nullptr && !indent->is_none()) {
        if (indent->is_string()) {
            style.indent = std::string(indent->as_string().view());
        } else {
            const std::int64_t width = integer_argument("tojson", *indent);
            if (width > 1000) fail_limit("tojson got an indent of more than 1000");
            style.indent = std::string(static_cast<std::size_t>(std::max<std::int64_t>(width, 0)), ' ');
        }
        style.between = ",";
    }
    if (separators != nullptr && !separators->is_none()) {
        const auto both = collect(m, *separators);
        if (both.size() != 2) fail_type("tojson needs two separators");
        style.between = std::string(string_argument("tojson", both[0]).view());
        style.colon = std::string(string_argument("tojson", both[1]).view());
    }
    string_builder out(m);
    append_json(m, out, self, style);
    return out.finish();
}

}  // namespace colibri::jinja::detail::filters
