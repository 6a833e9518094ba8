// The terminal's modes, size and colours, and the signals that have to do with it.
#pragma once

#include <string>
#include <string_view>

#include "colibri/core/cancel.hpp"

namespace colibri::repl {

/// How the keyboard's terminal behaves.
enum class tty_mode {
    line,    ///< as it was when the program started
    answer,  ///< no echo, no lines, but Ctrl-C and Ctrl-Z are signals: while an answer is written
    edit,    ///< every key is a byte: for the line editor; bracketed paste is on
};

/// Puts standard input's terminal into a mode and back to the one before. Without a terminal nothing happens. The modes
/// are also taken back on SIGTSTP (and set again on SIGCONT), SIGTERM, SIGHUP, SIGQUIT, crashes, and `exit`.
class tty_mode_guard {
public:
    explicit tty_mode_guard(tty_mode mode);
    ~tty_mode_guard();
    tty_mode_guard(const tty_mode_guard&) = delete;
    tty_mode_guard& operator=(const tty_mode_guard&) = delete;

private:
    tty_mode before_;
};

/// Keys typed while the terminal was still in `line` mode, as `edit` mode would have given them (Enter is '\r'). Empty
/// after the first call until the mode changes again.
[[nodiscard]] std::string take_type_ahead();

/// Which file descriptor the editor draws on: standard error if it is a terminal, else standard output.
void set_drawing_descriptor(int fd) noexcept;

/// Stops the whole job as Ctrl-Z does, with the terminal as it was; returns when the job goes on.
void suspend_job();

struct screen_size {
    std::size_t columns = 80;
    std::size_t rows = 24;
};

/// Size of the terminal behind `fd`; 80 x 24 if it doesn't say.
[[nodiscard]] screen_size size_of_screen(int fd) noexcept;

enum class color_choice { automatic, always, never };

/// Whether to send colours to `fd`: a choice wins; else only to a terminal, without NO_COLOR (any value but empty) and
/// with a TERM other than "dumb".
[[nodiscard]] bool wants_color(color_choice choice, int fd) noexcept;

/// Whether `fd` is a terminal that understands cursor movements (TERM isn't "dumb").
[[nodiscard]] bool moves_cursor(int fd) noexcept;

/// Tells whether an answer's line is open on the screen, so that a message of a signal handler can begin a new one.
void note_open_line(bool open) noexcept;

// Signals ------------------------------------------------------------------------------------------------------------

/// Installs all handlers; once, at the program's start. SIGPIPE is ignored. Opens /dev/null in place of a missing
/// standard descriptor, so that no file of ours gets its number.
void prepare_process();

/// While it lives, the first SIGINT requests `flag`; a second one ends the process with status 130. One that was only
/// noticed before counts as the first. Without an object of this class or the next, SIGINT ends the process with status 130
/// at once.
class interruptible {
public:
    explicit interruptible(cancel_flag& flag) noexcept;
    ~interruptible();
    interruptible(const interruptible&) = delete;
    interruptible& operator=(const interruptible&) = delete;

private:
    int before_;  // what SIGINT does without this object
};

/// While it lives, SIGINT only wakes `wait_for_input`: for a prompt read in `line` mode, and for the moments in front of and
/// behind an answer that Ctrl-C was meant for.
class noticed_interrupts {
public:
    noticed_interrupts() noexcept;
    ~noticed_interrupts();
    noticed_interrupts(const noticed_interrupts&) = delete;
    noticed_interrupts& operator=(const noticed_interrupts&) = delete;

private:
    int before_;
};

/// Forgets a SIGINT that was noticed.
void forget_interrupt() noexcept;

/// What ended a wait for input.
enum class wake { input, resized, resumed, interrupted, timeout };

/// Waits until `fd` can be read (or is at its end), a signal that matters came, or `milliseconds` passed (-1: no
/// limit).
[[nodiscard]] wake wait_for_input(int fd, int milliseconds);

}  // namespace colibri::repl
