// Steps that remove candidates: top-k, top-p, min-p, typical, top-n-sigma, XTC.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "colibri/core/math.hpp"
#include "colibri/sampling/candidates.hpp"
#include "colibri/sampling/random.hpp"

namespace colibri::sampling {

// All of these leave at least one candidate where there was one. `min_keep` is the least number that stays, if there
// are so many. What is compared with a probability is exact (see weight.hpp), so the same tokens stay on every machine.

/// Keeps the k most probable; k <= 0 keeps all.
struct top_k {
    std::int32_t k = 40;

    void operator()(candidates& c) const {
        if (k > 0) c.keep_best(static_cast<std::size_t>(k));
    }
};

/// Keeps the shortest run of most probable tokens that together reach probability p (nucleus sampling, Holtzman et al.
/// 2020).
struct top_p {
    float p = 0.95f;
    std::size_t min_keep = 1;

    void operator()(candidates& c) const;
};

/// Keeps tokens at least p times as probable as the best one (Nguyen et al. 2024).
struct min_p {
    float p = 0.05f;
    std::size_t min_keep = 1;

    void operator()(candidates& c) const;
};

/// Keeps the tokens whose surprise is nearest to the expected one until they have probability p (locally typical
/// sampling, Meister et al. 2023).
class typical {
public:
    float p = 0.95f;
    std::size_t min_keep = 1;

    explicit typical(float p_in, std::size_t min_keep_in = 1) : p(p_in), min_keep(min_keep_in) {}
    void operator()(candidates& c);

private:
    struct entry {
        std::uint64_t gap;  ///< distance from the expected surprise, units of 2^-40 bit
        token_id id;
        std::uint64_t weight;
    };
    std::vector<entry> order_;
};

/// Keeps tokens whose logit is within n standard deviations of all logits from the best (Tang et al. 2024); n <= 0
/// keeps all.
struct top_n_sigma {
    float n = 1.0f;

    void operator()(candidates& c) const;
};

/// "Exclude top choices": with the given probability, of all tokens of at least `threshold` only the least probable
/// stays. Thresholds above 0.5 do nothing. Draws from its own stream of the seed.
class xtc {
public:
    float probability = 0.5f;
    float threshold = 0.1f;
    std::size_t min_keep = 1;

    xtc(float probability_in, float threshold_in, std::size_t min_keep_in = 1, std::uint64_t seed = 0)
        : probability(probability_in),
          threshold(threshold_in),
          min_keep(min_keep_in),
          seed_(seed),
          random_(seed, stream) {}

    void operator()(candidates& c);
    void reset() { random_ = generator(seed_, stream); }
    void reseed(std::uint64_t seed) {
        seed_ = seed;
        reset();
    }

private:
    static constexpr std::uint64_t stream = 1;
    std::uint64_t seed_;
    generator random_;
};

namespace detail {

/// The part of `total` that probability p is, p limited to 0..1.
[[nodiscard]] inline std::uint64_t part_of(std::uint64_t total, float p) {
    if (!(p > 0.0f)) return 0;
    return static_cast<std::uint64_t>(static_cast<double>(std::min(p, 1.0f)) * static_cast<double>(total));
}

}  // namespace detail

inline void top_p::operator()(candidates& c) const {
    if (p >= 1.0f || c.empty()) return;
    const std::uint64_t wanted = detail::part_of(c.total_weight(), p);
    const float best = c.best();
    std::uint64_t reached = 0;
    std::size_t kept = 0;
    // The nucleus is small as a rule: sort ever longer prefixes instead of everything.
    for (std::size_t sorted = 256; kept < c.size(); sorted *= 4) {
        c.sort_front(sorted);
        for (const std::size_t end = std::min(sorted, c.size()); kept < end;) {
            reached += detail::weight(best, c[kept].logit);
            ++kept;
            if (reached >= wanted && kept >= min_keep) return c.keep_best(kept);
        }
    }
}

inline void min_p::operator()(candidates& c) const {
    if (!(p > 0.0f) || c.empty()) return;
    // Rounded to float before it is added, so that it can't be fused.
    const auto below = static_cast<float>(math::log(static_cast<double>(std::min(p, 1.0f))));
    const float least = c.best() + below;
    if (min_keep > 1) {
        c.sort_front(min_keep);
        if (c.size() <= min_keep) return;
        if (c[min_keep - 1].logit < least) return c.keep_best(min_keep);
    }
    c.keep_at_least(least);
}

inline void typical::operator()(candidates& c) {
    if (p >= 1.0f || c.empty()) return;
    // The surprise of a token is its distance from the best plus the same constant for all, which cancels.
    const float best = c.best();
    const std::uint64_t total = c.total_weight();
    detail::uint128 sum = 0;
    order_.clear();
    for (const auto& one : c) {
        const std::uint64_t distance = detail::distance(best, one.logit);
        const std::uint64_t weight = detail::weight_at(distance);
        sum += static_cast<detail::uint128>(weight) * distance;
        order_.push_back({distance, one.id, weight});
    }
    const auto expected = static_cast<std::uint64_t>(sum / total);
    for (auto& one : order_) one.gap = one.gap > expected ? one.gap - expected : expected - one.gap;
    const auto nearer = [](const entry& a, const entry& b) { return a.gap != b.gap ? a.gap < b.gap : a.id < b.id; };
    const std::uint64_t wanted = detail::part_of(total, p);
    std::uint64_t reached = 0;
    std::size_t kept = 0;
    const auto more = [&] { return kept < order_.size() && (reached <= wanted || kept < min_keep); };
    for (std::size_t length = 256; more(); length *= 4) {  // as in top-p
        const auto from = order_.begin() + static_cast<std::ptrdiff_t>(kept);
        const auto to = order_.begin() + static_cast<std::ptrdiff_t>(std::min(length, order_.size()));
        if (to != order_.end()) std::nth_element(from, to, order_.end(), nearer);
        std::sort(from, to, nearer);
        while (more() && kept < length) reached += order_[kept++].weight;
    }
    if (kept == order_.size()) return;
    const entry last = order_[kept - 1];
    c.keep_if([&](const candidate& one) {
        const std::uint64_t distance = detail::distance(best, one.logit);
        const std::uint64_t gap = distance > expected ? distance - expected : expected - distance;
        return !nearer(last, {gap, one.id, 0});
    });
}

inline void top_n_sigma::operator()(candidates& c) const {
    if (!(n > 0.0f) || c.size() <= 1) return;
    const auto count = static_cast<double>(c.size());
    double sum = 0.0;
    for (const auto& one : c) sum += static_cast<double>(one.logit);
    const auto mean = static_cast<float>(sum / count);
    double squares = 0.0;
    for (const auto& one : c) {
        const auto off = static_cast<double>(one.logit - mean);
        squares += off * off;  // a product of two floats is exact in double, fused or not
    }
    const auto deviation = static_cast<float>(std::sqrt(squares / count));
    const float allowed = n * deviation;
    const double least = static_cast<double>(c.best()) - static_cast<double>(allowed);
    // Written so that NaN (an infinite n, and all logits equal) removes nothing.
    c.keep_if([least](const candidate& one) { return !(static_cast<double>(one.logit) < least); });
}

inline void xtc::operator()(candidates& c) {
    if (!(probability > 0.0f) || !(threshold <= 0.5f) || c.size() < 2) return;
    if (random_.uniform() >= static_cast<double>(probability)) return;
    const auto wanted = static_cast<double>(threshold) * static_cast<double>(c.total_weight());
    const float best = c.best();
    std::size_t reaching = 0;
    for (std::size_t sorted = 64; reaching < c.size(); sorted *= 4) {
        c.sort_front(sorted);
        const std::size_t end = std::min(sorted, c.size());
        while (reaching < end && static_cast<double>(detail::weight(best, c[reaching].logit)) >= wanted) ++reaching;
        if (reaching < end) break;
    }
    if (reaching >= 2 && c.size() - (reaching - 1) >= min_keep) c.drop_front(reaching - 1);
}

}  // namespace colibri::sampling
