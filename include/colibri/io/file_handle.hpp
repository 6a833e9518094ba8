// An open file descriptor, and what the operating system says when it refuses.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "colibri/core/error.hpp"
#include "colibri/core/escape.hpp"

namespace colibri {

static_assert(std::endian::native == std::endian::little,
              "Colibri reads little-endian files on little-endian machines");

namespace detail {

/// What an errno means, in plain words; the number for the rare ones.
[[nodiscard]] inline std::string system_text(int number) {
    switch (number) {
        case ENOENT: return "there is no such file";
        case ENOTDIR: return "a part of the path is not a folder";
        case EACCES:
        case EPERM: return "permission denied";
        case EISDIR: return "it is a folder";
        case ENOSPC: return "the disk is full";
        case EDQUOT: return "the disk quota is used up";
        case EFBIG: return "the file would be larger than allowed here";
        case EROFS: return "the file system is read-only";
        case EIO: return "the disk reports an input/output error";
        case ENOMEM: return "not enough memory";
        case EMFILE:
        case ENFILE: return "too many open files";
        case ENAMETOOLONG: return "the name is too long";
        case ELOOP: return "too many symbolic links";
        case EBUSY: return "it is in use";
        case ENODEV:
        case EINVAL: return "the file system does not support it";
        default: return concat("system error ", number);
    }
}

/// An error about `path` from an errno: "can't VERB 'path': reason".
[[nodiscard]] inline error system_error(std::string_view verb, const std::filesystem::path& path, int number) {
    const errc code = number == ENOENT   ? errc::not_found
                      : number == EISDIR ? errc::not_a_file
                      : number == ENOMEM ? errc::out_of_memory
                                         : errc::io;
    return error{code, concat("can't ", verb, " ", quoted(path.string()), ": ", system_text(number))};
}

}  // namespace detail

/// Owner of a file descriptor; closes it. Move-only.
class unique_fd {
public:
    unique_fd() = default;
    explicit unique_fd(int descriptor) noexcept : descriptor_(descriptor) {}
    unique_fd(unique_fd&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
    unique_fd& operator=(unique_fd&& other) noexcept {
        if (this != &other) {
            close();
            descriptor_ = std::exchange(other.descriptor_, -1);
        }
        return *this;
    }
    ~unique_fd() { close(); }

    [[nodiscard]] int get() const noexcept { return descriptor_; }
    [[nodiscard]] bool is_open() const noexcept { return descriptor_ >= 0; }
    void close() noexcept {
        if (descriptor_ >= 0) ::close(descriptor_);
        descriptor_ = -1;
    }

private:
    int descriptor_ = -1;
};

/// A regular file opened for reading, and its size when it was opened.
struct opened_file {
    unique_fd handle;
    std::uint64_t size = 0;
};

/// Opens a regular file for reading; never blocks on a FIFO. `extra_flags` are added to open(2)'s.
/// Errors: not_found, not_a_file (folder, FIFO, socket, device), io.
[[nodiscard]] inline result<opened_file> open_for_reading(const std::filesystem::path& path, int extra_flags = 0) {
    int descriptor = -1;
    do {
        descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | extra_flags);
    } while (descriptor < 0 && errno == EINTR);
    if (descriptor < 0) {
        if (errno == ENXIO) return error{errc::not_a_file, concat(quoted(path.string()), " is a socket or a device")};
        return detail::system_error("open", path, errno);
    }
    opened_file out{unique_fd(descriptor), 0};
    struct stat status {};
    if (::fstat(descriptor, &status) != 0) return detail::system_error("look at", path, errno);
    if (!S_ISREG(status.st_mode)) {
        const std::string_view kind = S_ISDIR(status.st_mode)    ? "a directory"
                                      : S_ISFIFO(status.st_mode) ? "a pipe (FIFO)"
                                                                 : "a device";
        return error{errc::not_a_file, concat(quoted(path.string()), " is ", kind, ", not a file")};
    }
    out.size = static_cast<std::uint64_t>(status.st_size);
    return out;
}

}  // namespace colibri
