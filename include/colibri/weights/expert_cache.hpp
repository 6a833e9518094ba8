// Experts of a mixture in memory: those used of late or often; the others are read when a token is routed to them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "colibri/io/read_queue.hpp"
#include "colibri/weights/cache_policy.hpp"
#include "colibri/weights/stream_plan.hpp"

namespace colibri::weights {

/// Experts of one size. Reads of a layer's missing experts are started together; those in memory are handed out meanwhile. One thread.
class expert_cache {
public:
    /// Preconditions: `memory` has plan.slots * plan.slot_bytes bytes, aligned to read_job::alignment; `queue` outlives the cache.
    /// `tensors`: of an expert.
    expert_cache(read_queue& queue, const expert_cache_plan& plan, std::size_t tensors, std::span<std::byte> memory)
        : queue_(queue), slot_bytes_(plan.slot_bytes), tensors_(tensors), memory_(memory), policy_(plan.units, plan.slots),
          slot_of_(plan.units, nowhere), slots_(plan.slots), jobs_(std::make_unique<read_job[]>(plan.slots * tensors)) {
        wanted_.reserve(plan.largest);
        pending_.reserve(plan.largest * tensors);
    }

    ~expert_cache() { queue_.drain(); }
    expert_cache(const expert_cache&) = delete;
    expert_cache& operator=(const expert_cache&) = delete;

    /// A new token or batch: what ageing counts.
    void tick() noexcept { policy_.tick(); }

    /// Asks for experts of a layer, ascending; their missing ones are being read from now on, as far as there is room. What was asked
    /// for before ends. Errors: canceled.
    [[nodiscard]] result<void> want(const expert_layer& layer, std::span<const std::uint32_t> experts, const cancel_flag* cancel) {
        layer_ = &layer;
        current_ = nowhere;
        wanted_.clear();
        next_read_ = 0;
        for (const std::uint32_t e : experts) {
            const std::size_t unit = layer.first_unit + e;
            policy_.use(unit);
            const bool held = slot_of_[unit] != nowhere && !broken(slot_of_[unit]);
            (held ? hits_ : misses_) += 1;
            wanted_.push_back({e, false});
            if (slot_of_[unit] != nowhere) slots_[slot_of_[unit]].wanted = true;
        }
        return read_more(cancel);
    }

    /// One of the experts asked for that wasn't given yet; nothing when all were. The one given before may go.
    /// `in_order`: the lowest; else one that is in memory, if any is. Errors: those of reading, canceled.
    [[nodiscard]] result<std::optional<std::uint32_t>> next(bool in_order, const cancel_flag* cancel) {
        finish_current();
        if (auto ok = read_more(cancel); !ok) return std::move(ok).error();
        wish* chosen = in_order ? first_open() : first_ready();
        if (chosen == nullptr) chosen = first_open();
        if (chosen == nullptr) return std::optional<std::uint32_t>();
        if (!in_order && !ready(*chosen)) {
            auto found = wait_any(cancel);
            if (!found) return std::move(found).error();
            chosen = *found;
        }
        if (slot_of_[layer_->first_unit + chosen->expert] == nowhere) {
            if (auto ok = start(*chosen, cancel); !ok) return std::move(ok).error();
        }
        const std::size_t slot = slot_of_[layer_->first_unit + chosen->expert];
        if (auto ok = complete(slot, chosen->expert, cancel); !ok) return std::move(ok).error();
        align(slot);
        chosen->given = true;
        current_ = slot;
        return std::optional<std::uint32_t>(chosen->expert);
    }

    /// The bytes of the `i`-th tensor of the expert that `next` gave last.
    [[nodiscard]] const std::byte* bytes(std::size_t i) const noexcept {
        const read_job& done = jobs_[current_ * tensors_ + i];
        const auto skip = static_cast<std::size_t>(done.offset % read_job::alignment);
        return done.memory + (skip - skip % block_alignment);
    }

    /// Ends what was asked for.
    void end() noexcept {
        finish_current();
        for (const auto& w : wanted_) {
            const std::size_t slot = slot_of_[layer_->first_unit + w.expert];
            if (slot != nowhere) slots_[slot].wanted = false;
        }
        wanted_.clear();
    }

    [[nodiscard]] std::uint64_t hits() const noexcept { return hits_; }
    [[nodiscard]] std::uint64_t misses() const noexcept { return misses_; }

private:
    static constexpr std::size_t nowhere = std::numeric_limits<std::size_t>::max();
    /// What any block format wants of an address.
    static constexpr std::size_t block_alignment = 4;

    struct slot_state {
        std::size_t unit = nowhere;
        bool wanted = false;   // by what is asked for now, and not done
        bool failed = false;   // its bytes aren't good
        bool aligned = false;
    };
    struct wish {
        std::uint32_t expert = 0;
        bool given = false;
    };

    [[nodiscard]] read_job& job(std::size_t slot, std::size_t i) const noexcept { return jobs_[slot * tensors_ + i]; }
    [[nodiscard]] bool broken(std::size_t slot) const noexcept { return slots_[slot].failed; }

    [[nodiscard]] bool finished(std::size_t slot) const noexcept {
        for (std::size_t i = 0; i < layer_->first.size(); ++i) {
            if (!job(slot, i).finished()) return false;
        }
        return true;
    }
    [[nodiscard]] bool ready(const wish& w) const noexcept {
        const std::size_t slot = slot_of_[layer_->first_unit + w.expert];
        return slot != nowhere && !broken(slot) && finished(slot);
    }
    [[nodiscard]] wish* first_open() noexcept {
        const auto at = std::find_if(wanted_.begin(), wanted_.end(), [](const wish& w) { return !w.given; });
        return at == wanted_.end() ? nullptr : &*at;
    }
    [[nodiscard]] wish* first_ready() noexcept {
        const auto at = std::find_if(wanted_.begin(), wanted_.end(), [&](const wish& w) { return !w.given && ready(w); });
        return at == wanted_.end() ? nullptr : &*at;
    }

    /// Waits until some expert that is being read is there.
    [[nodiscard]] result<wish*> wait_any(const cancel_flag* cancel) {
        while (true) {
            if (wish* found = first_ready(); found != nullptr) return found;
            pending_.clear();
            for (auto& w : wanted_) {
                const std::size_t slot = slot_of_[layer_->first_unit + w.expert];
                if (w.given || slot == nowhere || broken(slot)) continue;
                for (std::size_t i = 0; i < layer_->first.size(); ++i) {
                    if (!job(slot, i).finished()) pending_.push_back(&job(slot, i));
                }
            }
            if (pending_.empty()) return first_open();
            if (auto ok = queue_.wait_any(pending_, cancel); !ok) return std::move(ok).error();
        }
    }

    /// Waits for all of an expert's reads; one that fails is tried once more: it may have been begun long ago.
    [[nodiscard]] result<void> complete(std::size_t slot, std::uint32_t expert, const cancel_flag* cancel) {
        for (bool again = false;; again = true) {
            result<void> first;
            for (std::size_t i = 0; i < layer_->first.size(); ++i) {
                auto ok = queue_.wait(job(slot, i), cancel);
                if (!ok && !job(slot, i).finished()) return ok;
                if (!ok && first) first = std::move(ok);
            }
            if (first) return first;
            slots_[slot].failed = true;
            if (again) return first;
            if (auto ok = read(slot, expert, cancel); !ok) return ok;
        }
    }

    void finish_current() noexcept {
        if (current_ == nowhere) return;
        slots_[current_].wanted = false;
        current_ = nowhere;
    }

    /// Starts reads of missing experts, in their order, while there are slots that nobody needs now.
    [[nodiscard]] result<void> read_more(const cancel_flag* cancel) {
        for (; next_read_ < wanted_.size(); ++next_read_) {
            wish& w = wanted_[next_read_];
            const std::size_t slot = slot_of_[layer_->first_unit + w.expert];
            if (w.given || (slot != nowhere && !broken(slot))) continue;
            const std::size_t free = slot != nowhere ? slot : victim(false);
            if (free == nowhere) return {};
            if (auto ok = read(free, w.expert, cancel); !ok) return ok;
        }
        return {};
    }

    /// Reads an expert whose turn it is, whatever has to go for it.
    [[nodiscard]] result<void> start(const wish& w, const cancel_flag* cancel) {
        std::size_t slot = victim(false);
        if (slot == nowhere) slot = victim(true);
        return read(slot, w.expert, cancel);
    }

    /// A slot to be filled anew: a free one, else that of the expert which the policy likes least. `even_wanted`: else the one whose
    /// turn comes last.
    [[nodiscard]] std::size_t victim(bool even_wanted) {
        std::size_t best = nowhere;
        std::pair<double, double> best_rank;
        if (used_ < slots_.size()) return used_++;
        for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
            const auto& s = slots_[slot];
            if (slot == current_ || (s.wanted && !even_wanted)) continue;
            const auto rank = even_wanted ? std::pair(-static_cast<double>(s.unit), 0.0) : policy_.rank(s.unit);
            if (best == nowhere || rank < best_rank) {
                best = slot;
                best_rank = rank;
            }
        }
        return best;
    }

    [[nodiscard]] result<void> read(std::size_t slot, std::uint32_t expert, const cancel_flag* cancel) {
        auto& s = slots_[slot];
        // What another lease left unfinished ends first.
        for (std::size_t i = 0; i < layer_->first.size() && s.unit != nowhere; ++i) {
            if (job(slot, i).finished()) continue;
            if (auto ok = queue_.wait(job(slot, i), cancel); !job(slot, i).finished()) return ok;
        }
        if (s.unit != nowhere) {
            slot_of_[s.unit] = nowhere;
            // Taken from an expert that is wanted too: it will be read again.
            if (s.wanted && s.unit != layer_->first_unit + expert) next_read_ = 0;
        }
        s = {layer_->first_unit + expert, true, false, false};
        slot_of_[s.unit] = slot;
        for (std::size_t i = 0; i < layer_->first.size(); ++i) {
            const auto& first = layer_->first[i];
            read_job& j = job(slot, i);
            j.file = first.part;
            j.offset = first.offset + std::uint64_t{expert} * first.bytes;
            j.bytes = first.bytes;
            j.urgent = true;  // before what is read ahead
            j.memory = memory_.data() + slot * slot_bytes_ + layer_->place[i];
            queue_.submit(j);
        }
        return {};
    }

    /// Moves bytes down to a multiple of block_alignment, where a file has its tensors at odd places.
    void align(std::size_t slot) noexcept {
        if (std::exchange(slots_[slot].aligned, true)) return;
        for (std::size_t i = 0; i < layer_->first.size(); ++i) {
            const read_job& j = job(slot, i);
            const auto skip = static_cast<std::size_t>(j.offset % read_job::alignment);
            if (skip % block_alignment != 0) std::memmove(j.memory + (skip - skip % block_alignment), j.memory + skip, j.bytes);
        }
    }

    read_queue& queue_;
    std::size_t slot_bytes_;
    std::size_t tensors_;
    std::span<std::byte> memory_;
    cache_policy policy_;
    std::vector<std::size_t> slot_of_;  // by unit
    std::vector<slot_state> slots_;
    std::unique_ptr<read_job[]> jobs_;  // tensors_ of each slot
    std::size_t used_ = 0;              // slots that were ever filled
    const expert_layer* layer_ = nullptr;
    std::vector<wish> wanted_;
    std::vector<read_job*> pending_;
    std::size_t next_read_ = 0;
    std::size_t current_ = nowhere;
    std::uint64_t hits_ = 0;
    std::uint64_t misses_ = 0;
};

}  // namespace colibri::weights
