// Runs a parsed template. The bodies are in evaluate.hpp and statements.hpp.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "colibri/chat/jinja/ast.hpp"
#include "colibri/chat/jinja/globals.hpp"
#include "colibri/chat/jinja/methods.hpp"
#include "colibri/chat/jinja/scopes.hpp"

namespace colibri::jinja::detail {

class loop_object;

/// One run of one template. Throws `stopped`.
class interpreter final : public machine {
public:
    interpreter(const syntax_tree& tree, const value& variables, const limits& allowed, const civil_time& now);

    [[nodiscard]] marked_text run() {
        string_builder out = string_builder::for_output(*this);
        out_ = &out;
        static_cast<void>(run_body(tree_.body));
        return out.finish_marked();
    }
    /// Line of the statement or call that ran last.
    [[nodiscard]] std::size_t line() const noexcept { return line_; }

    // For the objects that a template makes.

    [[nodiscard]] const syntax_tree& tree() const noexcept { return tree_; }
    [[nodiscard]] string call_macro(const macro_definition& macro, const scope_mark& home, const arguments& given);
    [[nodiscard]] string run_block(const statement& s);
    [[nodiscard]] string run_recursive_loop(const statement& s, const value& items, std::size_t depth, const scope_mark& home);
    /// True if a loop's filter lets `item` through.
    [[nodiscard]] bool passes(const statement& loop, const value& item, const scope_mark& home);

private:
    enum class flow : std::uint8_t { on, stop, next };
    class scoped;
    class captured;

    // Statements (statements.hpp).
    [[nodiscard]] flow run_body(const std::vector<statement_id>& body);
    [[nodiscard]] flow run_statement(const statement& s);
    [[nodiscard]] flow run_condition(const statement& s);
    [[nodiscard]] flow run_loop(const statement& s, const value& items, std::size_t depth, std::size_t parent);
    [[nodiscard]] flow run_scope(const std::vector<statement_id>& body, std::size_t parent);
    [[nodiscard]] flow run_with(const statement& s);
    [[nodiscard]] flow run_autoescape(const statement& s);
    [[nodiscard]] flow run_assign_block(const statement& s);
    [[nodiscard]] flow run_filter_block(const statement& s);
    void run_assign(const statement& s);
    void run_call_block(const statement& s);
    void show(const value& v);
    void assign(expression_id target, value v);
    void check_members(expression_id target);
    [[nodiscard]] value make_macro(const macro_definition& macro);

    // Expressions (evaluate.hpp).
    [[nodiscard]] value evaluate(expression_id id);
    [[nodiscard]] value evaluate_node(const expression& e);
    [[nodiscard]] value evaluate_name(symbol_id name);
    [[nodiscard]] value evaluate_items(const expression& e, flavour look);
    [[nodiscard]] value evaluate_dict(const expression& e);
    [[nodiscard]] value evaluate_slice(const expression& e);
    [[nodiscard]] value evaluate_call(const expression& e, const value* caller);
    /// `subject`: the text of a block, which the innermost filter gets; null: the filters stand behind an expression.
    [[nodiscard]] value evaluate_filter(const expression& e, const value* subject);
    [[nodiscard]] value evaluate_test(const expression& e);
    [[nodiscard]] value evaluate_arithmetic(const expression& e);
    [[nodiscard]] value evaluate_concatenate(const expression& e);
    [[nodiscard]] value evaluate_compare(const expression& e);
    [[nodiscard]] value evaluate_logical(const expression& e);
    [[nodiscard]] value evaluate_conditional(const expression& e);
    [[nodiscard]] arguments evaluate_arguments(const call_site& site);
    [[nodiscard]] value call(const value& callee, const arguments& given);
    [[nodiscard]] value optional_part(expression_id id) { return id == no_id ? value() : evaluate(id); }

    const syntax_tree& tree_;
    scopes scopes_;
    string_builder* out_ = nullptr;
    std::size_t line_ = 0;
    bool escapes_ = false;  ///< inside of {% autoescape true %}
};

/// A macro, or the body of a call block.
class macro_object final : public object {
public:
    macro_object(interpreter& run, const macro_definition& macro, scope_mark home) : run_(run), macro_(macro), home_(home) {}
    std::string_view type_name() const noexcept override { return "Macro"; }
    bool callable() const noexcept override { return true; }
    value call(machine&, const arguments& given) override { return run_.call_macro(macro_, home_, given); }
    std::optional<value> attribute(machine& m, std::string_view name) override {
        const auto& symbols = run_.tree().symbols;
        if (name == "name") return value(symbols[macro_.name]);
        if (name == "arguments") {
            std::vector<value> names;
            for (const symbol_id parameter : macro_.parameters) names.emplace_back(symbols[parameter]);
            return m.make_tuple(std::move(names));
        }
        if (name == "caller") return value(macro_.uses_caller);
        if (name == "catch_kwargs") return value(macro_.uses_kwargs);
        if (name == "catch_varargs") return value(macro_.uses_varargs);
        return std::nullopt;
    }
    void print(machine& m, string_builder& out) override {
        out.append("<Macro ", origin::trusted);
        append_quoted(out, run_.tree().symbols[macro_.name]);
        out.append(">", origin::trusted);
        static_cast<void>(m);
    }

private:
    interpreter& run_;
    const macro_definition& macro_;
    scope_mark home_;
};

/// A named block as a function: self.name().
class block_object final : public object {
public:
    block_object(interpreter& run, const statement& block) : run_(run), block_(block) {}
    std::string_view type_name() const noexcept override { return "BlockReference"; }
    bool callable() const noexcept override { return true; }
    value call(machine&, const arguments& given) override {
        expect_none("a block", given);
        return run_.run_block(block_);
    }

private:
    interpreter& run_;
    const statement& block_;
};

/// `self`: the template's named blocks.
class self_object final : public object {
public:
    explicit self_object(interpreter& run) : run_(run) {}
    std::string_view type_name() const noexcept override { return "TemplateReference"; }
    std::optional<value> attribute(machine& m, std::string_view name) override { return item(m, string(std::string(name), origin::trusted)); }
    std::optional<value> item(machine& m, const value& key) override {
        if (!key.is_string()) return std::nullopt;
        m.step(run_.tree().blocks.size() / 8);
        for (const auto& [name, block] : run_.tree().blocks) {
            if (run_.tree().symbols[name] == key.as_string()) {
                return value(m.make_object<block_object>(run_, run_.tree().statements[block]));
            }
        }
        return std::nullopt;
    }
    void print(machine&, string_builder& out) override { out.append("<TemplateReference None>", origin::trusted); }

private:
    interpreter& run_;
};

inline interpreter::interpreter(const syntax_tree& tree, const value& variables, const limits& allowed, const civil_time& now)
    : machine(allowed, now), tree_(tree), scopes_(tree.symbols.size()) {
    for (symbol_id id = 0; id < tree.symbols.size(); ++id) {
        const std::string_view name = tree.symbols[id].view();
        if (const value* given = variables.find(name)) scopes_.set(*this, id, *given);
        else if (const native code = lookup(globals::table, name)) scopes_.set(*this, id, make_object<native_function>(name, code));
        else if (name == "self") scopes_.set(*this, id, make_object<self_object>(*this));
    }
}

}  // namespace colibri::jinja::detail
