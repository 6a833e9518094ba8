#include "repl/line_editor.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "colibri/text/utf8.hpp"
#include "repl/display.hpp"
#include "repl/external_editor.hpp"
#include "repl/terminal.hpp"

namespace colibri::repl {
namespace {

constexpr int escape_wait = 500;  // milliseconds; slow lines cut a key's bytes apart
constexpr int paste_wait = 1000;  // then the paste's end got lost

bool ends_in_backslash(std::string_view line) {
    std::size_t count = 0;
    while (count < line.size() && line[line.size() - 1 - count] == '\\') ++count;
    return count % 2 == 1;
}

std::string common_prefix(const std::vector<std::string>& texts) {
    std::string out = texts.front();
    for (const auto& text : texts) {
        out.erase(std::mismatch(out.begin(), out.end(), text.begin(), text.end()).first, out.end());
    }
    // Never half a character.
    while (!out.empty() && !text::decode_utf8(out, previous_cluster(out, out.size())).valid) out.pop_back();
    return out;
}

}  // namespace

line_editor::line_editor(int drawing_fd, history& past, std::function<bool(std::string_view)> is_open,
                         std::function<completions(std::string_view)> complete)
    : painter_(drawing_fd), past_(past), is_open_(std::move(is_open)), complete_(std::move(complete)) {
    set_drawing_descriptor(drawing_fd);
}

read_result line_editor::read(const prompt& p) {
    const tty_mode_guard mode(tty_mode::edit);
    prompt_ = p;
    buffer_.set({});
    draft_.clear();
    recalled_ = past_.entries().size();
    search_.reset();
    wanted_column_.reset();
    literal_ = completed_ = false;
    painter_.forget();
    step s = step::go_on;
    while (s == step::go_on) {
        const auto k = next_key();
        s = k ? handle(*k) : step::end;
    }
    paint();
    painter_.leave();
    forget_interrupt();  // the keyboard sends none in this mode, and one from before was for what is over
    switch (s) {
        case step::submit: return {read_end::message, buffer_.text(), literal_};
        case step::interrupted: return {read_end::interrupted};
        default: return {read_end::end};
    }
}

void line_editor::paint() {
    if (!search_) {
        painter_.paint(prompt_, buffer_.text(), buffer_.cursor());
        return;
    }
    prompt p = prompt_;
    p.first = concat(search_->failed ? "(no match '" : "(search '", without_controls(search_->wanted), "') ");
    p.placeholder.clear();
    const bool found = search_->found < past_.entries().size();
    const std::string& shown = found ? past_.entries()[search_->found] : buffer_.text();
    painter_.paint(p, shown, found ? shown.find(search_->wanted) : buffer_.cursor());
}

// Paints only when no further key is waiting, so that a burst of keys costs one painting.
std::optional<key> line_editor::next_key() {
    bool painted = false;
    while (true) {
        keys_.feed(take_type_ahead());
        if (auto k = keys_.next()) return k;
        if (at_end_) return std::nullopt;
        if (!painted) paint();
        painted = true;
        switch (wait_for_input(STDIN_FILENO, keys_.pasting() ? paste_wait : keys_.incomplete() ? escape_wait : -1)) {
            case wake::timeout:
                if (auto k = keys_.flush()) return k;
                break;
            case wake::resized:
                painter_.resized();
                painted = false;
                break;
            case wake::resumed:
                painter_.forget();
                painted = false;
                break;
            case wake::interrupted: break;  // Ctrl-C is a key here
            case wake::input: read_bytes(); break;
        }
    }
}

void line_editor::read_bytes() {
    std::array<char, 4096> bytes;
    const ssize_t got = ::read(STDIN_FILENO, bytes.data(), bytes.size());
    if (got > 0) keys_.feed({bytes.data(), static_cast<std::size_t>(got)});
    else if (got == 0 || (errno != EINTR && errno != EAGAIN)) at_end_ = true;
}

bool line_editor::take_interrupt() {
    bool noticed = false;  // as a signal, since the terminal was in another mode already
    while (!at_end_) {
        const wake why = wait_for_input(STDIN_FILENO, 0);
        if (why == wake::input) read_bytes();
        else if (why == wake::interrupted) noticed = true;
        else break;
    }
    return keys_.drop_through('\x03') || noticed;
}

line_editor::step line_editor::handle(const key& k) {
    const step s = search_ ? handle_search(k) : handle_edit(k);
    if (buffer_.empty()) literal_ = false;
    return s;
}

line_editor::step line_editor::handle_edit(const key& k) {
    const auto column = std::exchange(wanted_column_, std::nullopt);
    const bool completed = std::exchange(completed_, false);
    switch (k.kind) {
        case key_kind::text: buffer_.insert(k.text); break;
        case key_kind::paste: paste(k.text); break;
        case key_kind::enter: return enter();
        case key_kind::newline: buffer_.insert("\n"); break;
        case key_kind::tab: complete(completed); break;
        case key_kind::ctrl: wanted_column_ = column; return handle_ctrl(k.text.front());
        case key_kind::alt: handle_alt(k.text.front()); break;
        case key_kind::backspace: buffer_.erase_left(); break;
        case key_kind::word_backspace: buffer_.kill_word_left(); break;
        case key_kind::del: buffer_.erase_right(); break;
        case key_kind::left: buffer_.left(); break;
        case key_kind::right: buffer_.right(); break;
        case key_kind::word_left: buffer_.word_left(); break;
        case key_kind::word_right: buffer_.word_right(); break;
        case key_kind::home: buffer_.line_begin(); break;
        case key_kind::end: buffer_.line_end(); break;
        case key_kind::up:
            wanted_column_ = column;
            if (!move_rows(-1)) recall(-1);
            break;
        case key_kind::down:
            wanted_column_ = column;
            if (!move_rows(1)) recall(1);
            break;
        case key_kind::page_up: recall(-1); break;
        case key_kind::page_down: recall(1); break;
        case key_kind::escape:
        case key_kind::unknown: break;
    }
    return step::go_on;
}

line_editor::step line_editor::handle_ctrl(char letter) {
    if (letter == 'n' || letter == 'p') {
        const std::ptrdiff_t by = letter == 'n' ? 1 : -1;
        if (!move_rows(by)) recall(by);
        return step::go_on;
    }
    wanted_column_.reset();
    switch (letter) {
        case 'a': buffer_.line_begin(); break;
        case 'b': buffer_.left(); break;
        case 'c':
            if (buffer_.empty()) return step::interrupted;
            buffer_.set({});
            recalled_ = past_.entries().size();
            break;
        case 'd':
            if (buffer_.empty()) return step::end;
            buffer_.erase_right();
            break;
        case 'e': buffer_.line_end(); break;
        case 'f': buffer_.right(); break;
        case 'g': open_editor(); break;
        case 'k': buffer_.kill_to_line_end(); break;
        case 'l': painter_.clear_screen(); break;
        case 'r': search_ = search_state{.found = past_.entries().size()}; break;
        case 't': buffer_.transpose(); break;
        case 'u': buffer_.kill_to_line_begin(); break;
        case 'w': buffer_.kill_token_left(); break;
        case 'y': buffer_.yank(); break;
        case 'z':
            painter_.erase();
            suspend_job();
            break;
        default: break;
    }
    return step::go_on;
}

void line_editor::handle_alt(char letter) {
    switch (letter) {
        case 'b': buffer_.word_left(); break;
        case 'f': buffer_.word_right(); break;
        case 'd': buffer_.kill_word_right(); break;
        case 'p': recall(-1); break;
        case 'n': recall(1); break;
        case '<': buffer_.move_to(0); break;
        case '>': buffer_.move_to(buffer_.text().size()); break;
        default: break;
    }
}

line_editor::step line_editor::enter() {
    if (literal_) return step::submit;
    if (is_open_(buffer_.text())) {
        buffer_.insert("\n");
        return step::go_on;
    }
    const auto before = std::string_view(buffer_.text()).substr(0, buffer_.cursor());
    if (buffer_.cursor() == buffer_.end_of_line() && ends_in_backslash(before)) {
        buffer_.replace_before(buffer_.cursor() - 1, "\n");
        return step::go_on;
    }
    return step::submit;
}

void line_editor::paste(std::string_view text) {
    if (buffer_.cursor() == 0 && text.find('\n') != std::string_view::npos) literal_ = true;
    buffer_.insert(text);
}

bool line_editor::move_rows(std::ptrdiff_t by) {
    const auto at = painter_.position_below(prompt_, buffer_.text(), buffer_.cursor(), by, wanted_column_);
    if (at) buffer_.move_to(*at);
    else wanted_column_.reset();
    return at.has_value();
}

void line_editor::recall(std::ptrdiff_t by) {
    const auto& entries = past_.entries();
    const auto last = static_cast<std::ptrdiff_t>(entries.size());
    const auto wanted =
        static_cast<std::size_t>(std::clamp<std::ptrdiff_t>(static_cast<std::ptrdiff_t>(recalled_) + by, 0, last));
    if (wanted == recalled_) return;
    if (recalled_ == entries.size()) draft_ = buffer_.text();
    recalled_ = wanted;
    buffer_.set(recalled_ == entries.size() ? draft_ : entries[recalled_]);
    literal_ = false;
}

void line_editor::complete(bool again) {
    const auto found = complete_(std::string_view(buffer_.text()).substr(0, buffer_.cursor()));
    if (!found.applies) {
        buffer_.insert("\t");
        return;
    }
    completed_ = true;
    if (found.candidates.empty()) return;
    const auto common = common_prefix(found.candidates);
    const auto typed = std::string_view(buffer_.text()).substr(found.begin, buffer_.cursor() - found.begin);
    if (common.size() > typed.size() || found.candidates.size() == 1) {
        buffer_.replace_before(found.begin, common);
    } else if (again) {
        paint();
        painter_.print_in_columns(found.candidates);
        painter_.forget();
    }
}

void line_editor::open_editor() {
    painter_.erase();
    auto edited = [&] {
        const tty_mode_guard mode(tty_mode::line);
        return edit_in_external_editor(buffer_.text());
    }();
    painter_.forget();
    if (edited) {
        buffer_.set(std::move(*edited));
        literal_ = buffer_.text().find('\n') != std::string::npos;
    } else {
        painter_.print(edited.error().text());
    }
}

std::size_t line_editor::find_back(std::string_view wanted, std::size_t from) const {
    const auto& entries = past_.entries();
    for (std::size_t i = std::min(from + 1, entries.size()); i-- > 0;) {
        if (entries[i].find(wanted) != std::string::npos) return i;
    }
    return entries.size();
}

line_editor::step line_editor::handle_search(const key& k) {
    const auto& entries = past_.entries();
    auto& wanted = search_->wanted;
    auto& found = search_->found;
    auto& failed = search_->failed;
    const auto take = [&](std::size_t at) {
        failed = at == entries.size();
        if (!failed) found = at;
    };
    if (k.kind == key_kind::text) {
        wanted += k.text;
        take(find_back(wanted, found));
        return step::go_on;
    }
    if (k.kind == key_kind::backspace) {
        wanted.erase(previous_cluster(wanted, wanted.size()));
        failed = false;
        found = wanted.empty() ? entries.size() : find_back(wanted, entries.size());
        return step::go_on;
    }
    if (k == key{key_kind::ctrl, "r"}) {
        if (!wanted.empty()) take(found == 0 ? entries.size() : find_back(wanted, found - 1));
        return step::go_on;
    }
    const bool given_up = k == key{key_kind::ctrl, "g"} || k == key{key_kind::ctrl, "c"} || k.kind == key_kind::escape;
    if (!given_up && found < entries.size()) {
        if (recalled_ == entries.size()) draft_ = buffer_.text();
        recalled_ = found;
        buffer_.set(entries[found]);
        buffer_.move_to(entries[found].find(wanted));
        literal_ = false;
    }
    search_.reset();
    return given_up ? step::go_on : handle_edit(k);
}

}  // namespace colibri::repl
