// Opens a model as the options say.
#pragma once

#include "colibri/core/error.hpp"
#include "colibri/core/progress.hpp"
#include "colibri/model/model.hpp"
#include "repl/options.hpp"

namespace colibri::repl {

/// Uses the instruction set that --simd or COLIBRI_SIMD names. Errors: invalid_argument.
[[nodiscard]] result<void> choose_target(const options& given);

/// Opens options::model; `loading` is told how much has been read. Errors: those of model::open, of which none becomes
/// invalid_argument, as nothing is wrong with the call; invalid_argument for --weights and --mmap that contradict each other.
[[nodiscard]] result<model> open_source(const options& given, progress_fn loading = {});

}  // namespace colibri::repl
