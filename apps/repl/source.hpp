// Opens a model as the options say.
#pragma once

#include "colibri/core/error.hpp"
#include "colibri/core/progress.hpp"
#include "colibri/model/model.hpp"
#include "repl/options.hpp"

namespace colibri::repl {

/// Uses the instruction set that --simd or COLIBRI_SIMD names. Errors: invalid_argument.
[[nodiscard]] result<void> choose_target(const options& given);

/// How options ask for a model's weights to be held, `use` being the sizes of the session to come. Errors: invalid_argument for
/// --weights and --mmap that contradict each other and for a --memory that is no size.
[[nodiscard]] result<model_options> holding_options(const options& given, const session_options& use);

/// The sizes that were given.
[[nodiscard]] session_options sizes_of(const options& given);

/// Opens options::model, and then the file of --record-heat; `loading` is told how much has been read. Errors: those of
/// holding_options; invalid_argument for --record-heat; those of model::open, of which none becomes invalid_argument, as nothing is wrong
/// with the call.
[[nodiscard]] result<model> open_source(const options& given, const session_options& use, progress_fn loading = {});

/// Copies the sizes that were given: `out` is a session_options or a chat_options.
template <class Options>
void set_sizes(Options& out, const options& given) {
    if (given.context) out.context = static_cast<std::uint32_t>(*given.context);
    if (given.threads) out.threads = static_cast<unsigned>(*given.threads);
    if (given.threads_batch) out.threads_batch = static_cast<unsigned>(*given.threads_batch);
    if (given.batch) out.batch = static_cast<std::uint32_t>(*given.batch);
    if (given.ubatch) out.ubatch = static_cast<std::uint32_t>(*given.ubatch);
    if (given.cache_k) out.cache_k = parse_kv_type(*given.cache_k).value_or(out.cache_k);
    if (given.cache_v) out.cache_v = parse_kv_type(*given.cache_v).value_or(out.cache_v);
}

}  // namespace colibri::repl
