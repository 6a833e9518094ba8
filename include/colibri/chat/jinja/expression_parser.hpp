// Tokens -> expressions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "colibri/chat/jinja/ast.hpp"
#include "colibri/chat/jinja/filters.hpp"
#include "colibri/chat/jinja/token_stream.hpp"

namespace colibri::jinja::detail {

class expression_parser : protected token_stream {
protected:
    expression_parser(std::string source, const limits& allowed) : token_stream(std::move(source)), allowed_(allowed) {}

    /// One level of nesting in the source for the time of a scope.
    class level {
    public:
        explicit level(expression_parser& p) : parser_(p) {
            if (++p.depth_ > p.allowed_.parse_depth) p.too_deep();
        }
        level(const level&) = delete;
        level& operator=(const level&) = delete;
        ~level() { --parser_.depth_; }

    private:
        expression_parser& parser_;
    };

    [[noreturn]] void too_deep() const {
        throw stopped{{failure_kind::limit, concat("it nests deeper than ", allowed_.parse_depth, " levels"), current_.line}};
    }

    /// Most parameters of a macro and most named arguments of a call.
    static constexpr std::size_t max_names = 1000;
    [[noreturn]] void too_many_names() const {
        throw stopped{{failure_kind::limit, concat("it gives more than ", max_names, " names at once"), current_.line}};
    }

    // Nodes.

    expression_id make(expression_kind kind, std::size_t line, std::vector<expression_id> kids = {}, std::uint32_t extra = 0) {
        std::size_t height = 1;
        for (const expression_id kid : kids) {
            if (kid != no_id) height = std::max<std::size_t>(height, tree_.expressions[kid].height + std::size_t{1});
        }
        if (height > allowed_.parse_depth) too_deep();
        tree_.expressions.push_back({kind, static_cast<std::uint32_t>(height), static_cast<std::uint32_t>(line), extra, 0, std::move(kids)});
        return static_cast<expression_id>(tree_.expressions.size() - 1);
    }
    expression_id make_constant(value v, std::size_t line) {
        tree_.constants.push_back(std::move(v));
        return make(expression_kind::constant, line, {}, static_cast<std::uint32_t>(tree_.constants.size() - 1));
    }
    /// A kid more for a chain that is being built.
    void extend(expression_id chain, expression_id kid) {
        expression& e = tree_.expressions[chain];
        e.kids.push_back(kid);
        e.height = std::max(e.height, tree_.expressions[kid].height + 1);
        if (e.height > allowed_.parse_depth) too_deep();
    }

    /// A mistake that counts only if the whole template parses, and not in what a condition may skip.
    void mistake(std::size_t line, std::string message) {
        if (!soft_) mistakes_.emplace_back(line, std::move(message));
    }

    // Expressions.

    expression_id parse_expression(bool with_condition = true) {
        const level deeper(*this);
        const std::size_t line = current_.line, mistakes_before = mistakes_.size();
        expression_id left = parse_binary(0);
        while (with_condition && at_name("if")) {
            mistakes_.resize(std::min(mistakes_.size(), mistakes_before));  // all three parts may be skipped
            advance();
            const bool soft_before = std::exchange(soft_, true);
            const expression_id condition = parse_binary(0);
            const expression_id otherwise = take_name("else") ? parse_expression() : no_id;
            soft_ = soft_before;
            left = make(expression_kind::conditional, line, {left, condition, otherwise});
        }
        return left;
    }

    enum precedence : int { level_or, level_and, level_not, level_compare, level_sum, level_tilde, level_product, level_power };

    struct infix {
        int level;
        std::uint8_t code;       ///< comparison or operation
        std::uint8_t tokens = 1;
    };
    [[nodiscard]] std::optional<infix> infix_here() {
        const auto code = [](auto c) { return static_cast<std::uint8_t>(c); };
        if (current_.kind == token_kind::name) {
            if (current_.value == "or") return infix{level_or, 0};
            if (current_.value == "and") return infix{level_and, 0};
            if (current_.value == "in") return infix{level_compare, code(comparison::in)};
            if (current_.value == "not" && is(look(), token_kind::name, "in")) return infix{level_compare, code(comparison::not_in), 2};
            return std::nullopt;
        }
        if (current_.kind != token_kind::symbol) return std::nullopt;
        static constexpr std::pair<std::string_view, infix> symbols[] = {
            {"==", {level_compare, static_cast<std::uint8_t>(comparison::equal)}},
            {"!=", {level_compare, static_cast<std::uint8_t>(comparison::not_equal)}},
            {"<", {level_compare, static_cast<std::uint8_t>(comparison::less)}},
            {"<=", {level_compare, static_cast<std::uint8_t>(comparison::less_equal)}},
            {">", {level_compare, static_cast<std::uint8_t>(comparison::greater)}},
            {">=", {level_compare, static_cast<std::uint8_t>(comparison::greater_equal)}},
            {"+", {level_sum, static_cast<std::uint8_t>(operation::add)}},
            {"-", {level_sum, static_cast<std::uint8_t>(operation::subtract)}},
            {"~", {level_tilde, 0}},
            {"*", {level_product, static_cast<std::uint8_t>(operation::multiply)}},
            {"/", {level_product, static_cast<std::uint8_t>(operation::divide)}},
            {"//", {level_product, static_cast<std::uint8_t>(operation::floor_divide)}},
            {"%", {level_product, static_cast<std::uint8_t>(operation::modulo)}},
            {"**", {level_power, static_cast<std::uint8_t>(operation::power)}},
        };
        for (const auto& [symbol, meaning] : symbols) {
            if (current_.value == symbol) return meaning;
        }
        return std::nullopt;
    }

    /// Operators that bind at least as tight as `least`. Equal ones in a row make one chain, so that long sums need no depth.
    expression_id parse_binary(int least) {
        const std::size_t line = current_.line;
        expression_id left = 0;
        if (least <= level_not && at_name("not")) {
            const level deeper(*this);
            advance();
            left = make(expression_kind::logical_not, line, {parse_binary(level_not)});
        } else {
            left = parse_unary(true);
        }
        int chain = -1;  // level of the chain that `left` is, if this loop made it
        while (const auto op = infix_here()) {
            if (op->level < least) break;
            for (int i = 0; i < op->tokens; ++i) advance();
            const expression_id right = parse_binary(op->level + 1);
            if (chain == op->level) {
                extend(left, right);
            } else {
                const expression_kind kind = op->level == level_or      ? expression_kind::logical_or
                                             : op->level == level_and   ? expression_kind::logical_and
                                             : op->level == level_tilde ? expression_kind::concatenate
                                             : op->level == level_compare ? expression_kind::compare
                                                                          : expression_kind::arithmetic;
                tree_.chains.emplace_back();
                left = make(kind, line, {left, right}, static_cast<std::uint32_t>(tree_.chains.size() - 1));
                chain = op->level;
            }
            tree_.chains[tree_.expressions[left].extra].push_back(op->code);
        }
        return left;
    }

    expression_id parse_unary(bool with_filter) {
        const std::size_t line = current_.line;
        expression_id out = 0;
        if (at_symbol("-") || at_symbol("+")) {
            const level deeper(*this);
            const bool minus = advance().value == "-";
            out = make(minus ? expression_kind::negative : expression_kind::positive, line, {parse_unary(false)});
        } else {
            out = parse_primary(false);
        }
        out = parse_postfix(out);
        return with_filter ? parse_filters(out) : out;
    }

    /// `with_member`: `a.b` is a target for set.
    expression_id parse_primary(bool with_member) {
        const token t = current_;
        switch (t.kind) {
            case token_kind::name: {
                advance();
                if (t.value == "true" || t.value == "True") return make_constant(true, t.line);
                if (t.value == "false" || t.value == "False") return make_constant(false, t.line);
                if (t.value == "none" || t.value == "None") return make_constant({}, t.line);
                const symbol_id name = tree_.symbol(t.value);
                if (with_member && take_symbol(".")) {
                    const token attribute = expect(token_kind::name, "a name");
                    const expression_id out = make(expression_kind::member, t.line, {}, name);
                    tree_.expressions[out].extra2 = tree_.symbol(attribute.value);
                    return out;
                }
                used_name(t.value);
                return make(expression_kind::name, t.line, {}, name);
            }
            case token_kind::text: {
                std::string text;
                while (current_.kind == token_kind::text) text += advance().value;
                return make_constant(string(std::move(text), origin::trusted), t.line);
            }
            case token_kind::integer: {
                advance();
                std::int64_t n = 0;
                const bool decimal = t.value.find_first_not_of("0123456789") == std::string::npos;
                if (parse_integer(t.value, decimal ? 10 : 0, n) != parsed::yes) {
                    throw stopped{{failure_kind::limit, concat("the number ", t.value, " is beyond 64 bits"), t.line}};
                }
                return make_constant(n, t.line);
            }
            case token_kind::real:
                advance();
                return make_constant(parse_real(t.value).value_or(0), t.line);
            case token_kind::symbol:
                if (t.value == "(") {
                    advance();
                    const expression_id out = parse_tuple({.parentheses = true});
                    expect_symbol(")");
                    return out;
                }
                if (t.value == "[") return parse_list();
                if (t.value == "{") return parse_dict();
                break;
            default: break;
        }
        fail_syntax(t.line, "expected a value, got ", describe(t));
    }

    struct tuple_rules {
        bool targets = false;          ///< names and literals only
        bool with_condition = true;
        bool parentheses = false;      ///< () is an empty tuple
        bool with_member = false;
        std::string_view stop = {};    ///< a name that ends the tuple
    };

    /// One expression, or several with commas between as a tuple.
    expression_id parse_tuple(const tuple_rules& rules) {
        const std::size_t line = current_.line;
        std::vector<expression_id> items;
        bool tuple = false;
        for (;;) {
            if (!items.empty()) expect_symbol(",");
            if (current_.kind == token_kind::variable_end || current_.kind == token_kind::block_end || at_symbol(")") ||
                (!rules.stop.empty() && at_name(rules.stop))) {
                break;
            }
            if (rules.targets) {
                const level deeper(*this);
                items.push_back(parse_primary(rules.with_member));
            } else {
                items.push_back(parse_expression(rules.with_condition));
            }
            if (!at_symbol(",")) break;
            tuple = true;
        }
        if (!tuple) {
            if (!items.empty()) return items[0];
            if (!rules.parentheses) fail_expected("an expression");
        }
        return make(expression_kind::tuple, line, std::move(items));
    }

    expression_id parse_list() {
        const std::size_t line = advance().line;
        std::vector<expression_id> items;
        while (!at_symbol("]")) {
            if (!items.empty()) expect_symbol(",");
            if (at_symbol("]")) break;
            items.push_back(parse_expression());
        }
        expect_symbol("]");
        return make(expression_kind::list, line, std::move(items));
    }

    expression_id parse_dict() {
        const std::size_t line = advance().line;
        std::vector<expression_id> items;
        while (!at_symbol("}")) {
            if (!items.empty()) expect_symbol(",");
            if (at_symbol("}")) break;
            items.push_back(parse_expression());
            expect_symbol(":");
            items.push_back(parse_expression());
        }
        expect_symbol("}");
        return make(expression_kind::dict, line, std::move(items));
    }

    expression_id parse_postfix(expression_id out) {
        for (;;) {
            if (at_symbol(".") || at_symbol("[")) out = parse_subscript(out);
            else if (at_symbol("(")) out = parse_call(out);
            else return out;
        }
    }

    expression_id parse_filters(expression_id out) {
        for (;;) {
            if (at_symbol("|")) out = parse_filter(out, false);
            else if (at_name("is")) out = parse_test(out);
            else if (at_symbol("(")) out = parse_call(out);
            else return out;
        }
    }

    expression_id parse_subscript(expression_id object) {
        const token opening = advance();
        if (opening.value == ".") {
            const token name = advance();
            if (name.kind == token_kind::name) {
                return make(expression_kind::attribute, opening.line, {object}, tree_.symbol(name.value));
            }
            std::int64_t n = 0;
            if (name.kind != token_kind::integer || parse_integer(name.value, 10, n) != parsed::yes) {
                fail_syntax(name.line, "expected a name or a number, got ", describe(name));
            }
            return make(expression_kind::item, opening.line, {object, make_constant(n, name.line)});
        }
        std::vector<expression_id> keys;
        bool slice = false;
        while (!at_symbol("]")) {
            if (!keys.empty()) expect_symbol(",");
            slice = parse_key(keys) || slice;
        }
        expect_symbol("]");
        if (slice && keys.size() == 3) {
            return make(expression_kind::slice, opening.line, {object, keys[0], keys[1], keys[2]});
        }
        if (slice) {
            late_mistakes_.emplace_back(opening.line, "a slice can't be part of a tuple");
            return object;
        }
        if (keys.size() == 1) return make(expression_kind::item, opening.line, {object, keys[0]});
        const expression_id tuple = make(expression_kind::tuple, opening.line, std::move(keys));
        return make(expression_kind::item, opening.line, {object, tuple});
    }

    /// Appends a key, or the three parts of a slice (then true).
    bool parse_key(std::vector<expression_id>& keys) {
        expression_id start = no_id, stop = no_id, step = no_id;
        if (!at_symbol(":")) {
            start = parse_expression();
            if (!at_symbol(":")) {
                keys.push_back(start);
                return false;
            }
        }
        advance();
        if (!at_symbol(":") && !at_symbol("]") && !at_symbol(",")) stop = parse_expression();
        if (take_symbol(":") && !at_symbol("]") && !at_symbol(",")) step = parse_expression();
        keys.insert(keys.end(), {start, stop, step});
        return true;
    }

    /// `( ... )`: the arguments of a call; the current token is the bracket.
    call_site parse_arguments() {
        const std::size_t line = current_.line;
        expect_symbol("(");
        call_site site;
        const auto in_order = [&](bool fine) {
            if (!fine) fail_syntax(line, "the arguments of a call stand in the wrong order");
        };
        bool later = false;
        while (!at_symbol(")")) {
            if (later) {
                expect_symbol(",");
                if (at_symbol(")")) break;
            }
            later = true;
            if (take_symbol("*")) {
                in_order(site.star == no_id && site.star_star == no_id);
                site.star = parse_expression();
            } else if (take_symbol("**")) {
                in_order(site.star_star == no_id);
                site.star_star = parse_expression();
            } else if (current_.kind == token_kind::name && is(look(), token_kind::symbol, "=")) {
                in_order(site.star_star == no_id);
                const token key = advance();
                advance();
                const symbol_id name = tree_.symbol(key.value);
                if (site.named.size() >= max_names) too_many_names();
                const bool twice = std::ranges::any_of(site.named, [&](const auto& n) { return n.first == name; });
                if (twice) late_mistakes_.emplace_back(key.line, concat("the argument '", key.value, "' is given twice"));
                site.named.emplace_back(name, parse_expression());
            } else {
                in_order(site.star == no_id && site.star_star == no_id && site.named.empty());
                site.positional.push_back(parse_expression());
            }
        }
        expect_symbol(")");
        return site;
    }

    /// A node with arguments; `kids` plus the arguments count for its height.
    expression_id make_call(expression_kind kind, std::size_t line, std::vector<expression_id> kids, call_site site) {
        std::vector<expression_id> all = kids;
        all.insert(all.end(), site.positional.begin(), site.positional.end());
        for (const auto& [name, argument] : site.named) all.push_back(argument);
        all.push_back(site.star);
        all.push_back(site.star_star);
        tree_.calls.push_back(std::move(site));
        const expression_id out = make(kind, line, std::move(all), static_cast<std::uint32_t>(tree_.calls.size() - 1));
        tree_.expressions[out].kids = std::move(kids);
        return out;
    }

    expression_id parse_call(expression_id callee) {
        const std::size_t line = current_.line;
        return make_call(expression_kind::call, line, {callee}, parse_arguments());
    }

    [[nodiscard]] token parse_dotted_name(std::string_view what) {
        token name = expect(token_kind::name, what);
        while (take_symbol(".")) name.value += concat(".", expect(token_kind::name, what).value);
        return name;
    }

    /// `| name(...)`; `inner` is what it is applied to, or no_id for the text of a block. `bare`: the | is left out.
    expression_id parse_filter(expression_id inner, bool bare) {
        if (!bare) advance();
        const token name = parse_dotted_name("the name of a filter");
        const native code = find_filter(name.value);
        if (code == nullptr) mistake(name.line, concat("there is no filter '", name.value, "'"));
        call_site site = at_symbol("(") ? parse_arguments() : call_site{};
        site.code = code;
        site.name = tree_.symbol(name.value);
        return make_call(expression_kind::filter, name.line, {inner}, std::move(site));
    }

    /// One or more filters for the text of a block; no_id if there is none.
    expression_id parse_block_filters(bool bare) {
        expression_id out = no_id;
        while (at_symbol("|") || bare) {
            out = parse_filter(out, bare);
            bare = false;
        }
        return out;
    }

    expression_id parse_test(expression_id subject) {
        const std::size_t line = advance().line;
        const bool negated = take_name("not");
        const token name = parse_dotted_name("the name of a test");
        const native code = find_test(name.value);
        if (code == nullptr) mistake(name.line, concat("there is no test '", name.value, "'"));
        call_site site;
        const auto begins_value = [&] {
            switch (current_.kind) {
                case token_kind::name: return current_.value != "else" && current_.value != "or" && current_.value != "and";
                case token_kind::text:
                case token_kind::integer:
                case token_kind::real: return true;
                default: return at_symbol("[") || at_symbol("{");
            }
        };
        if (at_symbol("(")) {
            site = parse_arguments();
        } else if (begins_value()) {
            if (at_name("is")) fail_syntax(current_.line, "tests can't be chained with 'is'");
            const level deeper(*this);
            site.positional.push_back(parse_postfix(parse_primary(false)));
        }
        site.code = code;
        site.name = tree_.symbol(name.value);
        const expression_id out = make_call(expression_kind::test, line, {subject}, std::move(site));
        return negated ? make(expression_kind::logical_not, line, {out}) : out;
    }

    /// Remembers that macros around this place use their special variables.
    void used_name(std::string_view name) {
        for (macro_definition* macro : open_macros_) {
            macro->uses_caller = macro->uses_caller || name == "caller";
            macro->uses_varargs = macro->uses_varargs || name == "varargs";
            macro->uses_kwargs = macro->uses_kwargs || name == "kwargs";
        }
    }

    limits allowed_;
    syntax_tree tree_;
    std::uint32_t depth_ = 0;
    bool soft_ = false;  ///< inside of something that a condition may skip: unknown filters fail only when they run
    std::vector<std::pair<std::size_t, std::string>> mistakes_;
    std::vector<std::pair<std::size_t, std::string>> late_mistakes_;
    std::vector<macro_definition*> open_macros_;
};

}  // namespace colibri::jinja::detail
