// Tokens -> statements.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "colibri/chat/jinja/expression_parser.hpp"

namespace colibri::jinja::detail {

/// Parses a whole template. Throws `stopped` with kind syntax or limit and the line.
class parser final : expression_parser {
public:
    parser(std::string_view source, const limits& allowed) : expression_parser(normalized_source(source), allowed) {}

    [[nodiscard]] syntax_tree parse() {
        tree_.body = parse_body({});
        for (const auto* found : {&mistakes_, &late_mistakes_}) {
            if (!found->empty()) fail_syntax(found->front().first, found->front().second);
        }
        return std::move(tree_);
    }

private:
    using body = std::vector<statement_id>;

    statement_id add(statement s) {
        tree_.statements.push_back(std::move(s));
        return static_cast<statement_id>(tree_.statements.size() - 1);
    }

    /// Statements and text up to one of the tags `ends`, whose name is the current token then; up to the end if there are none.
    body parse_body(std::initializer_list<std::string_view> ends) {
        const level deeper(*this);
        body out;
        for (;;) {
            switch (current_.kind) {
                case token_kind::end:
                    if (ends.size() != 0) fail_syntax(current_.line, "the template ends where ", list_of(ends), " should stand");
                    return out;
                case token_kind::data: {
                    const token text = advance();
                    tree_.constants.emplace_back(string(text.value, origin::trusted));
                    out.push_back(add({statement_kind::text, static_cast<std::uint32_t>(text.line),
                                       static_cast<std::uint32_t>(tree_.constants.size() - 1)}));
                    break;
                }
                case token_kind::variable_begin: {
                    const auto line = static_cast<std::uint32_t>(advance().line);
                    const expression_id shown = parse_tuple({});
                    expect(token_kind::variable_end, "'}}'");
                    out.push_back(add({statement_kind::print, line, 0, {shown}}));
                    break;
                }
                default:  // block_begin: nothing else comes outside of tags
                    advance();
                    if (current_.kind == token_kind::name) {
                        for (const std::string_view end : ends) {
                            if (current_.value == end) return out;
                        }
                    }
                    parse_statement(out, ends);
                    expect(token_kind::block_end, "'%}'");
            }
        }
    }

    [[nodiscard]] static std::string list_of(std::initializer_list<std::string_view> names) {
        std::string out;
        for (const std::string_view name : names) out += concat(out.empty() ? "" : " or ", "'", name, "'");
        return out;
    }

    /// The body of a block: from behind the tag to one of `ends`.
    body parse_block(std::initializer_list<std::string_view> ends, bool soft) {
        const bool soft_before = std::exchange(soft_, soft);
        take_symbol(":");
        expect(token_kind::block_end, "'%}'");
        body out = parse_body(ends);
        soft_ = soft_before;
        return out;
    }
    /// The same, and takes the end tag's name.
    body parse_whole_block(std::string_view end, bool soft) {
        body out = parse_block({end}, soft);
        advance();
        return out;
    }

    void parse_statement(body& out, std::initializer_list<std::string_view> ends) {
        if (current_.kind != token_kind::name) fail_syntax(current_.line, "expected the name of a tag, got ", describe(current_));
        const std::string name = current_.value;
        const std::size_t line = current_.line;
        statement s;
        s.line = static_cast<std::uint32_t>(line);
        if (name == "for") parse_for(s);
        else if (name == "if") parse_if(s);
        else if (name == "set") parse_set(s);
        else if (name == "macro") parse_macro(s);
        else if (name == "call") parse_call_block(s);
        else if (name == "filter") parse_filter_block(s);
        else if (name == "with") parse_with(s);
        else if (name == "block") parse_named_block(s);
        else if (name == "generation") parse_generation(s);
        else if (name == "autoescape") parse_autoescape(s);
        else if (name == "print") parse_print(s);
        else if (name == "break" || name == "continue") parse_jump(s);
        else if (name == "include" || name == "import" || name == "from" || name == "extends") parse_load(s, name);
        else if (ends.size() == 0) fail_syntax(line, "there is no tag '", name, "', or it stands at the wrong place");
        else fail_syntax(line, "there is no tag '", name, "', or it stands where ", list_of(ends), " should stand");
        out.push_back(add(std::move(s)));
    }

    /// Stops if `target` can't be assigned to.
    void check_target(expression_id target) {
        const expression& e = tree_.expressions[target];
        if (e.kind == expression_kind::tuple) {
            const auto kids = e.kids;
            for (const expression_id kid : kids) check_target(kid);
            return;
        }
        if (e.kind != expression_kind::name && e.kind != expression_kind::member) {
            fail_syntax(e.line, "only names can be assigned to");
        }
        if (e.kind == expression_kind::name && loops_ > 0 && tree_.symbols[e.extra] == "loop") {
            mistakes_.emplace_back(e.line, "inside of a loop, 'loop' can't be assigned to");
        }
    }
    expression_id parse_target(bool with_member, std::string_view stop = {}) {
        const std::size_t line = current_.line;
        const expression_id target = parse_tuple({.targets = true, .with_member = with_member, .stop = stop});
        static_cast<void>(line);
        check_target(target);
        return target;
    }

    void parse_for(statement& s) {
        s.kind = statement_kind::loop;
        advance();
        ++loops_;  // the target belongs to the loop too
        const expression_id target = parse_target(false, "in");
        expect_name("in");
        --loops_;
        const expression_id items = parse_tuple({.with_condition = false, .stop = "recursive"});
        const bool soft_before = std::exchange(soft_, false);
        ++loops_;
        const expression_id filter = take_name("if") ? parse_expression() : no_id;
        soft_ = soft_before;
        s.flag = take_name("recursive");
        s.expressions = {target, items, filter};
        ++breakable_;
        s.blocks.push_back(parse_block({"endfor", "else"}, false));
        --breakable_;
        if (advance().value == "else") s.blocks.push_back(parse_whole_block("endfor", false));
        else s.blocks.emplace_back();
        --loops_;
    }

    void parse_if(statement& s) {
        s.kind = statement_kind::condition;
        const bool soft_before = std::exchange(soft_, true);
        for (;;) {
            advance();
            s.expressions.push_back(parse_tuple({.with_condition = false}));
            s.blocks.push_back(parse_block({"elif", "else", "endif"}, true));
            if (!at_name("elif")) break;
        }
        if (advance().value == "else") s.blocks.push_back(parse_whole_block("endif", true));
        soft_ = soft_before;
    }

    void parse_set(statement& s) {
        advance();
        const expression_id target = parse_target(true);
        if (take_symbol("=")) {
            s.kind = statement_kind::assign;
            s.expressions = {target, parse_tuple({})};
            return;
        }
        s.kind = statement_kind::assign_block;
        const bool soft_before = std::exchange(soft_, false);
        s.expressions = {target, parse_block_filters(false)};
        soft_ = soft_before;
        s.blocks.push_back(parse_whole_block("endset", false));
    }

    /// `(a, b=1)`.
    void parse_signature(macro_definition& macro) {
        expect_symbol("(");
        while (!at_symbol(")")) {
            if (!macro.parameters.empty()) expect_symbol(",");
            const token name = expect(token_kind::name, "the name of a parameter");
            check_name(name);
            const symbol_id parameter = tree_.symbol(name.value);
            if (macro.parameters.size() >= max_names) too_many_names();
            if (std::ranges::find(macro.parameters, parameter) != macro.parameters.end()) {
                late_mistakes_.emplace_back(name.line, concat("the parameter '", name.value, "' is there twice"));
            }
            if (take_symbol("=")) macro.defaults.push_back(parse_expression());
            else if (!macro.defaults.empty()) fail_syntax(current_.line, "a parameter without a default stands behind one with a default");
            macro.parameters.push_back(parameter);
        }
        expect_symbol(")");
    }

    static void check_name(const token& t) {
        for (const std::string_view constant : {"true", "false", "none", "True", "False", "None"}) {
            if (t.value == constant) fail_syntax(t.line, "'", constant, "' can't be a name");
        }
    }

    /// The body of a macro or call block, in which break and conditions outside count for nothing.
    body parse_macro_body(macro_definition& macro, std::string_view end) {
        open_macros_.push_back(&macro);
        const std::size_t breakable_before = std::exchange(breakable_, 0);
        body out = parse_whole_block(end, false);
        breakable_ = breakable_before;
        open_macros_.pop_back();
        return out;
    }

    void parse_macro(statement& s) {
        s.kind = statement_kind::macro;
        advance();
        macro_definition macro;
        const token name = expect(token_kind::name, "the name of a macro");
        check_name(name);
        macro.name = tree_.symbol(name.value);
        const bool soft_before = std::exchange(soft_, false);
        parse_signature(macro);
        soft_ = soft_before;
        macro.body = parse_macro_body(macro, "endmacro");
        tree_.macros.push_back(std::move(macro));
        s.extra = static_cast<std::uint32_t>(tree_.macros.size() - 1);
    }

    void parse_call_block(statement& s) {
        s.kind = statement_kind::call_block;
        advance();
        macro_definition macro;
        macro.name = tree_.symbol("caller");
        if (at_symbol("(")) parse_signature(macro);
        const expression_id call = parse_expression();
        if (tree_.expressions[call].kind != expression_kind::call) fail_syntax(s.line, "a call block needs a call");
        s.expressions = {call};
        macro.body = parse_macro_body(macro, "endcall");
        tree_.macros.push_back(std::move(macro));
        s.extra = static_cast<std::uint32_t>(tree_.macros.size() - 1);
    }

    void parse_filter_block(statement& s) {
        s.kind = statement_kind::filter_block;
        advance();
        const bool soft_before = std::exchange(soft_, false);
        s.expressions = {parse_block_filters(true)};
        soft_ = soft_before;
        s.blocks.push_back(parse_whole_block("endfilter", false));
    }

    void parse_with(statement& s) {
        s.kind = statement_kind::with;
        advance();
        while (current_.kind != token_kind::block_end) {
            if (!s.expressions.empty()) expect_symbol(",");
            s.expressions.push_back(parse_target(false));
            expect_symbol("=");
            s.expressions.push_back(parse_expression());
        }
        s.blocks.push_back(parse_whole_block("endwith", false));
    }

    void parse_named_block(statement& s) {
        s.kind = statement_kind::block;
        advance();
        const token name = expect(token_kind::name, "the name of a block");
        s.flag = take_name("scoped");
        take_name("required");
        s.extra = tree_.symbol(name.value);
        const std::size_t breakable_before = std::exchange(breakable_, 0);
        s.blocks.push_back(parse_whole_block("endblock", false));
        breakable_ = breakable_before;
        take_name(name.value);
        for (const auto& [known, at] : tree_.blocks) {
            if (known == s.extra) mistakes_.emplace_back(name.line, concat("the block '", name.value, "' is there twice"));
        }
        tree_.blocks.emplace_back(s.extra, static_cast<statement_id>(tree_.statements.size()));
    }

    void parse_generation(statement& s) {
        s.kind = statement_kind::scope;
        advance();
        const std::size_t breakable_before = std::exchange(breakable_, 0);
        s.blocks.push_back(parse_whole_block("endgeneration", false));
        breakable_ = breakable_before;
    }

    void parse_autoescape(statement& s) {
        s.kind = statement_kind::autoescape;
        advance();
        s.expressions = {parse_expression()};
        s.blocks.push_back(parse_whole_block("endautoescape", false));
    }

    void parse_print(statement& s) {
        s.kind = statement_kind::print;
        advance();
        while (current_.kind != token_kind::block_end) {
            if (!s.expressions.empty()) expect_symbol(",");
            s.expressions.push_back(parse_expression());
        }
    }

    void parse_jump(statement& s) {
        s.kind = current_.value == "break" ? statement_kind::stop : statement_kind::next;
        if (breakable_ == 0) late_mistakes_.emplace_back(current_.line, concat("'", current_.value, "' stands outside of a loop"));
        advance();
    }

    /// Tags that would load other templates: parsed, and an error when they run.
    void parse_load(statement& s, std::string_view name) {
        s.kind = statement_kind::load;
        advance();
        static_cast<void>(parse_expression());
        const auto context = [&] {
            if ((!at_name("with") && !at_name("without")) || !is(look(), token_kind::name, "context")) return false;
            advance();
            advance();
            return true;
        };
        const auto target = [&] {
            const token t = expect(token_kind::name, "a name");
            check_name(t);
            return t;
        };
        if (name == "include" && at_name("ignore") && is(look(), token_kind::name, "missing")) {
            advance();
            advance();
        }
        if (name == "import") {
            expect_name("as");
            target();
        }
        if (name == "from") {
            expect_name("import");
            for (bool first = true;; first = false) {
                if (!first) expect_symbol(",");
                if (current_.kind != token_kind::name) fail_expected("a name");
                if (context()) return;
                const token imported = target();
                if (imported.value.starts_with('_')) fail_syntax(imported.line, "names that begin with '_' can't be imported");
                if (take_name("as")) target();
                if (context() || !at_symbol(",")) return;
            }
        }
        if (name != "extends") context();
    }

    std::size_t loops_ = 0;      ///< loops around this place
    std::size_t breakable_ = 0;  ///< loops that a break here could leave
};

}  // namespace colibri::jinja::detail
