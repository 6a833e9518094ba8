#include "repl/painter.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "colibri/core/concat.hpp"
#include "repl/display.hpp"
#include "repl/terminal.hpp"

namespace colibri::repl {
namespace {

constexpr std::string_view prompt_style = "\033[1;32m";
constexpr std::string_view dim_style = "\033[2m";
constexpr std::string_view plain_style = "\033[0m";

// A screen too narrow for prompt and text has no prompt.
std::size_t indent_of(std::string_view prompt_text, std::size_t columns) {
    const std::size_t width = columns_of(prompt_text);
    return width + 2 > columns ? 0 : width;
}

screen_layout layout_for(const prompt& p, std::string_view text, std::size_t cursor, std::size_t columns) {
    return lay_out(text, cursor, indent_of(p.first, columns), indent_of(p.next, columns), columns);
}

}  // namespace

void painter::send(std::string_view bytes) const {
    while (!bytes.empty()) {
        const ssize_t done = ::write(fd_, bytes.data(), bytes.size());
        if (done < 0 && errno != EINTR && errno != EAGAIN) return;  // the terminal is gone; reading will tell
        if (done > 0) bytes.remove_prefix(static_cast<std::size_t>(done));
    }
}

void painter::move_to_top(std::string& out) {
    if (cursor_row_ > 0) out += concat("\033[", cursor_row_, "A");
    out += "\r\033[J";
    cursor_row_ = 0;
}

void painter::put_rows(std::string& out, const screen_layout& layout, std::size_t first, std::size_t last,
                       std::size_t columns) const {
    for (std::size_t r = first; r < last; ++r) {
        const auto& row = layout.rows[r];
        // Behind a full last column the terminal wraps by itself as soon as a character follows.
        if (r > first && (!layout.rows[r - 1].full || row.begin == row.end)) out += "\r\n";
        if (row.starts_line && row.indent > 0) {
            if (prompt_.color) out += prompt_style;
            out += r == 0 ? prompt_.first : prompt_.next;
            if (prompt_.color) out += plain_style;
        }
        out += shown_text(text_, row, columns);
    }
}

void painter::paint(const prompt& p, std::string_view text, std::size_t cursor) {
    const auto [columns, rows] = size_of_screen(fd_);
    prompt_ = p;
    text_ = text;
    cursor_ = cursor;
    std::string out;
    move_to_top(out);
    const auto layout = layout_for(prompt_, text_, cursor_, columns);
    first_row_ = std::min(first_row_, layout.cursor_row);
    if (layout.cursor_row >= first_row_ + rows) first_row_ = layout.cursor_row - rows + 1;
    if (layout.rows.size() <= rows) first_row_ = 0;
    const std::size_t last = std::min(layout.rows.size(), first_row_ + rows);
    put_rows(out, layout, first_row_, last, columns);
    if (text_.empty() && prompt_.color && !prompt_.placeholder.empty()) {
        const std::size_t room = columns - layout.cursor_column;
        if (columns_of(prompt_.placeholder) < room) out += concat(dim_style, prompt_.placeholder, plain_style);
    }
    const std::size_t up = last - 1 - layout.cursor_row;
    if (up > 0) out += concat("\033[", up, "A");
    out += '\r';
    if (layout.cursor_column > 0) out += concat("\033[", layout.cursor_column, "C");
    cursor_row_ = layout.cursor_row - first_row_;
    send(out);
}

void painter::leave() {
    const auto [columns, rows] = size_of_screen(fd_);
    const auto layout = layout_for(prompt_, text_, cursor_, columns);
    std::string out;
    move_to_top(out);
    put_rows(out, layout, 0, layout.rows.size(), columns);
    out += "\r\n";
    first_row_ = 0;
    text_.clear();
    cursor_ = 0;
    send(out);
}

void painter::erase() {
    std::string out;
    move_to_top(out);
    send(out);
}

void painter::clear_screen() {
    cursor_row_ = 0;
    send("\033[H\033[2J");
}

void painter::resized() {
    const auto [columns, rows] = size_of_screen(fd_);
    const auto layout = layout_for(prompt_, text_, cursor_, columns);
    cursor_row_ = layout.cursor_row >= first_row_ ? std::min(layout.cursor_row - first_row_, rows - 1) : 0;
}

std::optional<std::size_t> painter::position_below(const prompt& p, std::string_view text, std::size_t cursor,
                                                   std::ptrdiff_t by, std::optional<std::size_t>& wanted) const {
    const std::size_t columns = size_of_screen(fd_).columns;
    const auto layout = layout_for(p, text, cursor, columns);
    const auto row = static_cast<std::ptrdiff_t>(layout.cursor_row) + by;
    if (row < 0 || row >= static_cast<std::ptrdiff_t>(layout.rows.size())) return std::nullopt;
    if (!wanted) wanted = layout.cursor_column;
    return position_at(text, layout, static_cast<std::size_t>(row), *wanted, columns);
}

void painter::print(std::string_view lines) {
    erase();
    std::string out;
    for (const char c : lines) {
        if (c == '\n') out += '\r';
        out += c;
    }
    send(out + "\r\n");
}

void painter::print_in_columns(const std::vector<std::string>& words) {
    const auto [columns, rows] = size_of_screen(fd_);
    std::size_t widest = 1;
    for (const auto& word : words) widest = std::max(widest, columns_of(word));
    const std::size_t per_row = std::max<std::size_t>(1, (columns - 1) / (widest + 2));
    std::string out;
    for (std::size_t i = 0; i < words.size(); ++i) {
        out += without_controls(words[i]);
        if (i + 1 == words.size() || (i + 1) % per_row == 0) out += "\r\n";
        else out.append(widest + 2 - columns_of(words[i]), ' ');
    }
    leave();
    send(out);
}

}  // namespace colibri::repl
