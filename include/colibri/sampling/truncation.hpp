// Steps that remove candidates: top-k, top-p, min-p, typical, top-n-sigma, XTC.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
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
struct typical {
    float p = 0.95f;
    std::size_t min_keep = 1;

    void operator()(candidates& c) const;
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
    std::vector<token_id> removed_;
};

namespace detail {

/// What top-p and XTC leave is in order of probability while that costs little, else in order of ids; what a seed draws follows
/// that order. Sorting so many takes 0.1 to 0.2 ms.
inline constexpr std::size_t sorted_limit = 4096;
inline void sort_few(candidates& c) {
    if (c.size() <= sorted_limit) c.sort();
}

/// The part of `total` that probability p is, p limited to 0..1.
[[nodiscard]] inline std::uint64_t part_of(std::uint64_t total, float p) {
    if (!(p > 0.0f)) return 0;
    return static_cast<std::uint64_t>(static_cast<double>(std::min(p, 1.0f)) * static_cast<double>(total));
}

}  // namespace detail

inline void top_p::operator()(candidates& c) const {
    if (p >= 1.0f || c.empty()) return;
    if (!c.sorted()) {
        c.keep_first([this](std::uint64_t total) { return detail::part_of(total, p); }, std::max<std::size_t>(min_keep, 1),
                     [](std::uint64_t distance) { return distance; }, better{});
        return detail::sort_few(c);
    }
    const std::uint64_t wanted = detail::part_of(c.total_weight(), p);
    const float best = c.best();
    std::uint64_t reached = 0;
    for (std::size_t kept = 0; kept < c.size();) {
        reached += detail::weight(best, c[kept].logit);
        ++kept;
        if (reached >= wanted && kept >= min_keep) return c.keep_best(kept);
    }
}

inline void min_p::operator()(candidates& c) const {
    if (!(p > 0.0f) || c.empty()) return;
    // Rounded to float before it is added, so that it can't be fused.
    const auto below = static_cast<float>(math::log(static_cast<double>(std::min(p, 1.0f))));
    const float least = c.best() + below;
    if (min_keep > 1) {
        if (c.size() <= min_keep) return c.sort();
        if (c.front(min_keep).back().logit < least) return c.keep_best(min_keep);
    }
    c.keep_at_least(least);
}

inline void typical::operator()(candidates& c) const {
    if (p >= 1.0f || c.empty()) return;
    // The surprise of a token is its distance from the best plus the same constant for all, which cancels.
    const detail::uint128 moment = c.moment();
    const std::uint64_t total = c.total_weight();
    const auto expected = static_cast<std::uint64_t>(moment / total);
    const auto gap = [=](std::uint64_t distance) { return distance > expected ? distance - expected : expected - distance; };
    // Until they have more than the probability.
    c.keep_first([&](std::uint64_t) { return detail::part_of(total, p) + 1; }, std::max<std::size_t>(min_keep, 1), gap,
                 [](const candidate& a, const candidate& b) { return a.id < b.id; });
}

inline void top_n_sigma::operator()(candidates& c) const {
    if (!(n > 0.0f) || c.size() <= 1) return;
    const auto count = static_cast<double>(c.size());
    const double sum = c.sum_of([](float logit) { return static_cast<double>(logit); });
    const auto mean = static_cast<float>(sum / count);
    const double squares = c.sum_of([mean](float logit) {
        const auto off = static_cast<double>(logit - mean);
        return off * off;  // a product of two floats is exact in double, fused or not
    });
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
    // Those that reach the threshold are at most 1 / threshold, found at the front.
    std::size_t reaching = 0;
    std::size_t sorted = 64;
    auto front = c.front(sorted);
    while (true) {
        while (reaching < front.size() && static_cast<double>(detail::weight(best, front[reaching].logit)) >= wanted) ++reaching;
        if (reaching < front.size() || front.size() < sorted) break;
        front = c.front(sorted *= 4);
    }
    if (reaching < 2 || c.size() - (reaching - 1) < min_keep) return;
    removed_.clear();
    for (const auto& one : front.first(reaching - 1)) removed_.push_back(one.id);
    c.change(removed_, [](std::size_t, float) { return -std::numeric_limits<float>::infinity(); });
    detail::sort_few(c);
}

}  // namespace colibri::sampling
