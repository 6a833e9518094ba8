// Temporary files that killed processes left behind.
#pragma once

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "colibri/core/concat.hpp"
#include "colibri/core/number.hpp"
#include "colibri/io/file_handle.hpp"

namespace colibri {

/// What `remove_stale_temporaries` did.
struct stale_temporaries {
    unsigned removed = 0;
    std::uint64_t bytes = 0;  ///< that they had
};

namespace detail {

/// Whether a file's name is that of a temporary file of atomic_writer for `target`: ".target.PID-TICKS-NUMBER.part".
[[nodiscard]] inline bool is_temporary_of(std::string_view name, std::string_view target) {
    const std::string front = concat(".", target.substr(0, 200), ".");
    constexpr std::string_view back = ".part";
    if (!name.starts_with(front) || !name.ends_with(back) || name.size() < front.size() + back.size()) return false;
    name = name.substr(front.size(), name.size() - front.size() - back.size());
    for (int i = 0; i < 3; ++i) {
        const auto dash = i < 2 ? name.find('-') : name.size();
        if (dash == std::string_view::npos || name.empty() || name.front() == '+') return false;
        if (!parse_number<std::uint64_t>(name.substr(0, dash))) return false;
        name.remove_prefix(i < 2 ? dash + 1 : dash);
    }
    return true;
}

}  // namespace detail

/// Removes temporary files that atomic_writers for `path` left beside it when their processes were killed; those that somebody is still
/// writing, as their lock tells, stay. What can't be read or removed stays too.
inline stale_temporaries remove_stale_temporaries(const std::filesystem::path& path) {
    std::error_code ignored;
    const auto target = std::filesystem::is_symlink(path, ignored) && std::filesystem::exists(path, ignored)
                            ? std::filesystem::canonical(path, ignored)
                            : path;
    const auto folder = target.has_parent_path() ? target.parent_path() : std::filesystem::path(".");
    const std::string name = target.filename().string();
    std::vector<std::filesystem::path> found;
    for (auto at = std::filesystem::directory_iterator(folder, ignored); !ignored && at != std::filesystem::directory_iterator();
         at.increment(ignored)) {
        if (detail::is_temporary_of(at->path().filename().string(), name)) found.push_back(at->path());
    }
    stale_temporaries out;
    for (const auto& file : found) {
        const unique_fd handle(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
        struct stat status {};
        if (!handle.is_open() || ::fstat(handle.get(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
        if (::flock(handle.get(), LOCK_EX | LOCK_NB) != 0) continue;
        if (::unlink(file.c_str()) != 0) continue;
        ++out.removed;
        out.bytes += static_cast<std::uint64_t>(status.st_size);
    }
    return out;
}

}  // namespace colibri
