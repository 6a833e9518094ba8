// Bodies of interpreter.hpp: statements, loops and macros.
#pragma once

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "colibri/chat/jinja/interpreter.hpp"

namespace colibri::jinja::detail {

/// A scope for the time of a C++ scope.
class interpreter::scoped {
public:
    scoped(interpreter& run, std::size_t parent) : run_(run) { run_.scopes_.open(parent); }
    scoped(const scoped&) = delete;
    scoped& operator=(const scoped&) = delete;
    ~scoped() { run_.scopes_.close(); }

private:
    interpreter& run_;
};

/// Sends output into a string for the time of a C++ scope.
class interpreter::captured {
public:
    explicit captured(interpreter& run) : run_(run), text_(run), before_(std::exchange(run.out_, &text_)) {}
    captured(const captured&) = delete;
    captured& operator=(const captured&) = delete;
    ~captured() { run_.out_ = before_; }
    [[nodiscard]] string finish() { return text_.finish(run_.escapes_); }

private:
    interpreter& run_;
    string_builder text_;
    string_builder* before_;
};

/// `loop` inside of a loop. It looks one item ahead only if it is asked to.
class loop_object final : public object, public std::enable_shared_from_this<loop_object> {
public:
    loop_object(interpreter& run, const statement& loop, std::shared_ptr<iterator> items, std::size_t recursion, scope_mark home)
        : run_(run), loop_(loop), items_(std::move(items)), recursion_(recursion), home_(home) {
        depth = items_->depth + 1;
    }

    /// The next item of the loop; `index` moves on.
    [[nodiscard]] std::optional<value> advance(machine& m) {
        std::optional<value> item = peek(m);
        ahead_.reset();
        looked_ = false;
        if (!item) return item;
        previous_ = std::exchange(current_, *item);
        ++passed_;
        return item;
    }
    /// The loop is over: nothing is held any more.
    void let_go() noexcept override {
        items_.reset();
        ahead_.reset();
        previous_.reset();
        current_.reset();
        changed_.reset();
    }

    std::string_view type_name() const noexcept override { return "LoopContext"; }
    bool callable() const noexcept override { return loop_.flag; }
    value call(machine& m, const arguments& given) override {
        const auto [items] = bind("loop", given, {"iterable"}, 1);
        static_cast<void>(m);
        return run_.run_recursive_loop(loop_, *items, recursion_ + 1, home_);
    }
    std::optional<value> attribute(machine& m, std::string_view name) override;
    std::optional<std::size_t> length(machine& m) override {
        if (!length_) {
            std::size_t left = items_ == nullptr ? 0 : items_->left().value_or(no_length);
            if (left == no_length) {  // nobody knows: take the rest out and put it back
                static_cast<void>(peek(m));
                collector rest(m);
                while (auto item = items_->next(m)) {
                    m.step();
                    rest.add(*std::move(item));
                }
                left = rest.items().size();
                items_ = m.make_object<list_iterator>(rest.finish());
            }
            length_ = passed_ + (looked_ && ahead_ ? 1 : 0) + left;
        }
        return length_;
    }
    bool truth(machine&) override { return true; }
    void print(machine& m, string_builder& out) override {
        out.append(concat("<LoopContext ", passed_, "/", *length(m), ">"), origin::trusted);
    }

private:
    static constexpr std::size_t no_length = ~std::size_t{0};

    [[nodiscard]] const std::optional<value>& peek(machine& m) {
        if (!looked_ && items_ != nullptr) {
            ahead_ = items_->next(m);
            looked_ = true;
        }
        return ahead_;
    }
    static value cycle(machine&, const value& self, const arguments& given);
    static value changed(machine& m, const value& self, const arguments& given);

    interpreter& run_;
    const statement& loop_;
    std::shared_ptr<iterator> items_;
    std::size_t recursion_;
    scope_mark home_;
    std::size_t passed_ = 0;
    bool looked_ = false;
    std::optional<value> ahead_, previous_, current_, changed_;
    std::optional<std::size_t> length_;
};

inline std::optional<value> loop_object::attribute(machine& m, std::string_view name) {
    if (name == "index0") return value(passed_ - 1);
    if (name == "index") return value(passed_);
    if (name == "first") return value(passed_ == 1);
    if (name == "last") return value(!peek(m));
    if (name == "length") return value(*length(m));
    if (name == "revindex") return value(*length(m) - passed_ + 1);
    if (name == "revindex0") return value(*length(m) - passed_);
    if (name == "previtem") return previous_ ? *previous_ : m.make_undefined("there is no previous item");
    if (name == "nextitem") return peek(m) ? *peek(m) : m.make_undefined("there is no next item");
    if (name == "depth") return value(recursion_ + 1);
    if (name == "depth0") return value(recursion_);
    if (name == "cycle") return value(m.make_object<native_function>("cycle", cycle, value(shared_from_this())));
    if (name == "changed") return value(m.make_object<native_function>("changed", changed, value(shared_from_this())));
    return std::nullopt;
}

inline value loop_object::cycle(machine&, const value& self, const arguments& given) {
    if (given.positional.empty() || !given.named.empty()) fail_type("loop.cycle needs items");
    const auto& loop = static_cast<const loop_object&>(*self.as_object());
    return given.positional[(loop.passed_ - 1) % given.positional.size()];
}

inline value loop_object::changed(machine& m, const value& self, const arguments& given) {
    auto& loop = static_cast<loop_object&>(*self.as_object());
    value now = m.make_tuple(given.positional);
    if (loop.changed_ && equal(m, *loop.changed_, now)) return false;
    if (loop.items_ != nullptr) loop.changed_ = std::move(now);
    return true;
}

/// The items that a loop's `if` lets through.
class filtered_iterator final : public iterator {
public:
    filtered_iterator(interpreter& run, const statement& loop, std::shared_ptr<iterator> from, scope_mark home)
        : run_(run), loop_(loop), from_(std::move(from)), home_(home) {
        depth = from_->depth + 1;
    }
    std::optional<value> next(machine& m) override {
        const nesting level(m);
        while (auto item = from_->next(m)) {
            m.step();
            if (run_.passes(loop_, *item, home_)) return item;
        }
        return std::nullopt;
    }

private:
    interpreter& run_;
    const statement& loop_;
    std::shared_ptr<iterator> from_;
    scope_mark home_;
};

inline interpreter::flow interpreter::run_body(const std::vector<statement_id>& body) {
    const nesting level(*this);
    for (const statement_id id : body) {
        step();
        const flow how = run_statement(tree_.statements[id]);
        if (how != flow::on) return how;
    }
    return flow::on;
}

inline interpreter::flow interpreter::run_statement(const statement& s) {
    line_ = s.line;
    switch (s.kind) {
        case statement_kind::text: out_->append(tree_.constants[s.extra].as_string()); return flow::on;
        case statement_kind::print:
            for (const expression_id shown : s.expressions) show(evaluate(shown));
            return flow::on;
        case statement_kind::condition: return run_condition(s);
        case statement_kind::loop: return run_loop(s, evaluate(s.expressions[1]), 0, scopes_.top());
        case statement_kind::assign: run_assign(s); return flow::on;
        case statement_kind::assign_block: return run_assign_block(s);
        case statement_kind::macro: scopes_.set(*this, tree_.macros[s.extra].name, make_macro(tree_.macros[s.extra])); return flow::on;
        case statement_kind::call_block: run_call_block(s); return flow::on;
        case statement_kind::filter_block: return run_filter_block(s);
        case statement_kind::with: return run_with(s);
        case statement_kind::scope: return run_scope(s.blocks[0], scopes_.top());
        case statement_kind::autoescape: return run_autoescape(s);
        case statement_kind::block: return run_scope(s.blocks[0], s.flag ? scopes_.top() : 0);
        case statement_kind::stop: return flow::stop;
        case statement_kind::next: return flow::next;
        case statement_kind::load: fail_type("it wants to load another template, and there is none");
    }
    return flow::on;
}

inline void interpreter::show(const value& v) {
    if (escapes_) out_->append(html_escaped(*this, v));
    else append_printed(*this, *out_, v);
}

inline interpreter::flow interpreter::run_condition(const statement& s) {
    for (std::size_t i = 0; i < s.expressions.size(); ++i) {
        if (truth(*this, evaluate(s.expressions[i]))) return run_body(s.blocks[i]);
    }
    return s.blocks.size() > s.expressions.size() ? run_body(s.blocks.back()) : flow::on;
}

inline interpreter::flow interpreter::run_scope(const std::vector<statement_id>& body, std::size_t parent) {
    const scoped inner(*this, parent);
    return run_body(body);
}

inline interpreter::flow interpreter::run_loop(const statement& s, const value& items, std::size_t depth, std::size_t parent) {
    flow how = flow::on;
    bool finished_one = false;
    {
        const scoped inner(*this, parent);
        auto each = iterate(*this, items);
        if (s.expressions[2] != no_id) each = make_object<filtered_iterator>(*this, s, std::move(each), scopes_.mark(parent));
        const auto loop = make_object<loop_object>(*this, s, std::move(each), depth, scopes_.mark(parent));
        struct ending {
            loop_object& loop;
            ~ending() { loop.let_go(); }
        } const end{*loop};
        while (const auto item = loop->advance(*this)) {
            step(3);  // as long as three evaluated nodes: the loop variable, `loop`, a scope
            scopes_.clear();
            scopes_.set(*this, syntax_tree::loop_name, loop);
            assign(s.expressions[0], *item);
            how = run_body(s.blocks[0]);
            if (how == flow::stop) break;
            if (how == flow::on) finished_one = true;
        }
    }
    if (finished_one || s.blocks[1].empty()) return flow::on;
    return run_scope(s.blocks[1], parent);
}

inline bool interpreter::passes(const statement& loop, const value& item, const scope_mark& home) {
    const scoped inner(*this, scopes_.place_of(home));
    assign(loop.expressions[0], item);
    return truth(*this, evaluate(loop.expressions[2]));
}

inline string interpreter::run_recursive_loop(const statement& s, const value& items, std::size_t depth, const scope_mark& home) {
    captured text(*this);
    static_cast<void>(run_loop(s, items, depth, scopes_.place_of(home)));
    return text.finish();
}

inline void interpreter::check_members(expression_id target) {
    const expression& e = tree_.expressions[target];
    if (e.kind == expression_kind::tuple) {
        for (const expression_id kid : e.kids) check_members(kid);
    } else if (e.kind == expression_kind::member) {
        const value* object = scopes_.find(*this, e.extra);
        if (object == nullptr || !object->is(kind::object) || dynamic_cast<namespace_object*>(object->as_object().get()) == nullptr) {
            fail_type("only a namespace has attributes that can be set, and '", tree_.symbols[e.extra].view(), "' is none");
        }
    }
}

inline void interpreter::assign(expression_id target, value v) {
    const expression& e = tree_.expressions[target];
    if (e.kind == expression_kind::name) return scopes_.set(*this, e.extra, std::move(v));
    if (e.kind == expression_kind::member) {
        const value* object = scopes_.find(*this, e.extra);
        auto* members = object == nullptr || !object->is(kind::object) ? nullptr : dynamic_cast<namespace_object*>(object->as_object().get());
        if (members == nullptr) fail_type("only a namespace has attributes that can be set");
        return members->set(*this, tree_.symbols[e.extra2], std::move(v));
    }
    const nesting level(*this);
    auto items = collect(*this, v);
    if (items.size() != e.kids.size()) fail_type(e.kids.size(), " names can't take ", items.size(), " values");
    for (std::size_t i = 0; i < items.size(); ++i) assign(e.kids[i], std::move(items[i]));
}

inline void interpreter::run_assign(const statement& s) {
    check_members(s.expressions[0]);
    value v = evaluate(s.expressions[1]);
    assign(s.expressions[0], std::move(v));
}

inline interpreter::flow interpreter::run_assign_block(const statement& s) {
    check_members(s.expressions[0]);
    value v;
    {
        captured text(*this);
        const flow how = run_scope(s.blocks[0], scopes_.top());
        if (how != flow::on) return how;
        v = text.finish();
    }
    if (s.expressions[1] != no_id) v = evaluate_filter(tree_.expressions[s.expressions[1]], &v);
    assign(s.expressions[0], std::move(v));
    return flow::on;
}

inline interpreter::flow interpreter::run_filter_block(const statement& s) {
    value v;
    {
        captured text(*this);
        const flow how = run_scope(s.blocks[0], scopes_.top());
        if (how != flow::on) return how;
        v = text.finish();
    }
    show(evaluate_filter(tree_.expressions[s.expressions[0]], &v));
    return flow::on;
}

inline interpreter::flow interpreter::run_with(const statement& s) {
    std::vector<value> values;
    for (std::size_t i = 1; i < s.expressions.size(); i += 2) values.push_back(evaluate(s.expressions[i]));
    const scoped inner(*this, scopes_.top());
    for (std::size_t i = 0; i < values.size(); ++i) assign(s.expressions[i * 2], std::move(values[i]));
    return run_body(s.blocks[0]);
}

inline interpreter::flow interpreter::run_autoescape(const statement& s) {
    const bool on = truth(*this, evaluate(s.expressions[0]));
    const bool before = std::exchange(escapes_, on);
    const flow how = run_scope(s.blocks[0], scopes_.top());
    escapes_ = before;
    return how;
}

inline value interpreter::make_macro(const macro_definition& macro) {
    return make_object<macro_object>(*this, macro, scopes_.here());
}

inline void interpreter::run_call_block(const statement& s) {
    const value caller = make_macro(tree_.macros[s.extra]);
    show(evaluate_call(tree_.expressions[s.expressions[0]], &caller));
}

inline string interpreter::run_block(const statement& s) {
    captured text(*this);
    static_cast<void>(run_scope(s.blocks[0], 0));
    return text.finish();
}

inline string interpreter::call_macro(const macro_definition& macro, const scope_mark& home, const arguments& given) {
    const std::string_view name = tree_.symbols[macro.name].view();
    const std::size_t count = macro.parameters.size();
    std::vector<bool> used(given.named.size());
    const auto named = [&](std::string_view wanted) -> const value* {
        step(given.named.size() / 8);
        for (std::size_t i = 0; i < given.named.size(); ++i) {
            if (used[i] || given.named[i].first != wanted) continue;
            used[i] = true;
            return &given.named[i].second;
        }
        return nullptr;
    };
    const scoped inner(*this, scopes_.place_of(home));
    captured text(*this);
    bool caller_is_parameter = false;
    std::vector<const value*> values(count, nullptr);
    for (std::size_t i = 0; i < count; ++i) {
        const std::string_view parameter = tree_.symbols[macro.parameters[i]].view();
        values[i] = i < given.positional.size() ? &given.positional[i] : named(parameter);
        caller_is_parameter = caller_is_parameter || parameter == "caller";
    }
    if (macro.uses_caller && !caller_is_parameter) {
        const value* caller = named("caller");
        scopes_.set(*this, syntax_tree::caller_name, caller != nullptr ? *caller : make_undefined("there is no caller"));
    }
    if (macro.uses_kwargs) {
        auto rest = std::make_shared<dict_data>();
        for (std::size_t i = 0; i < given.named.size(); ++i) {
            if (!used[i]) put(*rest, given.named[i].first, given.named[i].second);
        }
        scopes_.set(*this, syntax_tree::kwargs_name, make_dict(std::move(rest)));
    } else {
        for (std::size_t i = 0; i < given.named.size(); ++i) {
            // The body of a call block may be left unused.
            const bool body = given.named[i].first == "caller" && type_name(given.named[i].second) == "Macro";
            if (!used[i] && !body) fail_type("the macro '", name, "' has no argument '", given.named[i].first.view(), "'");
        }
    }
    if (macro.uses_varargs) {
        std::vector<value> rest;
        for (std::size_t i = count; i < given.positional.size(); ++i) rest.push_back(given.positional[i]);
        scopes_.set(*this, syntax_tree::varargs_name, make_tuple(std::move(rest)));
    } else if (given.positional.size() > count) {
        fail_type("the macro '", name, "' takes at most ", count, " arguments");
    }
    const std::size_t without_default = count - macro.defaults.size();
    for (std::size_t i = 0; i < count; ++i) {
        scopes_.set(*this, macro.parameters[i],
                    values[i] != nullptr
                        ? *values[i]
                        : make_undefined("the argument '", tree_.symbols[macro.parameters[i]].view(), "' was not given"));
    }
    for (std::size_t i = without_default; i < count; ++i) {  // a default may use the other parameters
        if (values[i] == nullptr) scopes_.set(*this, macro.parameters[i], evaluate(macro.defaults[i - without_default]));
    }
    static_cast<void>(run_body(macro.body));
    return text.finish();
}

}  // namespace colibri::jinja::detail
