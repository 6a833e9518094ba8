// What native code needs of the run it belongs to, and native code as a value.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "colibri/chat/jinja/strftime.hpp"
#include "colibri/chat/jinja/value.hpp"

namespace colibri::jinja::detail {

/// Everything that native code needs of the run it belongs to: meter, clock, and makers of values that the meter counts.
class machine : public meter {
public:
    machine(const limits& allowed, const civil_time& now) noexcept : meter(allowed), now_(now) {}
    virtual ~machine();

    [[nodiscard]] const civil_time& now() const noexcept { return now_; }

    [[nodiscard]] value make_list(std::vector<value> items, flavour look = flavour::list) {
        auto data = std::make_shared<list_data>();
        data->charge = memory_charge(*this, sizeof(list_data) + items.capacity() * sizeof(value));
        for (const value& item : items) data->depth = std::max(data->depth, checked_depth(item));
        step(1 + items.size() / 4);
        data->items = std::move(items);
        data->look = look;
        return std::shared_ptr<const list_data>(std::move(data));
    }
    [[nodiscard]] value make_tuple(std::vector<value> items) { return make_list(std::move(items), flavour::tuple); }

    /// `members` as a dict; counted from now on.
    [[nodiscard]] value make_dict(std::shared_ptr<dict_data> members) {
        members->charge = memory_charge(*this, sizeof(dict_data) + members->size() * (sizeof(value::pair) + 16));
        check_depth(members->depth());
        return std::shared_ptr<const dict_data>(std::move(members));
    }
    /// Adds to a dict that is being made. Stops if `key` can't be a key.
    void put(dict_data& members, value key, value item) {
        step();
        need(members.size() * sizeof(value::pair));
        if (!members.set(std::move(key), std::move(item))) fail_type("a list or dict can't be the key of a dict");
    }

    template <class T, class... Args>
    [[nodiscard]] std::shared_ptr<T> make_object(Args&&... args) {
        step();
        auto made = std::make_shared<T>(std::forward<Args>(args)...);
        made->charge = memory_charge(*this, sizeof(T) + 16);
        check_depth(made->depth);
        return made;
    }

    template <class... Parts>
    [[nodiscard]] value make_undefined(const Parts&... message) const {
        return std::shared_ptr<const undefined_data>(std::make_shared<undefined_data>(undefined_data{concat(message...)}));
    }
    /// What reaching for something forbidden gives: undefined, and a security failure once it is used.
    template <class... Parts>
    [[nodiscard]] value make_forbidden(const Parts&... message) const {
        return std::shared_ptr<const undefined_data>(
            std::make_shared<undefined_data>(undefined_data{concat(message...), true}));
    }

    /// Keeps an object that may come to hold itself; at the end of the run it lets go of what it holds.
    void keep(std::shared_ptr<object> o) { kept_.push_back(std::move(o)); }

    /// Depth of something that holds `item`. Stops if that is too deep.
    std::uint32_t checked_depth(const value& item) const {
        const std::uint32_t depth = depth_of(item) + 1;
        check_depth(depth);
        return depth;
    }

private:
    void check_depth(std::uint32_t depth) const {
        if (depth > allowed().value_depth) fail_limit("its values nest deeper than ", allowed().value_depth, " levels");
    }

    civil_time now_;
    std::vector<std::shared_ptr<object>> kept_;
};

inline machine::~machine() {
    for (const auto& o : kept_) o->let_go();
}

/// Native code behind a filter, a test, a method or a function. `self` is the filtered value or the method's object.
using native = value (*)(machine&, const value& self, const arguments&);

struct native_entry {
    std::string_view name;
    native code;
};

/// A native function or method as a value.
class native_function final : public object {
public:
    native_function(std::string_view its_name, native code, value self = {}) noexcept
        : name_(its_name), code_(code), self_(std::move(self)) {
        depth = depth_of(self_) + 1;
    }
    [[nodiscard]] std::string_view type_name() const noexcept override { return "function"; }
    [[nodiscard]] bool callable() const noexcept override { return true; }
    [[nodiscard]] value call(machine& m, const arguments& given) override { return code_(m, self_, given); }
    void print(machine&, string_builder& out) override {
        out.append(concat("<function ", name_, ">"), origin::trusted);
    }

private:
    std::string_view name_;
    native code_;
    value self_;
};

/// Sorts arguments into the parameters `names`; what isn't given is null. Stops on too many, unknown or doubled ones, and if
/// one of the first `required` is missing.
template <std::size_t N>
[[nodiscard]] std::array<const value*, N> bind(std::string_view function, const arguments& given,
                                               const std::string_view (&names)[N], std::size_t required = 0) {
    std::array<const value*, N> out{};
    if (given.positional.size() > N) fail_type(function, " takes at most ", N, " arguments");
    for (std::size_t i = 0; i < given.positional.size(); ++i) out[i] = &given.positional[i];
    for (const auto& [key, item] : given.named) {
        std::size_t at = 0;
        while (at < N && names[at] != key.view()) ++at;
        if (at == N) fail_type(function, " has no argument '", key.view(), "'");
        if (out[at] != nullptr) fail_type(function, " got its argument '", key.view(), "' twice");
        out[at] = &item;
    }
    for (std::size_t i = 0; i < required; ++i) {
        if (out[i] == nullptr) fail_type(function, " needs an argument '", names[i], "'");
    }
    return out;
}

/// Stops if there is any argument.
inline void expect_none(std::string_view function, const arguments& given) {
    if (!given.empty()) fail_type(function, " takes no arguments");
}

}  // namespace colibri::jinja::detail
