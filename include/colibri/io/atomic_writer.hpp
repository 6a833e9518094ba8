// A file that appears whole or not at all.
#pragma once

#include <sys/file.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "colibri/io/file_handle.hpp"
#include "colibri/io/stale_temporaries.hpp"

namespace colibri {

struct write_options {
    /// Permission bits of the new file, whatever the umask is. Without: those of the file that is replaced, or the
    /// usual ones.
    std::optional<unsigned> permissions = {};
    /// Bytes that will be written, if known: a disk that is too full is then noticed before the work.
    std::uint64_t expected_size = 0;
};

/// Writes a temporary file beside `path` and renames it over `path` at `commit`, after both file and folder are on the
/// disk. Destroyed without commit, or after an error, it removes the temporary file and leaves `path` as it was. A link
/// is followed, so that the file it points to is replaced. A killed process leaves its temporary file behind, for
/// remove_stale_temporaries. Move-only; one thread at a time.
class atomic_writer {
public:
    /// Errors: not_found (no such folder), not_a_file (the path is a folder or device), io (also: disk full).
    [[nodiscard]] static result<atomic_writer> create(const std::filesystem::path& path,
                                                      const write_options& options = {});

    atomic_writer(atomic_writer&& other) noexcept { swap(other); }
    atomic_writer& operator=(atomic_writer&& other) noexcept {
        swap(other);
        return *this;
    }
    ~atomic_writer() { abandon(); }

    /// Adds bytes at the end. Errors: io; the temporary file is gone then, and later calls return the same error.
    [[nodiscard]] result<void> write(std::span<const std::byte> bytes) {
        if (failure_) return *failure_;
        if (sealed_) return fail("write", EBADF);
        written_ += bytes.size();
        if (bytes.size() + buffer_.size() > buffer_size) {
            if (auto ok = flush(); !ok) return ok;
            if (bytes.size() >= buffer_size) return write_through(bytes);
        }
        buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
        return {};
    }
    [[nodiscard]] result<void> write(std::string_view text) {
        return write(std::as_bytes(std::span(text.data(), text.size())));
    }

    /// Adds `count` bytes of an open file from its byte `offset` on, by the kernel where it can: file systems that share blocks
    /// between files copy nothing then. Errors: as `write`; truncated (the source ends before).
    [[nodiscard]] result<void> copy(int source, std::uint64_t offset, std::uint64_t count);

    /// Bytes written so far.
    [[nodiscard]] std::uint64_t written() const noexcept { return written_; }
    [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

    /// Puts all bytes on the disk, so that `commit` only has to rename the temporary file; nothing more can be written then. For
    /// files that are to appear together. Errors: as `commit`.
    [[nodiscard]] result<void> seal();

    /// Makes the file appear under its name. Errors: io, or the error of an earlier write; invalid_argument after
    /// abandon.
    [[nodiscard]] result<void> commit();

    /// Removes the temporary file; nothing more can be written.
    void abandon() noexcept {
        handle_.close();
        if (!temporary_.empty()) ::unlink(temporary_.c_str());
        temporary_.clear();
        sealed_ = false;
    }

private:
    static constexpr std::size_t buffer_size = 256 * 1024;

    atomic_writer() = default;

    void swap(atomic_writer& other) noexcept {
        std::swap(path_, other.path_);
        std::swap(temporary_, other.temporary_);
        std::swap(handle_, other.handle_);
        std::swap(permissions_, other.permissions_);
        std::swap(buffer_, other.buffer_);
        std::swap(written_, other.written_);
        std::swap(synced_, other.synced_);
        std::swap(unsynced_, other.unsynced_);
        std::swap(reserved_, other.reserved_);
        std::swap(sealed_, other.sealed_);
        std::swap(failure_, other.failure_);
    }

    [[nodiscard]] result<void> flush() {
        auto done = write_through(buffer_);
        buffer_.clear();
        return done;
    }
    [[nodiscard]] result<void> write_through(std::span<const std::byte> bytes) {
        if (!handle_.is_open()) return fail("write", EBADF);
        while (!bytes.empty()) {
            constexpr std::size_t most = std::size_t{1} << 30;  // write(2) moves less than 2 GiB at once
            const ::ssize_t put = ::write(handle_.get(), bytes.data(), std::min(bytes.size(), most));
            if (put < 0 && errno == EINTR) continue;
            if (put <= 0) return fail("write", put == 0 ? ENOSPC : errno);
            bytes = bytes.subspan(static_cast<std::size_t>(put));
            unsynced_ += static_cast<std::uint64_t>(put);
        }
        start_sync();
        return {};
    }
    /// Large files go to the disk while they are made, so that commit needn't wait for all of it.
    void start_sync() noexcept {
#if defined(__linux__)
        constexpr std::uint64_t step = std::uint64_t{8} << 20;
        if (unsynced_ < step) return;
        ::sync_file_range(handle_.get(), static_cast<::off64_t>(synced_), static_cast<::off64_t>(unsynced_), SYNC_FILE_RANGE_WRITE);
        synced_ += unsynced_;
        unsynced_ = 0;
#endif
    }
    [[nodiscard]] error fail(std::string_view verb, int number) {
        auto e = number == EBADF ? error{errc::invalid_argument,
                                         concat("the writing of ", quoted(path_.string()), " was given up before")}
                                 : detail::system_error(verb, path_, number);
        if (number == ENOSPC || number == EDQUOT)
            e.message += "; free some space or choose another folder, nothing was changed";
        abandon();
        failure_ = e;
        return e;
    }

    std::filesystem::path path_;
    std::filesystem::path temporary_;
    unique_fd handle_;
    std::optional<unsigned> permissions_;
    std::vector<std::byte> buffer_;
    std::uint64_t written_ = 0;
    std::uint64_t synced_ = 0;    ///< bytes on their way to the disk
    std::uint64_t unsynced_ = 0;  ///< written behind them
    bool reserved_ = false;
    bool sealed_ = false;
    std::optional<error> failure_;
};

inline result<atomic_writer> atomic_writer::create(const std::filesystem::path& path, const write_options& options) {
    atomic_writer out;
    std::error_code ignored;
    out.path_ = std::filesystem::is_symlink(path, ignored) && std::filesystem::exists(path, ignored)
                    ? std::filesystem::canonical(path, ignored)
                    : path;
    if (out.path_.empty()) out.path_ = path;
    out.permissions_ = options.permissions;
    struct stat old {};
    if (::stat(out.path_.c_str(), &old) == 0) {
        if (!S_ISREG(old.st_mode)) {
            return error{errc::not_a_file, concat(quoted(path.string()), " is ",
                                                  S_ISDIR(old.st_mode) ? "a directory" : "a device or pipe",
                                                  ", not a file that can be replaced")};
        }
        if (!out.permissions_) out.permissions_ = old.st_mode & 07777u;
    }
    remove_stale_temporaries(out.path_);  // of writers of this file that were killed
    // The name only has to be free; O_EXCL decides.
    static std::atomic<unsigned> counter{0};
    for (unsigned attempt = 0; attempt < 100; ++attempt) {
        const auto ticks = std::chrono::steady_clock::now().time_since_epoch().count();
        const std::string stem = out.path_.filename().string().substr(0, 200);
        out.temporary_ = out.path_.parent_path() /
                         concat(".", stem, ".", ::getpid(), "-", ticks, "-", counter.fetch_add(1), ".part");
        const unsigned mode = options.permissions ? 0600u & *options.permissions : 0666u;
        const int descriptor =
            ::open(out.temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode | 0200u);
        if (descriptor >= 0) {
            out.handle_ = unique_fd(descriptor);
            // The lock says that somebody is at it. Who cleans up may have come before it: then the file is gone.
            struct stat made {};
            const bool taken = ::flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
            if (!taken && ::fstat(descriptor, &made) == 0 && made.st_nlink != 0) break;
            out.handle_.close();
            errno = EEXIST;
        }
        const int problem = errno;
        out.temporary_.clear();  // it is nobody's, or another's
        if (problem == ENOENT) {
            return error{errc::not_found, concat("can't write ", quoted(path.string()), ": its folder does not exist")};
        }
        if (problem != EEXIST && problem != EINTR) return detail::system_error("write", path, problem);
    }
    if (!out.handle_.is_open()) return detail::system_error("write", path, EEXIST);
#if defined(__linux__)
    if (options.expected_size != 0) {
        const int reserved =
            ::fallocate(out.handle_.get(), FALLOC_FL_KEEP_SIZE, 0, static_cast<::off_t>(options.expected_size)) == 0
                ? 0
                : errno;
        if (reserved == ENOSPC || reserved == EDQUOT || reserved == EFBIG) {
            auto e = out.fail("write", reserved);
            e.message = concat(e.message, " (", options.expected_size, " bytes are needed)");
            return e;
        }
        out.reserved_ = reserved == 0;
    }
#endif
    return out;
}

inline result<void> atomic_writer::copy(int source, std::uint64_t offset, std::uint64_t count) {
    if (failure_) return *failure_;
    if (auto ok = flush(); !ok) return ok;
    if (!handle_.is_open() || sealed_) return fail("write", EBADF);
#if defined(__linux__)
    while (count != 0) {
        auto from = static_cast<::off64_t>(offset);
        const auto most = static_cast<std::size_t>(std::min<std::uint64_t>(count, std::uint64_t{1} << 30));
        const ::ssize_t put = ::copy_file_range(source, &from, handle_.get(), nullptr, most, 0);
        if (put < 0 && errno == EINTR) continue;
        if (put < 0 && (errno == ENOSPC || errno == EDQUOT || errno == EFBIG || errno == EIO)) return fail("write", errno);
        if (put <= 0) break;  // not between these files; or the source ends, which reading will tell
        written_ += static_cast<std::uint64_t>(put);
        unsynced_ += static_cast<std::uint64_t>(put);
        start_sync();
        offset += static_cast<std::uint64_t>(put);
        count -= static_cast<std::uint64_t>(put);
    }
#endif
    std::vector<std::byte> piece(static_cast<std::size_t>(std::min<std::uint64_t>(count, std::uint64_t{1} << 20)));
    while (count != 0) {
        const auto most = static_cast<std::size_t>(std::min<std::uint64_t>(count, piece.size()));
        const ::ssize_t got = ::pread(source, piece.data(), most, static_cast<::off_t>(offset));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return fail("read for", errno);
        if (got == 0) {
            abandon();
            failure_ = error{errc::truncated, "the file that is copied became shorter meanwhile", offset};
            return *failure_;
        }
        if (auto ok = write(std::span(piece).first(static_cast<std::size_t>(got))); !ok) return ok;
        offset += static_cast<std::uint64_t>(got);
        count -= static_cast<std::uint64_t>(got);
    }
    return {};
}

inline result<void> atomic_writer::seal() {
    if (failure_) return *failure_;
    if (sealed_) return {};
    if (auto ok = flush(); !ok) return ok;
    if (!handle_.is_open()) return fail("write", EBADF);
    if (reserved_ && ::ftruncate(handle_.get(), static_cast<::off_t>(written_)) != 0)
        return fail("write", errno);  // gives the rest back
    if (permissions_ && ::fchmod(handle_.get(), static_cast<::mode_t>(*permissions_)) != 0)
        return fail("set the permissions of", errno);
    if (::fsync(handle_.get()) != 0) return fail("write", errno);
    buffer_ = {};
    sealed_ = true;
    return {};
}

inline result<void> atomic_writer::commit() {
    if (auto ok = seal(); !ok) return ok;
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) return fail("replace", errno);
    handle_.close();
    temporary_.clear();
    sealed_ = false;
    // The name is on the disk once the folder is; file systems that can't sync a folder say EINVAL.
    const std::filesystem::path folder = path_.has_parent_path() ? path_.parent_path() : ".";
    const unique_fd opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (opened.is_open() && ::fsync(opened.get()) != 0 && errno != EINVAL)
        return detail::system_error("write", folder, errno);
    return {};
}

}  // namespace colibri
