// How a budget of memory is spent: process, context, activations, and what is left for weights.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "colibri/gguf/file.hpp"
#include "colibri/io/cpu_count.hpp"
#include "colibri/io/memory_limits.hpp"
#include "colibri/kv/kv_cache.hpp"
#include "colibri/model/decoder_config.hpp"
#include "colibri/model/scratch.hpp"
#include "colibri/model/session_options.hpp"
#include "colibri/weights/resident_plan.hpp"
#include "colibri/weights/stream_plan.hpp"

namespace colibri {

/// Bytes of a budget by what they are for, and the sizes that follow. Bytes unless said otherwise.
struct memory_plan {
    std::uint64_t budget = 0;     ///< that all of the process may take
    std::uint64_t reserve = 0;    ///< of these, left free: page tables, the kernel's own, rounding
    std::uint64_t process = 0;    ///< program, vocabulary and heap, as found when the plan was made, with room for sampling
    std::uint64_t kv = 0;         ///< the cache at its full length
    std::uint64_t scratch = 0;    ///< activations and logits
    std::uint64_t weights = 0;    ///< what is left for weights

    weights::holding how = weights::holding::resident;
    std::uint32_t context = 0;    ///< tokens per sequence
    std::uint32_t ubatch = 0;     ///< tokens in one sweep

    std::uint64_t resident_bytes = 0;     ///< that resident weights take
    weights::panel_choice panels = weights::panel_choice::all;  ///< with holding::resident
    weights::stream_plan streaming = {};  ///< with holding::streamed

    std::vector<std::string> notes = {};  ///< choices that the user may not expect
};

/// What a plan is made from.
struct memory_request {
    weights::holding how = weights::holding::automatic;
    std::uint64_t memory = 0;        ///< bytes that the process may take; 0: what is free now, less a margin
    session_options use = {};
    weights::stream_sizes sizes = {};
    std::uint64_t process = 0;       ///< bytes that the process holds by itself; 0: as found now
};

namespace detail {

/// Shape of the KV cache for sessions of some context and ubatch.
[[nodiscard]] inline kv_shape kv_shape_for(const hparams& h, const decoder_config& config, std::uint32_t sequences,
                                           std::uint32_t context, std::uint32_t ubatch) {
    kv_shape shape;
    shape.kv_heads = h.kv_heads;
    shape.head_k = h.head_k;
    shape.head_v = h.head_v;
    shape.context = context;
    shape.sequences = sequences;
    for (const auto& layer : config.layers) shape.layers.push_back({kept_positions(context, layer.window, ubatch), layer.window});
    return shape;
}

/// Decides one size after the other.
class memory_planner {
public:
    memory_planner(const gguf::file& file, const hparams& h, const decoder_config& config,
                   const std::vector<weights::group>& groups, const memory_request& request)
        : file_(file), h_(h), config_(config), groups_(groups), request_(request), use_(request.use) {}

    [[nodiscard]] result<memory_plan> plan() {
        auto resident = weights::resident_plan::make(file_, groups_);
        if (!resident) return std::move(resident).error();
        out_.resident_bytes = resident->bytes;
        if (auto ok = measure_scratch(); !ok) return std::move(ok).error();
        set_budget();
        const std::uint32_t given_context = use_.context;
        const std::uint32_t wanted = given_context != 0 ? given_context : std::min(h_.trained_context, default_context_limit);
        const std::uint32_t ubatch = std::min(std::max(use_.ubatch != 0 ? use_.ubatch : default_ubatch, use_.sequences), use_.batch);
        set_sizes(wanted, ubatch);
        if (out_.resident_bytes > out_.weights) {  // larger panels are a luxury
            auto smaller = weights::resident_plan::make(file_, groups_, weights::panel_choice::same_size);
            if (!smaller) return std::move(smaller).error();
            if (smaller->bytes < out_.resident_bytes) out_.panels = weights::panel_choice::same_size;
            out_.resident_bytes = smaller->bytes;
        }
        const bool fits = fits_whole(wanted, ubatch);
        out_.how = request_.how;
        if (out_.how == weights::holding::resident && request_.memory != 0 && !fits) return too_large_resident();
        if (out_.how == weights::holding::automatic) out_.how = fits ? weights::holding::resident : weights::holding::streamed;
        if (out_.how == weights::holding::streamed) {
            if (auto ok = plan_streaming(wanted); !ok) {
                const bool other_way = request_.how == weights::holding::automatic && request_.memory == 0;
                if (!other_way || ok.error().code != errc::out_of_memory) return std::move(ok).error();
                out_.how = weights::holding::mapped;
            }
        }
        if (request_.how == weights::holding::automatic && out_.how == weights::holding::streamed) tell_streaming();
        if (out_.how == weights::holding::mapped) {
            shrink_context(out_.budget - std::min(out_.budget, out_.process), 2, ubatch);
            if (out_.weights == 0) return too_large_without_weights();
        }
        if (out_.context < wanted) {
            out_.notes.push_back(concat("context ", out_.context, " instead of ", wanted, ": ", out_.budget >> 20,
                                        " MiB of memory can be used (-c sets it)"));
        }
        return std::move(out_);
    }

private:
    [[nodiscard]] error too_large_resident() const {
        return {errc::out_of_memory,
                concat("a memory budget of ", out_.budget >> 20, " MiB is too small for resident weights: they take ",
                       out_.resident_bytes >> 20, " MiB and ", out_.weights >> 20, " MiB are left beside a context of ", out_.context,
                       " tokens and the process; --weights streamed holds a part of them")};
    }

    [[nodiscard]] error too_large_without_weights() {
        return {errc::out_of_memory,
                concat("a context of ", out_.context, " tokens takes ", out_.kv >> 20, " MiB and activations take ", out_.scratch >> 20,
                       " MiB; with the process that is more than the ", out_.budget >> 20,
                       " MiB of memory that can be used: a smaller context (-c) or batch (-ub) needs less")};
    }

    void tell_streaming() {
        const auto& s = out_.streaming;
        std::string read;
        if (s.streamed_bytes != 0) read = concat(", ", s.streamed_bytes >> 20, " MiB are read for each token");
        if (s.cache_bytes != 0) read += concat(", experts have a cache of ", s.cache_bytes >> 20, " MiB");
        out_.notes.push_back(concat("the weights don't fit into ", out_.budget >> 20, " MiB and are streamed: ", s.pinned_bytes >> 20, " of ",
                                    out_.resident_bytes >> 20, " MiB are held", read, " (--memory sets the budget)"));
    }

    /// Bytes of activations for `tokens` tokens are a + b * tokens; logits aside.
    [[nodiscard]] result<void> measure_scratch() {
        const auto cpus = read_cpu_limits();
        const unsigned threads = std::max({use_.threads != 0 ? use_.threads : cpus.threads(), use_.threads_batch,
                                           use_.threads != 0 ? 0u : cpus.batch_threads()});
        const std::uint32_t context = use_.context != 0 ? use_.context : std::min(h_.trained_context, default_context_limit);
        std::uint64_t bytes[2] = {};
        for (const std::size_t tokens : {std::size_t{32}, std::size_t{64}}) {
            auto scratch = layer_scratch::make(h_, config_, tokens, context, std::min(threads, thread_pool::max_threads));
            if (!scratch) return std::move(scratch).error();
            bytes[tokens / 64] = scratch->bytes();
        }
        per_token_ = (bytes[1] - bytes[0] + 31) / 32;
        fixed_ = bytes[0] - std::min(bytes[0], 32 * per_token_);
        return {};
    }

    [[nodiscard]] std::uint64_t scratch_bytes(std::uint32_t ubatch) const noexcept {
        const std::uint32_t outputs = use_.outputs != 0 ? use_.outputs : use_.sequences;
        return fixed_ + per_token_ * ubatch + std::uint64_t{std::min(outputs, ubatch)} * h_.vocabulary * sizeof(float);
    }

    void set_budget() {
        constexpr std::uint64_t mib = std::uint64_t{1} << 20;
        const std::uint64_t resident = request_.process != 0 ? request_.process : read_process_memory().resident;
        const std::uint64_t free = read_memory_limits().free();
        // Sampling sorts candidates of 16 bytes; threads, template and text take the rest.
        // In whole steps, as it differs a little from one start to the next.
        out_.process = round_up(resident + 5 * mib + std::uint64_t{h_.vocabulary} * 24, 2 * mib);
        if (request_.memory != 0) {
            out_.budget = request_.memory;
        } else {
            // What others on the machine may want at any time.
            const std::uint64_t margin = std::clamp<std::uint64_t>(free / 16, 16 * mib, 1024 * mib);
            out_.budget = resident + free - std::min(free, margin);
        }
        out_.reserve = out_.budget / 28 + mib;
    }

    void set_sizes(std::uint32_t context, std::uint32_t ubatch) {
        out_.context = context;
        out_.ubatch = ubatch;
        out_.kv = kv_bytes(kv_shape_for(h_, config_, use_.sequences, context, ubatch), use_.cache_k, use_.cache_v);
        out_.scratch = scratch_bytes(ubatch);
        const std::uint64_t others = out_.reserve + out_.process + out_.kv + out_.scratch;
        out_.weights = out_.budget - std::min(out_.budget, others);
    }

    /// Whether resident weights fit. Where the choice is ours, a context that nobody gave is halved for it, down to 2048 tokens: that
    /// costs less than reading weights for every token. If that is no use the sizes are as before.
    [[nodiscard]] bool fits_whole(std::uint32_t wanted, std::uint32_t ubatch) {
        constexpr std::uint32_t useful = 2048;
        const auto fits = [&] { return out_.resident_bytes <= out_.weights; };
        if (fits() || request_.how != weights::holding::automatic || use_.context != 0) return fits();
        for (std::uint32_t context = wanted / 2; context >= useful; context /= 2) {
            set_sizes(context, ubatch);
            if (fits()) return true;
        }
        set_sizes(wanted, ubatch);
        return false;
    }

    /// Halves a context that nobody gave until the cache takes at most one part in `parts` of `memory`.
    void shrink_context(std::uint64_t memory, std::uint64_t parts, std::uint32_t ubatch) {
        while (use_.context == 0 && out_.context > smallest_default_context && out_.kv > memory / parts) {
            set_sizes(std::max(smallest_default_context, out_.context / 2), ubatch);
        }
    }

    [[nodiscard]] result<void> plan_streaming(std::uint32_t context) {
        const std::uint64_t usable = out_.budget - std::min(out_.budget, out_.reserve + out_.process);
        std::uint32_t ubatch = use_.ubatch;
        if (ubatch == 0) {
            // More tokens in a sweep, fewer sweeps over what isn't held, but less that is held: a 32nd of the memory.
            const std::uint64_t share = usable / 32;
            const std::uint64_t most = share > fixed_ ? (share - fixed_) / per_token_ : 0;
            ubatch = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(most / 16 * 16, 16, use_.batch));
        }
        ubatch = std::min(std::max(ubatch, use_.sequences), use_.batch);
        set_sizes(context, ubatch);
        shrink_context(usable, 4, ubatch);
        std::uint64_t least = 0;
        if (request_.sizes.memory != 0) out_.weights = request_.sizes.memory;
        auto streaming = weights::stream_plan::make(file_, groups_, out_.weights, request_.sizes, &least);
        while (!streaming && use_.context == 0 && out_.context > smallest_default_context && request_.sizes.memory == 0) {
            set_sizes(std::max(smallest_default_context, out_.context / 2), ubatch);
            streaming = weights::stream_plan::make(file_, groups_, out_.weights, request_.sizes, &least);
        }
        if (!streaming && streaming.error().code == errc::out_of_memory) {
            return error{errc::out_of_memory,
                         concat("a memory budget of ", out_.budget >> 20, " MiB is too small for this model with a context of ",
                                out_.context, " tokens; it needs at least ", (smallest_budget(least) >> 20) + 1, " MiB",
                                out_.context > smallest_default_context ? " (less with a smaller context, -c)" : "")};
        }
        if (!streaming) return std::move(streaming).error();
        out_.streaming = *std::move(streaming);
        return {};
    }

    /// Budget b with b - b / 28 - 1 MiB = everything.
    [[nodiscard]] std::uint64_t smallest_budget(std::uint64_t weights) const noexcept {
        // 3 MiB: a later start may find its process a step larger.
        const std::uint64_t needed = out_.process + out_.kv + out_.scratch + weights + (std::uint64_t{3} << 20);
        return needed + needed / 27 + 1;
    }

    const gguf::file& file_;
    const hparams& h_;
    const decoder_config& config_;
    const std::vector<weights::group>& groups_;
    const memory_request& request_;
    session_options use_;
    memory_plan out_;
    std::uint64_t fixed_ = 0;
    std::uint64_t per_token_ = 1;
};

}  // namespace detail

/// Spends a budget. Resident where everything fits, if need be with a context of down to 2048 tokens in place of a larger one that nobody asked for; else streamed, with the largest ubatch that a 32nd of the memory has room for. A
/// context that isn't given is the model's own, at most 8192 tokens, halved until the cache takes at most a quarter of the memory
/// (half, where weights are mapped). `groups`: what the model asks its store for.
/// Errors: out_of_memory (a budget that can't work, with the smallest that would), those of shapes with the tensor's name.
[[nodiscard]] inline result<memory_plan> plan_memory(const gguf::file& file, const hparams& h, const decoder_config& config,
                                                     const std::vector<weights::group>& groups, const memory_request& request) {
    return detail::memory_planner(file, h, config, groups, request).plan();
}

}  // namespace colibri
