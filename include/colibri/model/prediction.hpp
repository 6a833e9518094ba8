// How fast a model will be, before it runs: from what is held, what is read, and what the machine can do.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <optional>
#include <string_view>
#include <vector>

#include "colibri/model/memory_plan.hpp"
#include "colibri/model/model.hpp"
#include "colibri/model/roofline.hpp"
#include "colibri/weights/heat.hpp"

namespace colibri {

/// What is known of a machine. 0 stands for unknown everywhere.
struct machine_speed {
    machine_limits one = {};      ///< with the threads that compute one token
    machine_limits several = {};  ///< with those that compute a prompt
    double disk = 0.0;            ///< bytes per second read from the model's disk
};

/// Shares of a limit that Colibri reaches. `bench` measured the first two on 2 cores of a Zen 5 (README, "Speed"); other machines differ.
struct reached_shares {
    double decode = 0.85;  ///< of memory's limit: models of the README have 0.83 to 0.90 with one thread, 0.51 to 0.68 with two
    double prompt = 0.34;  ///< of arithmetic's limit: 0.32 to 0.37 in prompts of 256 with two threads
    double disk = 0.95;    ///< of the disk's, an estimate: on a disk whose own speed varied twofold, streaming was at or above what was measured beside it
};

/// What a speed ends at.
enum class bottleneck : std::uint8_t { unknown, memory, arithmetic, disk };

/// Name for JSON and messages.
[[nodiscard]] constexpr std::string_view name(bottleneck what) noexcept {
    switch (what) {
        case bottleneck::memory: return "memory_bandwidth";
        case bottleneck::arithmetic: return "arithmetic";
        case bottleneck::disk: return "disk";
        case bottleneck::unknown: break;
    }
    return "unknown";
}

/// Bytes that one sweep is expected to read from the disk.
struct disk_reads {
    double dense = 0.0;    ///< streamed parts of what each sweep uses
    double rows = 0.0;     ///< of the embedding, one per token, none of them known from before
    double experts = 0.0;  ///< that aren't in the cache

    [[nodiscard]] double total() const noexcept { return dense + rows + experts; }
};

/// Work of some sweeps and the least time it takes. Seconds; those of what isn't known are 0.
struct sweep_cost {
    double tokens = 0.0;
    double disk_bytes = 0.0;
    double memory_bytes = 0.0;  ///< of weights and cache
    double memory = 0.0, arithmetic = 0.0, disk = 0.0;  ///< each alone
    double limit = 0.0;     ///< sweep by sweep the longest of them
    double expected = 0.0;  ///< the same, each divided by the share of it that is reached
    bool known = true;      ///< all figures that it takes are known
    bool predictable = true;  ///< and so is the share

    sweep_cost& operator+=(const sweep_cost& other) noexcept {
        tokens += other.tokens;
        disk_bytes += other.disk_bytes;
        memory_bytes += other.memory_bytes;
        memory += other.memory;
        arithmetic += other.arithmetic;
        disk += other.disk;
        limit += other.limit;
        expected += other.expected;
        known = known && other.known;
        predictable = predictable && other.predictable;
        return *this;
    }
};

/// A speed in tokens per second.
struct predicted_speed {
    double bytes_read = 0.0;         ///< from the disk, per token
    std::optional<double> limit;     ///< what no program could exceed that holds as much; nothing: a figure is unknown
    std::optional<double> expected;  ///< by the shares that are reached
    bottleneck slowest = bottleneck::unknown;
};

/// Predicts a model's speed under a memory plan. The limit of a sweep is the longest of: bytes of weights and cache over memory's
/// bandwidth, multiply-adds over the peaks, bytes to read over the disk's. Peaks of one token's sweep needn't be known: memory is
/// slower. Which experts a layer needs is known only when it is reached, so that reading them comes on top of the rest of a single token's
/// sweep in what is expected. They are taken to be used evenly and apart from each other, so that a cache of s of u experts misses
/// 1 - s/u of them; real routers have favourites and do better, which a recording of their use shows. Mapped weights that don't fit are read anew for each sweep (the kernel's cache drops
/// what was used longest ago, which is what comes next), and how near a page cache comes to that limit is not predicted.
/// Matrices are counted with the file's bytes; panels of IQ1 to IQ3 and TQ1_0 are 1.2 to 2.1 times as large, so that what memory bounds is
/// predicted too fast for them. Allocates nothing after construction.
class speed_predictor {
public:
    /// `use`: the formats of the cache. `scale`: size of the weights relative to the file's (a smaller quantisation, for which
    /// `plan` was made). `heat`: what a recording's experts would miss. Precondition: `plan` belongs to `m`.
    speed_predictor(const model& m, const memory_plan& plan, const session_options& use, const machine_speed& machine,
                    const reached_shares& shares = {}, double scale = 1.0, const std::deque<weights::heat_line>& heat = {})
        : roof_(m, use.cache_k, use.cache_v, {1.0, 1.0, 1.0}), machine_(machine), shares_(shares), how_(plan.how), scale_(scale),
          experts_used_(m.params().experts_used), experts_(m.params().experts), ubatch_(std::max(1u, plan.ubatch)) {
        if (plan.how == weights::holding::streamed) add_streamed(m, plan.streaming, heat);
        if (plan.how == weights::holding::mapped) add_mapped(m, plan);
    }

    /// What a sweep over `tokens` tokens reads from the disk once caches are warm; `outputs`: whether logits are wanted.
    [[nodiscard]] disk_reads reads(double tokens, bool outputs) const noexcept {
        disk_reads out;
        out.dense = (dense_ + (outputs ? head_ : 0.0)) * scale_;
        out.rows = tokens * row_;
        if (experts_ != 0) {
            const double share = static_cast<double>(experts_used_) / experts_;
            const double even = missed_ * (1.0 - std::pow(1.0 - share, tokens));
            // Of several tokens no more is known than that together they miss no more than one after the other.
            out.experts = (missed_by_token_ ? std::min(even, *missed_by_token_ * tokens) : even) * scale_;
        }
        return out;
    }

    /// Of the bytes of experts that a token uses, those that are read from the disk; 0 where nothing is cached.
    [[nodiscard]] double expert_miss_share() const noexcept {
        return used_ > 0.0 ? reads(1.0, false).experts / (used_ * scale_) : 0.0;
    }

    /// One sweep as roofline::sweep counts it. `machine`: with the threads that compute it.
    [[nodiscard]] sweep_cost sweep(std::uint32_t tokens, std::uint32_t past, std::uint32_t sequences, std::uint32_t outputs,
                                   const machine_limits& machine) const noexcept {
        sweep_cost out;
        out.tokens = static_cast<double>(tokens) * sequences;
        const auto w = roof_.sweep(tokens, past, sequences, outputs);
        out.memory_bytes = (w.bytes - w.cache_bytes) * scale_ + w.cache_bytes;
        const bool one = out.tokens == 1.0;
        const bool peaks = machine.integer_peak > 0.0 && machine.float_peak > 0.0;
        const auto from_disk = reads(out.tokens, outputs != 0);
        out.disk_bytes = from_disk.total();
        if (machine.bandwidth > 0.0) out.memory = out.memory_bytes / machine.bandwidth;
        if (peaks) out.arithmetic = w.integer_madds / machine.integer_peak + w.float_madds / machine.float_peak;
        if (machine_.disk > 0.0) out.disk = out.disk_bytes / machine_.disk;
        out.known = machine.bandwidth > 0.0 && (peaks || one) && (machine_.disk > 0.0 || out.disk_bytes == 0.0);
        out.predictable = how_ != weights::holding::mapped;  // slower by a factor that depends on the format
        out.limit = std::max({out.memory, out.arithmetic, out.disk});
        const double late = one && machine_.disk > 0.0 ? from_disk.experts / machine_.disk : 0.0;
        out.expected = late / shares_.disk + std::max({out.memory / shares_.decode, out.arithmetic / (one ? shares_.decode : shares_.prompt),
                                                       (out.disk - late) / shares_.disk});
        return out;
    }

    /// `tokens` tokens, one after the other, in each of `sequences` sequences at once.
    [[nodiscard]] sweep_cost decode_cost(std::uint32_t tokens, std::uint32_t past, std::uint32_t sequences = 1) const noexcept {
        sweep_cost sum;
        const auto& machine = sequences == 1 ? machine_.one : machine_.several;
        for (std::uint32_t t = 0; t < tokens; ++t) sum += sweep(1, past + t, sequences, sequences, machine);
        return sum;
    }
    /// A prompt behind `past` tokens, in ubatches (0: the plan's); logits of the last token only.
    [[nodiscard]] sweep_cost prompt_cost(std::uint32_t tokens, std::uint32_t past, std::uint32_t ubatch = 0) const noexcept {
        sweep_cost sum;
        if (ubatch == 0) ubatch = ubatch_;
        for (std::uint32_t done = 0; done < tokens;) {
            const std::uint32_t n = std::min(ubatch, tokens - done);
            sum += sweep(n, past + done, 1, done + n == tokens ? 1 : 0, n == 1 ? machine_.one : machine_.several);
            done += n;
        }
        return sum;
    }

    /// Speed at which one token follows the other, behind `past` others.
    [[nodiscard]] predicted_speed decode(std::uint32_t past) const noexcept { return speed_of(decode_cost(1, past)); }
    /// Speed at which a prompt is read.
    [[nodiscard]] predicted_speed prompt(std::uint32_t tokens, std::uint32_t past = 0) const noexcept {
        return speed_of(prompt_cost(tokens, past));
    }

    [[nodiscard]] static predicted_speed speed_of(const sweep_cost& cost) noexcept {
        predicted_speed out;
        if (cost.tokens <= 0.0) return out;
        out.bytes_read = cost.disk_bytes / cost.tokens;
        if (!cost.known) return out;
        out.limit = cost.tokens / cost.limit;
        if (cost.predictable) out.expected = cost.tokens / cost.expected;
        out.slowest = cost.disk >= std::max(cost.memory, cost.arithmetic) ? bottleneck::disk
                      : cost.memory >= cost.arithmetic                    ? bottleneck::memory
                                                                          : bottleneck::arithmetic;
        return out;
    }

private:
    /// Bytes that direct reads of `count` equal ranges, one behind the other, take on average: whole blocks of the disk.
    [[nodiscard]] static double mean_room(std::uint64_t offset, std::size_t bytes, std::uint64_t count) noexcept {
        const std::uint64_t looked_at = std::min<std::uint64_t>(count, 1024);
        double sum = 0.0;
        for (std::uint64_t i = 0; i < looked_at; ++i) sum += static_cast<double>(read_job::room(offset + i * bytes, bytes));
        return looked_at == 0 ? 0.0 : sum / static_cast<double>(looked_at);
    }

    void add_streamed(const model& m, const weights::stream_plan& plan, const std::deque<weights::heat_line>& heat) {
        for (const auto& piece : plan.pieces) {
            if (piece.pinned) continue;
            (plan.some_sweeps(piece.group) ? head_ : dense_) += static_cast<double>(piece.source.room());
        }
        for (const auto& group : m.tensors().groups) {
            if (group.how != weights::access::rows) continue;
            for (const auto id : group.tensors) {
                const auto& info = m.file().tensors()[id];
                row_ += mean_room(info.offset, static_cast<std::size_t>(info.row_bytes()), info.rows());
            }
        }
        const auto shares = heat.empty() ? std::vector<weights::replayed_uses>() : replay(m, plan, heat);
        if (!heat.empty()) missed_by_token_ = 0.0;
        for (const auto& layer : plan.experts) {
            const auto& cache = plan.caches[layer.cache];
            const double missing = 1.0 - static_cast<double>(cache.slots) / static_cast<double>(cache.units);
            for (const auto& first : layer.first) {
                const double bytes = mean_room(first.offset, first.bytes, experts_);
                used_ += bytes * experts_used_;
                missed_ += missing * experts_ * bytes;
                if (missed_by_token_) *missed_by_token_ += shares[layer.cache].miss_share() * experts_used_ * bytes;
            }
        }
    }

    /// Of each cache.
    [[nodiscard]] std::vector<weights::replayed_uses> replay(const model& m, const weights::stream_plan& plan,
                                                             const std::deque<weights::heat_line>& heat) const {
        std::vector<weights::cached_layer> layers;
        std::vector<weights::cache_size> sizes;
        const auto& all = m.tensors().layers;
        for (const auto& cached : plan.experts) {
            const auto of = std::find_if(all.begin(), all.end(), [&](const layer_groups& g) { return g.experts == cached.group; });
            layers.push_back({static_cast<std::uint32_t>(of - all.begin()), cached.cache, cached.first_unit});
        }
        for (const auto& cache : plan.caches) sizes.push_back({cache.units, cache.slots});
        return weights::replay_heat(heat, layers, sizes, experts_used_);
    }

    void add_mapped(const model& m, const memory_plan& plan) noexcept {
        const auto room = static_cast<double>(plan.budget - std::min(plan.budget, plan.process + plan.kv + plan.scratch));
        if (static_cast<double>(m.tensors().weight_bytes) * scale_ <= room) return;
        const auto& tensors = m.tensors();
        for (weights::group_id id = 0; id < tensors.groups.size(); ++id) {
            const auto& group = tensors.groups[id];
            if (group.when == weights::demand::once || group.how == weights::access::rows) continue;
            for (const auto tensor : group.tensors) {
                const auto bytes = static_cast<double>(m.file().tensors()[tensor].bytes);
                (id == tensors.head ? head_ : group.how == weights::access::experts ? missed_ : dense_) += bytes;
            }
        }
    }

    roofline roof_;
    machine_speed machine_;
    reached_shares shares_;
    weights::holding how_;
    double scale_;
    std::uint32_t experts_used_, experts_, ubatch_;
    double dense_ = 0.0;   ///< bytes that each sweep reads
    double head_ = 0.0;    ///< and those that want logits
    double row_ = 0.0;     ///< bytes of an embedding's row
    double missed_ = 0.0;  ///< bytes of all layers' experts that aren't in caches
    double used_ = 0.0;    ///< bytes of the experts that a token uses, where experts are cached
    std::optional<double> missed_by_token_;  ///< bytes that one token misses by a recording
};

}  // namespace colibri
