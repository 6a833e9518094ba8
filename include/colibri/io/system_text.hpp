// Small text files of the operating system (/proc, /sys), read below a root that tests can choose.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "colibri/core/number.hpp"
#include "colibri/io/file_handle.hpp"

namespace colibri::detail {

/// All of a small file (up to 1 MiB; such files say size 0), or nothing.
[[nodiscard]] inline std::optional<std::string> read_system_text(const std::filesystem::path& path) {
    const unique_fd handle(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!handle.is_open()) return std::nullopt;
    std::string out;
    char piece[4096];
    while (out.size() < (std::size_t{1} << 20)) {
        const ::ssize_t got = ::read(handle.get(), piece, sizeof piece);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return std::nullopt;
        if (got == 0) break;
        out.append(piece, static_cast<std::size_t>(got));
    }
    return out;
}

/// `text` cut at each `separator`; views of it, empty pieces left out.
[[nodiscard]] inline std::vector<std::string_view> pieces_of(std::string_view text, char separator) {
    std::vector<std::string_view> out;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find(separator), text.size());
        if (end != 0) out.push_back(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return out;
}

/// The number that follows `key` and white space at the start of a line ("MemTotal:  123 kB"), or nothing.
[[nodiscard]] inline std::optional<std::uint64_t> line_number(std::string_view text, std::string_view key) {
    for (std::string_view line : pieces_of(text, '\n')) {
        if (!line.starts_with(key)) continue;
        line.remove_prefix(key.size());
        const std::size_t begin = line.find_first_not_of(" \t");
        if (begin == 0 || begin == std::string_view::npos) continue;
        line.remove_prefix(begin);
        return parse_number<std::uint64_t>(line.substr(0, line.find_first_not_of("0123456789")));
    }
    return std::nullopt;
}

/// A file with one number, or nothing (also for "max").
[[nodiscard]] inline std::optional<std::uint64_t> read_system_number(const std::filesystem::path& path) {
    const auto text = read_system_text(path);
    if (!text) return std::nullopt;
    return parse_number<std::uint64_t>(std::string_view(*text).substr(0, text->find_last_not_of(" \t\n") + 1));
}

/// `absolute` seen below `root`.
[[nodiscard]] inline std::filesystem::path below(const std::filesystem::path& root,
                                                 const std::filesystem::path& absolute) {
    return root / absolute.relative_path();
}

}  // namespace colibri::detail
