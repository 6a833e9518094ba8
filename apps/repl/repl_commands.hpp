// The commands of the REPL: their table, and what Tab makes of a begun one.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "repl/line_editor.hpp"

namespace colibri::repl {

enum class repl_command { help, set, show, system, undo, retry, clear, save, load, stats, quit };

struct repl_command_row {
    repl_command which;
    std::string_view name;      ///< without '/'
    std::string_view argument;  ///< as help shows it; empty: takes none
    std::string_view help;
};

/// All commands, in the order of /help.
[[nodiscard]] std::span<const repl_command_row> all_repl_commands();

/// The command of that name (also "exit" and "bye"), or null.
[[nodiscard]] const repl_command_row* find_repl_command(std::string_view name);

/// Sentence about a command that doesn't exist, with what may have been meant.
[[nodiscard]] std::string unknown_repl_command(std::string_view name);

/// Text of /help, and of "/help NAME".
[[nodiscard]] std::string repl_help();

/// What can be shown by /show, and set by /set besides the options.
inline constexpr std::string_view show_topics[] = {"model", "settings", "system", "template", "messages"};

/// Names that /set takes, with '_'.
[[nodiscard]] std::vector<std::string> settable_names();

/// Completion of commands, of their words, and of file names behind /load and /save.
[[nodiscard]] completions complete_repl_input(std::string_view before_cursor);

/// Completion of a path as it is being typed; only the part behind the last '/' is replaced.
[[nodiscard]] completions complete_path(std::string_view before_cursor, std::size_t path_begin);

}  // namespace colibri::repl
