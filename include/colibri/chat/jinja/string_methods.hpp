// Methods of strings.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "colibri/chat/jinja/format.hpp"
#include "colibri/chat/jinja/text_ops.hpp"

namespace colibri::jinja::detail::string_methods {

/// Argument as text that is given or not; none counts as not given.
[[nodiscard]] inline const string* optional_text(std::string_view function, const value* v) {
    return v == nullptr || v->is_none() ? nullptr : &string_argument(function, *v);
}

template <letter_case Case>
value cased(machine& m, const value& self, const arguments& given) {
    expect_none("this method", given);
    return change_case(m, self.as_string(), Case);
}

template <ends Where>
value stripped(machine& m, const value& self, const arguments& given) {
    const auto [set] = bind("strip", given, {"chars"});
    return strip(m, self.as_string(), Where, optional_text("strip", set));
}

template <bool FromRight>
value split(machine& m, const value& self, const arguments& given) {
    const auto [separator, most] = bind("split", given, {"sep", "maxsplit"});
    const std::int64_t cuts = most != nullptr ? integer_argument("split", *most) : -1;
    const string* by = optional_text("split", separator);
    if (by == nullptr) return split_blanks(m, self.as_string(), cuts, FromRight);
    return split_by(m, self.as_string(), by->view(), cuts, FromRight);
}

inline value splitlines(machine& m, const value& self, const arguments& given) {
    const auto [keep] = bind("splitlines", given, {"keepends"});
    const bool whole = keep != nullptr && truth(m, *keep);
    const string& s = self.as_string();
    m.touch_slowly(s.size());
    collector out(m);
    for_each_line(s.view(), [&](std::size_t begin, std::size_t end, std::size_t behind) {
        out.add(slice(m, s, begin, whole ? behind : end));
    });
    return out.finish();
}

inline value join(machine& m, const value& self, const arguments& given) {
    const auto [items] = bind("join", given, {"iterable"}, 1);
    string_builder out(m);
    bool first = true;
    for_each_item(m, *items, [&](const value& item) {
        if (!first) out.append(self.as_string());
        first = false;
        out.append(string_argument("join", item));
        return true;
    });
    return out.finish();
}

inline value replace_method(machine& m, const value& self, const arguments& given) {
    const auto [old, fresh, most] =
        bind("replace", given, {"old", "new", "count"}, 2);
    return replace(m, self.as_string(), string_argument("replace", *old), string_argument("replace", *fresh),
                   most != nullptr ? integer_argument("replace", *most) : -1);
}

/// The part of the text between the optional arguments start and end, as byte offsets; nothing if it is inside out.
[[nodiscard]] inline std::optional<std::pair<std::size_t, std::size_t>> window(machine& m, const string& s, const value* start,
                                                                              const value* end) {
    const value none;
    const auto length = static_cast<std::int64_t>(s.length());
    const auto bound = [&](const value* v, std::int64_t otherwise) {
        if (v == nullptr || v->is_none()) return otherwise;
        const std::int64_t n = integer_argument("this method", *v);
        return n < 0 ? std::max<std::int64_t>(0, n < -length ? 0 : n + length) : n;
    };
    const std::int64_t from = bound(start, 0), to = std::min(bound(end, length), length);
    m.touch(s.size());
    if (from > to) return std::nullopt;
    return std::pair{s.offset_of(static_cast<std::size_t>(from)), s.offset_of(static_cast<std::size_t>(to))};
}

template <bool AtStart>
value affix(machine& m, const value& self, const arguments& given) {
    const auto [what, start, end] = bind(AtStart ? "startswith" : "endswith", given,
                                         {"prefix", "start", "end"}, 1);
    const auto part = window(m, self.as_string(), start, end);
    const auto matches = [&](const value& v) {
        const std::string_view affix = string_argument(AtStart ? "startswith" : "endswith", v).view();
        if (!part) return false;
        const std::string_view text = self.as_string().view().substr(part->first, part->second - part->first);
        return AtStart ? text.starts_with(affix) : text.ends_with(affix);
    };
    if (what->is_list() && type_name(*what) == "tuple") return std::ranges::any_of(what->items(), matches);
    return matches(*what);
}

/// Where `what` stands: index of its first character, or -1.
template <bool FromRight, bool MustBeThere>
value find(machine& m, const value& self, const arguments& given) {
    const auto [what, start, end] =
        bind("find", given, {"sub", "start", "end"}, 1);
    const string& s = self.as_string();
    const std::string_view part = string_argument("find", *what).view();
    if (const auto range = window(m, s, start, end)) {
        const std::string_view text = s.view().substr(range->first, range->second - range->first);
        const std::size_t at = FromRight ? rfind_bytes(m, text, part) : find_bytes(m, text, part);
        if (at != text.npos) return character_count(s.view().substr(0, range->first + at));
    }
    if (MustBeThere) fail_type("the text that index looks for isn't there");
    return -1;
}

inline value count(machine& m, const value& self, const arguments& given) {
    const auto [what, start, end] =
        bind("count", given, {"sub", "start", "end"}, 1);
    const std::string_view part = string_argument("count", *what).view();
    const auto range = window(m, self.as_string(), start, end);
    if (!range) return 0;
    const std::string_view text = self.as_string().view().substr(range->first, range->second - range->first);
    if (part.empty()) return character_count(text) + 1;
    std::int64_t found = 0;
    for (std::size_t at = find_bytes(m, text, part); at != text.npos; at = find_bytes(m, text, part, at + part.size())) {
        if (++found % 4 == 0) m.step();
    }
    return found;
}

template <bool FromRight>
value partition(machine& m, const value& self, const arguments& given) {
    const auto [separator] = bind("partition", given, {"sep"}, 1);
    const string &s = self.as_string(), &by = string_argument("partition", *separator);
    if (by.empty()) fail_type("an empty separator can't split text");
    const std::size_t at = FromRight ? rfind_bytes(m, s.view(), by.view()) : find_bytes(m, s.view(), by.view());
    if (at == std::string_view::npos) {
        return FromRight ? m.make_tuple({string{}, string{}, s}) : m.make_tuple({s, string{}, string{}});
    }
    // The separator too is taken out of the text: a user's words don't become trusted because a template looks for them.
    return m.make_tuple({slice(m, s, 0, at), slice(m, s, at, at + by.size()), slice(m, s, at + by.size(), s.size())});
}

template <bool AtStart>
value without_affix(machine& m, const value& self, const arguments& given) {
    const auto [what] = bind("removeprefix", given, {"prefix"}, 1);
    const string& s = self.as_string();
    const std::string_view affix = string_argument("removeprefix", *what).view();
    if (AtStart && s.view().starts_with(affix)) return slice(m, s, affix.size(), s.size());
    if (!AtStart && s.view().ends_with(affix)) return slice(m, s, 0, s.size() - affix.size());
    return self;
}

template <std::size_t Left, std::size_t Right>
value justified(machine& m, const value& self, const arguments& given) {
    const auto [width, fill] = bind("center", given, {"width", "fillchar"}, 1);
    return pad(m, self.as_string(), integer_argument("center", *width),
               fill != nullptr ? string_argument("center", *fill) : string(" ", origin::trusted), Left, Right);
}

inline value zfill(machine& m, const value& self, const arguments& given) {
    const auto [width] = bind("zfill", given, {"width"}, 1);
    const string& s = self.as_string();
    const bool sign = s.view().starts_with('-') || s.view().starts_with('+');
    const string digits = pad(m, slice(m, s, sign ? 1 : 0, s.size()), integer_argument("zfill", *width) - (sign ? 1 : 0),
                              string("0", origin::trusted), 1, 0);
    if (!sign) return digits;
    string_builder out(m);
    out.append(s, 0, 1);
    out.append(digits);
    return out.finish();
}

inline value expandtabs(machine& m, const value& self, const arguments& given) {
    const auto [size] = bind("expandtabs", given, {"tabsize"});
    const std::int64_t tab = size != nullptr ? integer_argument("expandtabs", *size) : 8;
    m.touch_each(self.as_string().size());
    string_builder out(m);
    std::int64_t column = 0;
    for_each_character(self.as_string(), [&](std::string_view bytes, char32_t code, origin from) {
        if (code == '\t') {
            const std::int64_t blanks = tab > 0 ? tab - column % tab : 0;
            out.append_repeated(" ", static_cast<std::size_t>(blanks), from);
            column += blanks;
            return;
        }
        out.append(bytes, from);
        column = code == '\n' || code == '\r' ? 0 : column + 1;
    });
    return out.finish();
}

inline value format(machine& m, const value& self, const arguments& given) {
    std::size_t automatic = 0;
    return format_braces(m, self.as_string(), given, automatic);
}

/// True if there is a character and all have a property.
template <class F>
value all_characters(machine& m, const value& self, const arguments& given, F&& property) {
    expect_none("this method", given);
    m.touch_slowly(self.as_string().size());
    bool all = !self.as_string().empty();
    for_each_character(self.as_string(), [&](std::string_view, char32_t code, origin) { all = all && property(code); });
    return all;
}

template <colibri::text::class_mask Mask>
value all_in(machine& m, const value& self, const arguments& given) {
    return all_characters(m, self, given, [](char32_t code) { return (colibri::text::properties(code) & Mask) != 0; });
}

inline value isspace(machine& m, const value& self, const arguments& given) {
    return all_characters(m, self, given, [](char32_t code) { return is_space(code); });
}

inline value isascii(machine&, const value& self, const arguments& given) {
    expect_none("isascii", given);
    return std::ranges::all_of(self.as_string().view(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

inline value isprintable(machine& m, const value& self, const arguments& given) {
    return self.as_string().empty() || all_characters(m, self, given, is_printable).as_bool();
}

inline value isidentifier(machine& m, const value& self, const arguments& given) {
    namespace classes = colibri::text::classes;
    bool first = true;
    return all_characters(m, self, given, [&](char32_t code) {
        const bool head = code == '_' || (colibri::text::properties(code) & (classes::letter | classes::nl)) != 0;
        const bool tail = (colibri::text::properties(code) & (classes::mn | classes::mc | classes::nd | classes::pc)) != 0;
        return std::exchange(first, false) ? head : head || tail;
    });
}

/// True if there is a cased letter and none of the other case.
template <bool Upper>
value is_case(machine& m, const value& self, const arguments& given) {
    expect_none("this method", given);
    m.touch_slowly(self.as_string().size());
    bool some = false, other = false;
    for_each_character(self.as_string(), [&](std::string_view, char32_t code, origin) {
        some = some || (Upper ? is_upper(code) : is_lower(code));
        other = other || (Upper ? is_lower(code) : is_upper(code));
    });
    return some && !other;
}

inline value istitle(machine& m, const value& self, const arguments& given) {
    expect_none("istitle", given);
    m.touch_slowly(self.as_string().size());
    bool some = false, wrong = false, in_word = false;
    for_each_character(self.as_string(), [&](std::string_view, char32_t code, origin) {
        if (is_upper(code)) wrong = wrong || in_word;
        if (is_lower(code)) wrong = wrong || !in_word;
        in_word = is_upper(code) || is_lower(code);
        some = some || in_word;
    });
    return some && !wrong;
}

/// By name. isalpha, isdigit and their relatives go by general category: superscripts and Chinese numerals are no digits here.
/// encode, casefold, translate, maketrans and format_map are left out.
inline constexpr native_entry table[] = {
    {"capitalize", cased<letter_case::capital>},
    {"center", justified<1, 1>},
    {"count", count},
    {"endswith", affix<false>},
    {"expandtabs", expandtabs},
    {"find", find<false, false>},
    {"format", format},
    {"index", find<false, true>},
    {"isalnum", all_in<colibri::text::classes::letter | colibri::text::classes::number>},
    {"isalpha", all_in<colibri::text::classes::letter>},
    {"isascii", isascii},
    {"isdecimal", all_in<colibri::text::classes::nd>},
    {"isdigit", all_in<colibri::text::classes::nd>},
    {"isidentifier", isidentifier},
    {"islower", is_case<false>},
    {"isnumeric", all_in<colibri::text::classes::number>},
    {"isprintable", isprintable},
    {"isspace", isspace},
    {"istitle", istitle},
    {"isupper", is_case<true>},
    {"join", join},
    {"ljust", justified<0, 1>},
    {"lower", cased<letter_case::lower>},
    {"lstrip", stripped<ends::left>},
    {"partition", partition<false>},
    {"removeprefix", without_affix<true>},
    {"removesuffix", without_affix<false>},
    {"replace", replace_method},
    {"rfind", find<true, false>},
    {"rindex", find<true, true>},
    {"rjust", justified<1, 0>},
    {"rpartition", partition<true>},
    {"rsplit", split<true>},
    {"rstrip", stripped<ends::right>},
    {"split", split<false>},
    {"splitlines", splitlines},
    {"startswith", affix<true>},
    {"strip", stripped<ends::both>},
    {"swapcase", cased<letter_case::swap>},
    {"title", cased<letter_case::title>},
    {"upper", cased<letter_case::upper>},
    {"zfill", zfill},
};

}  // namespace colibri::jinja::detail::string_methods
