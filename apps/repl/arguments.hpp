// The command line: which command, which options, which file names.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "repl/options.hpp"

namespace colibri::repl {

enum class command { chat, run, tokenize, inspect, plan, bench, eval, imatrix, completion, help, version };

/// A command as the help lists it.
struct command_row {
    command which;
    std::string_view name;
    unsigned bits;           ///< which options it takes; 0: none
    std::string_view usage;  ///< behind "colibri "
    std::string_view summary;
    std::string_view explanation;  ///< paragraphs of its own help
};

[[nodiscard]] std::span<const command_row> all_commands();
[[nodiscard]] const command_row& row_of(command which);

/// A parsed command line.
struct arguments {
    command which = command::chat;
    options given;
    std::vector<std::string> names;  ///< what is neither an option nor an option's value
    bool help = false;               ///< --help was among the options
};

/// Parses what follows the program's name. Without a command's name it is `chat`, so that `colibri MODEL` works.
/// "--name=value" and "--name value" both work; a value may begin with '-'; "--" ends the options. Written by hand
/// since option values are texts for a model that have to arrive as they are ("[a,b]", "--", ""), and "-ub" is one
/// option. Errors: invalid_argument, one sentence with a suggestion for a near miss.
[[nodiscard]] result<arguments> parse_arguments(std::span<const std::string_view> words);

/// Text of --help for one command, and of `colibri --help`.
[[nodiscard]] std::string help_text(command which, bool color);
[[nodiscard]] std::string overview_text(bool color);

/// The completion script of a shell: bash, zsh or fish. Errors: invalid_argument.
[[nodiscard]] result<std::string> completion_script(std::string_view shell);

/// The only `what` ("model") that is named, by -m or as a word. Errors: invalid_argument (none, several); `usage`: how the command
/// is called.
[[nodiscard]] result<std::string> only_name(const arguments& args, std::string_view what, std::string_view usage);

}  // namespace colibri::repl
