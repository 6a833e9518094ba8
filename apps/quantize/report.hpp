// What was, or would be, written: as text and as JSON.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "colibri/quantize/job.hpp"
#include "quantize/options.hpp"

namespace colibri::quantize_program {

/// "[ 3/291] blk.0.attn_k.weight  [4096, 1024]  F16 -> Q4_K  8.00 MiB -> 2.25 MiB".
[[nodiscard]] std::string tensor_line(const quantize::plan& plan, std::size_t tensor);

/// The sums, without a line end.
[[nodiscard]] std::string sums_line(const quantize::job& job);

/// One JSON object with a line end. `seconds`: of the work, if some was done.
[[nodiscard]] std::string json_report(const quantize::job& job, const options& given, std::optional<double> seconds);

}  // namespace colibri::quantize_program
