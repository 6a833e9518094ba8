// Filters that use other filters and tests, and the table of all filters.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "colibri/chat/jinja/filters_list.hpp"
#include "colibri/chat/jinja/filters_text.hpp"
#include "colibri/chat/jinja/filters_value.hpp"
#include "colibri/chat/jinja/tests.hpp"

namespace colibri::jinja::detail {
namespace filters {

/// A filter that looks at its items one by one, and at nothing before the first one is wanted.
class lazy_iterator : public iterator {
public:
    lazy_iterator(value source, arguments given) : source_(std::move(source)), given_(std::move(given)) {
        depth = depth_of(source_) + 1;
        for (const value& v : given_.positional) depth = std::max(depth, depth_of(v) + 1);
        for (const auto& [key, v] : given_.named) depth = std::max(depth, depth_of(v) + 1);
    }
    std::optional<value> next(machine& m) final {
        const nesting level(m);
        if (from_ == nullptr) {
            from_ = detail::iterate(m, detail::truth(m, source_) ? source_ : value(string{}));
            if (detail::truth(m, source_)) begin(m, given_);
            source_ = value();
        }
        return next_of(m, *from_);
    }

protected:
    /// Takes the arguments: given_ keeps them alive.
    virtual void begin(machine& m, arguments& given) = 0;
    virtual std::optional<value> next_of(machine& m, iterator& from) = 0;

private:
    value source_;
    arguments given_;
    std::shared_ptr<iterator> from_;
};

/// What map(attribute=, default=) does to one item.
inline value pick(machine& m, const value& self, const arguments& given) {
    const auto [attribute, otherwise] = bind("map", given, {"attribute", "default"}, 1);
    return attribute_path(m, attribute).of(m, self, otherwise);
}

/// Takes the name of a filter or test off the front.
[[nodiscard]] inline std::string take_name(std::string_view function, arguments& given) {
    std::string name(string_argument(function, given.positional.front()).view());
    given.positional.erase(given.positional.begin());
    return name;
}

/// map(attribute=...) and map('filter', ...).
class map_iterator final : public lazy_iterator {
public:
    using lazy_iterator::lazy_iterator;

private:
    void begin(machine&, arguments& given) override {
        with_ = &given;
        if (given.positional.empty()) {
            static_cast<void>(bind("map", given, {"attribute", "default"}, 1));
            return;
        }
        const std::string name = take_name("map", given);
        code_ = find_filter(name);
        if (code_ == nullptr) fail_type("there is no filter '", name, "'");
    }
    std::optional<value> next_of(machine& m, iterator& from) override {
        m.step();
        const auto item = from.next(m);
        if (!item) return std::nullopt;
        return code_(m, *item, *with_);
    }

    native code_ = pick;
    const arguments* with_ = nullptr;
};

inline value map(machine& m, const value& self, const arguments& given) {
    return value(m.make_object<map_iterator>(self, given));
}

/// select and its relatives: items for which a test (or truth) of them or of an attribute holds, or doesn't.
template <bool Wanted, bool ByAttribute>
class select_iterator final : public lazy_iterator {
public:
    using lazy_iterator::lazy_iterator;

private:
    void begin(machine& m, arguments& given) override {
        with_ = &given;
        if (ByAttribute) {
            if (given.positional.empty()) fail_type("selectattr and rejectattr need an attribute");
            path_ = attribute_path(m, &given.positional.front());
            given.positional.erase(given.positional.begin());
        }
        if (given.positional.empty()) return;
        const std::string name = take_name("select", given);
        test_ = find_test(name);
        if (test_ == nullptr) fail_type("there is no test '", name, "'");
    }
    std::optional<value> next_of(machine& m, iterator& from) override {
        while (auto item = from.next(m)) {
            m.step();
            const value looked = path_ ? path_->of(m, *item) : *item;
            if (detail::truth(m, test_ != nullptr ? test_(m, looked, *with_) : looked) == Wanted) return item;
        }
        return std::nullopt;
    }

    std::optional<attribute_path> path_;
    native test_ = nullptr;
    const arguments* with_ = nullptr;
};

template <bool Wanted, bool ByAttribute>
value select(machine& m, const value& self, const arguments& given) {
    return value(m.make_object<select_iterator<Wanted, ByAttribute>>(self, given));
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
