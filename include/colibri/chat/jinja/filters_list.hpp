// Filters on sequences.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "colibri/chat/jinja/arithmetic.hpp"
#include "colibri/chat/jinja/methods.hpp"
#include "colibri/chat/jinja/text_ops.hpp"

namespace colibri::jinja::detail::filters {

/// Where a filter finds what it looks at in an item: "a.b.0", an index, or nothing for the item itself.
class attribute_path {
public:
    attribute_path(machine& m, const value* path) {
        if (path == nullptr || path->is_none()) return;
        if (!path->is_string()) {
            parts_.push_back(*path);
            return;
        }
        const value pieces = split_by(m, path->as_string(), ".", -1, false);
        for (const value& piece : pieces.items()) {
            const std::string_view text = piece.as_string().view();
            std::int64_t index = 0;
            const bool digits = !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
            if (digits && parse_integer(text, 10, index) == parsed::yes) parts_.emplace_back(index);
            else parts_.push_back(piece);
        }
    }
    /// What `item` has there; `otherwise` (if not null or none) where that is undefined.
    [[nodiscard]] value of(machine& m, value item, const value* otherwise = nullptr) const {
        for (const value& part : parts_) {
            item = get_item(m, item, part);
            if (item.is_undefined() && otherwise != nullptr && !otherwise->is_none()) item = *otherwise;
        }
        return item;
    }

private:
    std::vector<value> parts_;
};

[[nodiscard]] inline value without_case(machine& m, value v) {
    return v.is_string() ? value(change_case(m, v.as_string(), letter_case::lower)) : v;
}
[[nodiscard]] inline bool flag(machine& m, const value* v) { return v != nullptr && truth(m, *v); }

/// Iterators in groups: batch.
class batch_iterator final : public iterator {
public:
    batch_iterator(std::shared_ptr<iterator> from, std::size_t size, value fill)
        : from_(std::move(from)), size_(size), fill_(std::move(fill)) {
        depth = std::max(from_->depth, depth_of(fill_)) + 1;
    }
    std::optional<value> next(machine& m) override {
        const nesting level(m);
        collector group(m);
        while (group.items().size() < size_) {
            m.step();
            auto item = from_->next(m);
            if (!item) break;
            group.add(*std::move(item));
        }
        if (group.items().empty()) return std::nullopt;
        if (!fill_.is_none()) {
            if (size_ > m.allowed().memory / sizeof(value)) fail_limit("batch fills up more than memory holds");
            m.step((size_ - group.items().size()) / 4);
            while (group.items().size() < size_) group.add(fill_);
        }
        return group.finish();
    }

private:
    std::shared_ptr<iterator> from_;
    std::size_t size_;
    value fill_;
};

inline value batch(machine& m, const value& self, const arguments& given) {
    const auto [size, fill] = bind("batch", given, {"linecount", "fill_with"}, 1);
    const std::int64_t count = integer_argument("batch", *size);
    if (count < 1) fail_type("batch needs a size of at least 1");
    return value(m.make_object<batch_iterator>(iterate(m, self), static_cast<std::size_t>(count), fill != nullptr ? *fill : value()));
}

inline value slice(machine& m, const value& self, const arguments& given) {
    const auto [slices, fill] = bind("slice", given, {"slices", "fill_with"}, 1);
    const std::int64_t count = integer_argument("slice", *slices);
    if (count < 1) fail_type("slice needs at least 1 slice");
    const auto items = collect(m, self);
    const auto columns = static_cast<std::size_t>(count);
    if (columns > m.allowed().memory / sizeof(value)) fail_limit("slice makes more lists than memory holds");
    const std::size_t each = items.size() / columns, longer = items.size() % columns;
    collector out(m);
    std::size_t at = 0;
    for (std::size_t i = 0; i < columns; ++i) {
        m.step();
        const std::size_t size = each + (i < longer ? 1 : 0);
        collector part(m);
        for (std::size_t k = 0; k < size; ++k) part.add(items[at + k]);
        at += size;
        if (fill != nullptr && !fill->is_none() && i >= longer) part.add(*fill);
        out.add(part.finish());
    }
    return value(m.make_object<list_iterator>(out.finish()));
}

inline value dictsort(machine& m, const value& self, const arguments& given) {
    const auto [sensitive, by, reverse] = bind("dictsort", given, {"case_sensitive", "by", "reverse"});
    check_defined(self);
    if (!self.is_dict()) fail_type("dictsort needs a dict, not a ", type_name(self));
    const std::string_view what = by != nullptr ? string_argument("dictsort", *by).view() : "key";
    if (what != "key" && what != "value") fail_type("dictsort sorts by 'key' or by 'value'");
    std::vector<std::pair<value, value>> keyed;
    m.need(self.members().size() * 2 * sizeof(value));
    for (const auto& [key, item] : self.members()) {
        const value& look = what == "key" ? key : item;
        keyed.emplace_back(flag(m, sensitive) ? look : without_case(m, look), m.make_tuple({key, item}));
    }
    const bool down = flag(m, reverse);
    std::ranges::stable_sort(keyed, [&](const auto& a, const auto& b) {
        return down ? order(m, b.first, a.first) < 0 : order(m, a.first, b.first) < 0;
    });
    collector out(m);
    for (auto& [key, pair] : keyed) out.add(std::move(pair));
    return out.finish();
}

inline value first(machine& m, const value& self, const arguments& given) {
    expect_none("first", given);
    auto item = iterate(m, self)->next(m);
    return item ? *std::move(item) : m.make_undefined("first found nothing: the sequence is empty");
}

/// The items of `v` from the last to the first; nothing if it can't be gone through backwards.
[[nodiscard]] inline std::optional<std::vector<value>> backwards(machine& m, const value& v) {
    if (v.is(kind::object) && !v.as_object()->sequence()) return std::nullopt;
    if (v.is_none() || is_number(v)) return std::nullopt;
    auto items = collect(m, v);
    std::ranges::reverse(items);
    return items;
}

inline value last(machine& m, const value& self, const arguments& given) {
    expect_none("last", given);
    if (self.is_list() && !self.items().empty()) return self.items().back();
    const auto items = backwards(m, self);
    if (!items) fail_type("last can't go through a ", type_name(self), " from its end");
    return items->empty() ? m.make_undefined("last found nothing: the sequence is empty") : items->front();
}

inline value reverse(machine& m, const value& self, const arguments& given) {
    expect_none("reverse", given);
    if (self.is_string()) return get_slice(m, self, value(), value(), value(-1));
    auto items = backwards(m, self);
    if (!items) {
        items = collect(m, self);
        std::ranges::reverse(*items);
        return m.make_list(std::move(*items));
    }
    return value(m.make_object<list_iterator>(m.make_list(std::move(*items))));
}

inline value length(machine& m, const value& self, const arguments& given) {
    expect_none("length", given);
    const auto size = length_of(m, self);
    if (!size) fail_type("a ", type_name(self), " has no length");
    return *size;
}

inline value to_list(machine& m, const value& self, const arguments& given) {
    expect_none("list", given);
    return m.make_list(collect(m, self));
}

/// Pairs of a dict's members; complains about everything else once the first one is wanted.
class items_iterator final : public iterator {
public:
    explicit items_iterator(value source) : source_(std::move(source)) { depth = depth_of(source_) + 1; }
    std::optional<value> next(machine& m) override {
        if (source_.is_undefined()) return std::nullopt;
        if (!source_.is_dict()) fail_type("items needs a dict, not a ", detail::type_name(source_));
        if (at_ >= source_.members().size()) return std::nullopt;
        const auto& [key, item] = source_.members()[at_++];
        return m.make_tuple({key, item});
    }

private:
    value source_;
    std::size_t at_ = 0;
};

inline value items(machine& m, const value& self, const arguments& given) {
    expect_none("items", given);
    return value(m.make_object<items_iterator>(self));
}

inline value join(machine& m, const value& self, const arguments& given) {
    const auto [separator, attribute] = bind("join", given, {"d", "attribute"});
    const string between = separator != nullptr ? to_string(m, *separator) : string{};
    const attribute_path path(m, attribute);
    string_builder out(m);
    bool later = false;
    for_each_item(m, self, [&](const value& item) {
        if (later) out.append(between);
        later = true;
        append_printed(m, out, path.of(m, item));
        return true;
    });
    return out.finish();
}

template <bool Largest>
value extreme(machine& m, const value& self, const arguments& given) {
    const auto [sensitive, attribute] = bind(Largest ? "max" : "min", given, {"case_sensitive", "attribute"});
    const attribute_path path(m, attribute);
    const bool exact = flag(m, sensitive);
    std::optional<value> best, best_key;
    for_each_item(m, self, [&](const value& item) {
        value key = path.of(m, item);
        if (!exact) key = without_case(m, std::move(key));
        if (!best || (Largest ? order(m, key, *best_key) > 0 : order(m, key, *best_key) < 0)) {
            best = item;
            best_key = std::move(key);
        }
        return true;
    });
    return best ? *std::move(best) : m.make_undefined("there is no largest or smallest item: the sequence is empty");
}

/// Sorts `items` by keys, stably.
inline void sort_by_keys(machine& m, std::vector<value>& items, const std::vector<attribute_path>& paths, bool sensitive,
                         bool down, bool lists = true, const value* otherwise = nullptr) {
    // sort compares lists of keys, in which equal ones need no order: attributes that are missing everywhere are no mistake.
    const auto before = [&](const value& a, const value& b) { return !(lists && equal(m, a, b)) && order(m, a, b) < 0; };
    std::vector<std::pair<value, value>> keyed;
    m.need(items.size() * 2 * sizeof(value));
    keyed.reserve(items.size());
    for (value& item : items) {
        std::vector<value> keys;
        for (const auto& path : paths) {
            value key = path.of(m, item, otherwise);
            keys.push_back(sensitive ? std::move(key) : without_case(m, std::move(key)));
        }
        keyed.emplace_back(keys.size() == 1 ? std::move(keys[0]) : m.make_list(std::move(keys)), std::move(item));
    }
    std::ranges::stable_sort(keyed, [&](const auto& a, const auto& b) {
        return down ? before(b.first, a.first) : before(a.first, b.first);
    });
    for (std::size_t i = 0; i < items.size(); ++i) items[i] = std::move(keyed[i].second);
}

inline value sort(machine& m, const value& self, const arguments& given) {
    const auto [reverse, sensitive, attribute] = bind("sort", given, {"reverse", "case_sensitive", "attribute"});
    std::vector<attribute_path> paths;
    if (attribute != nullptr && attribute->is_string()) {
        const value pieces = split_by(m, attribute->as_string(), ",", -1, false);
        for (const value& piece : pieces.items()) paths.emplace_back(m, &piece);
    } else {
        paths.emplace_back(m, attribute);
    }
    auto items = collect(m, self);
    sort_by_keys(m, items, paths, flag(m, sensitive), flag(m, reverse));
    return m.make_list(std::move(items));
}

inline value groupby(machine& m, const value& self, const arguments& given) {
    const auto [attribute, otherwise, sensitive] = bind("groupby", given, {"attribute", "default", "case_sensitive"}, 1);
    const attribute_path path(m, attribute);
    const bool exact = flag(m, sensitive);
    auto items = collect(m, self);
    sort_by_keys(m, items, {path}, exact, false, false, otherwise);
    collector out(m), group(m);
    std::optional<value> label, last_key;
    const auto close = [&] {
        if (label) out.add(m.make_list({*label, group.finish()}, flavour::group));
        group.items().clear();
    };
    for (const value& item : items) {
        const value found = path.of(m, item, otherwise);
        value key = exact ? found : without_case(m, found);
        if (!last_key || !equal(m, *last_key, key)) {
            close();
            label = found;
            last_key = std::move(key);
        }
        group.add(item);
    }
    close();
    return out.finish();
}

inline value sum(machine& m, const value& self, const arguments& given) {
    const auto [attribute, start] = bind("sum", given, {"attribute", "start"});
    const attribute_path path(m, attribute);
    value out = start != nullptr ? *start : value(0);
    if (out.is_string()) fail_type("sum can't add text: use join");
    for_each_item(m, self, [&](const value& item) {
        out = calculate(m, operation::add, out, path.of(m, item));
        return true;
    });
    return out;
}

class unique_iterator final : public iterator {
public:
    unique_iterator(std::shared_ptr<iterator> from, attribute_path path, bool sensitive)
        : from_(std::move(from)), path_(std::move(path)), sensitive_(sensitive) {
        depth = from_->depth + 1;
    }
    std::optional<value> next(machine& m) override {
        const nesting level(m);
        while (auto item = from_->next(m)) {
            value key = path_.of(m, *item);
            if (!sensitive_) key = without_case(m, std::move(key));
            if (hash_of(key) && seen_.find(key) != nullptr) {
                m.step();
                continue;
            }
            m.put(seen_, std::move(key), value());
            if (seen_.size() > counted_) {
                counted_ = seen_.size() * 2 + 8;
                seen_.charge = memory_charge(m, counted_ * (sizeof(value::pair) + 16));
            }
            return item;
        }
        return std::nullopt;
    }
    void let_go() noexcept override { seen_ = dict_data{}; }

private:
    std::shared_ptr<iterator> from_;
    attribute_path path_;
    bool sensitive_;
    dict_data seen_;
    std::size_t counted_ = 0;
};

inline value unique(machine& m, const value& self, const arguments& given) {
    const auto [sensitive, attribute] = bind("unique", given, {"case_sensitive", "attribute"});
    auto made = m.make_object<unique_iterator>(iterate(m, self), attribute_path(m, attribute), flag(m, sensitive));
    m.keep(made);
    return value(made);
}

}  // namespace colibri::jinja::detail::filters
