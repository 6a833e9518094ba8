// What text looks like in a terminal: columns, and clusters that the cursor doesn't split.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace colibri::repl {

/// Columns of a printable code point: 0 (combining), 1, or 2 (East Asian wide, emoji). Control characters have no width
/// here; the editor shows them as ^X.
[[nodiscard]] int columns_of(char32_t code) noexcept;

/// Columns of a text without line breaks; control characters count as the two of ^X.
[[nodiscard]] std::size_t columns_of(std::string_view text) noexcept;

/// Where the cluster behind `at` ends: a code point with what combines with it, or a pair of flag letters.
[[nodiscard]] std::size_t next_cluster(std::string_view text, std::size_t at) noexcept;

/// Where the cluster in front of `at` starts.
[[nodiscard]] std::size_t previous_cluster(std::string_view text, std::size_t at) noexcept;

/// Letters, digits, and everything outside ASCII that isn't white space: what Alt-b and Alt-f jump over.
[[nodiscard]] bool is_word(char32_t code) noexcept;

/// `text` with ill-formed sequences replaced by U+FFFD; their number is added to `replaced`.
[[nodiscard]] std::string valid_utf8(std::string_view text, std::size_t& replaced);

/// `text` without control characters (line feed and tab stay), for showing a model's answer in a terminal: ESC becomes
/// ^[.
[[nodiscard]] std::string without_controls(std::string_view text);

}  // namespace colibri::repl
