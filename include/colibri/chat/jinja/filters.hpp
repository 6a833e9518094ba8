// Filters that use other filters and tests, and the table of all filters.
#pragma once

#include <string_view>
#include <utility>

#include "colibri/chat/jinja/filters_list.hpp"
#include "colibri/chat/jinja/filters_text.hpp"
#include "colibri/chat/jinja/filters_value.hpp"
#include "colibri/chat/jinja/tests.hpp"

namespace colibri::jinja::detail {
namespace filters {

/// map(attribute=...) and map('filter', ...), item by item.
class map_iterator final : public iterator {
public:
    map_iterator(std::shared_ptr<iterator> from, native code, arguments given)
        : from_(std::move(from)), code_(code), given_(std::move(given)) {
        depth = from_->depth + 1;
        for (const value& v : given_.positional) depth = std::max(depth, depth_of(v) + 1);
        for (const auto& [key, v] : given_.named) depth = std::max(depth, depth_of(v) + 1);
    }
    std::optional<value> next(machine& m) override {
        const nesting level(m);
        m.step();
        const auto item = from_->next(m);
        if (!item) return std::nullopt;
        return code_(m, *item, given_);
    }

private:
    std::shared_ptr<iterator> from_;
    native code_;
    arguments given_;
};

/// What map(attribute=, default=) does to one item.
inline value pick(machine& m, const value& self, const arguments& given) {
    const auto [attribute, otherwise] = bind("map", given, {"attribute", "default"}, 1);
    return attribute_path(m, attribute).of(m, self, otherwise);
}

/// An iterator over `self`; over nothing if that is false.
[[nodiscard]] inline std::shared_ptr<iterator> iterate_if_any(machine& m, const value& self) {
    return iterate(m, truth(m, self) ? self : value(string{}));
}

inline value map(machine& m, const value& self, const arguments& given) {
    if (given.positional.empty()) {
        static_cast<void>(bind("map", given, {"attribute", "default"}, 1));
        return value(m.make_object<map_iterator>(iterate_if_any(m, self), pick, given));
    }
    const std::string_view name = string_argument("map", given.positional[0]).view();
    const native code = find_filter(name);
    if (code == nullptr) fail_type("there is no filter '", name, "'");
    return value(m.make_object<map_iterator>(
        iterate_if_any(m, self), code, arguments{{given.positional.begin() + 1, given.positional.end()}, given.named}));
}

/// select and its relatives: items for which a test (or truth) of them or of an attribute holds, or doesn't.
class select_iterator final : public iterator {
public:
    select_iterator(std::shared_ptr<iterator> from, attribute_path path, native test, arguments given, bool wanted)
        : from_(std::move(from)), path_(std::move(path)), test_(test), given_(std::move(given)), wanted_(wanted) {
        depth = from_->depth + 1;
        for (const value& v : given_.positional) depth = std::max(depth, depth_of(v) + 1);
        for (const auto& [key, v] : given_.named) depth = std::max(depth, depth_of(v) + 1);
    }
    std::optional<value> next(machine& m) override {
        const nesting level(m);
        while (auto item = from_->next(m)) {
            m.step();
            const value looked = path_.of(m, *item);
            if (detail::truth(m, test_ != nullptr ? test_(m, looked, given_) : looked) == wanted_) return item;
        }
        return std::nullopt;
    }

private:
    std::shared_ptr<iterator> from_;
    attribute_path path_;
    native test_;
    arguments given_;
    bool wanted_;
};

template <bool Wanted, bool ByAttribute>
value select(machine& m, const value& self, const arguments& given) {
    auto rest = given.positional.begin();
    const value* attribute = nullptr;
    if (ByAttribute) {
        if (rest == given.positional.end()) fail_type("selectattr and rejectattr need an attribute");
        attribute = &*rest++;
    }
    native test = nullptr;
    if (rest != given.positional.end()) {
        const std::string_view name = string_argument("select", *rest++).view();
        test = find_test(name);
        if (test == nullptr) fail_type("there is no test '", name, "'");
    }
    return value(m.make_object<select_iterator>(iterate_if_any(m, self), attribute_path(m, attribute), test,
                                                arguments{{rest, given.positional.end()}, given.named}, Wanted));
}

inline constexpr native_entry table[] = {
    {"abs", abs},
    {"attr", attr},
    {"batch", batch},
    {"capitalize", cased<letter_case::capital>},
    {"center", center},
    {"count", length},
    {"d", default_value},
    {"default", default_value},
    {"dictsort", dictsort},
    {"e", escape},
    {"escape", escape},
    {"first", first},
    {"float", to_float},
    {"forceescape", forceescape},
    {"format", format},
    {"groupby", groupby},
    {"indent", indent},
    {"int", to_int},
    {"items", items},
    {"join", join},
    {"last", last},
    {"length", length},
    {"list", to_list},
    {"lower", cased<letter_case::lower>},
    {"map", map},
    {"max", extreme<true>},
    {"min", extreme<false>},
    {"reject", select<false, false>},
    {"rejectattr", select<false, true>},
    {"replace", replace},
    {"reverse", reverse},
    {"round", round},
    {"safe", safe},
    {"select", select<true, false>},
    {"selectattr", select<true, true>},
    {"slice", slice},
    {"sort", sort},
    {"string", to_text},
    {"striptags", striptags},
    {"sum", sum},
    {"title", title},
    {"tojson", tojson},
    {"trim", trim},
    {"truncate", truncate},
    {"unique", unique},
    {"upper", cased<letter_case::upper>},
    {"urlencode", urlencode},
    {"wordcount", wordcount},
};
static_assert(is_sorted_table(table));

}  // namespace filters

inline native find_filter(std::string_view name) noexcept { return lookup(filters::table, name); }

}  // namespace colibri::jinja::detail
