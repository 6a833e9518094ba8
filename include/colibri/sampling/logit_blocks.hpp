// The logits of a whole vocabulary, changed here and there, read block by block without a copy.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace colibri::sampling {

/// Number of a token in the vocabulary; the same type as text::token_id.
using token_id = std::int32_t;

/// Candidates' logits lie between minus and plus this.
inline constexpr float largest_logit = std::numeric_limits<float>::max();

namespace detail {

/// Whether a token with this logit can be chosen: not for minus infinity and NaN.
[[nodiscard]] inline bool possible(float logit) noexcept { return logit > -std::numeric_limits<float>::infinity(); }

/// Logits of all tokens: those loaded, with single ones replaced, then all divided by one number. Everything is in order of
/// ids, in blocks of 64. Plus infinity counts as the largest float. Allocates for the first token of a vocabulary only.
class logit_blocks {
public:
    static constexpr std::size_t width = 64;

    /// Starts over. The memory must stay while it is read from here.
    void load(std::span<const float> logits) noexcept {
        forget_changes();
        logits_ = logits;
        divisor_ = 1.0f;
        maxima_known_ = false;
    }

    [[nodiscard]] std::size_t tokens() const noexcept { return logits_.size(); }
    [[nodiscard]] std::size_t blocks() const noexcept { return (logits_.size() + width - 1) / width; }
    [[nodiscard]] bool contains(token_id id) const noexcept { return id >= 0 && static_cast<std::size_t>(id) < logits_.size(); }

    /// Sets logit = change(index in `ids`, logit) where that logit is possible. Precondition: not divided.
    template <class Change>
    void change(std::span<const token_id> ids, Change&& change);

    /// Divides all logits by t > 0. Precondition: not divided.
    void divide(float t) noexcept { divisor_ = t; }
    [[nodiscard]] bool divided() const noexcept { return divisor_ != 1.0f; }

    /// Reads one block into `out`, the rest of the last one minus infinity; returns how many tokens are in it.
    std::size_t read(std::size_t block, float (&out)[width]) const noexcept;

    /// Finds the largest logit of each block.
    void find_maxima();
    /// The largest logit of a block, of all; minus infinity where none is possible. Preconditions: find_maxima was called.
    [[nodiscard]] float maximum(std::size_t block) const noexcept { return quotient(maxima_[block]); }
    [[nodiscard]] float best() const noexcept;
    /// The count-th largest (from 1) of the blocks' maxima: at least `count` logits reach it.
    [[nodiscard]] float reached_by(std::size_t count);

    /// Takes all changes back, so that the room for them is free.
    void forget_changes() noexcept {
        for (const auto& one : changes_) slot_[static_cast<std::size_t>(one.id)] = 0;
        changes_.clear();
    }
    /// One number per id, all 0 while no change is kept.
    [[nodiscard]] std::vector<std::uint32_t>& slots() {
        if (slot_.size() < logits_.size()) slot_.resize(logits_.size(), 0);
        return slot_;
    }

private:
    static constexpr float impossible = -std::numeric_limits<float>::infinity();

    struct changed {
        token_id id;
        float logit;
    };

    [[nodiscard]] static float limited(float logit) noexcept { return largest_logit < logit ? largest_logit : logit; }
    [[nodiscard]] float quotient(float logit) const noexcept {
        if (divisor_ == 1.0f) return logit;
        const float q = std::clamp(logit / divisor_, -largest_logit, largest_logit);
        return possible(logit) ? q : logit;
    }

    std::span<const float> logits_;
    float divisor_ = 1.0f;
    std::vector<changed> changes_;
    std::vector<std::uint32_t> slot_;  ///< per id: 1 + place in changes_; 0 elsewhere
    std::vector<float> maxima_;        ///< of each block, not divided
    bool maxima_known_ = false;
    std::vector<float> reordered_;     ///< maxima_
};

template <class Change>
void logit_blocks::change(std::span<const token_id> ids, Change&& change) {
    auto& slots_by_id = slots();
    for (std::size_t i = 0; i < ids.size(); ++i) {
        if (!contains(ids[i])) continue;
        auto& slot = slots_by_id[static_cast<std::size_t>(ids[i])];
        if (slot == 0) {
            changes_.push_back({ids[i], limited(logits_[static_cast<std::size_t>(ids[i])])});
            slot = static_cast<std::uint32_t>(changes_.size());
        }
        auto& logit = changes_[slot - 1].logit;
        if (possible(logit)) logit = limited(change(i, logit));
    }
    maxima_known_ = false;
}

// Loops over a whole block become vectors; what the last, shorter one lacks is filled up.
inline std::size_t logit_blocks::read(std::size_t block, float (&out)[width]) const noexcept {
    const std::size_t begin = block * width;
    const std::size_t count = std::min(width, logits_.size() - begin);
    if (count == width) std::memcpy(out, logits_.data() + begin, sizeof out);
    else {
        std::fill(out, out + width, impossible);
        std::copy_n(logits_.data() + begin, count, out);
    }
    for (float& logit : out) logit = limited(logit);
    if (!changes_.empty()) {
        for (std::size_t i = 0; i < count; ++i) {
            if (slot_[begin + i] != 0) out[i] = changes_[slot_[begin + i] - 1].logit;
        }
    }
    if (divisor_ != 1.0f) {
        for (float& logit : out) {
            const float q = logit / divisor_;
            const float low = q < -largest_logit ? -largest_logit : q;
            const float held = largest_logit < low ? largest_logit : low;
            logit = logit > impossible ? held : logit;
        }
    }
    return count;
}

// 16 lanes of elementwise comparisons become vector maxima without -ffast-math, as one reduction would not; a NaN loses
// every comparison.
inline void logit_blocks::find_maxima() {
    if (maxima_known_) return;
    constexpr std::size_t lanes = 16;
    maxima_.resize(blocks());
    const auto largest = [](const float* from) {
        float lane[lanes];
        for (std::size_t j = 0; j < lanes; ++j) lane[j] = impossible;
        for (std::size_t i = 0; i < width; i += lanes) {
            for (std::size_t j = 0; j < lanes; ++j) lane[j] = from[i + j] > lane[j] ? from[i + j] : lane[j];
        }
        for (std::size_t half = lanes / 2; half > 0; half /= 2) {
            for (std::size_t j = 0; j < half; ++j) lane[j] = lane[j + half] > lane[j] ? lane[j + half] : lane[j];
        }
        return lane[0];
    };
    const float divisor = std::exchange(divisor_, 1.0f);
    const auto again = [&](std::size_t block) {
        float logits[width];
        read(block, logits);
        maxima_[block] = largest(logits);
    };
    const std::size_t whole = logits_.size() / width;
    for (std::size_t b = 0; b < whole; ++b) maxima_[b] = limited(largest(logits_.data() + b * width));
    if (whole < maxima_.size()) again(whole);
    constexpr float unknown = std::numeric_limits<float>::quiet_NaN();
    for (const auto& one : changes_) maxima_[static_cast<std::size_t>(one.id) / width] = unknown;
    for (const auto& one : changes_) {
        const std::size_t b = static_cast<std::size_t>(one.id) / width;
        if (maxima_[b] != maxima_[b]) again(b);
    }
    divisor_ = divisor;
    maxima_known_ = true;
}

inline float logit_blocks::best() const noexcept {
    float most = impossible;
    for (const float one : maxima_) most = std::max(most, one);
    return quotient(most);
}

inline float logit_blocks::reached_by(std::size_t count) {
    reordered_.assign(maxima_.begin(), maxima_.end());
    const auto nth = reordered_.begin() + static_cast<std::ptrdiff_t>(count - 1);
    std::nth_element(reordered_.begin(), nth, reordered_.end(), std::greater<>{});
    return quotient(*nth);
}

}  // namespace detail
}  // namespace colibri::sampling
