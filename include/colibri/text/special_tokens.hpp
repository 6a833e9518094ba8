// Tokens that are cut out of the text before anything else happens to it.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "colibri/text/vocabulary.hpp"

namespace colibri::text {

/// Bytes begin..end of a text.
struct byte_range {
    std::size_t begin, end;
};

/// Finds special tokens in text: user-defined ones everywhere; control and unknown ones only where the caller trusts
/// the text. Immutable after `add`.
class special_tokens {
public:
    struct match {
        token_id id = no_token;
        std::size_t size = 0;
    };

    special_tokens() : nodes_(1) { first_.fill(0); }

    /// `text` from now on means `id`. An empty text is never found; of two ids with one text the first is kept.
    void add(std::string_view text, token_id id, bool needs_trust) {
        if (text.empty()) return;
        std::uint32_t at = 0;
        for (const char c : text) at = step_or_add(at, static_cast<std::uint8_t>(c));
        if (nodes_[at].id != no_token) return;
        nodes_[at].id = id;
        nodes_[at].needs_trust = needs_trust;
    }

    /// The longest token at `text[at]`; those that need trust must end by `trusted_end`.
    [[nodiscard]] match longest(std::string_view text, std::size_t at, std::size_t trusted_end) const noexcept {
        match best;
        std::uint32_t node = 0;
        for (std::size_t i = at; i < text.size(); ++i) {
            node = step(node, static_cast<std::uint8_t>(text[i]));
            if (node == 0) break;
            const node_type& here = nodes_[node];
            if (here.id != no_token && (!here.needs_trust || i + 1 <= trusted_end)) best = {here.id, i + 1 - at};
        }
        return best;
    }

    /// The token whose text is all of `text`, or `no_token`.
    [[nodiscard]] token_id find(std::string_view text) const noexcept {
        const match found = longest(text, 0, text.size());
        return found.size == text.size() ? found.id : no_token;
    }

    /// Calls `plain(std::string_view)` for each non-empty stretch of ordinary text and `special(token_id, size_t end)`
    /// for each token found, in order; of several that match, the one that starts first and then the longest wins.
    /// `special` returns where to go on. `trusted` are ranges in order that don't touch.
    template <class Plain, class Special>
    void cut(std::string_view text, const std::vector<byte_range>& trusted, Plain&& plain, Special&& special) const {
        std::size_t begin = 0, range = 0;
        for (std::size_t at = 0; at < text.size();) {
            if (first_[static_cast<std::uint8_t>(text[at])] == 0) {
                ++at;
                continue;
            }
            while (range < trusted.size() && trusted[range].end <= at) ++range;
            const bool in_range = range < trusted.size() && trusted[range].begin <= at;
            const match found = longest(text, at, in_range ? trusted[range].end : 0);
            if (found.size == 0) {
                ++at;
                continue;
            }
            if (begin < at) plain(text.substr(begin, at - begin));
            begin = at = special(found.id, at + found.size);
        }
        if (begin < text.size()) plain(text.substr(begin));
    }

private:
    /// A trie; children of a node are a list.
    struct node_type {
        std::uint32_t child = 0, sibling = 0;  // 0: none; the root is nobody's child
        token_id id = no_token;
        std::uint8_t byte = 0;
        bool needs_trust = false;
    };

    [[nodiscard]] std::uint32_t step(std::uint32_t node, std::uint8_t byte) const noexcept {
        if (node == 0) return first_[byte];
        std::uint32_t child = nodes_[node].child;
        while (child != 0 && nodes_[child].byte != byte) child = nodes_[child].sibling;
        return child;
    }
    std::uint32_t step_or_add(std::uint32_t node, std::uint8_t byte) {
        if (const std::uint32_t known = step(node, byte); known != 0) return known;
        const auto added = static_cast<std::uint32_t>(nodes_.size());
        nodes_.push_back({.sibling = node == 0 ? 0 : nodes_[node].child, .byte = byte});
        (node == 0 ? first_[byte] : nodes_[node].child) = added;
        return added;
    }

    std::vector<node_type> nodes_;
    std::array<std::uint32_t, 256> first_;
};

}  // namespace colibri::text
