// Bodies of value_core.hpp: lists, dicts and keys.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "colibri/chat/jinja/object.hpp"
#include "colibri/chat/jinja/value_core.hpp"

namespace colibri::jinja {
namespace detail {

inline std::uint32_t depth_of(const value& v) noexcept {
    switch (v.kind()) {
        case kind::list: return v.as_list().depth;
        case kind::dict: return v.as_dict().depth();
        case kind::object: return v.as_object()->depth;
        default: return 0;
    }
}

/// Spreads integer keys; the seed differs from process to process, so that nobody can choose keys that collide.
inline std::size_t hash_integer(std::int64_t n) noexcept {
    static const char seed = 0;
    std::uint64_t hash = static_cast<std::uint64_t>(n) + reinterpret_cast<std::uintptr_t>(&seed);
    hash = (hash ^ (hash >> 32)) * 0x9e3779b97f4a7c15u;
    return static_cast<std::size_t>((hash ^ (hash >> 29)) * 0xbf58476d1ce4e5b9u >> 16);
}

inline std::optional<std::size_t> hash_of(const value& key) noexcept {
    switch (key.kind()) {
        case kind::none: return 0x6e6f6e65;
        case kind::boolean: return hash_integer(key.as_bool() ? 1 : 0);
        case kind::integer: return hash_integer(key.as_int());
        case kind::real: {
            const double d = key.as_real();
            if (d >= -9.2e18 && d <= 9.2e18 && same_number(static_cast<std::int64_t>(d), d)) {
                return hash_integer(static_cast<std::int64_t>(d));
            }
            return std::hash<double>{}(d);
        }
        case kind::string: return std::hash<std::string_view>{}(key.as_string().view());
        case kind::list: {
            if (key.as_list().look != flavour::tuple && key.as_list().look != flavour::group) return std::nullopt;
            std::size_t hash = 0x7475706c65;
            for (const value& item : key.items()) {
                const auto inner = hash_of(item);
                if (!inner) return std::nullopt;
                hash = (hash ^ *inner) * 0x100000001b3u;
            }
            return hash;
        }
        case kind::undefined: return 0x756e6466;
        case kind::object: return std::hash<const void*>{}(key.as_object().get());
        case kind::dict: return std::nullopt;
    }
    return std::nullopt;
}

inline bool same_key(const value& a, const value& b) noexcept {
    const auto integral = [](const value& v) -> std::optional<std::int64_t> {
        if (v.is(kind::integer)) return v.as_int();
        if (v.is(kind::boolean)) return v.as_bool() ? 1 : 0;
        return std::nullopt;
    };
    if (const auto x = integral(a)) {
        if (const auto y = integral(b)) return *x == *y;
        return b.is(kind::real) && same_number(*x, b.as_real());
    }
    if (a.is(kind::real)) {
        if (const auto y = integral(b)) return same_number(*y, a.as_real());
        return b.is(kind::real) && a.as_real() == b.as_real();
    }
    if (a.kind() != b.kind()) return false;
    switch (a.kind()) {
        case kind::none:
        case kind::undefined: return true;
        case kind::string: return a.as_string() == b.as_string();
        case kind::list: {
            const auto &x = a.items(), &y = b.items();
            if (x.size() != y.size()) return false;
            for (std::size_t i = 0; i < x.size(); ++i) {
                if (!same_key(x[i], y[i])) return false;
            }
            return true;
        }
        case kind::object: return a.as_object() == b.as_object();
        default: return false;
    }
}

template <class Same>
std::size_t dict_data::position(std::size_t hash, const Same& same) const noexcept {
    if (slots_.empty()) {
        for (std::size_t i = 0; i < members_.size(); ++i) {
            if (same(members_[i].first)) return i;
        }
        return members_.size();
    }
    const std::size_t mask = slots_.size() - 1;
    for (std::size_t slot = hash & mask; slots_[slot] != empty_slot; slot = (slot + 1) & mask) {
        if (same(members_[slots_[slot]].first)) return slots_[slot];
    }
    return members_.size();
}

inline const value* dict_data::find(const value& key) const noexcept {
    const auto hash = hash_of(key);
    if (!hash) return nullptr;
    const std::size_t at = position(*hash, [&](const value& k) { return same_key(k, key); });
    return at < members_.size() ? &members_[at].second : nullptr;
}

inline const value* dict_data::find(std::string_view key) const noexcept {
    const std::size_t hash = slots_.empty() ? 0 : std::hash<std::string_view>{}(key);
    const std::size_t at =
        position(hash, [&](const value& k) { return k.is_string() && k.as_string().view() == key; });
    return at < members_.size() ? &members_[at].second : nullptr;
}

inline bool dict_data::set(value key, value item) {
    const auto hash = hash_of(key);
    if (!hash) return false;
    depth_ = std::max({depth_, depth_of(key) + 1, depth_of(item) + 1});
    const std::size_t at = position(*hash, [&](const value& k) { return same_key(k, key); });
    if (at < members_.size()) {
        members_[at].second = std::move(item);
        return true;
    }
    members_.emplace_back(std::move(key), std::move(item));
    if (members_.size() > few) index_all();
    return true;
}

inline void dict_data::index_all() {
    const auto put = [&](std::size_t i) {
        const std::size_t mask = slots_.size() - 1;
        std::size_t slot = hash_of(members_[i].first).value_or(0) & mask;
        while (slots_[slot] != empty_slot) slot = (slot + 1) & mask;
        slots_[slot] = static_cast<std::uint32_t>(i);
    };
    if (slots_.size() >= members_.size() * 2) return put(members_.size() - 1);
    std::size_t wanted = 32;
    while (wanted < members_.size() * 4) wanted *= 2;
    slots_.assign(wanted, empty_slot);
    for (std::size_t i = 0; i < members_.size(); ++i) put(i);
}

}  // namespace detail

inline value value::list(std::vector<value> items) {
    auto data = std::make_shared<detail::list_data>();
    for (const value& item : items) data->depth = std::max(data->depth, detail::depth_of(item) + 1);
    data->items = std::move(items);
    return std::shared_ptr<const detail::list_data>(std::move(data));
}

inline value value::object(std::initializer_list<std::pair<std::string_view, value>> members) {
    auto data = std::make_shared<detail::dict_data>();
    data->reserve(members.size());
    for (const auto& [key, item] : members) data->set(key, item);
    return std::shared_ptr<const detail::dict_data>(std::move(data));
}

inline value value::dict(std::vector<pair> members) {
    auto data = std::make_shared<detail::dict_data>();
    data->reserve(members.size());
    for (auto& [key, item] : members) data->set(std::move(key), std::move(item));
    return std::shared_ptr<const detail::dict_data>(std::move(data));
}

inline const std::vector<value>& value::items() const noexcept { return as_list().items; }
inline const std::vector<value::pair>& value::members() const noexcept { return as_dict().members(); }

inline const value* value::find(std::string_view key) const noexcept {
    return is_dict() ? as_dict().find(key) : nullptr;
}

}  // namespace colibri::jinja
