// A message written in the user's own editor.
#pragma once

#include <string>
#include <string_view>

#include "colibri/core/error.hpp"

namespace colibri::repl {

/// Opens $VISUAL or $EDITOR (a shell command) on a temporary file of mode 0600 that holds `text`, and returns what the
/// file holds afterwards. The terminal must be in `line` mode. Errors: not_found (neither variable is set), io,
/// canceled (the editor failed).
[[nodiscard]] result<std::string> edit_in_external_editor(std::string_view text);

}  // namespace colibri::repl
