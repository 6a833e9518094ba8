// The commands of the program, one file each.
#pragma once

#include "repl/arguments.hpp"
#include "repl/exit_code.hpp"
#include "repl/output.hpp"

namespace colibri::repl {

[[nodiscard]] exit_code chat_command(arguments args, output& out);
[[nodiscard]] exit_code run_command(const arguments& args, output& out);
[[nodiscard]] exit_code tokenize_command(const arguments& args, output& out);
[[nodiscard]] exit_code inspect_command(const arguments& args, output& out);
[[nodiscard]] exit_code plan_command(const arguments& args, output& out);
[[nodiscard]] exit_code bench_command(const arguments& args, output& out);
[[nodiscard]] exit_code eval_command(const arguments& args, output& out);
[[nodiscard]] exit_code imatrix_command(const arguments& args, output& out);
[[nodiscard]] exit_code version_command(output& out);

}  // namespace colibri::repl
