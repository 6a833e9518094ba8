// What would help a model that is slow, or too large, on a machine: each change planned anew, not guessed.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "colibri/io/memory_limits.hpp"
#include "colibri/model/memory_plan.hpp"
#include "colibri/model/model.hpp"
#include "colibri/model/prediction.hpp"

namespace colibri {

/// One thing that can be changed.
enum class plan_change : std::uint8_t { context, cache_type, memory, quantisation };

/// Name for JSON.
[[nodiscard]] constexpr std::string_view name(plan_change what) noexcept {
    switch (what) {
        case plan_change::context: return "context";
        case plan_change::cache_type: return "cache_type";
        case plan_change::memory: return "memory";
        case plan_change::quantisation: return "quantisation";
    }
    return "?";
}

/// A change and the plan that follows from it.
struct changed_plan {
    plan_change what = plan_change::context;
    std::uint64_t value = 0;     ///< context: tokens; memory: bytes of the budget
    dtype type = dtype::f32;     ///< quantisation: the type of most weights then; cache_type: q8_0
    double scale = 1.0;          ///< size of the weights relative to the file's
    session_options use;         ///< sizes of the session then
    memory_plan plan;
};

/// Plans a model's memory again. Errors: those of plan_memory.
[[nodiscard]] inline result<memory_plan> plan_memory(const model& m, const memory_request& request) {
    return plan_memory(m.file(), m.params(), m.config(), m.tensors().groups, request);
}

/// Whether a plan can be carried out: resident weights must fit, and streaming must have been planned.
[[nodiscard]] inline bool can_run(const memory_plan& plan) noexcept {
    return plan.how != weights::holding::resident || plan.resident_bytes <= plan.weights;
}

namespace detail {

/// The block format to take instead of weights of `bits` bits each: the largest that saves at least 15 %, of those that are in
/// use and still good. Nothing below Q3_K.
[[nodiscard]] inline std::optional<dtype> smaller_quantisation(double bits) noexcept {
    for (const auto type : {dtype::q8_0, dtype::q6_k, dtype::q5_k, dtype::q4_k, dtype::q3_k}) {
        const auto row = *find_dtype(static_cast<std::uint32_t>(type));
        if (8.0 * row.block_bytes / row.block_size <= 0.85 * bits) return type;
    }
    return std::nullopt;
}

/// A plan for weights of another size: holding all of w * scale bytes in memory m is holding all of w in m / scale.
[[nodiscard]] inline result<memory_plan> plan_scaled(const model& m, memory_request request, const memory_plan& now, double scale) {
    const auto room = static_cast<double>(now.weights);
    memory_plan out = now;
    if (request.how == weights::holding::mapped) return out;
    if (static_cast<double>(now.resident_bytes) * scale <= room || request.how == weights::holding::resident) {
        out.how = weights::holding::resident;
        out.resident_bytes = static_cast<std::uint64_t>(static_cast<double>(now.resident_bytes) * scale);
        out.streaming = {};
        return out;
    }
    request.how = weights::holding::streamed;
    request.sizes.memory = static_cast<std::uint64_t>(room / scale);
    return plan_memory(m, request);
}

}  // namespace detail

/// The smallest budget, in whole MiB, under which `request` works; 0 if there is none (the request is wrong in another way).
/// Plans some dozens of times.
[[nodiscard]] inline std::uint64_t smallest_budget(const model& m, memory_request request) {
    constexpr std::uint64_t mib = std::uint64_t{1} << 20;
    // One figure for all attempts: planning itself makes a process grow.
    if (request.process == 0) request.process = read_process_memory().resident;
    const auto works = [&](std::uint64_t budget) {
        request.memory = budget * mib;
        const auto plan = plan_memory(m, request);
        return plan && can_run(*plan);
    };
    std::uint64_t least = 0;
    std::uint64_t most = 64;
    for (; !works(most); most *= 2) {
        if (most > (std::uint64_t{1} << 32)) return 0;
        least = most;
    }
    while (most - least > 1) {
        const std::uint64_t middle = least + (most - least) / 2;
        (works(middle) ? most : least) = middle;
    }
    return most * mib;
}

/// The changes that could help, each planned: half the context (where it is above 512 tokens), cached keys and values in q8_0 (where
/// they take more), a quarter more memory (where not everything is resident), the next smaller quantisation that saves at least 15 %.
/// Those that can't be planned are left out. `now`: what was planned for `request`.
[[nodiscard]] inline std::vector<changed_plan> plan_changes(const model& m, const memory_request& request, const memory_plan& now) {
    std::vector<changed_plan> out;
    memory_request same = request;
    same.memory = now.budget;
    same.use.context = now.context;
    const auto add = [&](changed_plan change, const memory_request& wanted, double scale = 1.0) {
        auto plan = scale == 1.0 ? plan_memory(m, wanted) : detail::plan_scaled(m, wanted, now, scale);
        if (!plan || !can_run(*plan)) return;
        change.scale = scale;
        change.use = wanted.use;
        change.plan = *std::move(plan);
        out.push_back(std::move(change));
    };
    if (now.context > smallest_default_context) {
        auto wanted = same;
        wanted.use.context = std::max(smallest_default_context, now.context / 2);
        add({.what = plan_change::context, .value = wanted.use.context, .use = {}, .plan = {}}, wanted);
    }
    const auto smaller = [](kv_type type) { return row_bytes_of(kv_type::q8_0, 32) < row_bytes_of(type, 32) ? kv_type::q8_0 : type; };
    const auto& h = m.params();
    const bool blocks = h.head_k % block_size_of(kv_type::q8_0) == 0 && h.head_v % block_size_of(kv_type::q8_0) == 0;
    if (blocks && (smaller(same.use.cache_k) != same.use.cache_k || smaller(same.use.cache_v) != same.use.cache_v)) {
        auto wanted = same;
        wanted.use.cache_k = smaller(same.use.cache_k);
        wanted.use.cache_v = smaller(same.use.cache_v);
        add({.what = plan_change::cache_type, .type = dtype::q8_0, .use = {}, .plan = {}}, wanted);
    }
    if (now.how != weights::holding::resident) {
        auto wanted = same;
        wanted.memory = now.budget + now.budget / 4;
        add({.what = plan_change::memory, .value = wanted.memory, .use = {}, .plan = {}}, wanted);
    }
    const double bits = 8.0 * static_cast<double>(m.tensors().weight_bytes) / static_cast<double>(m.tensors().parameters);
    if (const auto type = detail::smaller_quantisation(bits)) {
        const auto row = *find_dtype(static_cast<std::uint32_t>(*type));
        add({.what = plan_change::quantisation, .type = *type, .use = {}, .plan = {}}, same,
            8.0 * row.block_bytes / row.block_size / bits);
    }
    return out;
}

/// How much faster tokens are with `change`, 1: as fast as now. By the speeds expected; where these aren't known by bytes read from
/// the disk, and where there are none by those read from memory.
[[nodiscard]] inline double gain(const sweep_cost& now, const sweep_cost& changed) noexcept {
    if (now.known && changed.known) return now.expected / changed.expected;
    if (now.disk_bytes > 0.0) return now.disk_bytes / std::max(changed.disk_bytes, 1.0);
    return changed.disk_bytes > 0.0 ? 0.0 : now.memory_bytes / changed.memory_bytes;
}

}  // namespace colibri
