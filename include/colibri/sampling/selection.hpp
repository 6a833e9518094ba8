// Steps that choose one of the candidates: greedy, draw, mirostat.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <vector>

#include "colibri/core/math.hpp"
#include "colibri/sampling/candidates.hpp"
#include "colibri/sampling/random.hpp"

namespace colibri::sampling {

/// Chooses the best candidate (of equal ones that with the lowest id).
struct greedy {
    void operator()(candidates& c) const {
        c.keep_best(1);
        if (!c.empty()) c.choose(0);
    }
};

namespace detail {

/// Chooses a candidate by weight. There must be one.
inline void draw_one(candidates& c, generator& random) {
    if (!c.canonical_order()) c.sort();
    c.choose_at(random.below(c.total_weight()));
}

/// Surprise of a candidate in bits: -log2 of its probability.
[[nodiscard]] inline double surprise(candidates& c, float logit) {
    constexpr double unit = static_cast<double>(full_weight);
    const double below_best = static_cast<double>(distance(c.best(), logit)) / unit;
    return below_best + math::log(static_cast<double>(c.total_weight()) / unit) / std::numbers::ln2;
}

}  // namespace detail

/// Chooses by chance, each candidate with its probability.
class draw {
public:
    explicit draw(std::uint64_t seed) : seed_(seed), random_(seed) {}

    void operator()(candidates& c) {
        if (!c.empty()) detail::draw_one(c, random_);
    }
    void reset() { random_ = generator(seed_); }
    void reseed(std::uint64_t seed) {
        seed_ = seed;
        reset();
    }

private:
    std::uint64_t seed_;
    generator random_;
};

/// Chooses by chance among as many of the best candidates as keep the text's mean surprise near `tau` bits: Mirostat
/// (Basu et al. 2021), algorithm 1, which fits a Zipf exponent to the best 100. `eta` is the learning rate.
class mirostat {
public:
    mirostat(float tau, float eta, std::uint64_t seed) : tau_(tau), eta_(eta), seed_(seed), random_(seed) { reset(); }

    void operator()(candidates& c);
    void reset() {
        random_ = generator(seed_);
        limit_ = 2.0f * tau_;
    }
    void reseed(std::uint64_t seed) {
        seed_ = seed;
        random_ = generator(seed_);
    }

private:
    static constexpr std::size_t most_sorted = 4096;  ///< more are left in order of ids, as sorting would take milliseconds
    [[nodiscard]] std::size_t count(candidates& c) const;

    float tau_;
    float eta_;
    float limit_ = 0.0f;  ///< the paper's mu
    std::uint64_t seed_;
    generator random_;
};

/// Mirostat, algorithm 2: candidates with a surprise above the running limit are left out.
class mirostat_v2 {
public:
    mirostat_v2(float tau, float eta, std::uint64_t seed) : tau_(tau), eta_(eta), seed_(seed), random_(seed) {
        reset();
    }

    void operator()(candidates& c);
    void reset() {
        random_ = generator(seed_);
        limit_ = 2.0f * tau_;
    }
    void reseed(std::uint64_t seed) {
        seed_ = seed;
        random_ = generator(seed_);
    }

private:
    float tau_;
    float eta_;
    float limit_ = 0.0f;
    std::uint64_t seed_;
    generator random_;
};

namespace detail {

/// Draws one and moves the limit by the learning rate times how far its surprise was off.
inline void draw_and_learn(candidates& c, generator& random, float& limit, float tau, float eta) {
    draw_one(c, random);
    const auto off = static_cast<float>(surprise(c, c.choice().logit) - static_cast<double>(tau));
    const auto change = static_cast<float>(static_cast<double>(eta) * static_cast<double>(off));
    limit -= change;
}

}  // namespace detail

inline std::size_t mirostat::count(candidates& c) const {
    constexpr std::size_t fitted = 100;
    const auto front = c.front(fitted);
    // Exponent s of p ~ rank^-s by least squares over ratios of neighbours. Float factors: exact products, fused or
    // not.
    double products = 0.0;
    double squares = 0.0;
    for (std::size_t i = 0; i + 1 < front.size(); ++i) {
        const auto ranks = static_cast<float>(math::log(static_cast<double>(i + 2) / static_cast<double>(i + 1)));
        const float ratio = front[i].logit - front[i + 1].logit;
        products += static_cast<double>(ranks) * static_cast<double>(ratio);
        squares += static_cast<double>(ranks) * static_cast<double>(ranks);
    }
    if (!(squares > 0.0)) return 1;
    const double s = std::max(products / squares, 1e-3);  // all logits equal: 0, and 1/s must exist
    const double excess = s - 1.0;
    const double size = math::log(static_cast<double>(std::max<std::size_t>(c.vocabulary(), 2)));
    // log of (excess 2^mu / (1 - N^-excess)); the quotient goes to 2^mu / ln N where the exponent is 1.
    const double shrunk = std::abs(excess) < 1e-6 ? 1.0 / size : excess / (1.0 - math::exp(-excess * size));
    const auto limit = static_cast<float>(static_cast<double>(limit_) * std::numbers::ln2);  // rounded: can't be fused
    const double wanted = math::exp((static_cast<double>(limit) + math::log(shrunk)) / s);
    if (!(wanted > 1.0)) return 1;
    return wanted < static_cast<double>(c.size()) ? static_cast<std::size_t>(wanted) : c.size();
}

inline void mirostat::operator()(candidates& c) {
    if (c.empty()) return;
    const std::size_t kept = count(c);
    if (kept <= most_sorted) c.keep_best(kept);
    else c.keep_first([](std::uint64_t) { return std::uint64_t{0}; }, kept, [](std::uint64_t distance) { return distance; },
                      better{});
    detail::draw_and_learn(c, random_, limit_, tau_, eta_);
}

inline void mirostat_v2::operator()(candidates& c) {
    if (c.empty()) return;
    // Surprise grows by the distance from the best candidate, so the limit is a distance; the best one always stays.
    const float best = c.best();
    const double room = (static_cast<double>(limit_) - detail::surprise(c, best)) * static_cast<double>(detail::full_weight);
    if (!(room >= 0.0)) c.keep_at_least(best);
    else if (room < static_cast<double>(detail::far_away)) c.keep_near(static_cast<std::uint64_t>(room));
    detail::draw_and_learn(c, random_, limit_, tau_, eta_);
}

}  // namespace colibri::sampling
