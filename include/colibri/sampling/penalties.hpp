// Steps that change single logits: fixed biases, and penalties for tokens that the text already has.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "colibri/sampling/candidates.hpp"
#include "colibri/sampling/history.hpp"

namespace colibri::sampling {

/// A number added to a token's logit; minus infinity forbids the token.
struct bias {
    token_id id = 0;
    float amount = 0.0f;

    friend bool operator==(const bias&, const bias&) = default;
};

/// Adds fixed amounts to logits. Several biases of one token add up; ids that the vocabulary doesn't have do nothing.
class logit_bias {
public:
    logit_bias() = default;
    explicit logit_bias(std::span<const bias> biases);

    void operator()(candidates& c) const {
        if (!ids_.empty()) c.change(ids_, [this](std::size_t i, float logit) { return logit + amounts_[i]; });
    }
    [[nodiscard]] bool empty() const noexcept { return ids_.empty(); }

private:
    std::vector<token_id> ids_;
    std::vector<float> amounts_;
};

/// Lowers the logits of tokens among the last `last_n`: divided by `repeat` where positive, multiplied where negative
/// (Keskar et al. 2019, with the sign corrected), then less `frequency` times the number of occurrences, less
/// `presence`. `last_n` 0 does nothing, below 0 means the whole text. Cost: O(distinct tokens in the window).
class penalties {
public:
    penalties(std::int32_t last_n, float repeat, float frequency = 0.0f, float presence = 0.0f)
        : repeat_(repeat),
          frequency_(frequency),
          presence_(presence),
          history_(last_n < 0 ? token_history::unlimited : static_cast<std::size_t>(last_n)) {}

    void operator()(candidates& c);
    void accept(token_id token);
    void reset();

private:
    struct entry {
        std::uint32_t count = 0;
        bool listed = false;
    };

    float repeat_;
    float frequency_;
    float presence_;
    token_history history_;
    std::vector<entry> seen_;         ///< by id
    std::vector<token_id> distinct_;  ///< ids in the window, and some that left it since
};

inline logit_bias::logit_bias(std::span<const bias> biases) {
    std::vector<bias> sorted(biases.begin(), biases.end());
    std::stable_sort(sorted.begin(), sorted.end(), [](const bias& a, const bias& b) { return a.id < b.id; });
    for (const auto& one : sorted) {
        if (!ids_.empty() && ids_.back() == one.id) {
            amounts_.back() += one.amount;
        } else {
            ids_.push_back(one.id);
            amounts_.push_back(one.amount);
        }
    }
}

inline void penalties::operator()(candidates& c) {
    if (history_.size() == 0 || (repeat_ == 1.0f && frequency_ == 0.0f && presence_ == 0.0f)) return;
    std::size_t kept = 0;
    for (const token_id id : distinct_) {
        auto& one = seen_[static_cast<std::size_t>(id)];
        one.listed = one.count > 0;
        if (one.listed) distinct_[kept++] = id;
    }
    distinct_.resize(kept);
    // In double, products of two floats or of a float and a count are exact: fused or not, the result is the same.
    c.change(distinct_, [this](std::size_t i, float logit) {
        const auto count = static_cast<double>(seen_[static_cast<std::size_t>(distinct_[i])].count);
        const auto factor = static_cast<double>(repeat_);
        const auto before = static_cast<double>(logit);
        const double repeated = before > 0.0 ? before / factor : before * factor;
        const double less = count * static_cast<double>(frequency_) + static_cast<double>(presence_);
        constexpr auto most = static_cast<double>(largest_logit);
        return static_cast<float>(std::clamp(repeated - less, -most, most));
    });
}

inline void penalties::accept(token_id token) {
    if (token < 0 || history_.limit() == 0) return;
    if (history_.full()) --seen_[static_cast<std::size_t>(history_[history_.size() - 1])].count;
    history_.push(token);
    const auto id = static_cast<std::size_t>(token);
    if (id >= seen_.size()) seen_.resize(std::max(id + 1, seen_.size() * 2));
    ++seen_[id].count;
    if (!seen_[id].listed) {
        seen_[id].listed = true;
        distinct_.push_back(token);
    }
}

inline void penalties::reset() {
    for (const token_id id : distinct_) seen_[static_cast<std::size_t>(id)] = {};
    distinct_.clear();
    history_.clear();
}

}  // namespace colibri::sampling
