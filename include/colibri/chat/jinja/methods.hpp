// Methods of lists, dicts and numbers, and the table of all methods.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <string_view>
#include <utility>

#include "colibri/chat/jinja/string_methods.hpp"

namespace colibri::jinja::detail {

/// Entry `name` of a table sorted by name, or null.
template <std::size_t N>
[[nodiscard]] constexpr native lookup(const native_entry (&table)[N], std::string_view name) noexcept {
    const auto* found = std::ranges::lower_bound(table, name, {}, &native_entry::name);
    return found != std::end(table) && found->name == name ? found->code : nullptr;
}
template <std::size_t N>
[[nodiscard]] constexpr bool is_sorted_table(const native_entry (&table)[N]) noexcept {
    return std::ranges::is_sorted(table, {}, &native_entry::name);
}

namespace list_methods {

inline value copy(machine&, const value& self, const arguments& given) {
    expect_none("copy", given);
    return self;
}
inline value count(machine& m, const value& self, const arguments& given) {
    const auto [what] = bind("count", given, {"value"}, 1);
    const value& wanted = *what;
    return std::ranges::count_if(self.items(), [&](const value& item) { return equal(m, item, wanted); });
}
inline value index(machine& m, const value& self, const arguments& given) {
    const auto [what, start, stop] =
        bind("index", given, {"value", "start", "stop"}, 1);
    const auto& items = self.items();
    const slice_range range = resolve_slice(start != nullptr ? *start : value(), stop != nullptr ? *stop : value(), {}, items.size());
    for (std::size_t i = 0; i < range.count; ++i) {
        const std::size_t at = static_cast<std::size_t>(range.begin) + i;
        if (equal(m, items[at], *what)) return at;
    }
    fail_type("the value that index looks for is not in the list");
}

inline constexpr native_entry of_list[] = {{"copy", copy}, {"count", count}, {"index", index}};
inline constexpr native_entry of_tuple[] = {{"count", count}, {"index", index}};

}  // namespace list_methods

namespace dict_methods {

inline value get(machine&, const value& self, const arguments& given) {
    const auto [key, otherwise] = bind("get", given, {"key", "default"}, 1);
    if (!hash_of(*key)) fail_type("a ", type_name(*key), " can't be the key of a dict");
    const value* found = self.as_dict().find(*key);
    return found != nullptr ? *found : otherwise != nullptr ? *otherwise : value();
}
inline value copy(machine&, const value& self, const arguments& given) {
    expect_none("copy", given);
    return self;
}

/// The dict's members as one of the views.
template <flavour Look>
value view(machine& m, const value& self, const arguments& given) {
    expect_none("this method", given);
    m.need(self.members().size() * sizeof(value));
    std::vector<value> out;
    out.reserve(self.members().size());
    for (const auto& [key, item] : self.members()) {
        if constexpr (Look == flavour::keys) out.push_back(key);
        else if constexpr (Look == flavour::values) out.push_back(item);
        else out.push_back(m.make_tuple({key, item}));
    }
    return m.make_list(std::move(out), Look);
}

inline constexpr native_entry table[] = {
    {"copy", copy},
    {"get", get},
    {"items", view<flavour::items>},
    {"keys", view<flavour::keys>},
    {"values", view<flavour::values>},
};

}  // namespace dict_methods

namespace number_methods {

inline value bit_length(machine&, const value& self, const arguments& given) {
    expect_none("bit_length", given);
    const std::int64_t n = integral(self);
    return std::bit_width(n < 0 ? ~static_cast<std::uint64_t>(n) + 1 : static_cast<std::uint64_t>(n));
}
inline value bit_count(machine&, const value& self, const arguments& given) {
    expect_none("bit_count", given);
    const std::int64_t n = integral(self);
    return std::popcount(n < 0 ? ~static_cast<std::uint64_t>(n) + 1 : static_cast<std::uint64_t>(n));
}
inline value conjugate(machine&, const value& self, const arguments& given) {
    expect_none("conjugate", given);
    return self.is(kind::boolean) ? value(integral(self)) : self;
}
inline value is_integer(machine&, const value& self, const arguments& given) {
    expect_none("is_integer", given);
    return std::isfinite(self.as_real()) && std::floor(self.as_real()) == self.as_real();
}

inline constexpr native_entry of_int[] = {{"bit_count", bit_count}, {"bit_length", bit_length}, {"conjugate", conjugate}};
inline constexpr native_entry of_real[] = {{"conjugate", conjugate}, {"is_integer", is_integer}};

}  // namespace number_methods

static_assert(is_sorted_table(string_methods::table) && is_sorted_table(list_methods::of_list) &&
              is_sorted_table(list_methods::of_tuple) && is_sorted_table(dict_methods::table) &&
              is_sorted_table(number_methods::of_int) && is_sorted_table(number_methods::of_real));

inline native find_method(const value& self, std::string_view name) noexcept {
    switch (self.kind()) {
        case kind::string: return lookup(string_methods::table, name);
        case kind::dict: return lookup(dict_methods::table, name);
        case kind::boolean:
        case kind::integer: return lookup(number_methods::of_int, name);
        case kind::real: return lookup(number_methods::of_real, name);
        case kind::list: {
            const flavour look = self.as_list().look;
            if (look == flavour::list) return lookup(list_methods::of_list, name);
            return look == flavour::tuple || look == flavour::group ? lookup(list_methods::of_tuple, name) : nullptr;
        }
        default: return nullptr;
    }
}

}  // namespace colibri::jinja::detail
