// Going through values: iterators over everything that has items, ranges, and membership.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "colibri/chat/jinja/access.hpp"
#include "colibri/chat/jinja/print.hpp"
#include "colibri/chat/jinja/search.hpp"

namespace colibri::jinja::detail {

class list_iterator final : public iterator {
public:
    explicit list_iterator(value list) : list_(std::move(list)) { depth = depth_of(list_) + 1; }
    std::optional<value> next(machine&) override {
        if (at_ >= list_.items().size()) return std::nullopt;
        return list_.items()[at_++];
    }
    std::optional<std::size_t> left() const noexcept override { return list_.items().size() - at_; }

private:
    value list_;
    std::size_t at_ = 0;
};

class key_iterator final : public iterator {
public:
    explicit key_iterator(value dict) : dict_(std::move(dict)) { depth = depth_of(dict_) + 1; }
    std::optional<value> next(machine&) override {
        if (at_ >= dict_.members().size()) return std::nullopt;
        return dict_.members()[at_++].first;
    }
    std::optional<std::size_t> left() const noexcept override { return dict_.members().size() - at_; }

private:
    value dict_;
    std::size_t at_ = 0;
};

class character_iterator final : public iterator {
public:
    explicit character_iterator(string s) : s_(std::move(s)) {}
    std::optional<value> next(machine& m) override {
        if (at_ >= s_.size()) return std::nullopt;
        const std::size_t begin = at_;
        at_ += character_size(s_.view(), at_);
        ++passed_;
        return detail::slice(m, s_, begin, at_);
    }
    std::optional<std::size_t> left() const noexcept override { return s_.length() - passed_; }

private:
    string s_;
    std::size_t at_ = 0;
    std::size_t passed_ = 0;
};

/// What range() gives: integers without storage.
class range final : public object {
public:
    /// Precondition: start + i * step fits for all i < count.
    range(std::int64_t start, std::int64_t stop, std::int64_t step, std::size_t count)
        : start_(start), stop_(stop), step_(step), count_(count) {}
    std::string_view type_name() const noexcept override { return "range"; }
    std::optional<std::size_t> length(machine&) override { return count_; }
    bool sequence() const noexcept override { return true; }
    std::optional<value> item(machine&, const value& key) override {
        if (!is_integral(key)) return std::nullopt;
        const auto found = position(integral(key), count_);
        if (!found) return std::nullopt;
        return value(at(static_cast<std::int64_t>(*found)));
    }
    std::optional<value> slice(machine& m, const value& start, const value& stop, const value& step) override {
        const slice_range part = resolve_slice(start, stop, step, count_);
        std::int64_t stride = 0;
        if (__builtin_mul_overflow(part.step, step_, &stride)) fail_limit("a range's step is beyond 64 bits");
        const std::int64_t end = part.begin + static_cast<std::int64_t>(part.count) * part.step;
        return value(m.make_object<range>(at(part.begin), at(end), stride, part.count));
    }
    std::optional<value> attribute(machine&, std::string_view name) override {
        if (name == "start") return value(start_);
        if (name == "stop") return value(stop_);
        if (name == "step") return value(step_);
        return std::nullopt;
    }
    std::shared_ptr<iterator> iterate(machine& m) override;
    void print(machine&, string_builder& out) override {
        out.append(concat("range(", start_, ", ", stop_), origin::trusted);
        if (step_ != 1) out.append(concat(", ", step_), origin::trusted);
        out.append(")", origin::trusted);
    }

private:
    /// Wraps around beyond the last item.
    [[nodiscard]] std::int64_t at(std::int64_t i) const noexcept {
        return static_cast<std::int64_t>(static_cast<std::uint64_t>(start_) +
                                         static_cast<std::uint64_t>(i) * static_cast<std::uint64_t>(step_));
    }
    std::int64_t start_, stop_, step_;
    std::size_t count_;
};

class range_iterator final : public iterator {
public:
    range_iterator(std::int64_t start, std::int64_t step, std::size_t count) : at_(start), step_(step), left_(count) {}
    std::optional<value> next(machine&) override {
        if (left_ == 0) return std::nullopt;
        const std::int64_t out = at_;
        if (--left_ != 0) at_ += step_;
        return value(out);
    }
    std::optional<std::size_t> left() const noexcept override { return left_; }

private:
    std::int64_t at_, step_;
    std::size_t left_;
};

inline std::shared_ptr<iterator> range::iterate(machine& m) { return m.make_object<range_iterator>(start_, step_, count_); }

/// An iterator over the items of `v`: characters, items, keys; nothing for undefined. Null if `v` can't be gone through.
[[nodiscard]] inline std::shared_ptr<iterator> try_iterate(machine& m, const value& v) {
    switch (v.kind()) {
        case kind::undefined: return m.make_object<range_iterator>(0, 1, 0);
        case kind::string: return m.make_object<character_iterator>(v.as_string());
        case kind::list: return m.make_object<list_iterator>(v);
        case kind::dict: return m.make_object<key_iterator>(v);
        case kind::object: return v.as_object()->iterate(m);
        default: return nullptr;
    }
}

/// The same; stops if `v` can't be gone through.
[[nodiscard]] inline std::shared_ptr<iterator> iterate(machine& m, const value& v) {
    auto out = try_iterate(m, v);
    if (out == nullptr) fail_type("a ", type_name(v), " can't be looped over");
    return out;
}

/// Calls f(item) for each item of `v`; f returns false to stop early. Stops if `v` can't be gone through.
template <class F>
void for_each_item(machine& m, const value& v, F&& f) {
    if (v.is_list()) {
        for (const value& item : v.items()) {
            m.step();
            if (!f(item)) return;
        }
        return;
    }
    const auto it = iterate(m, v);
    while (const auto item = it->next(m)) {
        m.step();
        if (!f(*item)) return;
    }
}

/// Items being gathered; keeps an eye on memory while they grow.
class collector {
public:
    explicit collector(machine& m) noexcept : m_(m) {}
    void add(value v) {
        if (items_.size() == items_.capacity()) m_.need((items_.size() * 2 + 8) * sizeof(value));
        items_.push_back(std::move(v));
    }
    [[nodiscard]] std::vector<value>& items() noexcept { return items_; }
    [[nodiscard]] value finish(flavour look = flavour::list) { return m_.make_list(std::move(items_), look); }

private:
    machine& m_;
    std::vector<value> items_;
};

/// All items of `v`.
[[nodiscard]] inline std::vector<value> collect(machine& m, const value& v) {
    if (v.is_list()) {
        m.need(v.items().size() * sizeof(value));
        m.step(v.items().size() / 4);
        return v.items();
    }
    collector out(m);
    for_each_item(m, v, [&](const value& item) {
        out.add(item);
        return true;
    });
    return std::move(out.items());
}

/// `item in where`: part of a string, key of a dict, else equal to an item.
[[nodiscard]] inline bool contains(machine& m, const value& where, const value& item) {
    m.step();
    if (where.is_string()) {
        if (!item.is_string()) fail_type("only text can be in a str, not a ", type_name(item));
        return find_bytes(m, where.as_string().view(), item.as_string().view()) != std::string_view::npos;
    }
    if (where.is_dict()) {
        if (!hash_of(item)) fail_type("a ", type_name(item), " can't be the key of a dict");
        return where.as_dict().find(item) != nullptr;
    }
    bool found = false;
    for_each_item(m, where, [&](const value& each) { return !(found = equal(m, each, item)); });
    return found;
}

/// `count` or what else an argument should be: an integer. Stops if it isn't one.
[[nodiscard]] inline std::int64_t integer_argument(std::string_view function, const value& v) {
    if (!is_integral(v)) fail_type(function, " needs an integer, not a ", type_name(v));
    return integral(v);
}

[[nodiscard]] inline const string& string_argument(std::string_view function, const value& v) {
    if (!v.is_string()) fail_type(function, " needs text, not a ", type_name(v));
    return v.as_string();
}

}  // namespace colibri::jinja::detail
