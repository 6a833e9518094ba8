// Functions that every template has: range, namespace, dict, raise_exception, strftime_now, cycler, joiner.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "colibri/chat/jinja/iterate.hpp"
#include "colibri/chat/jinja/strftime.hpp"

namespace colibri::jinja::detail {

/// The only values that a template can change: `set ns.name = ...`. The run that made them empties them at its end, since
/// they may hold themselves.
class namespace_object final : public object {
public:
    std::string_view type_name() const noexcept override { return "Namespace"; }
    std::optional<value> attribute(machine&, std::string_view name) override {
        if (const value* found = members_.find(name)) return *found;
        return std::nullopt;
    }
    void set(machine& m, const string& name, value v) {
        depth = std::max(depth, m.checked_depth(v));
        m.put(members_, name, std::move(v));
        if (members_.size() > counted_) {
            counted_ = members_.size() * 2;
            members_.charge = memory_charge(m, counted_ * (sizeof(value::pair) + 16));
        }
    }
    void let_go() noexcept override { members_ = dict_data{}; }
    void print(machine& m, string_builder& out) override {
        out.append("<Namespace {", origin::trusted);
        bool later = false;
        for (const auto& [key, item] : members_.members()) {
            if (later) out.append(", ", origin::trusted);
            later = true;
            append_inner(m, out, key);
            out.append(": ", origin::trusted);
            append_inner(m, out, item);
        }
        out.append("}>", origin::trusted);
    }

private:
    dict_data members_;
    std::size_t counted_ = 0;
};

namespace globals {

/// Calls f(key, value) for what dict(...) and namespace(...) are made of: a dict or pairs, then named arguments.
template <class F>
void for_each_member(machine& m, const arguments& given, F&& f) {
    if (given.positional.size() > 1) fail_type("dict and namespace take at most one argument by position");
    if (!given.positional.empty()) {
        const value& from = given.positional[0];
        check_defined(from);
        if (from.is_dict()) {
            for (const auto& [key, item] : from.members()) f(key, item);
        } else {
            for_each_item(m, from, [&](const value& each) {
                const auto pair = collect(m, each);
                if (pair.size() != 2) fail_type("dict and namespace need pairs");
                f(pair[0], pair[1]);
                return true;
            });
        }
    }
    for (const auto& [key, item] : given.named) f(value(key), item);
}

inline value dict(machine& m, const value&, const arguments& given) {
    auto members = std::make_shared<dict_data>();
    for_each_member(m, given, [&](const value& key, const value& item) { m.put(*members, key, item); });
    return m.make_dict(std::move(members));
}

inline value range(machine& m, const value&, const arguments& given) {
    if (!given.named.empty() || given.positional.empty() || given.positional.size() > 3) {
        fail_type("range takes one to three arguments");
    }
    std::int64_t numbers[3] = {0, 0, 1};
    if (given.positional.size() == 1) {
        numbers[1] = integer_argument("range", given.positional[0]);
    } else {
        for (std::size_t i = 0; i < given.positional.size(); ++i) numbers[i] = integer_argument("range", given.positional[i]);
    }
    const auto [start, stop, step] = numbers;
    if (step == 0) fail_type("range can't have the step 0");
    std::uint64_t count = 0;
    if (step > 0 ? start < stop : start > stop) {
        const std::uint64_t span = step > 0 ? static_cast<std::uint64_t>(stop) - static_cast<std::uint64_t>(start)
                                            : static_cast<std::uint64_t>(start) - static_cast<std::uint64_t>(stop);
        const std::uint64_t stride = step > 0 ? static_cast<std::uint64_t>(step) : ~static_cast<std::uint64_t>(step) + 1;
        count = (span - 1) / stride + 1;
    }
    if (count > m.allowed().range) fail_limit("range makes more than ", m.allowed().range, " items");
    return value(m.make_object<detail::range>(start, stop, step, static_cast<std::size_t>(count)));
}

inline value raise_exception(machine& m, const value&, const arguments& given) {
    const auto [message] = bind("raise_exception", given, {"message"}, 1);
    fail(failure_kind::raise, to_string(m, *message).view());
}

inline value strftime_now(machine& m, const value&, const arguments& given) {
    const auto [format] = bind("strftime_now", given, {"format"}, 1);
    const string& how = string_argument("strftime_now", *format);
    if (how.size() > 1000) fail_limit("strftime_now got a format of more than 1000 bytes");
    m.step(20 + how.size());
    return string(format_time(how.view(), m.now()), how.trusted() ? origin::trusted : origin::untrusted);
}

/// Goes round a list of values.
class cycler_object final : public object, public std::enable_shared_from_this<cycler_object> {
public:
    explicit cycler_object(std::vector<value> items) : items_(std::move(items)) {
        for (const value& item : items_) depth = std::max(depth, depth_of(item) + 1);
    }
    std::string_view type_name() const noexcept override { return "Cycler"; }
    std::optional<value> attribute(machine& m, std::string_view name) override;

private:
    friend value cycler_next(machine&, const value&, const arguments&);
    friend value cycler_reset(machine&, const value&, const arguments&);
    std::vector<value> items_;
    std::size_t at_ = 0;
};

inline value cycler_next(machine&, const value& self, const arguments& given) {
    expect_none("next", given);
    auto& cycler = static_cast<cycler_object&>(*self.as_object());
    const value& out = cycler.items_[cycler.at_];
    cycler.at_ = (cycler.at_ + 1) % cycler.items_.size();
    return out;
}
inline value cycler_reset(machine&, const value& self, const arguments& given) {
    expect_none("reset", given);
    static_cast<cycler_object&>(*self.as_object()).at_ = 0;
    return {};
}
inline value cycler(machine& m, const value&, const arguments& given) {
    if (given.positional.empty() || !given.named.empty()) fail_type("cycler needs items");
    return value(m.make_object<cycler_object>(given.positional));
}

/// Nothing at the first call, the separator at every other.
class joiner_object final : public object {
public:
    explicit joiner_object(value separator) : separator_(std::move(separator)) { depth = depth_of(separator_) + 1; }
    std::string_view type_name() const noexcept override { return "Joiner"; }
    bool callable() const noexcept override { return true; }
    value call(machine&, const arguments& given) override {
        expect_none("joiner", given);
        return std::exchange(used_, true) ? separator_ : value(string{});
    }

private:
    value separator_;
    bool used_ = false;
};

inline value joiner(machine& m, const value&, const arguments& given) {
    const auto [separator] = bind("joiner", given, {"sep"});
    return value(m.make_object<joiner_object>(separator != nullptr ? *separator : value(string(", ", origin::trusted))));
}

inline std::optional<value> cycler_object::attribute(machine& m, std::string_view name) {
    if (name == "current") return items_[at_];
    if (name == "next") return value(m.make_object<native_function>("next", cycler_next, value(shared_from_this())));
    if (name == "reset") return value(m.make_object<native_function>("reset", cycler_reset, value(shared_from_this())));
    return std::nullopt;
}

inline value make_namespace(machine& m, const value&, const arguments& given) {
    auto made = m.make_object<namespace_object>();
    m.keep(made);
    for_each_member(m, given, [&](const value& key, const value& item) {
        made->set(m, string_argument("namespace", key), item);
    });
    return value(made);
}

/// The functions by name, sorted.
inline constexpr native_entry table[] = {
    {"cycler", cycler},
    {"dict", dict},
    {"joiner", joiner},
    {"namespace", make_namespace},
    {"raise_exception", raise_exception},
    {"range", range},
    {"strftime_now", strftime_now},
};

}  // namespace globals
}  // namespace colibri::jinja::detail
