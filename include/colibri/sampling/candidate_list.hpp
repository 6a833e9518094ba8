// The class of candidates.hpp; how it passes over its logits stands in candidates_passes.hpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "colibri/sampling/logit_blocks.hpp"
#include "colibri/sampling/weight.hpp"
#include "colibri/simd/ops.hpp"

namespace colibri::sampling {

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
/// `load` only remembers the logits. While every token is still in play, changes are kept beside them, and steps pass over
/// the logits; the list of candidates is made when a step leaves some out, or somebody iterates. So neither greedy decoding
/// nor a draw from a whole vocabulary copies it. NaN and minus infinity are never candidates; plus infinity counts as the
/// largest float. A range (contiguous, of `candidate`). Not thread-safe.
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

    /// Divides all logits by t > 0; what overflows becomes the largest float.
    void divide(float t);

    /// Sum of term(logit), a double, over all candidates; in an order that depends on nothing but their places.
    template <class Term>
    [[nodiscard]] double sum_of(Term&& term);

    /// Keeps the best `count` (at least 1), sorted.
    void keep_best(std::size_t count);

    /// Keeps the candidates whose logit is at least `least`.
    void keep_at_least(float least);

    /// Keeps the candidates whose distance from the best (see weight.hpp) is at most `farthest`.
    void keep_near(std::uint64_t farthest);

    /// Removes candidates for which `keep(candidate)` is false; the others keep their order.
    template <class Keep>
    void keep_if(Keep&& keep);

    /// Keeps the shortest run whose weights add up to wanted(total weight), and at least `min_keep`: candidates in the order of
    /// key(distance from the best), a number, and where that is the same, of before(a, b). They keep their order; only what lies
    /// where the run ends is sorted.
    template <class Wanted, class Key, class Before>
    void keep_first(Wanted&& wanted, std::size_t min_keep, Key&& key, Before&& before);

    /// The best `count` (or all), sorted; valid until anything changes. They all stay.
    [[nodiscard]] std::span<const candidate> front(std::size_t count);

    /// Makes the first `count` candidates of the list (or all) the best ones, sorted.
    void sort_front(std::size_t count);
    void sort() { sort_front(list().size()); }
    /// Whether the candidates are in a list that is sorted.
    [[nodiscard]] bool sorted() const noexcept { return listed_ && sorted_ == list_.size(); }

    /// Sorts and removes the first `count` candidates; at least one stays.
    void drop_front(std::size_t count);

    /// Sets the probabilities of all that remain.
    void normalize();

    /// Logit of the best candidate; minus infinity if there is none.
    [[nodiscard]] float best();
    /// Sum of all weights (see weight.hpp); at least 2^40.
    [[nodiscard]] std::uint64_t total_weight();
    /// Sum of weight times distance from the best: the mean surprise but for a constant. Finds total_weight() too.
    [[nodiscard]] detail::uint128 moment();
    [[nodiscard]] std::uint64_t weight(const candidate& of) { return detail::weight(best(), of.logit); }

    /// Number of logits that were loaded.
    [[nodiscard]] std::size_t vocabulary() const noexcept { return logits_.tokens(); }
    [[nodiscard]] std::size_t size();
    [[nodiscard]] bool empty() { return listed_ ? list_.empty() : !detail::possible(best()); }
    [[nodiscard]] const candidate* begin() { return list().data(); }
    [[nodiscard]] const candidate* end() { return list().data() + list().size(); }
    [[nodiscard]] const candidate& operator[](std::size_t index) { return list()[index]; }

    /// Marks the chosen candidate; its probability is set.
    void choose(std::size_t index) { choose(list()[index]); }
    void choose(const candidate& one);
    /// Chooses the candidate whose weight, added to those before it by id or, in a list that was sorted, in that order,
    /// first exceeds `target`, which is below total_weight().
    void choose_at(std::uint64_t target);
    [[nodiscard]] bool chosen() const noexcept { return chosen_; }
    /// The chosen candidate; id -1 if nobody chose.
    [[nodiscard]] const candidate& choice() const noexcept { return choice_; }

    /// Whether the order is by id or sorted, hence independent of how selections are done inside.
    [[nodiscard]] bool canonical_order() const noexcept { return !listed_ || by_id_ || sorted(); }

private:
    static constexpr std::size_t width = detail::logit_blocks::width;
    static constexpr std::uint64_t bucket_shift = 34;  ///< keys of a bucket lie within 1/64 bit
    static constexpr std::size_t buckets = 4096;

    const std::vector<candidate>& list();
    template <class Block, class Keep>
    void gather(Block&& wanted_block, Keep&& keep);
    template <class Visit>
    void each_block(Visit&& visit);
    [[nodiscard]] inline bool any_in(std::size_t begin, std::size_t from, std::size_t to) const noexcept;
    inline void become_list() noexcept;
    void forget_sums() noexcept {
        total_ = 0;
        moment_known_ = false;
    }
    template <bool Moment>
    void weigh();
    template <class Precedes>
    [[nodiscard]] candidate last_of_edge(std::uint64_t wanted, std::size_t min_keep, Precedes&& precedes);
    [[nodiscard]] float best_of_list() const noexcept;

    detail::logit_blocks logits_;
    bool listed_ = true;
    bool by_id_ = true;        ///< list_ is in order of ids
    std::size_t sorted_ = 0;   ///< so many at the front of list_ are the best, in order
    std::size_t possible_ = 0; ///< candidates while there is no list; 0: not counted
    std::vector<candidate> list_;
    std::vector<candidate> some_;  ///< a few, gathered for a question

    std::uint64_t total_ = 0;  ///< 0: not known
    detail::uint128 moment_ = 0;
    bool moment_known_ = false;
    std::vector<std::uint64_t> sums_;  ///< weights of each 64 ids, or candidates of the list; with total_

    std::vector<std::uint16_t> bucket_of_;      ///< by id or place in the list
    std::vector<std::uint64_t> bucket_weight_;  ///< with bucket_count_, by bucket
    std::vector<std::uint32_t> bucket_count_;

    bool chosen_ = false;
    candidate choice_;
};

}  // namespace colibri::sampling
