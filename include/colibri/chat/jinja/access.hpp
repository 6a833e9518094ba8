// Reaching into values: a.b, a[b] and a[b:c:d], and what the sandbox keeps out of reach.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "colibri/chat/jinja/compare.hpp"
#include "colibri/chat/jinja/number.hpp"

namespace colibri::jinja::detail {

/// Method `name` of a plain value's type, or null.
[[nodiscard]] native find_method(const value& self, std::string_view name) noexcept;

/// Methods that would change a list or a dict: known, and refused.
[[nodiscard]] inline bool changes_its_object(const value& self, std::string_view name) noexcept {
    static constexpr std::string_view of_list[] = {"append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"};
    static constexpr std::string_view of_dict[] = {"clear", "pop", "popitem", "setdefault", "update"};
    if (self.is_list() && self.as_list().look == flavour::list) return std::ranges::find(of_list, name) != std::end(of_list);
    return self.is_dict() && std::ranges::find(of_dict, name) != std::end(of_dict);
}

/// Attribute of a plain value (a method, or a number's part), without looking at items; nothing if there is none.
[[nodiscard]] inline std::optional<value> own_attribute(machine& m, const value& self, std::string_view name) {
    if (name.size() > 4 && name.starts_with("__") && name.ends_with("__")) {
        if (self.is_undefined() && name != "__class__" && name != "__init__" && name != "__doc__") return std::nullopt;
        return m.make_forbidden("access to attribute '", name, "' of a ", type_name(self), " is not allowed");
    }
    if (self.is(kind::object)) return self.as_object()->attribute(m, name);
    if (changes_its_object(self, name)) {
        return m.make_forbidden("method '", name, "' of a ", type_name(self), " would change it, which is not allowed");
    }
    if (const native code = find_method(self, name)) {
        static constexpr std::string_view method = "method";
        return value(m.make_object<native_function>(method, code, self));
    }
    if (is_number(self)) {
        if (name == "real") return self.is(kind::boolean) ? value(integral(self)) : self;
        if (name == "imag") return self.is(kind::real) ? value(0.0) : value(0);
        if (name == "numerator" && is_integral(self)) return value(integral(self));
        if (name == "denominator" && is_integral(self)) return value(1);
    }
    if (self.is_list() && self.as_list().look == flavour::group) {
        if (name == "grouper") return self.items()[0];
        if (name == "list") return self.items()[1];
    }
    return std::nullopt;
}

/// Position of index `n` (negative: from the end) in `count` items, or nothing.
[[nodiscard]] constexpr std::optional<std::size_t> position(std::int64_t n, std::size_t count) noexcept {
    const auto size = static_cast<std::int64_t>(count);
    if (n < 0) n += size;
    if (n < 0 || n >= size) return std::nullopt;
    return static_cast<std::size_t>(n);
}

/// Item of a value by key or index; nothing if there is none or the value has no items.
[[nodiscard]] inline std::optional<value> own_item(machine& m, const value& self, const value& key) {
    switch (self.kind()) {
        case kind::dict:
            if (const value* found = self.as_dict().find(key)) return *found;
            return std::nullopt;
        case kind::list: {
            const flavour look = self.as_list().look;
            if (!is_integral(key) || look == flavour::keys || look == flavour::values || look == flavour::items) break;
            if (const auto at = position(integral(key), self.items().size())) return self.items()[*at];
            return std::nullopt;
        }
        case kind::string: {
            if (!is_integral(key)) break;
            const string& s = self.as_string();
            const auto at = position(integral(key), s.length());
            if (!at) return std::nullopt;
            m.touch(s.size());
            const std::size_t begin = s.offset_of(*at);
            return slice(m, s, begin, begin + character_size(s.view(), begin));
        }
        case kind::object: return self.as_object()->item(m, key);
        default: break;
    }
    return std::nullopt;
}

[[nodiscard]] inline value no_attribute(machine& m, const value& self, std::string_view name) {
    if (self.is_none()) return m.make_undefined("none has no attribute '", name, "'");
    return m.make_undefined("this ", type_name(self), " has no attribute '", name, "'");
}

/// self.name: the attribute, else the item, else undefined. Stops if `self` is undefined.
[[nodiscard]] inline value get_attribute(machine& m, const value& self, const string& name) {
    m.step();
    if (self.is_dict() && !name.view().starts_with("__")) {  // the usual case, without making a method object for nothing
        if (find_method(self, name.view()) == nullptr && !changes_its_object(self, name.view())) {
            if (const value* found = self.as_dict().find(name.view())) return *found;
            return no_attribute(m, self, name.view());
        }
    }
    if (auto found = own_attribute(m, self, name.view())) return *std::move(found);
    check_defined(self);
    if (auto found = own_item(m, self, name)) return *std::move(found);
    return no_attribute(m, self, name.view());
}

/// self[key]: the item, else (for text) the attribute, else undefined. Stops if `self` is undefined.
[[nodiscard]] inline value get_item(machine& m, const value& self, const value& key) {
    m.step();
    check_defined(self);
    if (auto found = own_item(m, self, key)) return *std::move(found);
    if (key.is_string()) {
        if (auto found = own_attribute(m, self, key.as_string().view())) return *std::move(found);
        return no_attribute(m, self, key.as_string().view());
    }
    if (is_integral(key)) return m.make_undefined("this ", type_name(self), " has no element ", integral(key));
    return m.make_undefined("this ", type_name(self), " has no such element");
}

/// A slice resolved against a length: `count` positions from `begin` on, `step` apart.
struct slice_range {
    std::int64_t begin = 0;
    std::int64_t step = 1;
    std::size_t count = 0;
};

[[nodiscard]] inline slice_range resolve_slice(const value& start, const value& stop, const value& step, std::size_t length) {
    const auto bound = [](const value& v) {
        if (!is_integral(v)) fail_type("a slice needs integers, not a ", type_name(v));
        return integral(v);
    };
    slice_range out;
    if (!step.is_none()) out.step = bound(step);
    if (out.step == 0) fail_type("a slice can't have the step 0");
    const auto size = static_cast<std::int64_t>(length);
    const bool back = out.step < 0;
    const std::int64_t low = back ? -1 : 0, high = back ? size - 1 : size;
    const auto clamp = [&](const value& v, std::int64_t otherwise) {
        if (v.is_none()) return otherwise;
        std::int64_t n = bound(v);
        if (n < 0) n = n < -size ? low : n + size;
        return std::clamp(n, low, high);
    };
    out.begin = clamp(start, back ? high : low);
    const std::int64_t end = clamp(stop, back ? low : high);
    const std::int64_t span = back ? out.begin - end : end - out.begin;
    if (span <= 0) return out;
    const std::uint64_t stride = back ? ~static_cast<std::uint64_t>(out.step) + 1 : static_cast<std::uint64_t>(out.step);
    out.count = static_cast<std::size_t>((static_cast<std::uint64_t>(span) - 1) / stride + 1);
    return out;
}

/// self[start:stop:step] of a string, list, tuple or range. Stops for everything else.
[[nodiscard]] inline value get_slice(machine& m, const value& self, const value& start, const value& stop, const value& step) {
    m.step();
    check_defined(self);
    if (self.is_string()) {
        const string& s = self.as_string();
        const slice_range range = resolve_slice(start, stop, step, s.length());
        if (range.count == 0) return string{};
        m.touch(s.size());
        if (range.step == 1) {
            const std::size_t begin = s.offset_of(static_cast<std::size_t>(range.begin));
            std::size_t end = begin;
            if (s.length() == s.size()) end = begin + range.count;
            else for (std::size_t i = 0; i < range.count; ++i) end += character_size(s.view(), end);
            return slice(m, s, begin, end);
        }
        std::vector<std::size_t> starts;
        m.need(s.length() * sizeof(std::size_t));
        m.step(s.length() / 4);
        starts.reserve(s.length());
        for (std::size_t at = 0; at < s.size(); at += character_size(s.view(), at)) starts.push_back(at);
        string_builder out(m);
        std::int64_t at = range.begin;
        for (std::size_t i = 0; i < range.count; ++i, at += range.step) {
            const std::size_t begin = starts[static_cast<std::size_t>(at)];
            out.append(s, begin, begin + character_size(s.view(), begin));
        }
        return out.finish(s.safe());
    }
    if (self.is_list() && type_name(self).find('_') == std::string_view::npos) {
        const auto& items = self.items();
        const slice_range range = resolve_slice(start, stop, step, items.size());
        m.need(range.count * sizeof(value));
        std::vector<value> out;
        out.reserve(range.count);
        std::int64_t at = range.begin;
        for (std::size_t i = 0; i < range.count; ++i, at += range.step) out.push_back(items[static_cast<std::size_t>(at)]);
        return m.make_list(std::move(out), self.as_list().look == flavour::list ? flavour::list : flavour::tuple);
    }
    if (self.is(kind::object)) {
        if (auto made = self.as_object()->slice(m, start, stop, step)) return *std::move(made);
    }
    fail_type("a ", type_name(self), " has no slices");
}

}  // namespace colibri::jinja::detail
