// The regular expressions of published tokenizers, read into the shapes that our splitter knows.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "colibri/convert/pattern_parser.hpp"
#include "colibri/core/error.hpp"
#include "colibri/core/escape.hpp"
#include "colibri/text/split_rules.hpp"

namespace colibri::convert {

/// One alternative of a rule with sets of its own: what text::alternative says, in a form that can be compared.
struct rule_shape {
    text::form kind = text::form::run;
    std::optional<code_set> prefix = {};
    bool needs_prefix = false;
    code_set body = {};
    std::size_t least = 1, most = 1;
    std::optional<code_set> tail = {};
    std::size_t most_tail = 0;
    bool any_case = true;
    bool contraction = false;
    std::size_t (*match)(text::scanner&, std::size_t) = nullptr;
};

/// One rule: alternatives, or a function that cuts.
struct rule_shapes {
    std::vector<rule_shape> alternatives;
    void (*cut)(std::string_view, std::vector<std::size_t>&) = nullptr;
};

/// Reads a regular expression. Only what published tokenizers use is understood: classes, properties, repetitions, the usual
/// contractions and look-aheads. Errors: unsupported, which quotes the part that isn't known.
[[nodiscard]] inline result<rule_shapes> read_pattern(std::string_view pattern);

/// Whether both cut alike: the same shapes over the same sets.
[[nodiscard]] inline bool same_shape(const rule_shape& read, const text::alternative& known);

namespace detail {

/// Cuts a pattern at the '|' outside groups and classes.
[[nodiscard]] inline std::vector<std::string_view> top_alternatives(std::string_view pattern) {
    std::vector<std::string_view> out;
    std::size_t begin = 0;
    int groups = 0, classes = 0;
    for (std::size_t i = 0; i < pattern.size(); ++i) {
        const char c = pattern[i];
        if (c == '\\') ++i;
        else if (c == '[') ++classes;
        else if (c == ']' && classes > 0) --classes;
        else if (classes == 0 && c == '(') ++groups;
        else if (classes == 0 && c == ')') --groups;
        else if (classes == 0 && groups == 0 && c == '|') {
            out.push_back(pattern.substr(begin, i - begin));
            begin = i + 1;
        }
    }
    out.push_back(pattern.substr(begin));
    return out;
}

/// A run or word from its items; nothing if it is of no known shape.
[[nodiscard]] inline std::optional<rule_shape> shape_of(const pattern_sequence& sequence) {
    using namespace text::classes;
    std::span<const pattern_item> items = sequence.items;
    for (std::size_t i = 0; i + 1 < items.size(); ++i) {
        // Backtracking never helps where neighbours have nothing in common, so possessive or not is the same.
        if (items[i].possessive && !(items[i].set & items[i + 1].set).empty()) return std::nullopt;
    }
    rule_shape out;
    if (items.size() > 1 && items[0].most == 1 && (items.size() > 2 || items[1].least > 0)) {
        out.prefix = items[0].set;
        out.needs_prefix = items[0].least == 1;
        items = items.subspan(1);
    }
    if (items.size() == 2 && items[0].most == endless && items[1].most == endless && items[0].least + items[1].least == 1) {
        const auto body = items[0].set | items[1].set;
        const auto upper = code_set::with(lu | lt | lm | lo | mark), lower = code_set::with(ll | lm | lo | mark);
        if (items[0].set == (upper & body) && items[1].set == (lower & body)) {
            out.kind = items[1].least == 1 ? text::form::word_lower : text::form::word_upper;
            out.body = body;
            out.contraction = sequence.contraction;
            return out;
        }
    }
    if (sequence.contraction || items.empty() || items.size() > 2 || items[0].least == 0) return std::nullopt;
    out.body = items[0].set;
    out.least = items[0].least;
    out.most = items[0].most;
    if (items.size() == 2) {
        if (items[1].least != 0) return std::nullopt;
        out.tail = items[1].set;
        out.most_tail = items[1].most;
    }
    return out;
}

/// Patterns that our rules match by a function of their own, and that function, by their published text.
struct own_pattern {
    std::string_view text;
    rule_shape shape;
};
[[nodiscard]] inline const std::vector<own_pattern>& own_patterns() {
    namespace rules = text::split_rules;
    const auto own = [](auto* match) { return rule_shape{.kind = text::form::own, .match = match}; };
    static const std::vector<own_pattern> all{
        {"\\s+$", own(rules::spaces_at_end)},
        {"<sentinel:[0-9]+>", own(rules::sentinel_marker)},
        {"(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", own(rules::image_marker)},
        {"([\\t\\n]|    |  )", own(rules::layout_character)},
        {"[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+",
         {.kind = text::form::phrase, .prefix = code_set::of(rules::sets::not_break_letter_number)}}};
    return all;
}
inline constexpr std::string_view spaces_by_powers =
    "\\s{512}(?!\\S)|\\s{256}(?!\\S)|\\s{128}(?!\\S)|\\s{64}(?!\\S)|\\s{32}(?!\\S)|\\s{16}(?!\\S)|\\s{8}(?!\\S)|\\s{4}(?!\\S)|"
    "\\s{1,2}(?!\\S)|\\s{1}";

/// Reads alternatives one by one.
class rule_reader {
public:
    explicit rule_reader(std::string_view pattern) : parts_(top_alternatives(pattern)) {}

    [[nodiscard]] result<rule_shapes> run() {
        rule_shapes out;
        while (at_ < parts_.size()) {
            auto shape = next();
            if (!shape) return error{errc::unsupported, concat("the part ", quoted(parts_[at_], 400), " is not known")};
            out.alternatives.push_back(std::move(*shape));
        }
        return out;
    }

private:
    [[nodiscard]] std::optional<rule_shape> next() {
        const std::string_view part = parts_[at_];
        if (part == contraction_group || part == "'(?i:[sdmt]|ll|ve|re)") {
            ++at_;
            return rule_shape{.kind = text::form::contraction};
        }
        if (small_contractions()) return rule_shape{.kind = text::form::contraction, .any_case = false};
        for (const auto& own : own_patterns()) {
            if (own.text != part) continue;
            ++at_;
            return own.shape;
        }
        if (powers()) return rule_shape{.kind = text::form::own, .match = text::split_rules::spaces_by_powers};
        auto read = pattern_parser(part).run();
        if (!read) return std::nullopt;
        const auto white = code_set::with(text::classes::white_space), breaks = code_set::with(text::classes::newline);
        const auto& items = read->items;
        if (items.size() == 2 && items[0].set == white && items[0].least == 0 && items[0].most == endless &&
            !items[0].possessive && items[1].set == breaks && items[1].least == 1 &&
            (items[1].most == 1 || items[1].most == endless) && !read->before_space && !read->contraction) {
            ++at_;
            return rule_shape{.kind = text::form::newlines};
        }
        if (read->before_space) return spaces(*read, white);
        auto out = shape_of(*read);
        if (out) ++at_;
        return out;
    }
    /// The seven texts as alternatives of their own, in any order.
    [[nodiscard]] bool small_contractions() {
        unsigned seen = 0;
        for (std::size_t i = at_; i < parts_.size(); ++i) {
            bool one = false;
            for (unsigned k = 0; k < std::size(contraction_texts); ++k) {
                if (parts_[i] != contraction_texts[k]) continue;
                one = true;
                seen |= 1u << k;
            }
            if (!one) break;
            if (seen == (1u << std::size(contraction_texts)) - 1) {
                at_ = i + 1;
                return true;
            }
        }
        return false;
    }
    [[nodiscard]] bool powers() {
        const auto parts = top_alternatives(spaces_by_powers);
        if (parts_.size() - at_ < parts.size() ||
            !std::equal(parts.begin(), parts.end(), parts_.begin() + static_cast<std::ptrdiff_t>(at_)))
            return false;
        at_ += parts.size();
        return true;
    }
    /// \s+(?!\S) and what takes the single one: \s+ or \s behind it.
    [[nodiscard]] std::optional<rule_shape> spaces(const pattern_sequence& read, const code_set& white) {
        const auto whole = [&](const pattern_sequence& s) {
            return s.items.size() == 1 && s.items[0].set == white && s.items[0].least == 1 && !s.items[0].possessive;
        };
        if (!whole(read) || read.items[0].most != endless || at_ + 1 >= parts_.size()) return std::nullopt;
        const auto rest = pattern_parser(parts_[at_ + 1]).run();
        if (!rest || !whole(*rest) || rest->before_space || (rest->items[0].most != 1 && rest->items[0].most != endless))
            return std::nullopt;
        at_ += 2;
        return rule_shape{.kind = text::form::spaces};
    }

    std::vector<std::string_view> parts_;
    std::size_t at_ = 0;
};

}  // namespace detail

inline result<rule_shapes> read_pattern(std::string_view pattern) {
    constexpr std::size_t longest = 16384;  // the longest published one has 700 bytes; sets cost the square of it
    if (pattern.size() > longest) return error{errc::unsupported, concat("the pattern is longer than ", longest, " bytes")};
    if (pattern == "\\d{1,3}(?=(?:\\d{3})*\\b)") return rule_shapes{{}, text::split_rules::tiny_aya[0].cut};
    if (pattern == "(?=(\\d{3})+(?!\\d))") return rule_shapes{{}, text::split_rules::superbpe[1].cut};
    return detail::rule_reader(pattern).run();
}

inline bool same_shape(const rule_shape& read, const text::alternative& known) {
    if (read.kind != known.kind) return false;
    const auto same_set = [](const std::optional<code_set>& a, const text::char_set* b) {
        return a.has_value() == (b != nullptr) && (b == nullptr || *a == code_set::of(*b));
    };
    switch (read.kind) {
        case text::form::contraction: return read.any_case == known.any_case;
        case text::form::newlines:
        case text::form::spaces: return true;
        case text::form::own: return read.match == known.match;
        case text::form::phrase: return same_set(read.prefix, known.prefix);
        case text::form::word_lower:
        case text::form::word_upper:
            if (read.contraction != known.contraction || (read.contraction && read.any_case != known.any_case)) return false;
            break;
        case text::form::run:
            if (read.least != known.least || read.most != known.most) return false;
            if (!same_set(read.tail, known.tail) || (known.tail != nullptr && read.most_tail != known.most_tail)) return false;
            break;
    }
    return same_set(read.prefix, known.prefix) && read.needs_prefix == known.needs_prefix &&
           read.body == code_set::of(*known.body);
}

}  // namespace colibri::convert
