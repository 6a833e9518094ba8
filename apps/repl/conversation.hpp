// A conversation and its settings as /save writes and /load reads them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "colibri/core/error.hpp"
#include "repl/options.hpp"

namespace colibri::repl {

struct chat_message {
    std::string role;  ///< "user" or "assistant"
    std::string content;
    friend bool operator==(const chat_message&, const chat_message&) = default;
};

struct conversation {
    std::string model;  ///< its title, for the reader
    std::optional<std::string> system;
    std::vector<chat_message> messages;
};

/// JSON of a conversation and of the settable options that were given.
[[nodiscard]] std::string save_conversation(const conversation& talk, const options& given);

/// Reads what `save_conversation` wrote. Settable options in `given` become those of the file; the others stay.
/// Nothing is changed on an error. Errors: bad_magic (no such JSON), bad_version, bad_value (named).
[[nodiscard]] result<conversation> load_conversation(std::string_view json, options& given);

/// Whether bytes are a saved conversation, so that /save may replace them.
[[nodiscard]] bool is_saved_conversation(std::string_view json);

}  // namespace colibri::repl
