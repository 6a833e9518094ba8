#include "repl/files.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "colibri/io/atomic_writer.hpp"
#include "repl/display.hpp"

namespace colibri::repl {
namespace {

constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";

}  // namespace

result<std::string> read_whole_descriptor(int fd, std::string_view name) {
    std::string out;
    char bytes[1 << 16];
    while (true) {
        const ssize_t got = ::read(fd, bytes, sizeof bytes);
        if (got == 0) return out;
        if (got < 0) {
            if (errno == EINTR) continue;
            if (errno == EAGAIN) {  // somebody made the descriptor non-blocking
                pollfd ready{fd, POLLIN, 0};
                if (::poll(&ready, 1, -1) >= 0 || errno == EINTR) continue;
            }
            return detail::system_error("read", std::filesystem::path(name), errno);
        }
        out.append(bytes, static_cast<std::size_t>(got));
    }
}

result<std::string> read_whole_file(const std::filesystem::path& path) {
    const unique_fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file.is_open()) return detail::system_error("open", path, errno);
    struct stat status {};
    if (::fstat(file.get(), &status) == 0 && S_ISDIR(status.st_mode)) {
        return error{errc::not_a_file, concat(quoted(path.string()), " is a folder, not a file")};
    }
    return read_whole_descriptor(file.get(), path.string());
}

std::string as_text(std::string_view bytes, std::size_t& replaced) {
    if (bytes.starts_with(byte_order_mark)) bytes.remove_prefix(byte_order_mark.size());
    std::string text = valid_utf8(bytes, replaced);
    std::string out;
    out.reserve(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '\r' && i + 1 < text.size() && text[i + 1] == '\n') continue;
        out += text[i];
    }
    if (out.ends_with('\n')) out.pop_back();
    return out;
}

std::filesystem::path expand_home(std::string_view typed) {
    if (typed == "~" || typed.starts_with("~/")) {
        if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0') {
            return std::filesystem::path(concat(home, typed.substr(1)));
        }
    }
    return std::filesystem::path(typed);
}

result<void> replace_private_file(const std::filesystem::path& path, std::string_view bytes) {
    auto writer = atomic_writer::create(path, {.permissions = 0600u});
    if (!writer) return std::move(writer).error();
    if (auto ok = writer->write(bytes); !ok) return ok;
    return writer->commit();
}

}  // namespace colibri::repl
