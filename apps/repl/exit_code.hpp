// What the program's exit status says; documented in docs/cli.md.
#pragma once

namespace colibri::repl {

enum class exit_code : int {
    ok = 0,
    usage = 1,          ///< a wrong option, value or command
    model = 2,          ///< the model can't be loaded or run
    context = 3,        ///< the prompt or the answer doesn't fit the context
    io = 4,             ///< reading input or writing output failed
    cannot_run = 5,     ///< plan: the model can't run so
    differs = 6,        ///< inspect --diff: the models differ
    interrupted = 130,  ///< Ctrl-C
};

}  // namespace colibri::repl
