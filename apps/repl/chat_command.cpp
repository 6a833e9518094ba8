// colibri chat: messages and commands until the end of input.
#include <unistd.h>

#include <optional>
#include <utility>

#include "colibri/core/concat.hpp"
#include "colibri/core/escape.hpp"
#include "repl/answering.hpp"
#include "repl/commands.hpp"
#include "repl/prompt_input.hpp"
#include "repl/repl.hpp"

namespace colibri::repl {

exit_code chat_command(arguments args, output& out) {
    take_model(args);
    if (!args.given.model) {
        out.fail("a model is needed: colibri MODEL");
        return exit_code::usage;
    }
    if (!args.names.empty()) {
        out.fail(concat("there is one word too many: ", quoted(std::string_view(args.names.front())),
                        " (messages come from standard input or -p)"));
        return exit_code::usage;
    }
    const auto first = read_prompt(args, false, out);
    if (first.failed != exit_code::ok) return first.failed;

    // From here on Enter and Ctrl-D reach the editor as keys, also while the model is being opened.
    const bool from_terminal = ::isatty(STDIN_FILENO) == 1;
    std::optional<tty_mode_guard> keys;
    if (from_terminal && (moves_cursor(STDERR_FILENO) || moves_cursor(STDOUT_FILENO))) keys.emplace(tty_mode::answer);
    exit_code failed = exit_code::ok;
    auto opened = open_engine(args.given, engine_use::conversation, out, failed);
    if (!opened) return failed;
    return repl(*opened, args.given, out).run(first.text);
}

}  // namespace colibri::repl
