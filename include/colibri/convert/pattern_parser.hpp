// One alternative of a tokenizer's regular expression, as sets that repeat.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "colibri/convert/code_set.hpp"
#include "colibri/core/number.hpp"
#include "colibri/text/utf8.hpp"

namespace colibri::convert::detail {

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

}  // namespace colibri::convert::detail
