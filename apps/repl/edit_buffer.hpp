// The text being edited and its cursor, without a screen.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace colibri::repl {

/// UTF-8 text with a cursor that never stands inside a cluster. Lines are separated by '\n'.
class edit_buffer {
public:
    [[nodiscard]] const std::string& text() const noexcept { return text_; }
    [[nodiscard]] std::size_t cursor() const noexcept { return cursor_; }
    [[nodiscard]] bool empty() const noexcept { return text_.empty(); }
    [[nodiscard]] bool at_end() const noexcept { return cursor_ == text_.size(); }

    /// New text with the cursor at its end.
    void set(std::string text);
    void insert(std::string_view text);
    /// Replaces [from, cursor) by `text`.
    void replace_before(std::size_t from, std::string_view text);
    void move_to(std::size_t at) noexcept;

    void left() noexcept;
    void right() noexcept;
    void word_left() noexcept;
    void word_right() noexcept;
    void line_begin() noexcept;
    void line_end() noexcept;

    void erase_left();
    void erase_right();
    void kill_word_left();   ///< Alt-Backspace: letters and digits
    void kill_token_left();  ///< Ctrl-W: up to white space
    void kill_word_right();
    void kill_to_line_begin();
    void kill_to_line_end();  ///< at the end of a line: joins it with the next
    void yank();
    void transpose();

    [[nodiscard]] std::size_t begin_of_line() const noexcept;
    [[nodiscard]] std::size_t end_of_line() const noexcept;

private:
    void kill(std::size_t begin, std::size_t end);
    [[nodiscard]] std::size_t word_begin() const noexcept;
    [[nodiscard]] std::size_t word_end() const noexcept;

    std::string text_;
    std::string killed_;
    std::size_t cursor_ = 0;
};

}  // namespace colibri::repl
