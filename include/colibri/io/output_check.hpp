// Whether a file may be written where somebody asked for it.
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <span>
#include <string>

#include "colibri/core/concat.hpp"
#include "colibri/core/error.hpp"
#include "colibri/core/escape.hpp"
#include "colibri/io/file_handle.hpp"

namespace colibri {

/// Whether two paths lead to one file, through whatever links; false if one of them doesn't exist.
[[nodiscard]] inline bool is_same_file(const std::filesystem::path& a, const std::filesystem::path& b) {
    struct stat first {}, second {};
    return ::stat(a.c_str(), &first) == 0 && ::stat(b.c_str(), &second) == 0 && first.st_dev == second.st_dev &&
           first.st_ino == second.st_ino;
}

/// Refuses a file in a folder that doesn't exist or that can't be written to. Errors: not_found, io.
[[nodiscard]] inline result<void> check_folder_of(const std::filesystem::path& file) {
    const auto folder = file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
    if (::access(folder.c_str(), W_OK | X_OK) == 0) return {};
    if (errno != ENOENT && errno != ENOTDIR) return detail::system_error("write to", folder, errno);
    return error{errc::not_found, concat("can't write ", quoted(file.string()), ": its folder does not exist")};
}

/// Refuses an output that is one of `inputs` (also through symbolic and hard links), one that exists unless `replace`, and one that
/// could not be created. Errors: invalid_argument (the first two), not_a_file (a folder, a device or a pipe), those of
/// check_folder_of.
[[nodiscard]] inline result<void> check_output(const std::filesystem::path& output,
                                               std::span<const std::filesystem::path> inputs, bool replace) {
    struct stat status {};
    if (::stat(output.c_str(), &status) != 0) return check_folder_of(output);
    for (const auto& input : inputs) {
        if (is_same_file(output, input)) {
            return error{errc::invalid_argument,
                         concat("the output ", quoted(output.string()), " is the input ", quoted(input.string()),
                                " itself; choose another name")};
        }
    }
    if (!S_ISREG(status.st_mode)) {
        return error{errc::not_a_file, concat(quoted(output.string()), " is ",
                                              S_ISDIR(status.st_mode) ? "a directory" : "a device or pipe",
                                              ", not a file that can be replaced")};
    }
    if (replace) return check_folder_of(output);  // what is there is replaced by a new file beside it
    return error{errc::invalid_argument,
                 concat(quoted(output.string()), " exists already; choose another name, or replace it with --force")};
}

}  // namespace colibri
