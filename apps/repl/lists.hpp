// Several values in one option: "1,2,4", "1-8", "f16,q8_0", "512,128".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "colibri/core/error.hpp"

namespace colibri::repl {

/// Whole numbers from `least` to `most` with commas between: each a number, a range "1-8", a range with steps "1-8+2" (1, 3,
/// 5, 7) or with factors "1-16*2" (1, 2, 4, 8, 16), or, `with_auto`, "auto", which is 0. Errors: invalid_argument.
[[nodiscard]] result<std::vector<std::int64_t>> numbers_of(std::string_view text, std::int64_t least, std::int64_t most,
                                                           bool with_auto);

/// Words with commas between, each one of the `choices` (separated by blanks). Errors: invalid_argument.
[[nodiscard]] result<std::vector<std::string>> words_of(std::string_view text, std::string_view choices);

/// "P,N": two counts, not both 0. Errors: invalid_argument.
[[nodiscard]] result<std::pair<std::uint32_t, std::uint32_t>> pair_of(std::string_view text);

}  // namespace colibri::repl
