#include "repl/screen_layout.hpp"

#include "colibri/text/utf8.hpp"
#include "repl/display.hpp"

namespace colibri::repl {
namespace {

constexpr std::size_t tab_columns = 8;

// Columns that a code point takes when it starts in column `at`.
std::size_t shown_columns(char32_t code, std::size_t at, std::size_t columns) {
    if (code == '\t') {
        const std::size_t wanted = tab_columns - at % tab_columns;
        return at < columns && at + wanted > columns ? columns - at : wanted;
    }
    if (code < 0x20 || (code >= 0x7f && code < 0xa0)) return 2;
    return static_cast<std::size_t>(columns_of(code));
}

}  // namespace

screen_layout lay_out(std::string_view text, std::size_t cursor, std::size_t first_indent, std::size_t next_indent,
                      std::size_t columns) {
    screen_layout out;
    screen_row row{.begin = 0, .end = 0, .indent = first_indent, .starts_line = true};
    std::size_t column = first_indent;
    const auto close_row = [&](std::size_t end, std::size_t next_begin, std::size_t indent, bool starts_line) {
        row.end = end;
        row.full = column == columns;
        out.rows.push_back(row);
        row = {.begin = next_begin, .end = next_begin, .indent = indent, .starts_line = starts_line};
        column = indent;
    };
    for (std::size_t at = 0; at < text.size();) {
        const auto [code, length, valid] = text::decode_utf8(text, at);
        std::size_t width = code == '\n' ? 0 : shown_columns(code, column, columns);
        // A full row ends in front of whatever follows, be it a line end: the cursor in front of that has to stand
        // somewhere.
        if (column + width > columns || (column == columns && code == '\n')) {
            close_row(at, at, 0, false);
            width = code == '\n' ? 0 : shown_columns(code, column, columns);
        }
        if (at == cursor) {
            out.cursor_row = out.rows.size();
            out.cursor_column = column;
        }
        if (code == '\n') close_row(at, at + length, next_indent, true);
        column += width;
        at += length;
    }
    if (column == columns) close_row(text.size(), text.size(), 0, false);
    if (cursor >= text.size()) {
        out.cursor_row = out.rows.size();
        out.cursor_column = column;
    }
    close_row(text.size(), text.size(), 0, false);
    return out;
}

std::string shown_text(std::string_view text, const screen_row& row, std::size_t columns) {
    std::string out;
    std::size_t column = row.indent;
    for (std::size_t at = row.begin; at < row.end;) {
        const auto [code, length, valid] = text::decode_utf8(text, at);
        const std::size_t width = shown_columns(code, column, columns);
        if (code == '\t') {
            out.append(width, ' ');
        } else if (code < 0x20 || code == 0x7f) {
            out += '^';
            out += static_cast<char>(code ^ 0x40);
        } else if (code >= 0x80 && code < 0xa0) {
            out += "^?";
        } else {
            text::append_utf8(out, code);
        }
        column += width;
        at += length;
    }
    return out;
}

std::size_t position_at(std::string_view text, const screen_layout& layout, std::size_t row_number, std::size_t column,
                        std::size_t columns) {
    const auto& row = layout.rows[row_number];
    std::size_t at = row.begin;
    std::size_t here = row.indent;
    while (at < row.end) {
        const std::size_t next = next_cluster(text, at);
        std::size_t width = 0;
        for (std::size_t i = at; i < next;) {
            const auto [code, length, valid] = text::decode_utf8(text, i);
            width += shown_columns(code, here + width, columns);
            i += length;
        }
        if (here + width > column) break;
        // The place behind a full row's last cluster is the next row's first.
        if (next >= row.end && row.full) break;
        here += width;
        at = next;
    }
    return at;
}

}  // namespace colibri::repl
