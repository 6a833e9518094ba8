// Whether an open file is still what it was.
#pragma once

#include <sys/stat.h>

#include <cerrno>
#include <cstdint>
#include <filesystem>

#include "colibri/io/file_handle.hpp"

namespace colibri {

/// Size and time of change of an open file. What happens to its name (removed, renamed, replaced by another file) doesn't
/// change it, and neither do its owner and permissions; the kernel's time of change of the inode would, so it isn't looked at.
struct file_identity {
    std::uint64_t size = 0;
    std::int64_t seconds = 0;  ///< when the bytes were changed last (mtime)
    std::int64_t nanoseconds = 0;

    friend bool operator==(const file_identity&, const file_identity&) = default;
};

/// Looks at the open file `descriptor`; `path` is for messages only. One system call. Errors: io.
[[nodiscard]] inline result<file_identity> identity_of(int descriptor, const std::filesystem::path& path) {
    struct stat status {};
    if (::fstat(descriptor, &status) != 0) return detail::system_error("look at", path, errno);
#if defined(__APPLE__)
    const auto& changed = status.st_mtimespec;
#else
    const auto& changed = status.st_mtim;
#endif
    return file_identity{static_cast<std::uint64_t>(status.st_size), static_cast<std::int64_t>(changed.tv_sec),
                         static_cast<std::int64_t>(changed.tv_nsec)};
}

/// Whether `now` is still what `before` was. Errors: truncated (shorter; with the offset of its new end), io (changed).
[[nodiscard]] inline result<void> same_file(const std::filesystem::path& path, const file_identity& before,
                                            const file_identity& now) {
    if (now == before) return {};
    if (now.size < before.size) {
        return error{errc::truncated,
                     concat(quoted(path.string()), " became shorter while it was in use (", before.size, " bytes before, ",
                            now.size, " now); load it again once it is whole"),
                     now.size};
    }
    return error{errc::io, concat(quoted(path.string()), " was changed while it was in use; load it again")};
}

}  // namespace colibri
