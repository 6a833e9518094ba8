// The class of values; value.hpp has the rest.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "colibri/chat/jinja/string.hpp"

namespace colibri::jinja {

class value;

namespace detail {
struct list_data;
class dict_data;
class object;
struct undefined_data;
}  // namespace detail

/// The kinds of values. `object` is everything that only a running template makes: functions, macros, namespaces, ranges.
enum class kind : std::uint8_t { undefined, none, boolean, integer, real, string, list, dict, object };

/// A value: none, undefined, bool, 64-bit integer, double, string, list, dict or a run-time object. Lists, dicts and strings
/// are immutable and shared by copies, so a value may be used by several threads once it is made.
/// Text made from C++ is untrusted unless it comes from `value::trusted`.
class value {
public:
    using pair = std::pair<value, value>;

    value() = default;  ///< none
    value(std::nullptr_t) {}                                                        // NOLINT: implicit by design
    template <std::same_as<bool> T>
    value(T b) : state_(b) {}                                                       // NOLINT: implicit by design
    template <std::integral T>
        requires(!std::same_as<T, bool> && !std::same_as<T, char>)
    value(T n) {                                                                    // NOLINT: implicit by design
        if (std::in_range<std::int64_t>(n)) state_ = static_cast<std::int64_t>(n);
        else state_ = static_cast<double>(n);
    }
    value(char) = delete;
    value(double n) : state_(n) {}                                                  // NOLINT: implicit by design
    value(const char* text) : value(std::string_view(text)) {}                      // NOLINT: implicit by design
    value(std::string_view text) : state_(string(std::string(text), origin::untrusted)) {}   // NOLINT: implicit by design
    value(std::string text) : state_(string(std::move(text), origin::untrusted)) {} // NOLINT: implicit by design
    value(string text) : state_(std::move(text)) {}                                 // NOLINT: implicit by design
    value(std::shared_ptr<const detail::list_data> l) : state_(std::move(l)) {}     // NOLINT: implicit by design
    value(std::shared_ptr<const detail::dict_data> d) : state_(std::move(d)) {}     // NOLINT: implicit by design
    template <std::derived_from<detail::object> T>
    value(std::shared_ptr<T> o) : state_(std::shared_ptr<detail::object>(std::move(o))) {}  // NOLINT: implicit by design
    value(std::shared_ptr<const detail::undefined_data> u) : state_(std::move(u)) {}        // NOLINT: implicit by design

    [[nodiscard]] static value none() { return {}; }
    /// Text that the program vouches for: it may become control tokens.
    [[nodiscard]] static value trusted(std::string_view text) { return string(std::string(text), origin::trusted); }
    [[nodiscard]] static value list(std::vector<value> items);
    /// A dict with string keys in this order; a key given twice keeps its first place and its last value.
    [[nodiscard]] static value object(std::initializer_list<std::pair<std::string_view, value>> members);
    [[nodiscard]] static value dict(std::vector<pair> members);

    [[nodiscard]] jinja::kind kind() const noexcept { return static_cast<jinja::kind>(state_.index()); }
    [[nodiscard]] bool is(jinja::kind k) const noexcept { return kind() == k; }
    [[nodiscard]] bool is_undefined() const noexcept { return is(kind::undefined); }
    [[nodiscard]] bool is_none() const noexcept { return is(kind::none); }
    [[nodiscard]] bool is_string() const noexcept { return is(kind::string); }
    [[nodiscard]] bool is_list() const noexcept { return is(kind::list); }
    [[nodiscard]] bool is_dict() const noexcept { return is(kind::dict); }

    // Precondition of these: the value has that kind.
    [[nodiscard]] bool as_bool() const noexcept { return *std::get_if<bool>(&state_); }
    [[nodiscard]] std::int64_t as_int() const noexcept { return *std::get_if<std::int64_t>(&state_); }
    [[nodiscard]] double as_real() const noexcept { return *std::get_if<double>(&state_); }
    [[nodiscard]] const string& as_string() const noexcept { return *std::get_if<string>(&state_); }
    [[nodiscard]] const std::vector<value>& items() const noexcept;    ///< of a list
    [[nodiscard]] const std::vector<pair>& members() const noexcept;   ///< of a dict, in order
    [[nodiscard]] const detail::list_data& as_list() const noexcept {
        return **std::get_if<std::shared_ptr<const detail::list_data>>(&state_);
    }
    [[nodiscard]] const detail::dict_data& as_dict() const noexcept {
        return **std::get_if<std::shared_ptr<const detail::dict_data>>(&state_);
    }
    [[nodiscard]] const std::shared_ptr<detail::object>& as_object() const noexcept {
        return *std::get_if<std::shared_ptr<detail::object>>(&state_);
    }
    /// May be null: nothing is known about where it came from.
    [[nodiscard]] const std::shared_ptr<const detail::undefined_data>& as_undefined() const noexcept {
        return *std::get_if<std::shared_ptr<const detail::undefined_data>>(&state_);
    }

    /// Member `key` of a dict, or null; null for every other kind.
    [[nodiscard]] const value* find(std::string_view key) const noexcept;
    /// The bytes of a string; nothing for every other kind.
    [[nodiscard]] std::optional<std::string_view> text() const noexcept {
        if (const auto* s = std::get_if<string>(&state_)) return s->view();
        return std::nullopt;
    }

private:
    struct nothing {};
    std::variant<std::shared_ptr<const detail::undefined_data>, nothing, bool, std::int64_t, double, string,
                 std::shared_ptr<const detail::list_data>, std::shared_ptr<const detail::dict_data>,
                 std::shared_ptr<detail::object>>
        state_ = nothing{};
};

namespace detail {

/// The kinds of sequences that look like lists inside.
enum class flavour : std::uint8_t { list, tuple, group, keys, values, items };

struct list_data {
    std::vector<value> items = {};
    flavour look = flavour::list;
    std::uint32_t depth = 1;  ///< 1 + the deepest item's depth
    memory_charge charge = {};
};

/// What an undefined value remembers: enough for a message when it is used.
struct undefined_data {
    std::string message = {};  ///< "'x' is undefined"
    bool forbidden = false;    ///< using it is a security failure
};

/// Members in order, found by a hash table once there are more than a few.
class dict_data {
public:
    [[nodiscard]] const std::vector<value::pair>& members() const noexcept { return members_; }
    [[nodiscard]] std::size_t size() const noexcept { return members_.size(); }
    [[nodiscard]] std::uint32_t depth() const noexcept { return depth_; }
    [[nodiscard]] const value* find(const value& key) const noexcept;
    [[nodiscard]] const value* find(std::string_view key) const noexcept;
    /// Only before the dict is shared. False if `key` can't be a key (a list, a dict).
    bool set(value key, value item);
    void reserve(std::size_t n) { members_.reserve(n); }

    memory_charge charge = {};

private:
    static constexpr std::size_t few = 8;
    static constexpr std::uint32_t empty_slot = ~std::uint32_t{0};
    template <class Same>
    [[nodiscard]] std::size_t position(std::size_t hash, const Same& same) const noexcept;
    void index_all();

    std::vector<value::pair> members_;
    std::vector<std::uint32_t> slots_;  ///< open addressing, a power of two; empty while there are few members
    std::uint32_t depth_ = 1;
};

/// Depth of nesting: 0 for scalars.
[[nodiscard]] std::uint32_t depth_of(const value& v) noexcept;
/// Hash that agrees with equality of keys (1, 1.0 and true are one key); nothing if `key` can't be a key.
[[nodiscard]] std::optional<std::size_t> hash_of(const value& key) noexcept;
/// Equality of two values that can be keys.
[[nodiscard]] bool same_key(const value& a, const value& b) noexcept;
/// True if the integer and the double are the same number, without rounding either.
[[nodiscard]] inline bool same_number(std::int64_t a, double b) noexcept {
    return b >= -9223372036854775808.0 && b < 9223372036854775808.0 && static_cast<std::int64_t>(b) == a &&
           static_cast<double>(static_cast<std::int64_t>(b)) == b;
}

}  // namespace detail
}  // namespace colibri::jinja
