// What colibri inspect can do beside listing; one function for each.
#pragma once

#include <string>
#include <string_view>

#include "colibri/core/cancel.hpp"
#include "colibri/core/progress.hpp"
#include "colibri/gguf/file.hpp"
#include "repl/arguments.hpp"
#include "repl/exit_code.hpp"
#include "repl/output.hpp"

namespace colibri::repl {

/// One call: the model, the second name (empty if none was given), and where to say what.
struct inspection {
    const arguments& args;
    const gguf::file& model;
    std::string second;
    output& out;
    cancel_flag& cancel;

    /// Shows "VERB: 12 of 99" in a terminal; stops when somebody wants that.
    [[nodiscard]] progress_fn watch(std::string_view verb, bool bytes = true) const;
    /// Says what went wrong.
    [[nodiscard]] exit_code fail(const error& problem) const;
};

[[nodiscard]] exit_code inspect_hash(const inspection& job);
[[nodiscard]] exit_code inspect_check(const inspection& job);
[[nodiscard]] exit_code inspect_diff(const inspection& job);
[[nodiscard]] exit_code inspect_split(const inspection& job);
[[nodiscard]] exit_code inspect_merge(const inspection& job);
[[nodiscard]] exit_code inspect_edit(const inspection& job);

}  // namespace colibri::repl
