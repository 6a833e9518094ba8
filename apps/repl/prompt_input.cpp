#include "repl/prompt_input.hpp"

#include <unistd.h>

#include "colibri/core/concat.hpp"
#include "colibri/core/escape.hpp"
#include "repl/display.hpp"
#include "repl/files.hpp"

namespace colibri::repl {

prompt_input read_prompt(const arguments& args, bool use_stdin, output& out) {
    const auto refuse = [&](std::string_view message) {
        out.fail(message);
        return prompt_input{.failed = exit_code::usage};
    };
    if (args.names.size() > 1) {
        return refuse(concat("only one file can be the prompt, but there is ", quoted(args.names[1]), " too"));
    }
    if (!args.names.empty() && args.given.prompt_file) {
        return refuse(concat(quoted(args.names[0]), " and -f ", quoted(*args.given.prompt_file),
                             " can't both be the prompt; give one"));
    }
    std::optional<std::string> file = args.given.prompt_file;
    if (!args.names.empty()) file = args.names[0];
    if (!file && use_stdin && ::isatty(STDIN_FILENO) == 0) file = "-";

    prompt_input result;
    result.text = args.given.prompt;
    std::size_t replaced = 0;
    if (result.text) result.text = valid_utf8(*result.text, replaced);
    if (file) {
        auto bytes = *file == "-" ? read_whole_descriptor(STDIN_FILENO, "standard input") : read_whole_file(*file);
        if (!bytes) {
            out.fail(bytes.error().text());
            return {.text = {}, .failed = exit_code::io};
        }
        const std::string text = as_text(*bytes, replaced);
        if (!result.text) result.text = text;
        else if (!text.empty()) *result.text += concat("\n\n", text);
    }
    if (replaced != 0) {
        out.warn(concat("the input isn't all UTF-8: ", replaced, replaced == 1 ? " place was" : " places were",
                        " replaced by U+FFFD"));
    }
    return result;
}

}  // namespace colibri::repl
