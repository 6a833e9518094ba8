// Tokens with one to look ahead, and what to say when another one was expected.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "colibri/chat/jinja/lexer.hpp"

namespace colibri::jinja::detail {

/// What a token is, for messages.
[[nodiscard]] inline std::string describe(const token& t) {
    switch (t.kind) {
        case token_kind::data: return "text";
        case token_kind::variable_begin: return "'{{'";
        case token_kind::variable_end: return "'}}'";
        case token_kind::block_begin: return "'{%'";
        case token_kind::block_end: return "'%}'";
        case token_kind::text: return "a quoted text";
        case token_kind::integer:
        case token_kind::real: return concat("the number ", t.value);
        case token_kind::end: return "the end of the template";
        case token_kind::name:
        case token_kind::symbol: break;
    }
    return concat("'", t.value, "'");
}

class token_stream {
protected:
    explicit token_stream(std::string source) : lexer_(std::move(source)) { current_ = lexer_.next(); }

    token advance() {
        token out = std::move(current_);
        if (ahead_) {
            current_ = *std::move(ahead_);
            ahead_.reset();
        } else {
            current_ = lexer_.next();
        }
        return out;
    }
    [[nodiscard]] const token& look() {
        if (!ahead_) ahead_ = lexer_.next();
        return *ahead_;
    }
    [[nodiscard]] static bool is(const token& t, token_kind kind, std::string_view value) noexcept {
        return t.kind == kind && t.value == value;
    }
    [[nodiscard]] bool at_symbol(std::string_view s) const noexcept { return is(current_, token_kind::symbol, s); }
    [[nodiscard]] bool at_name(std::string_view s) const noexcept { return is(current_, token_kind::name, s); }
    bool take_symbol(std::string_view s) {
        if (!at_symbol(s)) return false;
        advance();
        return true;
    }
    bool take_name(std::string_view s) {
        if (!at_name(s)) return false;
        advance();
        return true;
    }
    [[noreturn]] void fail_expected(std::string_view what) const {
        fail_syntax(current_.line, "expected ", what, ", got ", describe(current_));
    }
    void expect_symbol(std::string_view s) {
        if (!take_symbol(s)) fail_expected(concat("'", s, "'"));
    }
    void expect_name(std::string_view s) {
        if (!take_name(s)) fail_expected(concat("'", s, "'"));
    }
    token expect(token_kind kind, std::string_view what) {
        if (current_.kind != kind) fail_expected(what);
        return advance();
    }

    token current_;

private:
    lexer lexer_;
    std::optional<token> ahead_;
};

}  // namespace colibri::jinja::detail
