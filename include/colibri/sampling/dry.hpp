// "Don't repeat yourself": a penalty for tokens that would go on with a repetition.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "colibri/sampling/candidates.hpp"
#include "colibri/sampling/dry_breakers.hpp"
#include "colibri/sampling/history.hpp"

namespace colibri::sampling {

/// Numbers of the DRY penalty. multiplier 0 or last_n 0: off; last_n below 0: the whole text.
struct dry_settings {
    float multiplier = 0.0f;
    float base = 1.75f;
    std::int32_t allowed_length = 2;
    std::int32_t last_n = -1;
};

/// If the last n tokens of the text stand in it before, n >= allowed_length, the token that followed them there loses
/// multiplier * base^(n - allowed_length) of its logit. Repetitions are not followed beyond a breaker; a token that
/// holds a breaker is never penalised. (The idea and the names of its settings are those of its inventor's pull request
/// to text-generation-webui, 2024.) Cost: O(tokens in the window).
class dry {
public:
    explicit dry(const dry_settings& settings, dry_breakers breakers = {})
        : settings_(settings),
          breakers_(std::move(breakers)),
          history_(settings.last_n < 0 ? token_history::unlimited : static_cast<std::size_t>(settings.last_n)) {}

    void operator()(candidates& c);
    void accept(token_id token) {
        if (on()) history_.push(token);
    }
    void reset() { history_.clear(); }

private:
    struct repeated {
        token_id next;         ///< the token that went on after a repetition
        std::uint32_t length;  ///< of that repetition, in tokens
    };

    [[nodiscard]] bool on() const noexcept {
        return settings_.multiplier != 0.0f && settings_.base >= 1.0f && settings_.last_n != 0;
    }
    void measure(std::size_t limit);
    [[nodiscard]] float penalty(std::uint32_t length) const;

    dry_settings settings_;
    dry_breakers breakers_;
    token_history history_;
    std::vector<std::uint32_t> match_;
    std::vector<repeated> found_;
    std::vector<token_id> ids_;
};

// match_[k]: how many of the newest tokens equal those k places further back, at most. The Z-function (Gusfield,
// "Algorithms on Strings, Trees and Sequences", 1.4) of the history read backwards: [left, right) is the match that
// reaches furthest.
inline void dry::measure(std::size_t limit) {
    const std::size_t size = history_.size();
    match_.assign(size, 0);
    std::size_t left = 0;
    std::size_t right = 0;
    for (std::size_t k = 1; k < size; ++k) {
        std::size_t length = k < right ? std::min<std::size_t>(match_[k - left], right - k) : 0;
        while (k + length < size && history_[length] == history_[k + length]) ++length;
        if (k + length > right) {
            left = k;
            right = k + length;
        }
        match_[k] = static_cast<std::uint32_t>(length);
    }
    for (auto& length : match_) length = static_cast<std::uint32_t>(std::min<std::size_t>(length, limit));
}

inline float dry::penalty(std::uint32_t length) const {
    // Powers by multiplication are the same everywhere; they end where a float does.
    double power = 1.0;
    for (auto n = static_cast<std::uint32_t>(std::max(settings_.allowed_length, 0)); n < length && power < 1e38; ++n) {
        power *= static_cast<double>(settings_.base);
        if (settings_.base == 1.0f) break;
    }
    return static_cast<float>(std::min(power, 1e38) * static_cast<double>(settings_.multiplier));
}

inline void dry::operator()(candidates& c) {
    const auto allowed = static_cast<std::size_t>(std::max(settings_.allowed_length, 0));
    if (!on() || history_.size() <= allowed) return;
    const std::size_t limit = breakers_.tokens_since(history_);
    if (limit < allowed) return;
    measure(limit);
    found_.clear();
    for (std::size_t k = 1; k < match_.size(); ++k) {
        const token_id next = history_[k - 1];
        if (match_[k] >= allowed && !breakers_.whole(next)) found_.push_back({next, match_[k]});
    }
    std::sort(found_.begin(), found_.end(), [](const repeated& a, const repeated& b) {
        return a.next != b.next ? a.next < b.next : a.length > b.length;
    });
    const auto last = std::unique(found_.begin(), found_.end(),
                                  [](const repeated& a, const repeated& b) { return a.next == b.next; });
    found_.erase(last, found_.end());
    ids_.clear();
    for (const auto& one : found_) ids_.push_back(one.next);
    c.change(ids_, [this](std::size_t i, float logit) {
        return std::clamp(logit - penalty(found_[i].length), -largest_logit, largest_logit);
    });
}

}  // namespace colibri::sampling
