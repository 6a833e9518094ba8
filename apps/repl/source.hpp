// Opens a model as the options say.
#pragma once

#include "colibri/core/error.hpp"
#include "colibri/model/model.hpp"
#include "repl/options.hpp"

namespace colibri::repl {

/// Uses the instruction set that --simd or COLIBRI_SIMD names. Errors: invalid_argument.
[[nodiscard]] result<void> choose_target(const options& given);

/// Opens options::model. Errors: those of model::open; none of them is invalid_argument, as nothing is wrong with the call.
[[nodiscard]] result<model> open_source(const options& given);

}  // namespace colibri::repl
