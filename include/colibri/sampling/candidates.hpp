// The tokens that may come next, as a range that steps narrow and change.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "colibri/sampling/weight.hpp"

namespace colibri::sampling {

/// Number of a token in the vocabulary; the same type as text::token_id.
using token_id = std::int32_t;

/// Candidates' logits lie between minus and plus this.
inline constexpr float largest_logit = std::numeric_limits<float>::max();

/// One token that may come next. `probability` is among the candidates that remain, after `normalize()`.
struct candidate {
    token_id id = -1;
    float logit = 0.0f;
    float probability = 0.0f;
};

/// The order of candidates: highest logit first, equal ones by id. It is total, so every selection is unique.
struct better {
    [[nodiscard]] constexpr bool operator()(const candidate& a, const candidate& b) const noexcept {
        return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
    }
};

/// Reusable storage of the candidates of one token: after the first token of a vocabulary nothing is allocated.
/// `load` only remembers the logits. While every token is still in play, changes are kept beside them and the best ones
/// are found by passing over the logits, so that neither greedy decoding nor top-k copies a vocabulary; the list of
/// candidates is made when a step first needs it. NaN and minus infinity are never candidates; plus infinity counts as
/// the largest float. A range (contiguous, of `candidate`); iterating makes the list. Not thread-safe.
class candidates {
public:
    candidates() = default;
    explicit candidates(std::span<const float> logits) { load(logits); }

    /// Starts over with one logit per token, index = id. The memory must stay until the list was made or replaced.
    void load(std::span<const float> logits);

    /// Sets logit = change(index in `ids`, logit) for each candidate in `ids` (distinct; ids that are no candidates are
    /// passed over). A result of NaN or minus infinity removes the candidate.
    template <class Change>
    void change(std::span<const token_id> ids, Change&& change);

    /// Sets logit = change(logit), finite and of the same order, for all candidates. Makes the list.
    template <class Change>
    void change_all(Change&& change);

    /// Keeps the best `count` (at least 1), sorted.
    void keep_best(std::size_t count);

    /// Keeps the candidates whose logit is at least `least`.
    void keep_at_least(float least);

    /// Removes candidates for which `keep(candidate)` is false, in order; the others keep their order.
    template <class Keep>
    void keep_if(Keep&& keep);

    /// Makes the first `count` candidates (or all) the best ones, sorted.
    void sort_front(std::size_t count);
    void sort() { sort_front(size()); }

    /// Sorts and removes the first `count` candidates; at least one stays.
    void drop_front(std::size_t count);

    /// Sets the probabilities of all that remain.
    void normalize();

    /// Logit of the best candidate; minus infinity if there is none.
    [[nodiscard]] float best();
    /// Sum of all weights (see weight.hpp); at least 2^40.
    [[nodiscard]] std::uint64_t total_weight();
    [[nodiscard]] std::uint64_t weight(const candidate& of) { return detail::weight(best(), of.logit); }

    /// Number of logits that were loaded.
    [[nodiscard]] std::size_t vocabulary() const noexcept { return logits_.size(); }
    [[nodiscard]] std::size_t size() { return list().size(); }
    [[nodiscard]] bool empty() { return listed_ ? list_.empty() : !possible(best()); }
    [[nodiscard]] const candidate* begin() { return list().data(); }
    [[nodiscard]] const candidate* end() { return list().data() + list().size(); }
    [[nodiscard]] const candidate& operator[](std::size_t index) { return list()[index]; }

    /// Marks the chosen candidate; its probability is set.
    void choose(std::size_t index);
    [[nodiscard]] bool chosen() const noexcept { return chosen_; }
    /// The chosen candidate; id -1 if nobody chose.
    [[nodiscard]] const candidate& choice() const noexcept { return choice_; }

    /// Whether the order is by id or sorted, hence independent of how selections are done inside.
    [[nodiscard]] bool canonical_order() { return sorted_ == list().size() || by_id_; }

private:
    static constexpr std::size_t block = 64;
    static constexpr float impossible = -std::numeric_limits<float>::infinity();

    const std::vector<candidate>& list() {
        if (!listed_) make_list();
        return list_;
    }
    [[nodiscard]] static float limited(float logit) noexcept { return std::min(logit, largest_logit); }
    [[nodiscard]] static bool possible(float logit) noexcept { return logit > impossible; }  // false for NaN too
    [[nodiscard]] float current(std::size_t id) const noexcept {
        if (!overrides_.empty() && slot_[id] != 0) return overrides_[slot_[id] - 1].logit;
        return logits_[id];
    }
    void make_list();
    void forget_overrides() noexcept;
    void find_block_maxima();
    [[nodiscard]] float scan_block(std::size_t b) const;
    void gather(float least);

    std::span<const float> logits_;
    bool listed_ = true;
    bool by_id_ = true;        ///< list_ is in order of ids
    std::size_t sorted_ = 0;   ///< so many at the front of list_ are the best, in order
    std::uint64_t total_ = 0;  ///< 0: not known
    std::vector<candidate> list_;
    std::vector<candidate> overrides_;  ///< tokens with other logits than logits_ says, while there is no list
    std::vector<std::uint32_t> slot_;   ///< per id: 1 + place in overrides_ or in `ids` of change(); 0 elsewhere
    std::vector<float> block_max_;      ///< largest current logit of each block of ids
    bool maxima_known_ = false;
    std::vector<float> maxima_;  ///< block_max_, to be reordered
    bool chosen_ = false;
    candidate choice_;
};

inline void candidates::load(std::span<const float> logits) {
    forget_overrides();
    list_.clear();
    logits_ = logits;
    listed_ = false;
    maxima_known_ = false;
    by_id_ = true;
    sorted_ = 0;
    total_ = 0;
    chosen_ = false;
    choice_ = {};
}

inline void candidates::forget_overrides() noexcept {
    for (const auto& one : overrides_) slot_[static_cast<std::size_t>(one.id)] = 0;
    overrides_.clear();
}

inline void candidates::make_list() {
    list_.resize(logits_.size());
    std::size_t count = 0;
    for (std::size_t id = 0; id < logits_.size(); ++id) {
        const float logit = current(id);
        list_[count] = {static_cast<token_id>(id), limited(logit), 0.0f};
        count += possible(logit) ? 1 : 0;
    }
    list_.resize(count);
    forget_overrides();
    listed_ = true;
}

template <class Change>
void candidates::change(std::span<const token_id> ids, Change&& change) {
    if (slot_.size() < logits_.size()) slot_.resize(logits_.size(), 0);
    const auto known = [&](token_id id) { return id >= 0 && static_cast<std::size_t>(id) < logits_.size(); };
    if (!listed_) {
        for (std::size_t i = 0; i < ids.size(); ++i) {
            if (!known(ids[i])) continue;
            auto& slot = slot_[static_cast<std::size_t>(ids[i])];
            if (slot == 0) {
                overrides_.push_back({ids[i], limited(logits_[static_cast<std::size_t>(ids[i])]), 0.0f});
                slot = static_cast<std::uint32_t>(overrides_.size());
            }
            auto& logit = overrides_[slot - 1].logit;
            if (possible(logit)) logit = limited(change(i, logit));
        }
        maxima_known_ = false;
        return;
    }
    for (std::size_t i = 0; i < ids.size(); ++i) {
        if (known(ids[i])) slot_[static_cast<std::size_t>(ids[i])] = static_cast<std::uint32_t>(i + 1);
    }
    for (auto& one : list_) {
        const std::uint32_t slot = slot_[static_cast<std::size_t>(one.id)];
        if (slot != 0) one.logit = limited(change(std::size_t{slot} - 1, one.logit));
    }
    for (const token_id id : ids) {
        if (known(id)) slot_[static_cast<std::size_t>(id)] = 0;
    }
    sorted_ = 0;
    keep_if([](const candidate& one) { return possible(one.logit); });
}

template <class Change>
void candidates::change_all(Change&& change) {
    list();
    for (auto& one : list_) one.logit = change(one.logit);
    total_ = 0;
}

template <class Keep>
void candidates::keep_if(Keep&& keep) {
    list();
    std::size_t kept = 0;
    std::size_t sorted = 0;
    for (std::size_t i = 0; i < list_.size(); ++i) {
        if (!keep(static_cast<const candidate&>(list_[i]))) continue;
        if (i < sorted_) ++sorted;
        list_[kept++] = list_[i];
    }
    list_.resize(kept);
    sorted_ = sorted;
    total_ = 0;
}

// 16 lanes of elementwise comparisons become vector maxima without -ffast-math, as one reduction would not; a NaN loses
// every comparison.
inline void candidates::find_block_maxima() {
    if (maxima_known_) return;
    constexpr std::size_t lanes = 16;
    const std::size_t whole = logits_.size() / block;
    block_max_.resize((logits_.size() + block - 1) / block);
    for (std::size_t b = 0; b < whole; ++b) {
        const float* const from = logits_.data() + b * block;
        float lane[lanes];
        for (std::size_t j = 0; j < lanes; ++j) lane[j] = impossible;
        for (std::size_t i = 0; i < block; i += lanes) {
            for (std::size_t j = 0; j < lanes; ++j) lane[j] = from[i + j] > lane[j] ? from[i + j] : lane[j];
        }
        for (std::size_t width = lanes / 2; width > 0; width /= 2) {
            for (std::size_t j = 0; j < width; ++j) lane[j] = lane[j + width] > lane[j] ? lane[j + width] : lane[j];
        }
        block_max_[b] = lane[0];
    }
    if (whole < block_max_.size()) block_max_[whole] = scan_block(whole);
    constexpr float unknown = std::numeric_limits<float>::quiet_NaN();
    for (const auto& one : overrides_) block_max_[static_cast<std::size_t>(one.id) / block] = unknown;
    for (const auto& one : overrides_) {
        const std::size_t b = static_cast<std::size_t>(one.id) / block;
        if (block_max_[b] != block_max_[b]) block_max_[b] = scan_block(b);
    }
    maxima_known_ = true;
}

inline float candidates::scan_block(std::size_t b) const {
    float most = impossible;
    const std::size_t end = std::min(logits_.size(), (b + 1) * block);
    for (std::size_t id = b * block; id < end; ++id) {
        const float logit = current(id);
        most = logit > most ? logit : most;
    }
    return most;
}

inline void candidates::gather(float least) {
    list_.reserve(logits_.size());
    for (std::size_t b = 0; b < block_max_.size(); ++b) {
        if (!(block_max_[b] >= least)) continue;
        const std::size_t end = std::min(logits_.size(), (b + 1) * block);
        for (std::size_t id = b * block; id < end; ++id) {
            const float logit = current(id);
            if (logit >= least && possible(logit)) list_.push_back({static_cast<token_id>(id), limited(logit), 0.0f});
        }
    }
    forget_overrides();
    listed_ = true;
}

inline void candidates::keep_best(std::size_t count) {
    count = std::max<std::size_t>(count, 1);
    // At least `count` logits reach the count-th largest block maximum. While that is not among the smallest maxima,
    // few more do: with maxima of 64 independent logits 2 % of all where three quarters of the blocks are wanted.
    if (!listed_ && count <= logits_.size() / block / 4 * 3) {
        find_block_maxima();
        maxima_.assign(block_max_.begin(), block_max_.end());
        const auto nth = maxima_.begin() + static_cast<std::ptrdiff_t>(count - 1);
        std::nth_element(maxima_.begin(), nth, maxima_.end(), std::greater<>{});
        gather(*nth);
        // Minus infinity there means fewer than `count` blocks with candidates, all of which were gathered.
    }
    sort_front(std::min(count, size()));
    if (list_.size() > count) {
        list_.resize(count);
        total_ = 0;
    }
}

inline void candidates::keep_at_least(float least) {
    if (!listed_) {
        find_block_maxima();
        gather(least);
    } else {
        keep_if([least](const candidate& one) { return one.logit >= least; });
    }
}

inline void candidates::sort_front(std::size_t count) {
    list();
    count = std::min(count, list_.size());
    if (sorted_ >= count) return;
    const auto from = list_.begin() + static_cast<std::ptrdiff_t>(sorted_);
    const auto to = list_.begin() + static_cast<std::ptrdiff_t>(count);
    if (to != list_.end()) std::nth_element(from, to, list_.end(), better{});
    std::sort(from, to, better{});
    sorted_ = count;
    by_id_ = false;
}

inline void candidates::drop_front(std::size_t count) {
    if (empty()) return;
    count = std::min(count, list_.size() - 1);
    sort_front(list_.size());
    list_.erase(list_.begin(), list_.begin() + static_cast<std::ptrdiff_t>(count));
    sorted_ = list_.size();
    total_ = 0;
}

inline float candidates::best() {
    if (listed_ && sorted_ > 0) return list_.front().logit;
    float most = impossible;
    if (listed_) {
        for (const auto& one : list_) most = std::max(most, one.logit);
        return most;
    }
    find_block_maxima();
    for (const float one : block_max_) most = std::max(most, one);
    return limited(most);
}

inline std::uint64_t candidates::total_weight() {
    if (total_ == 0) {
        const float most = best();
        for (const auto& one : list()) total_ += detail::weight(most, one.logit);
    }
    return total_;
}

inline void candidates::normalize() {
    if (empty()) return;
    const float most = best();
    const auto total = static_cast<double>(total_weight());
    for (auto& one : list_) {
        one.probability = static_cast<float>(static_cast<double>(detail::weight(most, one.logit)) / total);
    }
}

inline void candidates::choose(std::size_t index) {
    choice_ = list()[index];
    choice_.probability =
        static_cast<float>(static_cast<double>(weight(choice_)) / static_cast<double>(total_weight()));
    chosen_ = true;
}

}  // namespace colibri::sampling
