// Where a prompt comes from: -p, -f, a file's name, standard input.
#pragma once

#include <optional>
#include <string>

#include "repl/arguments.hpp"
#include "repl/exit_code.hpp"
#include "repl/output.hpp"

namespace colibri::repl {

/// A prompt, or why there is none (already said on standard error).
struct prompt_input {
    std::optional<std::string> text = {};
    exit_code failed = exit_code::ok;  ///< not ok: stop with it
};

/// Joins -p with what -f, the one name, "-", or (if none of these is given) standard input hold, with a blank line
/// between. Standard input is read only if it is not a terminal or "-" asks for it, and never with `use_stdin` false.
[[nodiscard]] prompt_input read_prompt(const arguments& args, bool use_stdin, output& out);

}  // namespace colibri::repl
