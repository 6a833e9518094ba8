// Bodies of interpreter.hpp: expressions.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "colibri/chat/jinja/interpreter.hpp"

namespace colibri::jinja::detail {

inline value interpreter::evaluate(expression_id id) {
    step();
    const expression& e = tree_.expressions[id];
    if (e.kind == expression_kind::constant) return tree_.constants[e.extra];
    if (e.kind == expression_kind::name) return evaluate_name(e.extra);
    const nesting level(*this);
    return evaluate_node(e);
}

inline value interpreter::evaluate_node(const expression& e) {
    switch (e.kind) {
        case expression_kind::list: return evaluate_items(e, flavour::list);
        case expression_kind::tuple: return evaluate_items(e, flavour::tuple);
        case expression_kind::dict: return evaluate_dict(e);
        case expression_kind::attribute: return get_attribute(*this, evaluate(e.kids[0]), tree_.symbols[e.extra]);
        case expression_kind::item: {
            const value object = evaluate(e.kids[0]);
            return get_item(*this, object, evaluate(e.kids[1]));
        }
        case expression_kind::slice: return evaluate_slice(e);
        case expression_kind::call: return evaluate_call(e, nullptr);
        case expression_kind::filter: return evaluate_filter(e, nullptr);
        case expression_kind::test: return evaluate_test(e);
        case expression_kind::logical_not: return !truth(*this, evaluate(e.kids[0]));
        case expression_kind::negative: return negative(evaluate(e.kids[0]));
        case expression_kind::positive: return positive(evaluate(e.kids[0]));
        case expression_kind::arithmetic: return evaluate_arithmetic(e);
        case expression_kind::concatenate: return evaluate_concatenate(e);
        case expression_kind::compare: return evaluate_compare(e);
        case expression_kind::logical_and:
        case expression_kind::logical_or: return evaluate_logical(e);
        case expression_kind::conditional: return evaluate_conditional(e);
        case expression_kind::constant:
        case expression_kind::name:
        case expression_kind::member: break;
    }
    return {};
}

inline value interpreter::evaluate_name(symbol_id name) {
    if (const value* found = scopes_.find(*this, name)) return *found;
    return make_undefined("'", tree_.symbols[name].view(), "' is undefined");
}

inline value interpreter::evaluate_items(const expression& e, flavour look) {
    std::vector<value> items;
    items.reserve(e.kids.size());
    for (const expression_id kid : e.kids) items.push_back(evaluate(kid));
    return make_list(std::move(items), look);
}

inline value interpreter::evaluate_dict(const expression& e) {
    auto members = std::make_shared<dict_data>();
    for (std::size_t i = 0; i + 1 < e.kids.size(); i += 2) {
        value key = evaluate(e.kids[i]);
        put(*members, std::move(key), evaluate(e.kids[i + 1]));
    }
    return make_dict(std::move(members));
}

inline value interpreter::evaluate_slice(const expression& e) {
    const value object = evaluate(e.kids[0]);
    const value start = optional_part(e.kids[1]), stop = optional_part(e.kids[2]);
    return get_slice(*this, object, start, stop, optional_part(e.kids[3]));
}

inline arguments interpreter::evaluate_arguments(const call_site& site) {
    arguments out;
    out.positional.reserve(site.positional.size());
    for (const expression_id argument : site.positional) out.positional.push_back(evaluate(argument));
    for (const auto& [name, argument] : site.named) out.named.emplace_back(tree_.symbols[name], evaluate(argument));
    if (site.star != no_id) {
        for (value& item : collect(*this, evaluate(site.star))) out.positional.push_back(std::move(item));
    }
    if (site.star_star != no_id) {
        const value members = evaluate(site.star_star);
        check_defined(members);
        if (!members.is_dict()) fail_type("** needs a dict, not a ", type_name(members));
        for (const auto& [key, item] : members.members()) {
            step(1 + out.named.size() / 4);
            const string& name = string_argument("**", key);
            for (const auto& [known, already] : out.named) {
                if (known == name) fail_type("the argument '", name.view(), "' is given twice");
            }
            out.named.emplace_back(name, item);
        }
    }
    return out;
}

inline value interpreter::call(const value& callee, const arguments& given) {
    check_defined(callee);
    if (!callee.is(kind::object) || !callee.as_object()->callable()) fail_type("a ", type_name(callee), " can't be called");
    return callee.as_object()->call(*this, given);
}

inline value interpreter::evaluate_call(const expression& e, const value* caller) {
    const call_site& site = tree_.calls[e.extra];
    const expression& callee = tree_.expressions[e.kids[0]];
    line_ = e.line;
    if (callee.kind == expression_kind::attribute && caller == nullptr) {
        // A method of a plain value, the usual case: called without making an object of it.
        const value self = evaluate(callee.kids[0]);
        if (const native code = find_method(self, tree_.symbols[callee.extra].view())) {
            const arguments given = evaluate_arguments(site);
            line_ = e.line;
            return code(*this, self, given);
        }
        const value method = get_attribute(*this, self, tree_.symbols[callee.extra]);
        const arguments given = evaluate_arguments(site);
        line_ = e.line;
        return call(method, given);
    }
    const value function = evaluate(e.kids[0]);
    arguments given = evaluate_arguments(site);
    if (caller != nullptr) given.named.emplace_back(string("caller", origin::trusted), *caller);
    line_ = e.line;
    return call(function, given);
}

inline value interpreter::evaluate_filter(const expression& e, const value* subject) {
    const call_site& site = tree_.calls[e.extra];
    value self;
    if (e.kids[0] == no_id) self = *subject;
    else if (subject != nullptr) self = evaluate_filter(tree_.expressions[e.kids[0]], subject);
    else self = evaluate(e.kids[0]);
    const arguments given = evaluate_arguments(site);
    line_ = e.line;
    if (site.code == nullptr) fail_type("there is no filter '", tree_.symbols[site.name].view(), "'");
    return site.code(*this, self, given);
}

inline value interpreter::evaluate_test(const expression& e) {
    const call_site& site = tree_.calls[e.extra];
    const value self = evaluate(e.kids[0]);
    const arguments given = evaluate_arguments(site);
    line_ = e.line;
    if (site.code == nullptr) fail_type("there is no test '", tree_.symbols[site.name].view(), "'");
    return site.code(*this, self, given);
}

inline value interpreter::evaluate_arithmetic(const expression& e) {
    const auto& operations = tree_.chains[e.extra];
    value out = evaluate(e.kids[0]);
    for (std::size_t i = 1; i < e.kids.size(); ++i) {
        const value right = evaluate(e.kids[i]);
        out = calculate(*this, static_cast<operation>(operations[i - 1]), out, right);
    }
    return out;
}

inline value interpreter::evaluate_concatenate(const expression& e) {
    std::vector<value> parts;
    parts.reserve(e.kids.size());
    for (const expression_id kid : e.kids) parts.push_back(evaluate(kid));
    std::size_t size = 0;
    for (const value& part : parts) size += part.is_string() ? part.as_string().size() : 0;
    string_builder out(*this);
    out.reserve(size);
    for (const value& part : parts) append_printed(*this, out, part);
    return out.finish();
}

inline value interpreter::evaluate_compare(const expression& e) {
    const auto& comparisons = tree_.chains[e.extra];
    value left = evaluate(e.kids[0]);
    for (std::size_t i = 1; i < e.kids.size(); ++i) {
        value right = evaluate(e.kids[i]);
        bool holds = false;
        switch (static_cast<comparison>(comparisons[i - 1])) {
            case comparison::equal: holds = equal(*this, left, right); break;
            case comparison::not_equal: holds = !equal(*this, left, right); break;
            case comparison::less: holds = order(*this, left, right) < 0; break;
            case comparison::less_equal: holds = order(*this, left, right) <= 0; break;
            case comparison::greater: holds = order(*this, left, right) > 0; break;
            case comparison::greater_equal: holds = order(*this, left, right) >= 0; break;
            case comparison::in: holds = contains(*this, right, left); break;
            case comparison::not_in: holds = !contains(*this, right, left); break;
        }
        if (!holds) return false;
        left = std::move(right);
    }
    return true;
}

inline value interpreter::evaluate_logical(const expression& e) {
    const bool stop_at = e.kind == expression_kind::logical_or;
    value out = evaluate(e.kids[0]);
    for (std::size_t i = 1; i < e.kids.size() && truth(*this, out) != stop_at; ++i) out = evaluate(e.kids[i]);
    return out;
}

inline value interpreter::evaluate_conditional(const expression& e) {
    if (truth(*this, evaluate(e.kids[1]))) return evaluate(e.kids[0]);
    if (e.kids[2] == no_id) return make_undefined("a condition without 'else' was false");
    return evaluate(e.kids[2]);
}

}  // namespace colibri::jinja::detail
