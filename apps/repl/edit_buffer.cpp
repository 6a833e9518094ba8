#include "repl/edit_buffer.hpp"

#include <algorithm>
#include <utility>

#include "colibri/text/utf8.hpp"
#include "repl/display.hpp"

namespace colibri::repl {

void edit_buffer::set(std::string text) {
    text_ = std::move(text);
    cursor_ = text_.size();
}

void edit_buffer::insert(std::string_view text) {
    text_.insert(cursor_, text);
    cursor_ += text.size();
}

void edit_buffer::replace_before(std::size_t from, std::string_view text) {
    text_.replace(from, cursor_ - from, text);
    cursor_ = from + text.size();
}

void edit_buffer::move_to(std::size_t at) noexcept { cursor_ = std::min(at, text_.size()); }
void edit_buffer::left() noexcept { cursor_ = previous_cluster(text_, cursor_); }
void edit_buffer::right() noexcept { cursor_ = next_cluster(text_, cursor_); }
void edit_buffer::word_left() noexcept { cursor_ = word_begin(); }
void edit_buffer::word_right() noexcept { cursor_ = word_end(); }
void edit_buffer::line_begin() noexcept { cursor_ = begin_of_line(); }
void edit_buffer::line_end() noexcept { cursor_ = end_of_line(); }

std::size_t edit_buffer::begin_of_line() const noexcept {
    if (cursor_ == 0) return 0;
    const auto before = text_.rfind('\n', cursor_ - 1);
    return before == std::string::npos ? 0 : before + 1;
}

std::size_t edit_buffer::end_of_line() const noexcept { return std::min(text_.find('\n', cursor_), text_.size()); }

std::size_t edit_buffer::word_begin() const noexcept {
    std::size_t at = cursor_;
    const auto before_is_word = [&] { return is_word(text::decode_utf8(text_, previous_cluster(text_, at)).value); };
    while (at > 0 && !before_is_word()) at = previous_cluster(text_, at);
    while (at > 0 && before_is_word()) at = previous_cluster(text_, at);
    return at;
}

std::size_t edit_buffer::word_end() const noexcept {
    std::size_t at = cursor_;
    const auto is_word_here = [&] { return is_word(text::decode_utf8(text_, at).value); };
    while (at < text_.size() && !is_word_here()) at = next_cluster(text_, at);
    while (at < text_.size() && is_word_here()) at = next_cluster(text_, at);
    return at;
}

void edit_buffer::kill(std::size_t begin, std::size_t end) {
    if (begin == end) return;
    killed_ = text_.substr(begin, end - begin);
    text_.erase(begin, end - begin);
    cursor_ = begin;
}

void edit_buffer::erase_left() {
    const std::size_t begin = previous_cluster(text_, cursor_);
    text_.erase(begin, cursor_ - begin);
    cursor_ = begin;
}

void edit_buffer::erase_right() { text_.erase(cursor_, next_cluster(text_, cursor_) - cursor_); }
void edit_buffer::kill_word_left() { kill(word_begin(), cursor_); }
void edit_buffer::kill_word_right() { kill(cursor_, word_end()); }

void edit_buffer::kill_token_left() {
    const auto is_space = [](char c) { return c == ' ' || c == '\t' || c == '\n'; };
    std::size_t at = cursor_;
    while (at > 0 && is_space(text_[at - 1])) --at;
    while (at > 0 && !is_space(text_[at - 1])) --at;
    kill(at, cursor_);
}

void edit_buffer::kill_to_line_begin() { kill(begin_of_line(), cursor_); }

void edit_buffer::kill_to_line_end() {
    const std::size_t end = end_of_line();
    kill(cursor_, end == cursor_ && end < text_.size() ? end + 1 : end);
}

void edit_buffer::yank() { insert(killed_); }

void edit_buffer::transpose() {
    const std::size_t begin = begin_of_line();
    const std::size_t end = end_of_line();
    if (cursor_ == begin) return;
    const std::size_t split = cursor_ == end ? previous_cluster(text_, cursor_) : cursor_;
    if (split == begin) return;
    const std::size_t left = previous_cluster(text_, split);
    const std::size_t right = next_cluster(text_, split);
    std::rotate(text_.begin() + static_cast<std::ptrdiff_t>(left), text_.begin() + static_cast<std::ptrdiff_t>(split),
                text_.begin() + static_cast<std::ptrdiff_t>(right));
    cursor_ = right;
}

}  // namespace colibri::repl
