// What somebody may have meant.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace colibri::repl {

/// Letters to insert, remove, replace or swap with a neighbour to get from one word to the other. Counts bytes.
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b);

/// The known word nearest to `typed`, if it is near enough for a slip: one change in words up to 4 letters, two up to
/// 8, three in longer ones; or the only known word that `typed` begins.
[[nodiscard]] std::optional<std::string_view> nearest(std::string_view typed, std::span<const std::string_view> known);

/// "; did you mean PREFIXword?" or nothing.
[[nodiscard]] std::string suggestion(std::string_view typed, std::span<const std::string_view> known,
                                     std::string_view prefix = {});

}  // namespace colibri::repl
