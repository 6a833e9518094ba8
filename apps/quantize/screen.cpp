#include "quantize/screen.hpp"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "colibri/core/concat.hpp"

namespace colibri::quantize_program {

bool write_all(int descriptor, std::string_view text) {
    while (!text.empty()) {
        const ssize_t done = ::write(descriptor, text.data(), text.size());
        if (done >= 0) {
            text.remove_prefix(static_cast<std::size_t>(done));
        } else if (errno == EAGAIN) {  // somebody made the descriptor non-blocking
            pollfd ready{descriptor, POLLOUT, 0};
            if (::poll(&ready, 1, -1) < 0 && errno != EINTR) return false;
        } else if (errno != EINTR) {
            return false;
        }
    }
    return true;
}

std::string fixed(double number, int digits) {
    char text[64];
    const auto end = std::to_chars(text, text + sizeof text, number, std::chars_format::fixed, digits);
    return end.ec == std::errc() ? std::string(text, end.ptr) : concat(number);
}

std::string bytes_text(double bytes) {
    constexpr std::string_view units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    std::size_t unit = 0;
    while (bytes >= 1024.0 && unit + 1 < std::size(units)) {
        bytes /= 1024.0;
        ++unit;
    }
    return concat(fixed(bytes, unit == 0 || bytes >= 100.0 ? 0 : bytes >= 10.0 ? 1 : 2), " ", units[unit]);
}

std::string time_text(double seconds) {
    const auto all = static_cast<std::uint64_t>(std::clamp(seconds, 0.0, 1e9) + 0.5);
    const auto two = [](std::uint64_t n) { return concat(n < 10 ? "0" : "", n); };
    if (all >= 3600) return concat(all / 3600, ":", two(all / 60 % 60), ":", two(all % 60));
    return concat(all / 60, ":", two(all % 60));
}

screen::screen() : has_bar_(::isatty(STDERR_FILENO) == 1) {
    const char* kind = std::getenv("TERM");
    if (kind == nullptr || std::string_view(kind) == "dumb") has_bar_ = false;
}

void screen::say(std::string_view line) {
    clear();
    write_all(STDERR_FILENO, concat(line, "\n"));
}

void screen::progress(std::string_view what, std::uint64_t done, std::uint64_t total, bool are_bytes) {
    if (!has_bar_) return;
    const auto now = clock::now();
    if (doing_ != what) {
        doing_ = what;
        begin_ = now;
        last_ = {};
    }
    if (shown_ && now - last_ < std::chrono::milliseconds(100) && done != total) return;
    last_ = now;
    const double part = total == 0 ? 1.0 : static_cast<double>(done) / static_cast<double>(total);
    const double seconds = std::chrono::duration<double>(now - begin_).count();
    std::string text = concat(what, " ", fixed(100.0 * part, 0), " %");
    if (are_bytes) text += concat("  ", bytes_text(static_cast<double>(done)), " of ", bytes_text(static_cast<double>(total)));
    // The first moments say little.
    if (done != 0 && seconds > 0.5) {
        if (are_bytes) text += concat("  ", bytes_text(static_cast<double>(done) / seconds), "/s");
        text += concat("  ", time_text(seconds / part - seconds), " left");
    }
    winsize size{};
    const std::size_t columns = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col != 0 ? size.ws_col : 80;
    constexpr std::size_t most = 30;
    if (columns > text.size() + 12) {
        const std::size_t width = std::min(most, columns - text.size() - 5);
        const auto full = static_cast<std::size_t>(part * static_cast<double>(width));
        text = concat("[", std::string(full, '#'), std::string(width - full, '.'), "] ", text);
    }
    text.resize(std::min(text.size(), columns - 1));
    write_all(STDERR_FILENO, concat("\r", text, "\033[K"));
    shown_ = true;
}

void screen::clear() {
    if (!shown_) return;
    shown_ = false;
    write_all(STDERR_FILENO, "\r\033[K");
}

}  // namespace colibri::quantize_program
