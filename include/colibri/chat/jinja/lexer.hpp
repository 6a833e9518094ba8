// Template source -> tokens, one at a time.
#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "colibri/chat/jinja/failure.hpp"
#include "colibri/chat/jinja/print.hpp"

namespace colibri::jinja::detail {

enum class token_kind : std::uint8_t {
    data,            ///< text outside of tags
    variable_begin,  ///< {{
    variable_end,
    block_begin,  ///< {%
    block_end,
    name,
    text,  ///< a quoted string, its value decoded
    integer,
    real,
    symbol,  ///< an operator or bracket
    end,
};

struct token {
    token_kind kind = token_kind::end;
    std::string value = {};    ///< text, name, symbol, or the digits of a number without underscores
    std::size_t line = 1;
};

/// Stops with a syntax failure in a line.
template <class... Parts>
[[noreturn]] void fail_syntax(std::size_t line, const Parts&... parts) {
    throw stopped{{failure_kind::syntax, concat(parts...), line}};
}

/// `source` with line ends as \n and without one at the very end.
[[nodiscard]] inline std::string normalized_source(std::string_view source) {
    std::string out;
    out.reserve(source.size());
    for (std::size_t i = 0; i < source.size(); ++i) {
        if (source[i] != '\r') out += source[i];
        else if (i + 1 >= source.size() || source[i + 1] != '\n') out += '\n';
    }
    if (!out.empty() && out.back() == '\n') out.pop_back();
    return out;
}

/// Cuts a normalised source into tokens. Blocks trim the line break behind them and the blanks before them on their line; `-`
/// in a tag trims all white space on that side, `+` nothing.
class lexer {
public:
    explicit lexer(std::string source) : source_(std::move(source)) {}

    /// The next token; `end` again and again once the source is used up. Its line is that of the token before it.
    [[nodiscard]] token next() {
        token out = inside_ == token_kind::data ? next_outside() : next_inside();
        if (out.kind == token_kind::end) out.line = last_line_;
        last_line_ = out.line;
        return out;
    }

private:
    [[nodiscard]] char peek(std::size_t ahead = 0) const noexcept {
        return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0';
    }
    [[nodiscard]] bool ahead(std::string_view text) const noexcept {
        return std::string_view(source_).substr(at_).starts_with(text);
    }
    /// Moves on and counts lines.
    void skip(std::size_t bytes) noexcept {
        for (const std::size_t end = at_ + bytes; at_ < end; ++at_) line_ += source_[at_] == '\n' ? 1 : 0;
    }
    /// Bytes of white space from `at` on.
    [[nodiscard]] std::size_t blanks_at(std::size_t at) const noexcept {
        const std::size_t begin = at;
        while (at < source_.size()) {
            const std::size_t size = character_size(source_, at);
            if (!is_space(code_of(std::string_view(source_).substr(at, size)))) break;
            at += size;
        }
        return at - begin;
    }

    /// True, and behind it, if a tag's end stands here: `-` trims white space behind; blocks and comments trim one line break.
    [[nodiscard]] bool take_end(std::string_view end, bool trims, bool plus) {
        const char sign = peek();
        const bool signed_end = sign == '-' || (plus && sign == '+');
        if (std::string_view(source_).substr(at_ + (signed_end ? 1 : 0)).substr(0, 2) != end) return false;
        skip(signed_end ? 3 : 2);
        if (signed_end && sign == '-') skip(blanks_at(at_));
        else if (!signed_end && trims && peek() == '\n') skip(1);
        line_start_ = at_ > 0 && source_[at_ - 1] == '\n';
        return true;
    }

    [[nodiscard]] token next_outside() {
        for (;;) {
            const std::size_t begin = at_, line = line_;
            std::size_t tag = begin;
            for (;; ++tag) {
                tag = source_.find('{', tag);
                if (tag == std::string::npos || tag + 1 >= source_.size()) {
                    tag = source_.size();
                    break;
                }
                if (source_[tag + 1] == '{' || source_[tag + 1] == '%' || source_[tag + 1] == '#') break;
            }
            const char type = tag < source_.size() ? source_[tag + 1] : '\0';
            std::string_view text = std::string_view(source_).substr(begin, tag - begin);
            std::size_t sign_size = 0;
            if (type != '\0') text = trimmed_before(text, tag, type, sign_size);
            if (!text.empty()) {  // the tag itself comes with the next call
                token out{token_kind::data, std::string(text), line};
                skip(tag - begin);
                pending_ = true;
                return out;
            }
            skip(tag - begin);
            pending_ = false;
            if (type == '\0') return {};
            if (type == '#') {
                skip(2 + sign_size);
                skip_comment();
                continue;
            }
            if (type == '%') {
                if (const std::size_t size = raw_begin_size(); size != 0) {
                    skip(size);
                    line_start_ = at_ > 0 && source_[at_ - 1] == '\n';
                    token out{token_kind::data, take_raw(), line_};
                    out.line = raw_line_;
                    if (!out.value.empty()) return out;
                    continue;
                }
            }
            inside_ = type == '%' ? token_kind::block_end : token_kind::variable_end;
            token out{type == '%' ? token_kind::block_begin : token_kind::variable_begin, {}, line_};
            skip(2 + sign_size);
            return out;
        }
    }

    /// `text` before the tag at `tag`, trimmed as the tag's sign and type want it.
    [[nodiscard]] std::string_view trimmed_before(std::string_view text, std::size_t tag, char type, std::size_t& sign_size) const {
        const char sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
        sign_size = sign == '-' || sign == '+' ? 1 : 0;
        if (pending_) return {};  // this text was given out before
        if (sign == '-') return without_blanks_behind(text);
        if (sign == '+' || type == '{') return text;
        const std::size_t line_break = text.rfind('\n');
        const std::size_t start = line_break == text.npos ? 0 : line_break + 1;
        if (start == 0 && !line_start_) return text;
        return without_blanks_behind(text.substr(start)).empty() ? text.substr(0, start) : text;
    }

    [[nodiscard]] static std::string_view without_blanks_behind(std::string_view text) noexcept {
        while (!text.empty()) {
            std::size_t last = text.size() - 1;
            while (last > 0 && is_continuation(text[last])) --last;
            if (!is_space(code_of(text.substr(last)))) break;
            text = text.substr(0, last);
        }
        return text;
    }

    void skip_comment() {
        const std::size_t line = line_;
        if (at_ >= source_.size()) return;  // a comment that begins with the last bytes is no mistake
        while (at_ < source_.size()) {
            if (take_end("#}", true, true)) return;
            skip(1);
        }
        fail_syntax(line, "a comment has no end: '#}' is missing");
    }

    /// Bytes of `{% raw %}` if it stands here, else 0.
    [[nodiscard]] std::size_t raw_begin_size() const {
        std::size_t at = at_ + 2;
        if (at < source_.size() && (source_[at] == '-' || source_[at] == '+')) ++at;
        at += blanks_at(at);
        if (std::string_view(source_).substr(at, 3) != "raw") return 0;
        at += 3;
        at += blanks_at(at);
        if (std::string_view(source_).substr(at, 2) == "%}") return at + 2 - at_;
        if (std::string_view(source_).substr(at, 3) == "-%}") return at + 3 + blanks_at(at + 3) - at_;
        return 0;
    }

    /// The text up to `{% endraw %}`, which is passed.
    [[nodiscard]] std::string take_raw() {
        const std::size_t begin = at_;
        raw_line_ = line_;
        if (begin >= source_.size()) return {};  // nor is such a raw block
        for (std::size_t tag = source_.find("{%", begin); tag != std::string::npos; tag = source_.find("{%", tag + 1)) {
            std::size_t behind = tag + 2;
            if (behind < source_.size() && (source_[behind] == '-' || source_[behind] == '+')) ++behind;
            behind += blanks_at(behind);
            if (std::string_view(source_).substr(behind, 6) != "endraw") continue;
            behind += 6;
            behind += blanks_at(behind);
            const std::string_view rest = std::string_view(source_).substr(behind);
            if (!rest.starts_with("%}") && !rest.starts_with("-%}") && !rest.starts_with("+%}")) continue;
            std::size_t sign_size = 0;
            std::string out(trimmed_before(std::string_view(source_).substr(begin, tag - begin), tag, '%', sign_size));
            skip(behind - at_);
            static_cast<void>(take_end("%}", true, true));
            return out;
        }
        fail_syntax(line_, "a raw block has no end: '{% endraw %}' is missing");
    }

    [[nodiscard]] token next_inside() {
        skip(blanks_at(at_));
        if (at_ >= source_.size()) return {};
        const std::size_t line = line_;
        const bool block = inside_ == token_kind::block_end;
        if (brackets_.empty() && take_end(block ? "%}" : "}}", block, block)) {
            inside_ = token_kind::data;
            return {block ? token_kind::block_end : token_kind::variable_end, {}, line};
        }
        const char c = peek();
        if (c >= '0' && c <= '9') return number(line);
        if (c == '\'' || c == '"') return quoted_text(line);
        if (const std::size_t size = name_size(); size != 0) {
            token out{token_kind::name, source_.substr(at_, size), line};
            at_ += size;
            return out;
        }
        return symbol_token(line);
    }

    [[nodiscard]] std::size_t name_size() const {
        namespace classes = colibri::text::classes;
        std::size_t at = at_;
        while (at < source_.size()) {
            const std::size_t size = character_size(source_, at);
            const char32_t code = code_of(std::string_view(source_).substr(at, size));
            const auto wanted = classes::letter | classes::number | (at != at_ ? classes::mn | classes::mc : 0);
            if (code != '_' && (colibri::text::properties(code) & wanted) == 0) break;
            at += size;
        }
        return at - at_;
    }

    [[nodiscard]] static bool is_digit(char c, int base) noexcept {
        if (base == 16) return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f');
        return c >= '0' && c < '0' + base;
    }
    /// Offset behind the digits (single underscores between them) from `at` on; `at` if there are none.
    [[nodiscard]] std::size_t digits_end(std::size_t at, int base, bool underscore_first = false) const noexcept {
        std::size_t end = at;
        for (;;) {
            const bool underscore = end < source_.size() && source_[end] == '_' && (end != at || underscore_first);
            const std::size_t digit = end + (underscore ? 1 : 0);
            if (digit >= source_.size() || !is_digit(source_[digit], base)) return end;
            end = digit + 1;
        }
    }

    [[nodiscard]] token number(std::size_t line) {
        const auto make = [&](token_kind kind, std::size_t end) {
            token out{kind, {}, line};
            for (; at_ < end; ++at_) {
                if (source_[at_] != '_') out.value += source_[at_];
            }
            return out;
        };
        const std::size_t whole = digits_end(at_, 10);
        std::size_t real = whole;
        if (at_ == 0 || source_[at_ - 1] != '.') {  // l.0.5 is two indexes
            if (whole < source_.size() && source_[whole] == '.') {
                const std::size_t fraction = digits_end(whole + 1, 10);
                if (fraction != whole + 1) real = fraction;
            }
            if (real < source_.size() && (source_[real] | 0x20) == 'e') {
                std::size_t exponent = real + 1;
                if (exponent < source_.size() && (source_[exponent] == '+' || source_[exponent] == '-')) ++exponent;
                const std::size_t end = digits_end(exponent, 10);
                if (end != exponent) real = end;
            }
        }
        if (real != whole) return make(token_kind::real, real);
        if (peek() == '0') {
            const char type = static_cast<char>(peek(1) | 0x20);
            const int base = type == 'x' ? 16 : type == 'o' ? 8 : type == 'b' ? 2 : 0;
            if (base != 0) {
                const std::size_t end = digits_end(at_ + 2, base, true);
                if (end != at_ + 2) return make(token_kind::integer, end);
            }
            std::size_t zeros = at_ + 1;  // 007 is the numbers 00 and 7, which is then a mistake
            while (zeros < source_.size() &&
                   (source_[zeros] == '0' || (source_[zeros] == '_' && zeros + 1 < source_.size() && source_[zeros + 1] == '0'))) {
                ++zeros;
            }
            return make(token_kind::integer, zeros);
        }
        return make(token_kind::integer, whole);
    }

    [[nodiscard]] token quoted_text(std::size_t line) {
        const char quote = peek();
        std::size_t end = at_ + 1;
        while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
        if (end >= source_.size()) fail_syntax(line, "a quoted text has no end");
        token out{token_kind::text, unescaped(std::string_view(source_).substr(at_ + 1, end - at_ - 1), line), line};
        skip(end + 1 - at_);
        return out;
    }

    [[nodiscard]] static std::string unescaped(std::string_view text, std::size_t line) {
        std::string out;
        std::size_t at = 0;
        const auto number = [&](std::size_t digits, int base, std::size_t least) {
            const std::string_view rest = text.substr(at, digits);
            std::uint32_t code = 0;
            const auto end = std::from_chars(rest.data(), rest.data() + rest.size(), code, base).ptr;
            const auto used = static_cast<std::size_t>(end - rest.data());
            if (used < least || code > 0x10FFFF) fail_syntax(line, "a quoted text has a broken escape");
            at += used;
            return code;
        };
        while (at < text.size()) {
            if (text[at] != '\\') {
                out += text[at++];
                continue;
            }
            const char c = text[at + 1];
            at += 2;
            switch (c) {
                case '\n': break;
                case '\\':
                case '\'':
                case '"': out += c; break;
                case 'a': out += '\a'; break;
                case 'b': out += '\b'; break;
                case 'f': out += '\f'; break;
                case 'n': out += '\n'; break;
                case 'r': out += '\r'; break;
                case 't': out += '\t'; break;
                case 'v': out += '\v'; break;
                case 'x': colibri::text::append_utf8(out, number(2, 16, 2)); break;
                case 'U': colibri::text::append_utf8(out, number(8, 16, 8)); break;
                case 'u': {
                    std::uint32_t code = number(4, 16, 4);
                    if (code >= 0xD800 && code < 0xDC00 && text.substr(at).starts_with("\\u")) {
                        const std::size_t back = at;
                        at += 2;
                        const std::uint32_t low = number(4, 16, 4);
                        if (low >= 0xDC00 && low < 0xE000) code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
                        else at = back;
                    }
                    colibri::text::append_utf8(out, code);
                    break;
                }
                case 'N': fail_syntax(line, "the escape \\N{...} is not supported");
                default:
                    if (c >= '0' && c <= '7') {
                        --at;
                        colibri::text::append_utf8(out, number(3, 8, 1));
                    } else {
                        out += '\\';
                        out += c;
                    }
            }
        }
        return out;
    }

    [[nodiscard]] token symbol_token(std::size_t line) {
        static constexpr std::string_view symbols[] = {"**", "//", "==", "!=", "<=", ">=", "+", "-", "*", "/", "%", "~", "(",
                                                       ")",  "[",  "]",  "{",  "}",  "<",  ">", "=", ".", ":", ",", "|", ";"};
        for (const std::string_view s : symbols) {
            if (!ahead(s)) continue;
            const char c = s.front();
            if (c == '(' || c == '[' || c == '{') brackets_ += c == '(' ? ')' : c == '[' ? ']' : '}';
            if (c == ')' || c == ']' || c == '}') {
                if (brackets_.empty()) fail_syntax(line, "'", s, "' closes nothing");
                if (brackets_.back() != c) fail_syntax(line, "'", s, "' stands where '", brackets_.back(), "' should close");
                brackets_.pop_back();
            }
            at_ += s.size();
            return {token_kind::symbol, std::string(s), line};
        }
        const std::string_view character = std::string_view(source_).substr(at_, character_size(source_, at_));
        fail_syntax(line, "'", character, "' means nothing here");
    }

    std::string source_;
    std::size_t at_ = 0;
    std::size_t line_ = 1;
    std::size_t last_line_ = 1;
    std::size_t raw_line_ = 1;
    token_kind inside_ = token_kind::data;  ///< data outside of tags, else the kind that ends the tag
    bool pending_ = false;                  ///< the text before the next tag was given out
    bool line_start_ = true;                ///< what came before ended a line (or nothing came before)
    std::string brackets_;                  ///< brackets still to be closed
};

}  // namespace colibri::jinja::detail
