// Whole files as text: reading prompts, writing what must never be half written.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "colibri/core/error.hpp"

namespace colibri::repl {

/// All bytes of a file, FIFO or device. Errors: not_found, not_a_file (a folder), io.
[[nodiscard]] result<std::string> read_whole_file(const std::filesystem::path& path);

/// All bytes up to the end of an open descriptor; `name` is what errors call it. Errors: io.
[[nodiscard]] result<std::string> read_whole_descriptor(int fd, std::string_view name);

/// Text as people mean it: without a byte-order mark, with '\n' for CRLF, ill-formed UTF-8 replaced by U+FFFD (the
/// number is added to `replaced`), and without one final line end.
[[nodiscard]] std::string as_text(std::string_view bytes, std::size_t& replaced);

/// A path as typed, with a leading "~/" made the home folder.
[[nodiscard]] std::filesystem::path expand_home(std::string_view typed);

/// Replaces `path` by `bytes` as a whole (see atomic_writer), readable by its owner only. Errors: io, not_found (no
/// such folder), not_a_file.
[[nodiscard]] result<void> replace_private_file(const std::filesystem::path& path, std::string_view bytes);

}  // namespace colibri::repl
