// What a typed or piped text is: a message, or a command.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace colibri::repl {

enum class input_kind { empty, message, command };

struct repl_input {
    input_kind kind = input_kind::empty;
    std::string text = {};  ///< the message, or the command's argument
    std::string name = {};  ///< the command without '/', in lower case
};

/// Whether a `"""` block has begun (at the start, or as a command's argument) and not ended, so that lines must follow.
[[nodiscard]] bool is_open_block(std::string_view text);

/// Takes a whole text apart. A command is '/' and letters as the whole first word; "//" stands for a message's first
/// '/';
/// `"""` around a message or an argument go away, together with a line end just inside. Blank text is empty. `literal`
/// text (a paste of several lines) is a message whatever it looks like.
[[nodiscard]] repl_input parse_input(std::string_view text, bool literal = false);

/// `text` in a form that `parse_input` makes the same message of, for the history of literal texts.
[[nodiscard]] std::string as_block(std::string_view text);

/// Collects piped lines into messages: `"""` blocks, and lines that end in an odd number of '\'.
class line_joiner {
public:
    /// Adds a line; the whole text if it ends there.
    [[nodiscard]] std::optional<std::string> add(std::string_view line);

    /// What was begun when the input ended.
    [[nodiscard]] std::optional<std::string> finish();

private:
    std::string text_;
    bool begun_ = false;
};

}  // namespace colibri::repl
