// The keys and values of a GGUF file, in their order.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "colibri/gguf/value.hpp"

namespace colibri::gguf {

/// Keys with values, in file order, each key once. Look-up takes O(log n).
class metadata {
public:
    struct entry {
        std::string key;
        gguf::value value;
    };

    [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }
    [[nodiscard]] std::span<const entry> entries() const noexcept { return entries_; }
    [[nodiscard]] bool contains(std::string_view key) const { return find(key) != nullptr; }

    /// The value of a key, or null.
    [[nodiscard]] const value* find(std::string_view key) const {
        const auto at = index_.find(key);
        return at == index_.end() ? nullptr : &entries_[at->second].value;
    }

    /// The value of a key that must be there, as a T (see value::as). Errors: missing_key, bad_type, bad_value.
    template <class T>
    [[nodiscard]] result<T> get(std::string_view key) const {
        const value* found = find(key);
        if (found == nullptr) return missing(key);
        return named(found->as<T>(), key);
    }
    /// The same, or `fallback` when the key isn't there. Errors: bad_type, bad_value.
    template <class T>
    [[nodiscard]] result<T> get_or(std::string_view key, T fallback) const {
        const value* found = find(key);
        if (found == nullptr) return fallback;
        return named(found->as<T>(), key);
    }
    /// All elements of an array that must be there. Errors: missing_key, bad_type, bad_value.
    template <class T>
    [[nodiscard]] result<std::vector<T>> get_array(std::string_view key) const {
        const value* found = find(key);
        if (found == nullptr) return missing(key);
        return named(found->to_vector<T>(), key);
    }

    /// Puts a value under a key: in place of the old one, or at the end.
    void set(std::string_view key, value new_value) {
        if (const auto at = index_.find(key); at != index_.end()) {
            entries_[at->second].value = std::move(new_value);
        } else {
            insert(std::string(key), std::move(new_value));
        }
    }
    template <class T>
    requires std::is_arithmetic_v<T>
    void set(std::string_view key, T number) { set(key, value::of(number)); }
    void set(std::string_view key, std::string_view text) { set(key, value::of(text)); }
    void set(std::string_view key, const char* text) { set(key, value::of(std::string_view(text))); }

    /// Adds a key at the end; false (and no change) if it is there already.
    bool insert(std::string key, value new_value) {
        if (!index_.emplace(key, entries_.size()).second) return false;
        entries_.push_back({std::move(key), std::move(new_value)});
        return true;
    }
    /// Takes a key away; false if it wasn't there. O(n).
    bool remove(std::string_view key) {
        const auto at = index_.find(key);
        if (at == index_.end()) return false;
        const std::size_t gone = at->second;
        entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(gone));
        index_.erase(at);
        for (auto& [unused, place] : index_) {
            if (place > gone) --place;
        }
        return true;
    }

    [[nodiscard]] friend bool operator==(const metadata& a, const metadata& b) noexcept {
        if (a.size() != b.size()) return false;
        for (std::size_t i = 0; i < a.size(); ++i) {
            if (a.entries_[i].key != b.entries_[i].key || !(a.entries_[i].value == b.entries_[i].value)) return false;
        }
        return true;
    }

private:
    [[nodiscard]] static error missing(std::string_view key) {
        return error{errc::missing_key, concat("the metadata key ", quoted(key), " is missing")};
    }
    /// Puts the key in front of the message of a conversion that failed.
    template <class T>
    [[nodiscard]] static result<T> named(result<T> got, std::string_view key) {
        if (got) return got;
        auto e = std::move(got).error();
        e.message = concat("the metadata key ", quoted(key), " ", e.message);
        return e;
    }

    std::vector<entry> entries_;
    std::map<std::string, std::size_t, std::less<>> index_;
};

}  // namespace colibri::gguf
