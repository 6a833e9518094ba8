// Texts at which DRY stops looking for repetition.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "colibri/sampling/history.hpp"

namespace colibri::sampling {

/// Bytes that a token stands for, as generated text would have them. Valid at least until the next call.
using piece_fn = std::function<std::string_view(token_id)>;

/// Finds breakers in a token history. A breaker counts wherever it stands in the text, also across the border of two
/// tokens, however the text around it was cut. Keeps what it needs of the vocabulary; 1 byte per token if there are
/// breakers.
class dry_breakers {
public:
    dry_breakers() = default;

    /// Looks at the pieces of ids 0 to vocabulary - 1. Empty breakers are passed over.
    dry_breakers(const std::vector<std::string>& breakers, std::size_t vocabulary, const piece_fn& piece);

    /// Whether the token has a whole breaker in itself.
    [[nodiscard]] bool whole(token_id token) const noexcept { return role(token) == has_breaker; }

    /// How many of the newest tokens lie behind the last breaker; history.size() if there is none.
    [[nodiscard]] std::size_t tokens_since(const token_history& history) const;

private:
    static constexpr std::uint8_t nothing = 0;
    static constexpr std::uint8_t may_begin = 1;
    static constexpr std::uint8_t has_breaker = 2;

    [[nodiscard]] std::uint8_t role(token_id token) const noexcept {
        const auto id = static_cast<std::size_t>(token);
        return token >= 0 && id < role_.size() ? role_[id] : nothing;
    }
    [[nodiscard]] std::string_view piece(token_id token) const {
        const auto found = pieces_.find(token);
        return found == pieces_.end() ? std::string_view() : std::string_view(found->second);
    }
    [[nodiscard]] std::size_t tail(std::string_view rest, const token_history& history, std::size_t age) const;

    std::vector<std::string> breakers_;
    std::vector<std::uint8_t> role_;                    ///< by id
    std::unordered_map<token_id, std::string> pieces_;  ///< of tokens that can be a part of a breaker
};

inline dry_breakers::dry_breakers(const std::vector<std::string>& breakers, std::size_t vocabulary,
                                  const piece_fn& piece) {
    for (const auto& one : breakers) {
        if (!one.empty()) breakers_.push_back(one);
    }
    if (breakers_.empty()) return;
    role_.assign(vocabulary, nothing);
    for (std::size_t id = 0; id < vocabulary; ++id) {
        const auto token = static_cast<token_id>(id);
        const std::string_view text = piece(token);
        if (text.empty()) continue;
        bool inside = false;
        for (const std::string_view breaker : breakers_) {
            if (text.find(breaker) != std::string_view::npos) {
                role_[id] = has_breaker;
                break;
            }
            for (std::size_t cut = 1; cut < breaker.size(); ++cut) {
                // Does the text end with the breaker's beginning; can it go on with the rest of the breaker?
                if (text.ends_with(breaker.substr(0, cut))) role_[id] = may_begin;
                const std::string_view rest = breaker.substr(cut);
                inside = inside || rest.starts_with(text) || text.starts_with(rest);
            }
        }
        if (role_[id] != has_breaker && (role_[id] == may_begin || inside)) pieces_.emplace(token, text);
        if (role_[id] == has_breaker && inside) pieces_.emplace(token, text);
    }
}

inline std::size_t dry_breakers::tokens_since(const token_history& history) const {
    if (breakers_.empty()) return history.size();
    for (std::size_t age = 0; age < history.size(); ++age) {
        const std::uint8_t kind = role(history[age]);
        if (kind == nothing) continue;
        if (kind == has_breaker) return age;
        const std::string_view text = piece(history[age]);
        std::size_t longest = 0;
        for (const std::string_view breaker : breakers_) {
            for (std::size_t cut = 1; cut < breaker.size(); ++cut) {
                if (!text.ends_with(breaker.substr(0, cut))) continue;
                longest = std::max(longest, tail(breaker.substr(cut), history, age));
            }
        }
        if (longest > 0) return age - longest;
    }
    return history.size();
}

// How many tokens newer than `age` hold `rest`, which they must begin with; 0 if they don't.
inline std::size_t dry_breakers::tail(std::string_view rest, const token_history& history, std::size_t age) const {
    std::size_t used = 0;
    while (!rest.empty()) {
        if (used == age) return 0;
        const std::string_view text = piece(history[age - 1 - used]);
        ++used;
        if (text.empty()) return 0;
        if (text.starts_with(rest)) return used;
        if (!rest.starts_with(text)) return 0;
        rest.remove_prefix(text.size());
    }
    return used;
}

}  // namespace colibri::sampling
