// The control groups that this process is in.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "colibri/io/system_text.hpp"

namespace colibri::detail {

/// A control group's folder, and the version of its files.
struct cgroup_folder {
    std::filesystem::path path;
    int version = 2;
};

/// Undoes the octal escapes (\040 for a space) of /proc/self/mountinfo.
[[nodiscard]] inline std::string unescape_mount(std::string_view text) {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const auto digit = [&](std::size_t k) {
            return static_cast<unsigned>(static_cast<unsigned char>(text[i + k])) - '0';
        };
        if (text[i] == '\\' && i + 3 < text.size() && digit(1) < 4 && digit(2) < 8 && digit(3) < 8) {
            out += static_cast<char>(digit(1) * 64 + digit(2) * 8 + digit(3));
            i += 3;
        } else {
            out += text[i];
        }
    }
    return out;
}

/// Whether a comma-separated list has `word`.
[[nodiscard]] inline bool lists(std::string_view list, std::string_view word) {
    for (const std::string_view piece : pieces_of(list, ',')) {
        if (piece == word) return true;
    }
    return false;
}

/// The folders of this process's groups that `controller` ("memory", "cpu") may limit, own group first, then its
/// ancestors up to the mount point; of version 1 and 2, as both can be mounted. `root` is where /proc and /sys are
/// looked for.
[[nodiscard]] inline std::vector<cgroup_folder> cgroup_folders(std::string_view controller,
                                                               const std::filesystem::path& root) {
    std::vector<cgroup_folder> out;
    const auto groups = read_system_text(root / "proc/self/cgroup");
    const auto mounts = read_system_text(root / "proc/self/mountinfo");
    if (!groups || !mounts) return out;
    for (const std::string_view mount : pieces_of(*mounts, '\n')) {
        // id parent device root mount-point options [optional...] - type source super-options
        const auto fields = pieces_of(mount, ' ');
        std::size_t dash = 0;
        while (dash < fields.size() && fields[dash] != "-") ++dash;
        if (fields.size() < 6 || dash + 1 >= fields.size()) continue;
        const std::string_view type = fields[dash + 1];
        const int version = type == "cgroup" ? 1 : type == "cgroup2" ? 2 : 0;
        if (version == 0) continue;
        if (version == 1 && (dash + 3 >= fields.size() || !lists(fields[dash + 3], controller))) continue;

        for (const std::string_view line : pieces_of(*groups, '\n')) {
            // number:controllers:path
            const std::size_t first = line.find(':');
            const std::size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
            if (second == std::string_view::npos) continue;
            const std::string_view controllers = line.substr(first + 1, second - first - 1);
            if (version == 1 ? !lists(controllers, controller) : !controllers.empty() || line.substr(0, first) != "0")
                continue;
            std::string group(line.substr(second + 1));
            // The mount may show only the part of the tree below its root, as in a container.
            const std::string mount_root = unescape_mount(fields[3]);
            if (mount_root != "/") {
                const bool inside = group.starts_with(mount_root) &&
                                    (group.size() == mount_root.size() || group[mount_root.size()] == '/');
                group = inside ? group.substr(mount_root.size()) : std::string();
            }
            const std::filesystem::path top = below(root, unescape_mount(fields[4]));
            std::filesystem::path relative = std::filesystem::path(group).relative_path().lexically_normal();
            if (!relative.empty() && *relative.begin() == "..") relative.clear();
            if (!relative.empty() && relative.filename().empty()) relative = relative.parent_path();
            while (!relative.empty() && relative != ".") {
                out.push_back({top / relative, version});
                relative = relative.parent_path();
            }
            out.push_back({top, version});
        }
    }
    return out;
}

}  // namespace colibri::detail
