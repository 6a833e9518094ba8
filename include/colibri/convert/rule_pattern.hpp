// The regular expressions of published tokenizers, read into the shapes that our splitter knows.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "colibri/convert/code_set.hpp"
#include "colibri/core/error.hpp"
#include "colibri/core/escape.hpp"
#include "colibri/core/number.hpp"
#include "colibri/text/split_rules.hpp"
#include "colibri/text/utf8.hpp"

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

inline constexpr std::size_t endless = std::numeric_limits<std::size_t>::max();

/// A set and how often it repeats.
struct pattern_item {
    code_set set;
    std::size_t least = 1, most = 1;
    bool possessive = false;
};

/// One alternative as far as it is plain: items, then perhaps a look-ahead for no word, perhaps a contraction.
struct pattern_sequence {
    std::vector<pattern_item> items;
    bool before_space = false;  ///< (?!\S) at the end
    bool contraction = false;   ///< (?i:'s|...)? at the end
};

inline constexpr std::string_view contraction_group = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
inline constexpr std::string_view contraction_texts[] = {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"};

/// Parses one alternative. Everything unknown ends in nothing.
class pattern_parser {
public:
    explicit pattern_parser(std::string_view text) : text_(text) {}

    [[nodiscard]] std::optional<pattern_sequence> run() {
        pattern_sequence out;
        while (!text_.empty()) {
            if (text_ == "(?!\\S)" && !out.items.empty()) {
                out.before_space = true;
                return out;
            }
            if (text_.starts_with(contraction_group) && text_.substr(contraction_group.size()) == "?" && !out.items.empty()) {
                out.contraction = true;
                return out;
            }
            auto set = atom();
            if (!set) return std::nullopt;
            pattern_item item{std::move(*set)};
            if (!repetition(item)) return std::nullopt;
            // "[0-9][0-9]" is "[0-9]{2}".
            if (!out.items.empty() && item.set == out.items.back().set && item.least == item.most &&
                out.items.back().least == out.items.back().most && item.most < 1000) {
                out.items.back().least += item.least;
                out.items.back().most += item.most;
            } else {
                out.items.push_back(std::move(item));
            }
        }
        return out.items.empty() ? std::nullopt : std::optional(std::move(out));
    }

private:
    static code_set with(text::class_mask mask) { return code_set::with(mask); }
    bool eat(std::string_view expected) {
        if (!text_.starts_with(expected)) return false;
        text_.remove_prefix(expected.size());
        return true;
    }
    [[nodiscard]] char32_t character() {
        const auto read = text::decode_utf8(text_, 0);
        text_.remove_prefix(read.size);
        return read.value;
    }

    [[nodiscard]] std::optional<code_set> atom() {
        constexpr std::string_view special = "()[]{}|?*+^$.";
        if (text_[0] == '[') {
            eat("[");
            return in_brackets(0);
        }
        if (text_[0] == '\\') return escape();
        if (special.find(text_[0]) != std::string_view::npos) return std::nullopt;
        const char32_t c = character();
        return code_set(c, c);
    }

    /// Behind a backslash in a pattern or class: a set.
    [[nodiscard]] std::optional<code_set> escape() {
        eat("\\");
        if (text_.empty()) return std::nullopt;
        if (text_[0] == 'p' || text_[0] == 'P') return property();
        if (eat("s")) return with(text::classes::white_space);
        if (eat("S")) return ~with(text::classes::white_space);
        if (eat("d")) return with(text::classes::nd);
        if (eat("D")) return ~with(text::classes::nd);
        const auto c = escaped_character();
        return c ? std::optional(code_set(*c, *c)) : std::nullopt;
    }
    /// Behind a backslash: one character.
    [[nodiscard]] std::optional<char32_t> escaped_character() {
        if (text_.empty()) return std::nullopt;
        if (eat("r")) return U'\r';
        if (eat("n")) return U'\n';
        if (eat("t")) return U'\t';
        if (eat("f")) return U'\f';
        if (eat("v")) return U'\v';
        if (text_[0] == 'u' || text_[0] == 'x') return hexadecimal();
        const char c = text_[0];
        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')) return std::nullopt;
        return character();
    }
    /// u0041, u{41}, x41, x{41}.
    [[nodiscard]] std::optional<char32_t> hexadecimal() {
        const std::size_t usual = text_[0] == 'u' ? 4 : 2;
        text_.remove_prefix(1);
        const bool braces = eat("{");
        const std::size_t digits = braces ? text_.find('}') : usual;
        if (digits == std::string_view::npos || digits == 0 || digits > 6 || digits > text_.size()) return std::nullopt;
        char32_t out = 0;
        for (const char c : text_.substr(0, digits)) {
            const int digit = c >= '0' && c <= '9'   ? c - '0'
                              : c >= 'a' && c <= 'f' ? c - 'a' + 10
                              : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                     : -1;
            if (digit < 0) return std::nullopt;
            out = out * 16 + static_cast<char32_t>(digit);
        }
        text_.remove_prefix(digits + (braces ? 1 : 0));
        return out <= code_set::last_code ? std::optional(out) : std::nullopt;
    }

    /// \p{Lu}, \p{^Lu}, \P{Lu}, \pL.
    [[nodiscard]] std::optional<code_set> property() {
        using namespace text::classes;
        bool outside = text_[0] == 'P';
        text_.remove_prefix(1);
        if (text_.empty()) return std::nullopt;
        std::string_view name = text_.substr(0, 1);
        if (eat("{")) {
            const auto end = text_.find('}');
            if (end == std::string_view::npos) return std::nullopt;
            name = text_.substr(0, end);
            text_.remove_prefix(end + 1);
        } else {
            text_.remove_prefix(1);
        }
        if (name.starts_with('^')) {
            outside = !outside;
            name.remove_prefix(1);
        }
        constexpr std::pair<std::string_view, text::class_mask> names[] = {{"L", letter},
                                                                           {"Letter", letter},
                                                                           {"Lu", lu},
                                                                           {"Ll", ll},
                                                                           {"Lt", lt},
                                                                           {"Lm", lm},
                                                                           {"Lo", lo},
                                                                           {"M", mark},
                                                                           {"Mark", mark},
                                                                           {"Mn", mn},
                                                                           {"Mc", mc},
                                                                           {"Me", me},
                                                                           {"N", number},
                                                                           {"Number", number},
                                                                           {"Nd", nd},
                                                                           {"Nl", nl},
                                                                           {"No", no},
                                                                           {"P", punctuation},
                                                                           {"Punctuation", punctuation},
                                                                           {"Pc", pc},
                                                                           {"Pd", pd},
                                                                           {"Ps", ps},
                                                                           {"Pe", pe},
                                                                           {"Pi", pi},
                                                                           {"Pf", pf},
                                                                           {"Po", po},
                                                                           {"S", symbol},
                                                                           {"Symbol", symbol},
                                                                           {"Sm", sm},
                                                                           {"Sc", sc},
                                                                           {"Sk", sk},
                                                                           {"So", so},
                                                                           {"Z", separator},
                                                                           {"Zs", zs},
                                                                           {"Zl", zl},
                                                                           {"Zp", zp},
                                                                           {"C", other},
                                                                           {"Cc", cc},
                                                                           {"Cf", cf},
                                                                           {"Han", han},
                                                                           {"Script=Han", han},
                                                                           {"sc=Han", han},
                                                                           {"White_Space", white_space}};
        for (const auto& [known, mask] : names) {
            if (known == name) return outside ? ~with(mask) : with(mask);
        }
        return std::nullopt;
    }

    /// Behind "[": up to and with its "]". `depth` bounds nesting.
    [[nodiscard]] std::optional<code_set> in_brackets(unsigned depth) {
        if (depth > 8) return std::nullopt;
        const bool outside = eat("^");
        code_set all;
        std::optional<code_set> both;  // left of "&&"
        bool first = true;
        while (true) {
            if (text_.empty()) return std::nullopt;
            if (text_[0] == ']' && !first) break;
            first = false;
            if (eat("&&")) {
                both = both ? *both & all : all;
                all = {};
                continue;
            }
            if (text_[0] == '[') {
                eat("[");
                auto inner = in_brackets(depth + 1);
                if (!inner) return std::nullopt;
                all = all | *inner;
                continue;
            }
            auto member = class_member();
            if (!member) return std::nullopt;
            all = all | *member;
        }
        eat("]");
        if (both) all = *both & all;
        return outside ? ~all : all;
    }
    /// A character, a range of them, or an escape that is a set.
    [[nodiscard]] std::optional<code_set> class_member() {
        std::optional<char32_t> from;
        if (text_[0] == '\\') {
            constexpr std::string_view sets = "pPsSdD";
            if (text_.size() > 1 && sets.find(text_[1]) != std::string_view::npos) return escape();
            eat("\\");
            from = escaped_character();
        } else {
            from = character();
        }
        if (!from) return std::nullopt;
        if (text_.size() < 2 || text_[0] != '-' || text_[1] == ']' || text_[1] == '[') return code_set(*from, *from);
        eat("-");
        std::optional<char32_t> to;
        if (eat("\\")) to = escaped_character();
        else to = character();
        return to && *to >= *from ? std::optional(code_set(*from, *to)) : std::nullopt;
    }

    [[nodiscard]] bool repetition(pattern_item& item) {
        if (eat("*")) item = {std::move(item.set), 0, endless};
        else if (eat("+")) item = {std::move(item.set), 1, endless};
        else if (eat("?")) item = {std::move(item.set), 0, 1};
        else if (eat("{")) {
            const auto end = text_.find('}');
            if (end == std::string_view::npos) return false;
            const std::string_view inside = text_.substr(0, end);
            const auto comma = inside.find(',');
            const auto least = parse_number<std::size_t>(inside.substr(0, comma));
            const auto most = comma == std::string_view::npos ? least
                              : comma + 1 == inside.size()    ? std::optional(endless)
                                                              : parse_number<std::size_t>(inside.substr(comma + 1));
            if (!least || !most || *most < *least || *most == 0) return false;
            item.least = *least;
            item.most = *most;
            text_.remove_prefix(end + 1);
        } else {
            return true;
        }
        if (!text_.empty() && text_[0] == '?') return false;  // lazy
        item.possessive = eat("+");
        return true;
    }

    std::string_view text_;
};

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
