// Many short texts in one block of memory, and finding one of them by its bytes.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace colibri::text {

/// Texts 0, 1, 2, ... one behind the other. All together at most 4 GiB - 1 (`fits` tells).
class text_pool {
public:
    [[nodiscard]] std::size_t size() const noexcept { return ends_.size(); }
    [[nodiscard]] std::string_view operator[](std::size_t i) const noexcept {
        const std::uint32_t begin = i == 0 ? 0 : ends_[i - 1];
        return {bytes_.data() + begin, ends_[i] - begin};
    }
    [[nodiscard]] bool fits(std::size_t more) const noexcept { return more <= 0xFFFFFFFFu - bytes_.size(); }
    /// Precondition: fits(text.size()).
    void add(std::string_view text) {
        bytes_ += text;
        ends_.push_back(static_cast<std::uint32_t>(bytes_.size()));
    }
    void reserve(std::size_t texts, std::size_t bytes) {
        ends_.reserve(texts);
        bytes_.reserve(bytes);
    }

private:
    std::string bytes_;
    std::vector<std::uint32_t> ends_;
};

/// Hash of a short text: the bytes eight at a time, multiplied and folded.
[[nodiscard]] inline std::uint64_t hash_text(std::string_view text) noexcept {
    constexpr std::uint64_t odd = 0x9E3779B97F4A7C15u;
    std::uint64_t hash = text.size() * odd;
    const char* at = text.data();
    std::size_t left = text.size();
    const auto mix = [&](std::uint64_t word) {
        hash = (hash ^ word) * odd;
        hash ^= hash >> 32;
    };
    for (; left >= 8; left -= 8, at += 8) {
        std::uint64_t word;
        std::memcpy(&word, at, 8);
        mix(word);
    }
    if (left != 0) {
        std::uint64_t word = 0;
        std::memcpy(&word, at, left);
        mix(word);
    }
    hash *= odd;
    return hash ^ (hash >> 29);
}

/// Finds texts of a pool by their bytes. The pool is passed to each call and must be the same one, and unchanged for
/// the numbers that are in the index.
class text_index {
public:
    static constexpr std::int32_t none = -1;

    /// Makes room for `count` texts, so that inserting them doesn't move anything.
    void reserve(const text_pool& pool, std::size_t count) {
        std::vector<slot> old(std::bit_ceil(count * 2 + 2));
        old.swap(slots_);
        for (const slot& one : old) {
            if (one.number == none) continue;
            const std::string_view text = pool[static_cast<std::size_t>(one.number)];
            *place(pool, text, hash_text(text)) = one;
        }
    }

    /// Adds text `number` of the pool; returns the number that has the same text already (and keeps that), or `none`.
    std::int32_t insert(const text_pool& pool, std::int32_t number) {
        if ((count_ + 1) * 2 > slots_.size()) reserve(pool, count_ * 2);
        const std::string_view text = pool[static_cast<std::size_t>(number)];
        const std::uint64_t hash = hash_text(text);
        slot* found = place(pool, text, hash);
        if (found->number != none) return found->number;
        *found = {static_cast<std::uint32_t>(hash >> 32), number};
        ++count_;
        return none;
    }

    /// Number of the text, or `none`. O(1).
    [[nodiscard]] std::int32_t find(const text_pool& pool, std::string_view text) const noexcept {
        if (slots_.empty()) return none;
        return const_cast<text_index*>(this)->place(pool, text, hash_text(text))->number;
    }

private:
    struct slot {
        std::uint32_t tag = 0;
        std::int32_t number = none;
    };
    [[nodiscard]] slot* place(const text_pool& pool, std::string_view text, std::uint64_t hash) noexcept {
        const std::size_t mask = slots_.size() - 1;
        const auto tag = static_cast<std::uint32_t>(hash >> 32);
        for (std::size_t i = hash & mask;; i = (i + 1) & mask) {
            slot& here = slots_[i];
            if (here.number == none) return &here;
            if (here.tag == tag && pool[static_cast<std::size_t>(here.number)] == text) return &here;
        }
    }

    std::vector<slot> slots_;
    std::size_t count_ = 0;
};

}  // namespace colibri::text
