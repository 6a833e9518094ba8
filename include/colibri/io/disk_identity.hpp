// Which disk a file is on, and what is known about it from before.
#pragma once

#include <sys/stat.h>
#include <sys/statvfs.h>

#if defined(__linux__)
#include <sys/sysmacros.h>
#endif

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "colibri/io/kept_lines.hpp"

namespace colibri {

/// A file system on a block device.
struct disk_identity {
    unsigned major = 0;          ///< numbers of the device; 0 major: made up by the file system (tmpfs, btrfs, overlay, network)
    unsigned minor = 0;
    std::uint64_t volume = 0;    ///< the file system's own number, which most keep over restarts
    std::string model;           ///< name of the device, where the system tells; from outside, so print it quoted

    /// One word for the same file system on the same device.
    [[nodiscard]] std::string key() const {
        char digits[16];
        const auto end = std::to_chars(digits, digits + sizeof digits, volume, 16).ptr;
        return concat(major, ":", minor, "-", std::string_view(digits, static_cast<std::size_t>(end - digits)));
    }
};

/// Which disk `path` is on. `root`: where /sys is looked for. Errors: not_found, io.
[[nodiscard]] inline result<disk_identity> identify_disk(const std::filesystem::path& path,
                                                         const std::filesystem::path& root = "/") {
    struct stat status {};
    struct statvfs volume {};
    if (::stat(path.c_str(), &status) != 0 || ::statvfs(path.c_str(), &volume) != 0)
        return detail::system_error("look at", path, errno);
    disk_identity out;
    out.volume = static_cast<std::uint64_t>(volume.f_fsid);
#if defined(__linux__)
    out.major = major(status.st_dev);
    out.minor = minor(status.st_dev);
#else
    out.minor = static_cast<unsigned>(status.st_dev);
#endif
    // A partition's folder lies in its disk's.
    const auto device = root / "sys/dev/block" / concat(out.major, ":", out.minor);
    for (const char* place : {"device/model", "../device/model"}) {
        const auto text = detail::read_system_text(device / place);
        if (!text) continue;
        const auto begin = std::min(text->find_first_not_of(" \t\n"), text->size());
        const auto end = text->find_last_not_of(" \t\n");
        if (begin < text->size()) out.model = text->substr(begin, end - begin + 1);
        break;
    }
    return out;
}

/// A speed measured earlier.
struct kept_disk_speed {
    double bytes_per_second = 0.0;
    std::string date;  ///< of the measurement, "2026-11-30" (UTC)
};

/// Where speeds are kept: $XDG_CACHE_HOME/colibri/disks or ~/.cache/colibri/disks; nothing if neither is known.
[[nodiscard]] inline std::optional<std::filesystem::path> disk_speeds_path() {
    if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache == '/')
        return std::filesystem::path(cache) / "colibri" / "disks";
    if (const char* home = std::getenv("HOME"); home != nullptr && *home == '/')
        return std::filesystem::path(home) / ".cache" / "colibri" / "disks";
    return std::nullopt;
}

namespace detail {

/// A line "KEY BYTES_PER_SECOND DATE", or nothing if it isn't one.
[[nodiscard]] inline std::optional<kept_disk_speed> parse_disk_line(std::string_view line, std::string_view& key) {
    const auto words = pieces_of(line, ' ');
    if (words.size() != 3) return std::nullopt;
    const auto speed = parse_number<std::uint64_t>(words[1]);
    const bool is_date = words[2].size() == 10 && words[2].find_first_not_of("0123456789-") == std::string_view::npos;
    if (!speed || *speed == 0 || !is_date) return std::nullopt;
    key = words[0];
    return kept_disk_speed{static_cast<double>(*speed), std::string(words[2])};
}

/// Today's date in UTC, "2026-11-30".
[[nodiscard]] inline std::string today() {
    const std::chrono::year_month_day day(std::chrono::floor<std::chrono::days>(std::chrono::system_clock::now()));
    const auto two = [](unsigned number) { return concat(number < 10 ? "0" : "", number); };
    return concat(static_cast<int>(day.year()), "-", two(static_cast<unsigned>(day.month())), "-",
                  two(static_cast<unsigned>(day.day())));
}

}  // namespace detail

/// What `keep_disk_speed` kept of this disk in the text file `store`, or nothing. Lines that are damaged don't count.
[[nodiscard]] inline std::optional<kept_disk_speed> find_disk_speed(const std::filesystem::path& store, const disk_identity& disk) {
    const auto text = detail::read_system_text(store);
    if (!text) return std::nullopt;
    std::optional<kept_disk_speed> out;
    const std::string wanted = disk.key();
    for (const auto line : detail::pieces_of(*text, '\n')) {
        std::string_view key;
        if (auto speed = detail::parse_disk_line(line, key); speed && key == wanted) out = std::move(speed);
    }
    return out;
}

/// Keeps a speed for later runs, in place of an older one of this disk; damaged lines are dropped. Makes the folder of `store` if need be.
/// Of two programs that do this at once one may lose. Errors: those of atomic_writer; invalid_argument (not a speed).
[[nodiscard]] inline result<void> keep_disk_speed(const std::filesystem::path& store, const disk_identity& disk,
                                                  double bytes_per_second) {
    if (!(bytes_per_second >= 1.0 && bytes_per_second < 1e18))
        return error{errc::invalid_argument, "a disk's speed must be at least one byte per second"};
    const std::string own = disk.key();
    const auto keep = [&](std::string_view line) {
        std::string_view key;
        return detail::parse_disk_line(line, key) && key != own;
    };
    return replace_line(store, keep, concat(own, " ", static_cast<std::uint64_t>(bytes_per_second), " ", detail::today()));
}

}  // namespace colibri
