// JSON text -> values: strict, with limits, order of keys kept.
#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "colibri/chat/jinja/value.hpp"
#include "colibri/core/error.hpp"
#include "colibri/core/number.hpp"

namespace colibri::jinja {

/// Reads one JSON value (RFC 8259), all of `text`. `1` is an integer and `1.0` a real; members keep their order; a key given
/// twice keeps its last value. All text gets the origin `from`. Nested at most 100 levels deep.
/// Codes: bad_value (not JSON, an integer beyond 64 bits), bad_utf8, limit (nested too deep); with the byte offset.
[[nodiscard]] result<value> parse_json(std::string_view text, origin from = origin::untrusted);

namespace detail {

class json_reader {
public:
    json_reader(std::string_view text, origin from) noexcept : text_(text), from_(from) {}

    [[nodiscard]] result<value> read() {
        value out;
        if (!read_value(out, 0)) return std::move(error_);
        blanks();
        if (at_ != text_.size()) return wrong("there is more text behind the JSON value"), std::move(error_);
        return out;
    }

private:
    static constexpr int max_depth = 100;

    bool wrong(std::string_view what, errc code = errc::bad_value) {
        error_ = {code, std::string(what), at_};
        return false;
    }
    void blanks() noexcept {
        while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r')) ++at_;
    }
    [[nodiscard]] char peek() const noexcept { return at_ < text_.size() ? text_[at_] : '\0'; }
    [[nodiscard]] bool take(char c) noexcept {
        if (at_ >= text_.size() || text_[at_] != c) return false;
        ++at_;
        return true;
    }

    bool read_value(value& out, int depth) {
        blanks();
        if (at_ >= text_.size()) return wrong("the JSON text ends where a value should be");
        switch (peek()) {
            case '{': return read_object(out, depth);
            case '[': return read_array(out, depth);
            case '"': {
                std::string s;
                if (!read_string(s)) return false;
                out = string(std::move(s), from_);
                return true;
            }
            case 't': return read_word("true", value(true), out);
            case 'f': return read_word("false", value(false), out);
            case 'n': return read_word("null", value(), out);
            default: return read_number(out);
        }
    }

    bool read_word(std::string_view word, value meaning, value& out) {
        if (text_.substr(at_, word.size()) != word) return wrong("this is no JSON value");
        at_ += word.size();
        out = std::move(meaning);
        return true;
    }

    bool read_object(value& out, int depth) {
        if (depth >= max_depth) return wrong("the JSON text nests too deep", errc::limit);
        ++at_;
        auto members = std::make_shared<dict_data>();
        blanks();
        if (!take('}')) {
            do {
                blanks();
                if (peek() != '"') return wrong("a JSON object needs a key in double quotes here");
                std::string key;
                value item;
                if (!read_string(key)) return false;
                blanks();
                if (!take(':')) return wrong("a ':' is missing behind a key of a JSON object");
                if (!read_value(item, depth + 1)) return false;
                members->set(string(std::move(key), from_), std::move(item));
                blanks();
            } while (take(','));
            if (!take('}')) return wrong("a ',' or '}' is missing in a JSON object");
        }
        out = std::shared_ptr<const dict_data>(std::move(members));
        return true;
    }

    bool read_array(value& out, int depth) {
        if (depth >= max_depth) return wrong("the JSON text nests too deep", errc::limit);
        ++at_;
        std::vector<value> items;
        blanks();
        if (!take(']')) {
            do {
                if (!read_value(items.emplace_back(), depth + 1)) return false;
                blanks();
            } while (take(','));
            if (!take(']')) return wrong("a ',' or ']' is missing in a JSON array");
        }
        out = value::list(std::move(items));
        return true;
    }

    bool read_hex(std::uint32_t& out) {
        if (text_.size() - at_ < 4) return wrong("a \\u escape needs four digits");
        const auto [end, problem] = std::from_chars(text_.data() + at_, text_.data() + at_ + 4, out, 16);
        if (problem != std::errc{} || end != text_.data() + at_ + 4) return wrong("a \\u escape needs four digits");
        at_ += 4;
        return true;
    }

    bool read_escape(std::string& out) {
        switch (peek()) {
            case '"':
            case '\\':
            case '/': out += text_[at_++]; return true;
            case 'b': out += '\b'; ++at_; return true;
            case 'f': out += '\f'; ++at_; return true;
            case 'n': out += '\n'; ++at_; return true;
            case 'r': out += '\r'; ++at_; return true;
            case 't': out += '\t'; ++at_; return true;
            case 'u': break;
            default: return wrong("a JSON string has an unknown escape");
        }
        ++at_;
        std::uint32_t code = 0, low = 0;
        if (!read_hex(code)) return false;
        if (code >= 0xD800 && code < 0xDC00) {
            if (!take('\\') || !take('u')) return wrong("half a surrogate pair in a JSON string", errc::bad_utf8);
            if (!read_hex(low)) return false;
            if (low < 0xDC00 || low > 0xDFFF) return wrong("half a surrogate pair in a JSON string", errc::bad_utf8);
            code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
        } else if (code >= 0xDC00 && code < 0xE000) {
            return wrong("half a surrogate pair in a JSON string", errc::bad_utf8);
        }
        colibri::text::append_utf8(out, code);
        return true;
    }

    bool read_string(std::string& out) {
        ++at_;
        for (;;) {
            if (at_ >= text_.size()) return wrong("a JSON string doesn't end");
            const auto byte = static_cast<unsigned char>(text_[at_]);
            if (byte == '"') return ++at_, true;
            if (byte < 0x20) return wrong("a control character stands unescaped in a JSON string");
            if (byte == '\\') {
                ++at_;
                if (!read_escape(out)) return false;
                continue;
            }
            const auto read = colibri::text::decode_utf8(text_, at_);
            if (!read.valid) return wrong("a JSON string is not UTF-8", errc::bad_utf8);
            out += text_.substr(at_, read.size);
            at_ += read.size;
        }
    }

    bool read_number(value& out) {
        const std::size_t begin = at_;
        const auto digits = [&] {
            const std::size_t first = at_;
            while (peek() >= '0' && peek() <= '9') ++at_;
            return at_ - first;
        };
        static_cast<void>(take('-'));
        const bool zero = peek() == '0';
        const std::size_t whole = digits();
        if (whole == 0 || (zero && whole > 1)) return at_ = begin, wrong("this is no JSON value");
        bool real = false;
        if (take('.')) {
            real = true;
            if (digits() == 0) return wrong("a JSON number has no digits behind its point");
        }
        if (peek() == 'e' || peek() == 'E') {
            real = true;
            ++at_;
            if (!take('+')) static_cast<void>(take('-'));
            if (digits() == 0) return wrong("a JSON number has no digits in its exponent");
        }
        const std::string_view written = text_.substr(begin, at_ - begin);
        if (real) {
            const auto number = parse_number<double>(written);
            if (!number) return at_ = begin, wrong("a JSON number is too large or too small");
            out = *number;
        } else {
            const auto number = parse_number<std::int64_t>(written);
            if (!number) return at_ = begin, wrong("a JSON integer is beyond 64 bits");
            out = *number;
        }
        return true;
    }

    std::string_view text_;
    origin from_;
    std::size_t at_ = 0;
    error error_;
};

}  // namespace detail

inline result<value> parse_json(std::string_view text, origin from) { return detail::json_reader(text, from).read(); }

}  // namespace colibri::jinja
