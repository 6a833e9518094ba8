// Keeps the rows of an edited text on the screen up to date.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "repl/screen_layout.hpp"

namespace colibri::repl {

/// What stands in front of a message.
struct prompt {
    std::string first = "> ";      ///< in front of the first line
    std::string next = ". ";       ///< in front of each further line
    std::string placeholder = {};  ///< shown dimly while nothing is typed; only with color
    bool color = false;
};

/// Paints from the row where the cursor is downwards, and knows where the cursor stands in what it painted. A text
/// taller than the screen is shown in part, around the cursor.
class painter {
public:
    explicit painter(int fd) noexcept : fd_(fd) {}

    /// Replaces what is painted.
    void paint(const prompt& p, std::string_view text, std::size_t cursor);

    /// Moves the cursor below the text. One that was shown in part is painted as a whole first, so that it stays
    /// readable.
    void leave();

    /// Removes what is painted; the cursor is where it began.
    void erase();

    /// The screen belongs to somebody else's output now: the next painting starts where the cursor is.
    void forget() noexcept { cursor_row_ = 0; }

    /// Clears the screen.
    void clear_screen();

    /// After a change of the window's size. Most terminals wrap lines anew by themselves; so the cursor is expected
    /// where the text's layout at the new width has it.
    void resized();

    /// The text position `by` rows below the cursor, as near as can be to column `wanted` (set if it is empty); nothing
    /// if there is no such row.
    [[nodiscard]] std::optional<std::size_t> position_below(const prompt& p, std::string_view text, std::size_t cursor,
                                                            std::ptrdiff_t by,
                                                            std::optional<std::size_t>& wanted) const;

    /// Writes `lines` in place of what is painted, a new line behind each.
    void print(std::string_view lines);

    /// Short words below the text, in columns as the screen allows.
    void print_in_columns(const std::vector<std::string>& words);

private:
    void put_rows(std::string& out, const screen_layout& layout, std::size_t first, std::size_t last,
                  std::size_t columns) const;
    void move_to_top(std::string& out);
    void send(std::string_view bytes) const;

    int fd_;
    prompt prompt_;
    std::string text_;
    std::size_t cursor_ = 0;
    std::size_t first_row_ = 0;   ///< of the layout, at the top of what is painted
    std::size_t cursor_row_ = 0;  ///< counted from the top of what is painted
};

}  // namespace colibri::repl
