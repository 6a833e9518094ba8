// Where each part of an edited text stands on the screen.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace colibri::repl {

/// One row of the screen: the bytes [begin, end) of the text behind `indent` columns of prompt.
struct screen_row {
    std::size_t begin = 0;
    std::size_t end = 0;
    std::size_t indent = 0;  ///< columns of the prompt in front; only in the first row of a line
    bool starts_line = false;
    bool full = false;  ///< the last column is used, so that the terminal wraps by itself
};

/// Rows of a text, wrapped at `columns`, and where the cursor is.
struct screen_layout {
    std::vector<screen_row> rows;
    std::size_t cursor_row = 0;
    std::size_t cursor_column = 0;
};

/// Lays out `text`; the first line has `first_indent` columns in front, each further line `next_indent`. Both are
/// smaller than `columns` - 1.
[[nodiscard]] screen_layout lay_out(std::string_view text, std::size_t cursor, std::size_t first_indent,
                                    std::size_t next_indent, std::size_t columns);

/// What a row shows: tabs as blanks, control characters as ^X.
[[nodiscard]] std::string shown_text(std::string_view text, const screen_row& row, std::size_t columns);

/// The text position in row `row` that is nearest to `column`.
[[nodiscard]] std::size_t position_at(std::string_view text, const screen_layout& layout, std::size_t row,
                                      std::size_t column, std::size_t columns);

}  // namespace colibri::repl
