// Joining neighbours, best pair first: the loop that SentencePiece's BPE and byte-level BPE share.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace colibri::text {

/// A stretch of text while it is merged. `id` is a token or whatever the caller's look-up understands.
struct merge_symbol {
    std::uint32_t begin;
    std::uint32_t size;
    std::int32_t id;
};

/// What two neighbours become, and how soon: lower ranks first, of equal ones the leftmost.
struct merge {
    static constexpr std::uint32_t never = 0xFFFFFFFF;
    std::uint32_t rank = never;
    std::int32_t id = -1;
};

/// Memory that `merge_all` uses again from call to call.
struct merge_memory {
    struct pair {
        std::uint32_t rank, left, size;
        std::int32_t id;
    };
    std::vector<merge> merges;
    std::vector<pair> queue;
    std::vector<std::uint32_t> next, previous;
};

namespace detail {

/// For few symbols: looks for the best pair again after each merge. O(n^2), but fastest up to some dozens.
template <class Lookup>
void merge_few(std::vector<merge_symbol>& symbols, merge_memory& memory, Lookup&& lookup) {
    auto& merges = memory.merges;  // merges[i]: of symbols i and i + 1
    const std::size_t pairs = symbols.size() - 1;
    merges.resize(pairs);
    for (std::size_t i = 0; i < pairs; ++i) merges[i] = lookup(symbols[i], symbols[i + 1]);
    while (!merges.empty()) {
        std::size_t best = 0;
        for (std::size_t i = 1; i < merges.size(); ++i) {
            if (merges[i].rank < merges[best].rank) best = i;
        }
        if (merges[best].rank == merge::never) break;
        symbols[best].size += symbols[best + 1].size;
        symbols[best].id = merges[best].id;
        symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
        merges.erase(merges.begin() + static_cast<std::ptrdiff_t>(best));
        if (best < merges.size()) merges[best] = lookup(symbols[best], symbols[best + 1]);
        if (best > 0) merges[best - 1] = lookup(symbols[best - 1], symbols[best]);
    }
}

/// For many: a heap of pairs, of which outdated ones are dropped when they come up. O(n log n).
template <class Lookup>
void merge_many(std::vector<merge_symbol>& symbols, merge_memory& memory, Lookup&& lookup) {
    using pair = merge_memory::pair;
    const auto later = [](const pair& a, const pair& b) {
        return a.rank != b.rank ? a.rank > b.rank : a.left > b.left;
    };
    const auto count = static_cast<std::uint32_t>(symbols.size());
    auto& next = memory.next;
    auto& previous = memory.previous;
    auto& queue = memory.queue;
    next.resize(count);
    previous.resize(count);
    queue.clear();
    const auto look = [&](std::uint32_t left, std::uint32_t right) {
        const merge found = lookup(symbols[left], symbols[right]);
        if (found.rank == merge::never) return false;
        queue.push_back({found.rank, left, symbols[left].size + symbols[right].size, found.id});
        return true;
    };
    for (std::uint32_t i = 0; i < count; ++i) {
        next[i] = i + 1;
        previous[i] = i - 1;
        if (i > 0) (void)look(i - 1, i);
    }
    std::make_heap(queue.begin(), queue.end(), later);
    while (!queue.empty()) {
        const pair best = queue.front();
        std::pop_heap(queue.begin(), queue.end(), later);
        queue.pop_back();
        merge_symbol& left = symbols[best.left];
        const std::uint32_t right = next[best.left];
        // Sizes only grow, so equal ones mean that both sides are what they were. A symbol of size 0 was merged away.
        if (left.size == 0 || right >= count || left.size + symbols[right].size != best.size) continue;
        left.size = best.size;
        left.id = best.id;
        symbols[right].size = 0;
        const std::uint32_t after = next[best.left] = next[right];
        if (after < count) {
            previous[after] = best.left;
            if (look(best.left, after)) std::push_heap(queue.begin(), queue.end(), later);
        }
        if (best.left > 0 && look(previous[best.left], best.left)) std::push_heap(queue.begin(), queue.end(), later);
    }
    std::erase_if(symbols, [](const merge_symbol& one) { return one.size == 0; });
}

}  // namespace detail

/// Merges `symbols` (neighbours in a text, none empty) until `lookup(merge_symbol left, merge_symbol right) -> merge`
/// finds nothing more. O(n log n).
template <class Lookup>
void merge_all(std::vector<merge_symbol>& symbols, merge_memory& memory, Lookup&& lookup) {
    constexpr std::size_t few =
        128;  // measured on an AMD EPYC with GPT-2's merges: the heap is faster from about 190 on
    if (symbols.size() < 2) return;
    if (symbols.size() <= few) {
        detail::merge_few(symbols, memory, lookup);
    } else {
        detail::merge_many(symbols, memory, lookup);
    }
}

}  // namespace colibri::text
