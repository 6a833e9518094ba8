// A parsed template: expressions and statements in arrays, referring to each other by number.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "colibri/chat/jinja/arithmetic.hpp"
#include "colibri/chat/jinja/machine.hpp"

namespace colibri::jinja::detail {

using expression_id = std::uint32_t;
using statement_id = std::uint32_t;
using symbol_id = std::uint32_t;
inline constexpr std::uint32_t no_id = ~std::uint32_t{0};

enum class expression_kind : std::uint8_t {
    constant,     ///< extra: constants
    name,         ///< extra: symbols
    list,         ///< kids: items
    tuple,        ///< kids: items
    dict,         ///< kids: key, value, key, value, ...
    attribute,    ///< kids: object; extra: symbols
    item,         ///< kids: object, key
    slice,        ///< kids: object, start, stop, step (no_id: left out)
    call,         ///< kids: callee; extra: calls
    filter,       ///< kids: subject, or none in front of a block; extra: calls
    test,         ///< kids: subject; extra: calls
    logical_not,  ///< kids: operand
    negative,
    positive,
    arithmetic,   ///< kids: operands, left to right; extra: chains
    concatenate,  ///< kids: operands
    compare,      ///< kids: operands, each pair compared; extra: chains
    logical_and,  ///< kids: operands
    logical_or,   ///< kids: operands
    conditional,  ///< kids: value if true, condition, value if false (no_id: undefined)
    member,       ///< target of `set a.b`: kids: none; extra: symbols of a; extra2: symbols of b
};

struct expression {
    expression_kind kind = expression_kind::constant;
    std::uint32_t height = 1;  ///< 1 + the highest kid's
    std::uint32_t line = 0;
    std::uint32_t extra = 0;
    std::uint32_t extra2 = 0;
    std::vector<expression_id> kids = {};
};

/// Comparison operators.
enum class comparison : std::uint8_t { equal, not_equal, less, less_equal, greater, greater_equal, in, not_in };

/// Arguments of a call, filter or test, and what is called.
struct call_site {
    std::vector<expression_id> positional = {};
    std::vector<std::pair<symbol_id, expression_id>> named = {};
    expression_id star = no_id;       ///< *items
    expression_id star_star = no_id;  ///< **members
    native code = nullptr;            ///< filters and tests: null if nothing has that name
    symbol_id name = no_id;           ///< filters and tests
};

enum class statement_kind : std::uint8_t {
    text,          ///< extra: constants
    print,         ///< expressions: each printed
    condition,     ///< expressions: conditions; blocks: one each, maybe one more for else
    loop,          ///< expressions: target, items, filter (or no_id); blocks: body, else
    assign,        ///< expressions: target, value
    assign_block,  ///< expressions: target, filter (or no_id); blocks: body
    macro,         ///< extra: macros
    call_block,    ///< expressions: call; extra: macros
    filter_block,  ///< expressions: filter; blocks: body
    with,          ///< expressions: target, value, target, value, ...; blocks: body
    scope,         ///< blocks: body
    autoescape,    ///< expressions: on or off; blocks: body
    block,         ///< blocks: body; extra: symbols
    stop,          ///< break
    next,          ///< continue
    load,          ///< include, import, extends: there is nothing to load from
};

struct statement {
    statement_kind kind = statement_kind::text;
    std::uint32_t line = 0;
    std::uint32_t extra = 0;
    std::vector<expression_id> expressions = {};
    std::vector<std::vector<statement_id>> blocks = {};
    bool flag = false;  ///< loop: recursive; block: sees the variables around it
};

/// A macro or the body of a call block.
struct macro_definition {
    symbol_id name = no_id;
    std::vector<symbol_id> parameters = {};
    std::vector<expression_id> defaults = {};  ///< of the last parameters
    std::vector<statement_id> body = {};
    bool uses_caller = false;
    bool uses_varargs = false;
    bool uses_kwargs = false;
};

struct syntax_tree {
    /// Names with a meaning of their own; always there.
    static constexpr symbol_id loop_name = 0, caller_name = 1, kwargs_name = 2, varargs_name = 3;

    syntax_tree() {
        for (const std::string_view name : {"loop", "caller", "kwargs", "varargs"}) static_cast<void>(symbol(name));
    }

    std::vector<expression> expressions;
    std::vector<statement> statements;
    std::vector<value> constants;
    std::vector<string> symbols;  ///< names, attributes, keywords: trusted
    std::vector<std::vector<std::uint8_t>> chains;
    std::vector<call_site> calls;
    std::vector<macro_definition> macros;
    std::vector<std::pair<symbol_id, statement_id>> blocks;  ///< by name
    std::vector<statement_id> body;

    [[nodiscard]] symbol_id symbol(std::string_view name) {
        if (const auto known = by_name_.find(name); known != by_name_.end()) return known->second;
        const auto id = static_cast<symbol_id>(symbols.size());
        symbols.emplace_back(std::string(name), origin::trusted);
        by_name_.emplace(symbols.back().view(), id);
        return id;
    }

private:
    std::unordered_map<std::string_view, symbol_id> by_name_;  ///< the keys stand in the symbols, which share their bytes
};

}  // namespace colibri::jinja::detail
