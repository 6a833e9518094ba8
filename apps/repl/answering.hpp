// Shows an answer as it comes, and what it took.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "repl/engine.hpp"
#include "repl/exit_code.hpp"
#include "repl/output.hpp"

namespace colibri::repl {

/// Hooks that write pieces to standard output and progress to standard error. `out` and `cancel` outlive them.
[[nodiscard]] answer_hooks showing_hooks(output& out, const cancel_flag& cancel, bool show_prompt);

/// Says at the start what runs: model, context, threads, seed in one line, with `behind` at its end; all about the
/// model with
/// --verbose.
void greet(const engine& e, const options& given, output& out, std::string_view behind = {});

/// The exit code for an error that a running model gave.
[[nodiscard]] exit_code exit_code_of(const error& e) noexcept;

/// Opens the model and tells what is to be told. Errors are told too; then there is none.
[[nodiscard]] std::optional<engine> open_engine(const options& given, engine_use use, output& out, exit_code& failed);

}  // namespace colibri::repl
