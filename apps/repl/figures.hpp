// What an answer took, in words.
#pragma once

#include <string>

#include "repl/engine.hpp"

namespace colibri::repl {

/// "12 tokens, 45.3 tok/s | prompt ... | TTFT ... | context ... | weights ..., KV ..., RSS ...".
[[nodiscard]] std::string figures_line(const engine& e);

/// The same at length, for /stats, with predictions beside what was measured; without `answer` only memory.
[[nodiscard]] std::string figures_text(const engine& e, bool answer = true);

/// "120 MiB resident", "1.2 GiB held, 640 MiB read per token, streamed".
[[nodiscard]] std::string weights_text(const memory_figures& memory);

/// "reading: 120 of 900 tokens, 14 s left", after some seconds; the time left once enough is done to tell.
[[nodiscard]] std::string reading_text(const progress& p, double seconds);

}  // namespace colibri::repl
