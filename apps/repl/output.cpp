#include "repl/output.hpp"

#include <poll.h>
#include <unistd.h>

#include <cerrno>

#include "colibri/core/concat.hpp"
#include "colibri/io/file_handle.hpp"
#include "repl/display.hpp"

namespace colibri::repl {
namespace {

constexpr std::string_view dim = "\033[2m";
constexpr std::string_view yellow = "\033[33m";
constexpr std::string_view red = "\033[31m";
constexpr std::string_view plain = "\033[0m";

// errno of the write that failed, or 0.
int write_all(int fd, std::string_view text) {
    while (!text.empty()) {
        const ssize_t done = ::write(fd, text.data(), text.size());
        if (done >= 0) {
            text.remove_prefix(static_cast<std::size_t>(done));
        } else if (errno == EAGAIN) {  // somebody made the descriptor non-blocking
            pollfd ready{fd, POLLOUT, 0};
            if (::poll(&ready, 1, -1) < 0 && errno != EINTR) return errno;
        } else if (errno != EINTR) {
            return errno;
        }
    }
    return 0;
}

}  // namespace

output::output(color_choice choice)
    : out_terminal_(::isatty(STDOUT_FILENO) == 1),
      err_terminal_(::isatty(STDERR_FILENO) == 1),
      color_out_(wants_color(choice, STDOUT_FILENO)),
      color_err_(wants_color(choice, STDERR_FILENO)) {}

bool output::answer(std::string_view text) { return out_terminal_ ? print(without_controls(text)) : print(text); }

bool output::print(std::string_view text) {
    if (closed_ || failed_) return false;
    if (text.empty()) return true;
    clear_progress();
    const int problem = write_all(STDOUT_FILENO, text);
    if (problem == 0) {
        out_line_open_ = text.back() != '\n';
        if (out_terminal_ && err_terminal_) note_open_line(out_line_open_);
        return true;
    }
    closed_ = problem == EPIPE;
    failed_ = !closed_;
    if (failed_) fail(detail::system_error("write", "standard output", problem).message);
    return false;
}

void output::end_line() {
    if (out_line_open_) print("\n");
}

void output::styled(std::string_view style, std::string_view line) {
    clear_progress();
    // In a terminal both streams share the screen; an answer that was cut short doesn't end its line.
    if (out_terminal_ && err_terminal_) end_line();
    const bool color = color_err_ && !style.empty();
    write_all(STDERR_FILENO, color ? concat(style, line, plain, "\n") : concat(line, "\n"));
}

void output::say(std::string_view line) { styled({}, line); }
void output::remark(std::string_view line) { styled(dim, line); }
void output::warn(std::string_view line) { styled(yellow, line); }
void output::fail(std::string_view line) { styled(red, concat("colibri: ", line)); }

void output::prompt(std::string_view text) {
    if (out_terminal_) end_line();
    write_all(STDERR_FILENO, text);
}

void output::progress(std::string_view line) {
    if (!moves_cursor(STDERR_FILENO)) return;
    write_all(STDERR_FILENO, concat("\r", line, "\033[K"));
    progress_shown_ = true;
}

void output::clear_progress() {
    if (!progress_shown_) return;
    progress_shown_ = false;
    write_all(STDERR_FILENO, "\r\033[K");
}

}  // namespace colibri::repl
