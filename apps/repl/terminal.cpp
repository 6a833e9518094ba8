#include "repl/terminal.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "repl/exit_code.hpp"

namespace colibri::repl {
namespace {

constexpr std::string_view paste_on = "\033[?2004h";
constexpr std::string_view paste_off = "\033[?2004l";
constexpr std::array crash_signals = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

enum class on_interrupt : int { leave, cancel, notice };

// One terminal per process; handlers see all of this, hence atomics and plain old data.
termios original{};
std::atomic<bool> have_original{false};
std::atomic<tty_mode> current{tty_mode::line};
std::atomic<int> drawing_fd{-1};
std::atomic<on_interrupt> interrupt_policy{on_interrupt::leave};
std::atomic<cancel_flag*> interrupt_flag{nullptr};
std::atomic<int> interrupt_count{0};
std::atomic<bool> line_is_open{false};
std::atomic<bool> resized{false}, resumed{false}, interrupted{false};
std::array<int, 2> wake_pipe{-1, -1};
std::array<struct sigaction, crash_signals.size()> before_crash{};
std::string type_ahead;

void write_raw(std::string_view text) noexcept {
    const int fd = drawing_fd.load();
    if (fd >= 0 && ::write(fd, text.data(), text.size()) < 0) return;  // nothing can be done about a lost screen
}

bool in_foreground() noexcept { return ::tcgetpgrp(STDIN_FILENO) == ::getpgrp(); }

// Safe in a signal handler: tcsetattr, tcgetpgrp and write are.
void apply(tty_mode from, tty_mode to) noexcept {
    if (!have_original.load() || !in_foreground()) return;
    if (from == tty_mode::edit && to != tty_mode::edit) write_raw(paste_off);
    termios t = original;
    if (to != tty_mode::line) {
        t.c_iflag &= ~static_cast<tcflag_t>(ICRNL | INLCR | IGNCR | IXON | ISTRIP | BRKINT);
        t.c_lflag &= ~static_cast<tcflag_t>(ECHO | ICANON | IEXTEN);
        t.c_lflag |= NOFLSH;  // Ctrl-C stops an answer, but what was typed meanwhile stays
        if (to == tty_mode::edit) t.c_lflag &= ~static_cast<tcflag_t>(ISIG);
        t.c_cc[VMIN] = 1;
        t.c_cc[VTIME] = 0;
    }
    ::tcsetattr(STDIN_FILENO, TCSANOW, &t);
    if (from != tty_mode::edit && to == tty_mode::edit) write_raw(paste_on);
}

void restore() noexcept {
    const tty_mode mode = current.load();
    if (mode != tty_mode::line) apply(mode, tty_mode::line);
}

// Lines typed before the mode changed have '\n' for Enter and a null byte for Ctrl-D.
void collect_type_ahead() {
    int waiting = 0;
    if (::ioctl(STDIN_FILENO, FIONREAD, &waiting) != 0) return;
    while (waiting > 0) {
        char bytes[256];
        const auto got = ::read(STDIN_FILENO, bytes, std::min(sizeof bytes, static_cast<std::size_t>(waiting)));
        if (got <= 0) return;
        for (ssize_t i = 0; i < got; ++i) {
            type_ahead += bytes[i] == '\n' ? '\r' : bytes[i] == '\0' ? '\x04' : bytes[i];
        }
        waiting -= static_cast<int>(got);
    }
}

void set_mode(tty_mode mode) {
    const tty_mode from = current.exchange(mode);
    if (from == mode) return;
    apply(from, mode);
    if (from == tty_mode::line && have_original.load() && in_foreground()) collect_type_ahead();
}

void wake_up() noexcept {
    const char byte = 0;
    if (wake_pipe[1] >= 0 && ::write(wake_pipe[1], &byte, 1) < 0) return;  // full: a wake-up is already there
}

void handle_interrupt(int) {
    const int saved = errno;
    switch (interrupt_policy.load()) {
        case on_interrupt::cancel:
            if (interrupt_count.fetch_add(1) == 0) {
                if (auto* flag = interrupt_flag.load(); flag != nullptr) flag->request();
                break;
            }
            [[fallthrough]];
        case on_interrupt::leave: restore(); ::_exit(static_cast<int>(exit_code::interrupted));
        case on_interrupt::notice: interrupted.store(true); break;
    }
    wake_up();
    errno = saved;
}

void end_by(int signal) noexcept {
    restore();
    std::signal(signal, SIG_DFL);
    sigset_t only{};
    sigemptyset(&only);
    sigaddset(&only, signal);
    pthread_sigmask(SIG_UNBLOCK, &only, nullptr);
    std::raise(signal);
}

// Returning goes back to the instruction that failed, which now meets the handler that was there before this one. A
// signal that somebody sent (abort does so too) has no such instruction and is raised again.
void handle_crash(int signal, siginfo_t* info, void*) {
    restore();
    if (signal == SIGBUS && info->si_code == BUS_ADRERR) {
        // A page of a mapped file that isn't there any more, or that the disk doesn't give.
        static constexpr char text[] =
            "\ncolibri: a mapped file became shorter, or its disk failed, while it was in use; get the file again, or use "
            "--weights resident, which needs it only at the start\n";
        const std::size_t first = line_is_open.load() ? 0 : 1;
        (void)!::write(STDERR_FILENO, text + first, sizeof text - 1 - first);
        ::_exit(static_cast<int>(exit_code::model));
    }
    for (std::size_t i = 0; i < crash_signals.size(); ++i) {
        if (crash_signals[i] == signal) ::sigaction(signal, &before_crash[i], nullptr);
    }
    if (info->si_code <= 0) std::raise(signal);
}

void install(int signal, void (*handler)(int), int flags = SA_RESTART) {
    struct sigaction action {};
    action.sa_handler = handler;
    action.sa_flags = flags;
    sigemptyset(&action.sa_mask);
    ::sigaction(signal, &action, nullptr);
}

// What our parent ignores stays ignored: nohup, jobs of a script in the background.
void install_unless_ignored(int signal, void (*handler)(int), int flags = SA_RESTART) {
    struct sigaction inherited {};
    if (::sigaction(signal, nullptr, &inherited) == 0 && inherited.sa_handler == SIG_IGN) return;
    install(signal, handler, flags);
}

void handle_stop(int) {
    const int saved = errno;
    restore();
    std::signal(SIGTSTP, SIG_DFL);
    sigset_t only{};
    sigemptyset(&only);
    sigaddset(&only, SIGTSTP);
    pthread_sigmask(SIG_UNBLOCK, &only, nullptr);
    std::raise(SIGTSTP);  // stops here, until SIGCONT
    install(SIGTSTP, handle_stop);
    errno = saved;
}

// After SIGSTOP nobody restored anything, but the shell did.
void handle_continue(int) {
    const int saved = errno;
    const tty_mode mode = current.load();
    if (mode != tty_mode::line) apply(tty_mode::line, mode);
    resumed.store(true);
    wake_up();
    errno = saved;
}

void handle_resize(int) {
    const int saved = errno;
    resized.store(true);
    wake_up();
    errno = saved;
}

bool dumb() noexcept {
    const char* term = std::getenv("TERM");
    return term == nullptr || *term == '\0' || std::strcmp(term, "dumb") == 0;
}

}  // namespace

tty_mode_guard::tty_mode_guard(tty_mode mode) : before_(current.load()) { set_mode(mode); }
tty_mode_guard::~tty_mode_guard() { set_mode(before_); }

std::string take_type_ahead() { return std::exchange(type_ahead, {}); }

void set_drawing_descriptor(int fd) noexcept { drawing_fd.store(fd); }

void suspend_job() {
    const tty_mode mode = current.load();
    set_mode(tty_mode::line);
    ::kill(0, SIGTSTP);
    set_mode(mode);
}

screen_size size_of_screen(int fd) noexcept {
    screen_size size;
    winsize window{};
    if (::ioctl(fd, TIOCGWINSZ, &window) == 0) {
        if (window.ws_col > 0) size.columns = window.ws_col;
        if (window.ws_row > 0) size.rows = window.ws_row;
    }
    return size;
}

bool wants_color(color_choice choice, int fd) noexcept {
    if (choice != color_choice::automatic) return choice == color_choice::always;
    const char* no_color = std::getenv("NO_COLOR");
    return ::isatty(fd) == 1 && !(no_color != nullptr && *no_color != '\0') && !dumb();
}

bool moves_cursor(int fd) noexcept { return ::isatty(fd) == 1 && !dumb(); }

void prepare_process() {
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
        if (::fcntl(fd, F_GETFD) == -1 && errno == EBADF) {
            if (::open("/dev/null", fd == STDIN_FILENO ? O_RDONLY : O_WRONLY) < 0)
                std::_Exit(static_cast<int>(exit_code::io));
        }
    }
    have_original.store(::isatty(STDIN_FILENO) == 1 && ::tcgetattr(STDIN_FILENO, &original) == 0);
    if (::pipe2(wake_pipe.data(), O_CLOEXEC | O_NONBLOCK) != 0) wake_pipe = {-1, -1};

    install(SIGPIPE, SIG_IGN);
    install_unless_ignored(SIGINT, handle_interrupt, 0);  // without SA_RESTART, so that a blocked read ends
    install_unless_ignored(SIGTERM, end_by);
    install_unless_ignored(SIGHUP, end_by);
    install_unless_ignored(SIGQUIT, end_by);
    install_unless_ignored(SIGTSTP, handle_stop);
    install(SIGWINCH, handle_resize);
    install(SIGCONT, handle_continue);
    for (std::size_t i = 0; i < crash_signals.size(); ++i) {
        struct sigaction action {};
        action.sa_sigaction = handle_crash;
        action.sa_flags = SA_SIGINFO;
        sigemptyset(&action.sa_mask);
        ::sigaction(crash_signals[i], &action, &before_crash[i]);
    }
    std::atexit(restore);
}

void note_open_line(bool open) noexcept { line_is_open.store(open); }

interruptible::interruptible(cancel_flag& flag) noexcept {
    interrupt_count.store(0);
    interrupt_flag.store(&flag);
    before_ = static_cast<int>(interrupt_policy.exchange(on_interrupt::cancel));
    if (interrupted.exchange(false)) {
        interrupt_count.fetch_add(1);
        flag.request();
    }
}

interruptible::~interruptible() {
    interrupt_policy.store(static_cast<on_interrupt>(before_));
    interrupt_flag.store(nullptr);
}

noticed_interrupts::noticed_interrupts() noexcept {
    interrupted.store(false);
    before_ = static_cast<int>(interrupt_policy.exchange(on_interrupt::notice));
}

noticed_interrupts::~noticed_interrupts() { interrupt_policy.store(static_cast<on_interrupt>(before_)); }

void forget_interrupt() noexcept { interrupted.store(false); }

wake wait_for_input(int fd, int milliseconds) {
    while (true) {
        if (interrupted.exchange(false)) return wake::interrupted;
        if (resumed.exchange(false)) return wake::resumed;
        if (resized.exchange(false)) return wake::resized;
        std::array<pollfd, 2> watched{{{fd, POLLIN, 0}, {wake_pipe[0], POLLIN, 0}}};
        const int ready = ::poll(watched.data(), wake_pipe[0] >= 0 ? 2 : 1, milliseconds);
        if (ready == 0) return wake::timeout;
        if (ready < 0) {
            if (errno == EINTR) continue;
            return wake::input;  // the read that follows tells what is wrong
        }
        if (watched[1].revents != 0) {
            char bytes[64];
            while (::read(wake_pipe[0], bytes, sizeof bytes) > 0) continue;
            continue;
        }
        if (watched[0].revents != 0) return wake::input;
    }
}

}  // namespace colibri::repl
