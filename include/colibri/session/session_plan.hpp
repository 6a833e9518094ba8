// Sizes of a session when the caller leaves them open.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "colibri/io/cpu_count.hpp"
#include "colibri/io/memory_limits.hpp"
#include "colibri/model/evaluator.hpp"

namespace colibri {

/// The sizes chosen, and sentences for the user about choices that they may not expect.
struct session_plan {
    evaluator_options evaluation;
    std::vector<std::string> notes;
};

/// Bytes of the KV cache that a context of `context` tokens takes.
[[nodiscard]] inline std::uint64_t kv_bytes_for(const model& m, const session_options& options, std::uint32_t context,
                                                std::uint32_t ubatch) {
    return kv_bytes(detail::kv_shape_for(m.params(), m.config(), options.sequences, context, ubatch), options.cache_k,
                    options.cache_v);
}

/// Fills in what is 0. Without a context it is that of the model's memory plan, halved until the KV cache takes at most half of the
/// memory that is available now (mapped weights need the other half for themselves).
/// Errors: invalid_argument.
[[nodiscard]] inline result<session_plan> plan_session(const model& m, const session_options& options) {
    if (options.sequences == 0 || options.sequences > 65536) {
        return error{errc::invalid_argument, concat(options.sequences, " sequences; 1 to 65536 are possible")};
    }
    if (options.batch == 0) return error{errc::invalid_argument, "a batch of 0 tokens; it must be at least 1"};
    session_plan plan;
    auto& e = plan.evaluation;
    e.sequences = options.sequences;
    e.ubatch = std::min(options.ubatch != 0 ? options.ubatch : m.memory().ubatch, options.batch);
    const auto cpus = read_cpu_limits();
    e.threads = options.threads != 0 ? options.threads : cpus.threads();
    e.threads_batch = options.threads_batch != 0 ? options.threads_batch
                      : options.threads != 0     ? options.threads
                                                 : cpus.batch_threads();
    e.processors = cpus.most_threads();
    e.cache_k = options.cache_k;
    e.cache_v = options.cache_v;
    e.outputs = options.outputs != 0 ? options.outputs : options.sequences;
    e.context = options.context;
    const std::uint32_t trained = m.params().trained_context;
    if (e.context == 0) {
        e.context = m.memory().context != 0 ? m.memory().context : std::min(trained, default_context_limit);
        const std::uint64_t available = read_memory_limits().free();
        const std::uint32_t wanted = e.context;
        // A budget was divided when the model was opened; what is free now is its streamed weights' too.
        const bool planned = m.memory().how == weights::holding::streamed;
        while (!planned && e.context > smallest_default_context &&
               kv_bytes_for(m, options, e.context, e.ubatch) > available / 2) {
            e.context = std::max(smallest_default_context, e.context / 2);
        }
        plan.notes.insert(plan.notes.end(), m.memory().notes.begin(), m.memory().notes.end());
        if (e.context < wanted) {
            plan.notes.push_back(concat("context ", e.context, " instead of ", wanted, ": only ", available >> 20,
                                        " MiB of memory are available (-c sets it)"));
        } else if (e.context < trained && m.memory().notes.empty()) {
            plan.notes.push_back(concat("context ", e.context, " of the ", trained, " that the model was trained for (-c sets it)"));
        }
    } else if (e.context > trained) {
        plan.notes.push_back(concat("context ", e.context, " is beyond the ", trained,
                                    " tokens that the model was trained for; answers may degrade there"));
    }
    if (const unsigned most = std::max(e.threads, e.threads_batch); most > thread_pool::max_threads) {
        return error{errc::invalid_argument, concat(most, " threads; at most ", thread_pool::max_threads, " are possible")};
    } else if (most > e.processors) {
        plan.notes.push_back(concat(most, " threads were asked for and ", e.processors,
                                    e.processors == 1 ? " processor" : " processors", " can be used, so no more than that run at once"));
    }
    return plan;
}

}  // namespace colibri
