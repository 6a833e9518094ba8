#include "repl/line_source.hpp"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>

#include "colibri/io/file_handle.hpp"
#include "repl/display.hpp"
#include "repl/terminal.hpp"

namespace colibri::repl {

static constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";

result<line_source::next_line> line_source::next() {
    while (true) {
        if (at_start_ && (bytes_.size() >= byte_order_mark.size() || at_end_ || !byte_order_mark.starts_with(bytes_))) {
            if (bytes_.starts_with(byte_order_mark)) bytes_.erase(0, byte_order_mark.size());
            at_start_ = false;
        }
        const auto end = bytes_.find('\n');
        if (end != std::string::npos && !at_start_) {
            std::string line = bytes_.substr(0, end);
            bytes_.erase(0, end + 1);
            if (line.ends_with('\r')) line.pop_back();
            std::size_t replaced = 0;
            return next_line{status::line, valid_utf8(line, replaced)};
        }
        if (at_end_) {
            if (bytes_.empty()) return next_line{status::end};
            bytes_ += '\n';
            continue;
        }
        const wake woken = wait_for_input(fd_, -1);
        if (woken == wake::interrupted) {
            bytes_.clear();
            return next_line{status::interrupted};
        }
        if (woken != wake::input) continue;
        std::array<char, 1 << 14> bytes;
        const ssize_t got = ::read(fd_, bytes.data(), bytes.size());
        if (got > 0) bytes_.append(bytes.data(), static_cast<std::size_t>(got));
        else if (got == 0) at_end_ = true;
        else if (errno != EINTR && errno != EAGAIN) return detail::system_error("read", "standard input", errno);
    }
}

}  // namespace colibri::repl
