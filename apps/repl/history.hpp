// What was typed before: in memory, and in a file that only its owner can read.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "colibri/core/error.hpp"

namespace colibri::repl {

/// ~/.local/state/colibri/history, or where XDG_STATE_HOME says; nothing if there is no home folder.
[[nodiscard]] std::optional<std::filesystem::path> default_history_file();

/// Entry as one line of the file: backslash, line feed and carriage return are escaped.
[[nodiscard]] std::string encode_history_entry(std::string_view entry);
[[nodiscard]] std::string decode_history_entry(std::string_view line);

/// Entries, oldest first. The file has mode 0600, is replaced as a whole, and is shared with other running programs:
/// each `add` reads it again under a lock.
class history {
public:
    static constexpr std::size_t max_entries = 1000;
    static constexpr std::size_t max_bytes = 4u << 20;

    history() = default;

    /// Uses `file` from now on and reads it. Errors: io. A missing file is empty.
    [[nodiscard]] result<void> attach(std::filesystem::path file);

    /// Keeps what is in memory and leaves the file alone from now on.
    void detach() noexcept { file_.reset(); }

    [[nodiscard]] bool attached() const noexcept { return file_.has_value(); }
    [[nodiscard]] const std::vector<std::string>& entries() const noexcept { return entries_; }

    /// Adds an entry unless it is empty or equals the last one, and saves. Errors: io (the entry is kept in memory).
    [[nodiscard]] result<void> add(std::string_view entry);

private:
    std::vector<std::string> entries_;
    std::optional<std::filesystem::path> file_;
};

}  // namespace colibri::repl
