// How candidates pass over their logits or their list; the second half of candidate_list.hpp; candidates.hpp has both.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "colibri/sampling/candidate_list.hpp"

namespace colibri::sampling {

inline void candidates::load(std::span<const float> logits) {
    logits_.load(logits);
    list_.clear();
    listed_ = false;
    by_id_ = true;
    sorted_ = 0;
    possible_ = 0;
    forget_sums();
    chosen_ = false;
    choice_ = {};
}

/// Calls visit(number, logits, count) for blocks of 64 ids or of 64 candidates of the list, the last one filled up with minus
/// infinity.
template <class Visit>
void candidates::each_block(Visit&& visit) {
    float logits[width];
    if (!listed_) {
        for (std::size_t b = 0; b < logits_.blocks(); ++b) {
            const std::size_t count = logits_.read(b, logits);
            visit(b, logits, count);
        }
        return;
    }
    for (std::size_t begin = 0; begin < list_.size(); begin += width) {
        const std::size_t count = std::min(width, list_.size() - begin);
        if (count < width) std::fill(logits, logits + width, -std::numeric_limits<float>::infinity());
        for (std::size_t i = 0; i < count; ++i) logits[i] = list_[begin + i].logit;
        visit(begin / width, logits, count);
    }
}

// Eight sums by place mod 8: one alone would wait for each addition.
template <class Term>
double candidates::sum_of(Term&& term) {
    constexpr std::size_t lanes = 8;
    double sums[lanes] = {};
    each_block([&](std::size_t, const float(&logits)[width], std::size_t) {
        for (std::size_t i = 0; i < width; i += lanes) {
            for (std::size_t j = 0; j < lanes; ++j) sums[j] += detail::possible(logits[i + j]) ? term(logits[i + j]) : 0.0;
        }
    });
    for (std::size_t half = lanes / 2; half > 0; half /= 2) {
        for (std::size_t j = 0; j < half; ++j) sums[j] += sums[j + half];
    }
    return sums[0];
}

/// Makes the list of those that `keep(candidate)` is true for, from blocks for whose maximum `wanted_block` is.
template <class Block, class Keep>
void candidates::gather(Block&& wanted_block, Keep&& keep) {
    logits_.find_maxima();
    list_.clear();
    list_.reserve(logits_.tokens());
    float logits[width];
    candidate kept[width];
    for (std::size_t b = 0; b < logits_.blocks(); ++b) {
        if (!wanted_block(logits_.maximum(b))) continue;
        const std::size_t count = logits_.read(b, logits);
        std::size_t n = 0;
        for (std::size_t i = 0; i < count; ++i) {
            kept[n] = {static_cast<token_id>(b * width + i), logits[i], 0.0f};
            const candidate& one = kept[n];
            n += detail::possible(one.logit) && keep(one) ? 1 : 0;
        }
        list_.insert(list_.end(), kept, kept + n);
    }
    become_list();
}

/// What is in list_, in order of ids, is all there is from now on.
inline void candidates::become_list() noexcept {
    logits_.forget_changes();
    listed_ = true;
    by_id_ = true;
    sorted_ = 0;
    forget_sums();
}

template <class Change>
void candidates::change(std::span<const token_id> ids, Change&& change) {
    if (!listed_ && logits_.divided()) list();
    forget_sums();
    if (!listed_) {
        possible_ = 0;
        return logits_.change(ids, change);
    }
    auto& slots = logits_.slots();
    for (std::size_t i = 0; i < ids.size(); ++i) {
        if (logits_.contains(ids[i])) slots[static_cast<std::size_t>(ids[i])] = static_cast<std::uint32_t>(i + 1);
    }
    for (auto& one : list_) {
        const std::uint32_t slot = slots[static_cast<std::size_t>(one.id)];
        if (slot != 0) one.logit = std::min(change(std::size_t{slot} - 1, one.logit), largest_logit);
    }
    for (const token_id id : ids) {
        if (logits_.contains(id)) slots[static_cast<std::size_t>(id)] = 0;
    }
    sorted_ = 0;
    keep_if([](const candidate& one) { return detail::possible(one.logit); });
}

inline void candidates::divide(float t) {
    if (t == 1.0f) return;
    forget_sums();
    if (!listed_ && !logits_.divided()) return logits_.divide(t);
    list();
    for (auto& one : list_) one.logit = std::clamp(one.logit / t, -largest_logit, largest_logit);
}

inline const std::vector<candidate>& candidates::list() {
    if (!listed_) gather([](float) { return true; }, [](const candidate&) { return true; });
    return list_;
}

template <class Keep>
void candidates::keep_if(Keep&& keep) {
    if (!listed_) return gather([](float) { return true; }, keep);
    std::size_t kept = 0;
    std::size_t sorted = 0;
    for (std::size_t i = 0; i < list_.size(); ++i) {
        if (!keep(static_cast<const candidate&>(list_[i]))) continue;
        if (i < sorted_) ++sorted;
        list_[kept++] = list_[i];
    }
    list_.resize(kept);
    sorted_ = sorted;
    forget_sums();
}

inline void candidates::keep_best(std::size_t count) {
    count = std::max<std::size_t>(count, 1);
    // At least `count` logits reach the count-th largest block maximum. While that is not among the smallest maxima,
    // few more do: with maxima of 64 independent logits 2 % of all where three quarters of the blocks are wanted.
    if (!listed_ && count <= logits_.tokens() / width / 4 * 3) {
        logits_.find_maxima();
        const float least = logits_.reached_by(count);
        gather([least](float most) { return most >= least; }, [least](const candidate& one) { return one.logit >= least; });
        // Minus infinity there means fewer than `count` blocks with candidates, all of which were gathered.
    }
    sort_front(std::min(count, list().size()));
    if (list_.size() > count) {
        list_.resize(count);
        forget_sums();
    }
}

inline void candidates::keep_at_least(float least) {
    const auto reaches = [least](const candidate& one) { return one.logit >= least; };
    if (listed_) keep_if(reaches);
    else gather([least](float most) { return most >= least; }, reaches);
}

inline void candidates::keep_near(std::uint64_t farthest) {
    const float most = best();
    const auto near = [=](float logit) { return detail::distance(most, logit) <= farthest; };
    const auto is_near = [&](const candidate& one) { return near(one.logit); };
    if (listed_) keep_if(is_near);
    else gather(near, is_near);
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
    forget_sums();  // they are in the list's order
}

inline std::span<const candidate> candidates::front(std::size_t count) {
    if (listed_ || count > logits_.blocks()) {
        sort_front(count);
        return {list_.data(), std::min(count, list_.size())};
    }
    logits_.find_maxima();
    const float least = logits_.reached_by(count);
    some_.clear();
    float logits[width];
    for (std::size_t b = 0; b < logits_.blocks(); ++b) {
        if (!(logits_.maximum(b) >= least)) continue;
        const std::size_t in_block = logits_.read(b, logits);
        for (std::size_t i = 0; i < in_block; ++i) {
            if (logits[i] >= least && detail::possible(logits[i])) some_.push_back({static_cast<token_id>(b * width + i), logits[i], 0.0f});
        }
    }
    count = std::min(count, some_.size());
    const auto to = some_.begin() + static_cast<std::ptrdiff_t>(count);
    if (to != some_.end()) std::nth_element(some_.begin(), to, some_.end(), better{});
    std::sort(some_.begin(), to, better{});
    return {some_.data(), count};
}

inline void candidates::drop_front(std::size_t count) {
    if (empty()) return;
    count = std::min(count, list().size() - 1);
    sort_front(list_.size());
    list_.erase(list_.begin(), list_.begin() + static_cast<std::ptrdiff_t>(count));
    sorted_ = list_.size();
    forget_sums();
}

// Several maxima at once: one alone would wait for each comparison.
inline float candidates::best_of_list() const noexcept {
    constexpr std::size_t lanes = 8;
    float most[lanes];
    std::fill(most, most + lanes, -std::numeric_limits<float>::infinity());
    std::size_t i = 0;
    for (; i + lanes <= list_.size(); i += lanes) {
        for (std::size_t j = 0; j < lanes; ++j) most[j] = std::max(most[j], list_[i + j].logit);
    }
    for (; i < list_.size(); ++i) most[0] = std::max(most[0], list_[i].logit);
    return *std::max_element(most, most + lanes);
}

inline float candidates::best() {
    if (listed_) return sorted_ > 0 ? list_.front().logit : best_of_list();
    logits_.find_maxima();
    return logits_.best();
}

inline std::size_t candidates::size() {
    if (listed_) return list_.size();
    if (possible_ == 0) {
        each_block([&](std::size_t, const float(&logits)[width], std::size_t) {
            for (const float logit : logits) possible_ += detail::possible(logit) ? 1 : 0;
        });
    }
    return possible_;
}

template <bool Moment>
void candidates::weigh() {
    const float most = best();
    total_ = 0;
    moment_ = 0;
    sums_.resize(listed_ ? (list_.size() + width - 1) / width : logits_.blocks());
    each_block([&](std::size_t block, const float(&logits)[width], std::size_t) {
        std::uint64_t distances[width], weights[width];
        simd::weigh(logits, width, most, distances, weights);
        std::uint64_t sum = 0;
        for (const std::uint64_t weight : weights) sum += weight;
        if constexpr (Moment) {
            for (std::size_t i = 0; i < width; ++i) moment_ += static_cast<detail::uint128>(weights[i]) * distances[i];
        }
        sums_[block] = sum;
        total_ += sum;
    });
    moment_known_ = Moment;
}

inline std::uint64_t candidates::total_weight() {
    if (total_ == 0) weigh<false>();
    return total_;
}

inline detail::uint128 candidates::moment() {
    if (total_ == 0 || !moment_known_) weigh<true>();
    return moment_;
}

inline void candidates::normalize() {
    if (empty()) return;
    list();
    const float most = best();
    const auto total = static_cast<double>(total_weight());
    for (auto& one : list_) {
        one.probability = static_cast<float>(static_cast<double>(detail::weight(most, one.logit)) / total);
    }
}

inline void candidates::choose(const candidate& one) {
    choice_ = one;
    choice_.probability = static_cast<float>(static_cast<double>(weight(one)) / static_cast<double>(total_weight()));
    chosen_ = true;
}

inline void candidates::choose_at(std::uint64_t target) {
    (void)total_weight();
    std::size_t block = 0;
    for (; block + 1 < sums_.size() && sums_[block] <= target; ++block) target -= sums_[block];
    const float most = best();
    const std::size_t begin = block * width;
    float logits[width];
    const std::size_t count = listed_ ? std::min(width, list_.size() - begin) : logits_.read(block, logits);
    for (std::size_t i = 0; i < count; ++i) {
        const candidate one = listed_ ? list_[begin + i] : candidate{static_cast<token_id>(begin + i), logits[i], 0.0f};
        const std::uint64_t weight = detail::weight(most, one.logit);
        if (weight > target) return choose(one);
        target -= weight;
    }
}

template <class Wanted, class Key, class Before>
void candidates::keep_first(Wanted&& part, std::size_t min_keep, Key&& key, Before&& before) {
    const float most = best();
    constexpr std::uint16_t nowhere = buckets;
    bucket_of_.resize((listed_ ? (list_.size() + width - 1) / width : logits_.blocks()) * width);
    bucket_weight_.assign(buckets + 1, 0);
    bucket_count_.assign(buckets + 1, 0);
    const auto bucket = [&](std::uint64_t distance) { return std::min<std::uint64_t>(key(distance) >> bucket_shift, buckets - 1); };
    each_block([&](std::size_t block, const float(&logits)[width], std::size_t) {
        std::uint64_t distances[width], weights[width];
        simd::weigh(logits, width, most, distances, weights);
        for (std::size_t i = 0; i < width; ++i) {
            const auto place = detail::possible(logits[i]) ? static_cast<std::uint16_t>(bucket(distances[i])) : nowhere;
            bucket_of_[block * width + i] = place;
            bucket_weight_[place] += weights[i];
            ++bucket_count_[place];
        }
    });
    std::uint64_t total = 0;
    for (const std::uint64_t weight : bucket_weight_) total += weight;
    const std::uint64_t wanted = part(total);
    std::uint64_t reached = 0;
    std::size_t kept = 0;
    std::size_t edge = 0;
    while (edge < buckets && (reached + bucket_weight_[edge] < wanted || kept + bucket_count_[edge] < min_keep)) {
        reached += bucket_weight_[edge];
        kept += bucket_count_[edge++];
    }
    if (edge == buckets) return;  // all are wanted
    some_.clear();
    each_block([&](std::size_t block, const float(&logits)[width], std::size_t count) {
        const std::size_t begin = block * width;
        if (!any_in(begin, edge, edge + 1)) return;
        for (std::size_t i = 0; i < count; ++i) {
            if (bucket_of_[begin + i] != edge) continue;
            some_.push_back({listed_ ? list_[begin + i].id : static_cast<token_id>(begin + i), logits[i], 0.0f});
        }
    });
    const auto precedes = [&](const candidate& a, const candidate& b) {
        const auto first = key(detail::distance(most, a.logit));
        const auto second = key(detail::distance(most, b.logit));
        return first != second ? first < second : before(a, b);
    };
    const candidate last = last_of_edge(wanted - std::min(wanted, reached), min_keep - std::min(min_keep, kept), precedes);
    const auto left_out = [&](std::size_t at, const candidate& one) { return bucket_of_[at] == edge && precedes(last, one); };
    if (listed_) {
        std::size_t at = 0;
        return keep_if([&](const candidate& one) {
            const std::size_t place = at++;
            return bucket_of_[place] <= edge && !left_out(place, one);
        });
    }
    list_.clear();
    list_.reserve(logits_.tokens());
    candidate some[width];
    float logits[width];
    for (std::size_t begin = 0; begin < logits_.tokens(); begin += width) {
        if (!any_in(begin, 0, edge + 1)) continue;
        const std::size_t count = logits_.read(begin / width, logits);
        std::size_t n = 0;
        for (std::size_t i = 0; i < count; ++i) {
            some[n] = {static_cast<token_id>(begin + i), logits[i], 0.0f};
            const std::uint16_t place = bucket_of_[begin + i];
            if (place == edge) n += left_out(begin + i, some[n]) ? 0 : 1;
            else n += place < edge ? 1 : 0;
        }
        list_.insert(list_.end(), some, some + n);
    }
    become_list();
}

/// Whether some of the 64 from `begin` on are in buckets `from` to below `to`.
inline bool candidates::any_in(std::size_t begin, std::size_t from, std::size_t to) const noexcept {
    const std::uint16_t* place = bucket_of_.data() + begin;
    const auto first = static_cast<std::uint16_t>(from);
    const auto size = static_cast<std::uint16_t>(to - from);
    unsigned matches = 0;
    for (std::size_t i = 0; i < width; ++i) matches += static_cast<std::uint16_t>(place[i] - first) < size ? 1 : 0;
    return matches != 0;
}

/// Of `some_`, the last of the shortest run in the order of `precedes` that has the weight and the number.
template <class Precedes>
candidate candidates::last_of_edge(std::uint64_t wanted, std::size_t min_keep, Precedes&& precedes) {
    const float most = best();
    auto from = some_.begin();
    auto to = some_.end();
    while (to - from > 32) {
        const auto middle = from + (to - from) / 2;
        std::nth_element(from, middle, to, precedes);
        std::uint64_t sum = 0;
        for (auto one = from; one != middle; ++one) sum += detail::weight(most, one->logit);
        const auto count = static_cast<std::size_t>(middle - from);
        if (sum >= wanted && count >= min_keep) {
            to = middle;
        } else {
            wanted -= std::min(wanted, sum);
            min_keep -= std::min(min_keep, count);
            from = middle;
        }
    }
    std::sort(from, to, precedes);
    for (std::uint64_t sum = 0; from + 1 != to; ++from) {
        sum += detail::weight(most, from->logit);
        min_keep -= std::min<std::size_t>(min_keep, 1);
        if (sum >= wanted && min_keep == 0) break;
    }
    return *from;
}

}  // namespace colibri::sampling
