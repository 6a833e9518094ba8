// Operations on strings that keep each character's origin: case, strip, split, replace, indent.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "colibri/chat/jinja/case_tables.hpp"
#include "colibri/chat/jinja/iterate.hpp"
#include "colibri/chat/jinja/print.hpp"

namespace colibri::jinja::detail {

/// A case mapping: its ranges and its code points that become several.
struct case_map {
    const case_tables::range* begin;
    const case_tables::range* end;
    const case_tables::special* special_begin;
    const case_tables::special* special_end;

    /// Calls f(code) for each code point that `code` becomes; false and no call if the map doesn't know it.
    template <class F>
    bool apply(char32_t code, F&& f) const {
        const auto special = std::partition_point(special_begin, special_end, [&](const auto& s) { return s.code < code; });
        if (special != special_end && special->code == code) {
            for (const char32_t to : special->to) {
                if (to != 0) f(to);
            }
            return true;
        }
        const auto behind = std::partition_point(begin, end, [&](const auto& r) { return r.first <= code; });
        if (behind == begin) return false;
        const auto& range = *std::prev(behind);
        if (code > range.last || (code - range.first) % range.step != 0) return false;
        f(static_cast<char32_t>(static_cast<std::int32_t>(code) + range.distance));
        return true;
    }
    [[nodiscard]] bool changes(char32_t code) const {
        bool other = false;
        return apply(code, [&](char32_t to) { other = other || to != code; }) && other;
    }
};

inline constexpr case_map to_upper{std::begin(case_tables::upper), std::end(case_tables::upper),
                                   std::begin(case_tables::upper_special), std::end(case_tables::upper_special)};
inline constexpr case_map to_lower{std::begin(case_tables::lower), std::end(case_tables::lower),
                                   std::begin(case_tables::lower_special), std::end(case_tables::lower_special)};
inline constexpr case_map to_title{std::begin(case_tables::title), std::end(case_tables::title),
                                   std::begin(case_tables::title_special), std::end(case_tables::title_special)};

[[nodiscard]] inline bool is_lower(char32_t code) {
    return (colibri::text::properties(code) & colibri::text::classes::ll) != 0 || code == 0xAA || code == 0xBA;
}
[[nodiscard]] inline bool is_upper(char32_t code) { return (colibri::text::properties(code) & colibri::text::classes::lu) != 0; }
[[nodiscard]] inline bool is_cased(char32_t code) {
    return is_lower(code) || is_upper(code) || to_upper.changes(code) || to_lower.changes(code);
}

enum class letter_case : std::uint8_t { upper, lower, title, swap, capital };

/// change_case for text that is all ASCII.
[[nodiscard]] inline string change_ascii_case(machine& m, const string& s, letter_case wanted) {
    m.touch_slowly(s.size());
    std::string bytes(s.view());
    m.need(bytes.size());
    bool in_word = false;
    for (char& c : bytes) {
        const bool lower = c >= 'a' && c <= 'z', upper = c >= 'A' && c <= 'Z';
        bool up = wanted == letter_case::upper || (wanted == letter_case::swap && lower);
        if (wanted == letter_case::title) up = !in_word;
        if (wanted == letter_case::capital) up = &c == bytes.data();
        if ((up && lower) || (!up && upper)) c = static_cast<char>(c ^ 0x20);
        in_word = lower || upper;
    }
    string_builder out(m);
    out.reserve(bytes.size());
    std::size_t at = 0;
    s.for_each_run(0, s.size(), [&](std::string_view run, origin from) {
        out.append(std::string_view(bytes).substr(at, run.size()), from);
        at += run.size();
    });
    return out.finish(s.safe());
}

/// `s` in another case; a character that becomes several gives its origin to all of them.
[[nodiscard]] inline string change_case(machine& m, const string& s, letter_case wanted) {
    if (s.length() == s.size()) return change_ascii_case(m, s, wanted);
    m.touch_each(s.size());
    struct letter {
        std::string_view bytes;
        char32_t code;
        origin from;
    };
    constexpr char32_t sigma = 0x3A3, small_sigma = 0x3C3, final_sigma = 0x3C2;
    string_builder out(m);
    std::optional<letter> held;  // one character back, to see whether a capital sigma ends its word
    bool in_word = false, first = true;
    const auto put = [&](const letter& l, bool more) {
        const bool word = in_word;
        in_word = is_cased(l.code);
        const auto emit = [&](char32_t to) { out.append_code(to, l.from); };
        const auto map = [&](const case_map& how) {
            if (!how.apply(l.code, emit)) out.append(l.bytes, l.from);
        };
        const auto lower = [&] {
            if (l.code == sigma) emit(word && !more ? final_sigma : small_sigma);
            else map(to_lower);
        };
        const auto title = [&] {
            if (!to_title.apply(l.code, emit)) map(to_upper);
        };
        switch (wanted) {
            case letter_case::upper: map(to_upper); break;
            case letter_case::lower: lower(); break;
            case letter_case::title: word ? lower() : title(); break;
            case letter_case::capital: first ? title() : lower(); break;
            case letter_case::swap:
                if (is_upper(l.code)) lower();
                else if (is_lower(l.code)) map(to_upper);
                else out.append(l.bytes, l.from);
        }
        first = false;
    };
    for_each_character(s, [&](std::string_view bytes, char32_t code, origin from) {
        if (held) put(*held, is_cased(code));
        held = letter{bytes, code, from};
    });
    if (held) put(*held, false);
    return out.finish(s.safe());
}

/// Which ends to strip.
enum class ends : std::uint8_t { both, left, right };

/// `s` without white space, or without the characters of `set`, at its ends.
[[nodiscard]] inline string strip(machine& m, const string& s, ends where, const string* set = nullptr) {
    const auto goes = [&](std::string_view character) {
        if (set == nullptr) return is_space(code_of(character));
        for (std::size_t at = 0; at < set->size();) {
            m.step();
            const std::size_t size = character_size(set->view(), at);
            if (set->view().substr(at, size) == character) return true;
            at += size;
        }
        return false;
    };
    const std::string_view text = s.view();
    m.touch(text.size());
    std::size_t begin = 0, end = text.size();
    while (where != ends::right && begin < end) {
        const std::size_t size = character_size(text.substr(0, end), begin);
        if (!goes(text.substr(begin, size))) break;
        begin += size;
    }
    while (where != ends::left && begin < end) {
        std::size_t last = end - 1;
        while (last > begin && is_continuation(text[last])) --last;
        if (!goes(text.substr(last, end - last))) break;
        end = last;
    }
    return slice(m, s, begin, end);
}

/// Pieces of `s` between `separator`; at most `most` cuts if that is not negative, from the left or the right.
[[nodiscard]] inline value split_by(machine& m, const string& s, std::string_view separator, std::int64_t most, bool from_right) {
    if (separator.empty()) fail_type("an empty separator can't split text");
    const std::string_view text = s.view();
    collector out(m);
    if (from_right) {
        std::size_t end = text.size();
        while (most != 0) {
            const std::size_t at = end < separator.size() ? text.npos : rfind_bytes(m, text, separator, end - separator.size());
            if (at == text.npos) break;
            m.step();
            out.add(slice(m, s, at + separator.size(), end));
            end = at;
            --most;
        }
        out.add(slice(m, s, 0, end));
        std::ranges::reverse(out.items());
        return out.finish();
    }
    std::size_t begin = 0;
    while (most != 0) {
        const std::size_t at = find_bytes(m, text, separator, begin);
        if (at == text.npos) break;
        m.step();
        out.add(slice(m, s, begin, at));
        begin = at + separator.size();
        --most;
    }
    out.add(slice(m, s, begin, text.size()));
    return out.finish();
}

/// Pieces of `s` between runs of white space; none empty, except what is left when there were enough cuts.
[[nodiscard]] inline value split_blanks(machine& m, const string& s, std::int64_t most, bool from_right) {
    const std::string_view text = s.view();
    m.touch_slowly(text.size());
    std::vector<std::pair<std::size_t, std::size_t>> words;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t size = character_size(text, at);
        if (!is_space(code_of(text.substr(at, size)))) {
            if (!words.empty() && words.back().second == at) {
                words.back().second = at + size;
            } else {
                if (words.size() == words.capacity()) m.need((words.size() * 2 + 8) * sizeof(words[0]));
                words.emplace_back(at, at + size);
            }
        }
        at += size;
    }
    collector out(m);
    const bool all = most < 0 || static_cast<std::uint64_t>(most) >= words.size();
    const std::size_t cuts = all ? words.size() : static_cast<std::size_t>(most);
    if (from_right && !all) {
        const std::size_t end = words[words.size() - cuts - 1].second;
        const string rest = strip(m, slice(m, s, 0, end), ends::right);
        if (!rest.empty()) out.add(rest);
    }
    for (std::size_t i = 0; i < cuts; ++i) {
        const auto [begin, end] = words[from_right ? words.size() - cuts + i : i];
        m.step();
        out.add(slice(m, s, begin, end));
    }
    if (!from_right && !all) out.add(slice(m, s, words[cuts].first, text.size()));
    return out.finish();
}

/// Calls f(begin, end, behind) for each line: [begin, end) without, `behind` with its line break.
template <class F>
void for_each_line(std::string_view text, F&& f) {
    for (std::size_t begin = 0; begin < text.size();) {
        std::size_t at = begin, behind = text.size();
        for (; at < text.size(); at += character_size(text, at)) {
            const char32_t code = code_of(text.substr(at, character_size(text, at)));
            const bool crlf = code == '\r' && at + 1 < text.size() && text[at + 1] == '\n';
            if ((code >= '\n' && code <= '\r') || (code >= 0x1C && code <= 0x1E) || code == 0x85 || code == 0x2028 ||
                code == 0x2029) {
                behind = at + (crlf ? 2 : character_size(text, at));
                break;
            }
        }
        f(begin, at, behind);
        begin = behind;
    }
}

/// `s` with the first `most` (negative: all) places where `old` stands replaced by `fresh`. An empty `old` stands before every
/// character and at the end.
[[nodiscard]] inline string replace(machine& m, const string& s, const string& old, const string& fresh, std::int64_t most) {
    const std::string_view text = s.view();
    string_builder out(m);
    std::size_t begin = 0;
    if (old.empty()) {
        for (; begin < text.size() && most != 0; --most) {
            const std::size_t size = character_size(text, begin);
            m.step();
            out.append(fresh);
            out.append(s, begin, begin + size);
            begin += size;
        }
        if (most != 0) out.append(fresh);
    } else {
        for (; most != 0; --most) {
            const std::size_t at = find_bytes(m, text, old.view(), begin);
            if (at == text.npos) break;
            m.step();
            out.append(s, begin, at);
            out.append(fresh);
            begin = at + old.size();
        }
        if (begin == 0) return s;
    }
    out.append(s, begin, text.size());
    return out.finish(s.safe());
}

/// Pads `s` to `width` characters.
[[nodiscard]] inline string pad(machine& m, const string& s, std::int64_t width, const string& fill, std::size_t left_share,
                                std::size_t right_share) {
    if (fill.length() != 1) fail_type("the character to fill with must be one");
    if (width <= static_cast<std::int64_t>(s.length())) return s;
    const std::size_t missing = static_cast<std::size_t>(width) - s.length();
    // Centred text of odd rest: the language puts the smaller half left, except if both rest and width are odd.
    const std::size_t left = left_share == 0    ? 0
                             : right_share == 0 ? missing
                                                : missing / 2 + (missing & static_cast<std::size_t>(width) & 1);
    string_builder out(m);
    out.append_repeated(fill.view(), left, fill.origin_at(0));
    out.append(s);
    out.append_repeated(fill.view(), missing - left, fill.origin_at(0));
    return out.finish(s.safe());
}

}  // namespace colibri::jinja::detail
