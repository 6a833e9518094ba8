// Shows an answer as it comes, and what it took.
#pragma once

#include <string>

#include "repl/engine.hpp"
#include "repl/exit_code.hpp"
#include "repl/output.hpp"

namespace colibri::repl {

/// Hooks that write pieces to standard output and progress to standard error. `out` and `cancel` outlive them.
[[nodiscard]] answer_hooks showing_hooks(output& out, const cancel_flag& cancel, bool show_prompt);

/// "12 tokens, 45.3 tok/s | prompt ... | context ... | memory ...".
[[nodiscard]] std::string figures_line(const engine& e);

/// The same at length, for /stats.
[[nodiscard]] std::string figures_text(const engine& e);

/// One line at the start: model, context, threads, seed.
[[nodiscard]] std::string start_line(const engine& e);

/// The exit code for an error that a running model gave.
[[nodiscard]] exit_code exit_code_of(const error& e) noexcept;

/// Opens the model and tells what is to be told. Errors are told too; then there is none.
[[nodiscard]] std::optional<engine> open_engine(const options& given, engine_use use, output& out, exit_code& failed);

}  // namespace colibri::repl
