// Which of the things in a cache goes when another one needs its place.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace colibri::weights {

/// The two orders in which things leave a cache.
enum class eviction : std::uint8_t {
    least_recent,    ///< whose last use is longest ago (LRU): right while a cache holds more than one round of uses
    least_frequent,  ///< which was used least, old uses counting less (LFU with ageing): right below one round, where LRU hits nothing
};

/// Uses of `units` things, numbered from 0. Time advances by `tick` (a token, a step).
class usage_record {
public:
    explicit usage_record(std::size_t units = 0) : last_(units, 0), weight_(units, never) {}

    /// A new moment.
    void tick() noexcept { ++now_; }

    void use(std::size_t unit) noexcept {
        last_[unit] = ++uses_;
        // A use at time t has the weight 2^(t / half_life): what was used before needs no update. Kept as a logarithm.
        const double present = static_cast<double>(now_) / half_life;
        const double before = weight_[unit];
        weight_[unit] = before == never ? present : present + std::log2(1.0 + std::exp2(before - present));
    }

    /// Orders things by `how`: the smaller leaves first. Of things used about equally often, within 9 %, the newest leaves: when all
    /// are used in turn and don't fit, those that stay are found again.
    [[nodiscard]] std::pair<double, double> rank(std::size_t unit, eviction how) const noexcept {
        const auto last = static_cast<double>(last_[unit]);
        if (how == eviction::least_recent) return {last, 0.0};
        return {std::floor(weight_[unit] * 8.0), -last};
    }

    /// Ticks after which a use counts half.
    static constexpr double half_life = 256.0;

private:
    static constexpr double never = -std::numeric_limits<double>::infinity();

    std::uint64_t now_ = 0;
    std::uint64_t uses_ = 0;
    std::vector<std::uint64_t> last_;
    std::vector<double> weight_;
};

/// Names of what a cache of `slots` of `units` things would hold; no contents.
class simulated_cache {
public:
    simulated_cache() = default;
    simulated_cache(std::size_t units, std::size_t slots) : slots_(slots), held_(units, false) { list_.reserve(slots); }

    /// Uses `unit`; whether it was missing. Where there is no room, that leaves which `rank(unit)` makes the smallest.
    template <class Rank>
    bool use(std::size_t unit, Rank&& rank) noexcept {
        if (held_[unit]) return false;
        if (slots_ == 0) return true;
        if (list_.size() < slots_) {
            list_.push_back(static_cast<std::uint32_t>(unit));
        } else {
            const auto out = std::min_element(list_.begin(), list_.end(), [&](std::uint32_t a, std::uint32_t b) { return rank(a) < rank(b); });
            held_[*out] = false;
            *out = static_cast<std::uint32_t>(unit);
        }
        held_[unit] = true;
        return true;
    }

private:
    std::size_t slots_ = 0;
    std::vector<bool> held_;
    std::vector<std::uint32_t> list_;
};

/// What a cache would miss with one order of eviction.
class shadow_cache {
public:
    shadow_cache() = default;
    shadow_cache(std::size_t units, std::size_t slots, eviction how) : how_(how), cache_(units, slots) {}

    /// Counts a use of `unit`, which `record` knows of already.
    void use(std::size_t unit, const usage_record& record) noexcept {
        misses_ *= fading;
        if (cache_.use(unit, [&](std::size_t u) { return record.rank(u, how_); })) misses_ += 1.0;
    }

    /// Misses of late: each counts less with every use after it.
    [[nodiscard]] double recent_misses() const noexcept { return misses_; }

private:
    static constexpr double fading = 1.0 - 1.0 / 8192;

    eviction how_ = eviction::least_recent;
    simulated_cache cache_;
    double misses_ = 0.0;
};

/// Follows whichever order has missed less of late. Which one that is depends on how the cache compares with one token's demand, and
/// on how unevenly things are used, so both are simulated beside the cache.
class cache_policy {
public:
    cache_policy() = default;
    cache_policy(std::size_t units, std::size_t slots)
        : record_(units), recent_(units, slots, eviction::least_recent), frequent_(units, slots, eviction::least_frequent) {}

    void tick() noexcept { record_.tick(); }
    void use(std::size_t unit) noexcept {
        record_.use(unit);
        recent_.use(unit, record_);
        frequent_.use(unit, record_);
    }

    [[nodiscard]] eviction chosen() const noexcept {
        // Alike, as at the start: frequency can't be worse than nothing below one round, and is steadier above.
        return recent_.recent_misses() < frequent_.recent_misses() ? eviction::least_recent : eviction::least_frequent;
    }
    /// The smaller leaves first.
    [[nodiscard]] std::pair<double, double> rank(std::size_t unit) const noexcept { return record_.rank(unit, chosen()); }

private:
    usage_record record_;
    shadow_cache recent_;
    shadow_cache frequent_;
};

}  // namespace colibri::weights
