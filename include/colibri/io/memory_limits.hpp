// How much memory this process may use: the machine's, and that of its control groups.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "colibri/io/cgroup.hpp"

namespace colibri {

/// A control group with a memory limit that this process is in.
struct memory_group {
    std::filesystem::path folder;
    std::uint64_t limit = 0;        ///< bytes that all its processes together may use
    std::uint64_t usage = 0;        ///< bytes in use, page cache included
    std::uint64_t reclaimable = 0;  ///< of these, page cache that is dropped before anything fails (inactive_file)

    /// Bytes that can still be had.
    [[nodiscard]] std::uint64_t free() const noexcept {
        const std::uint64_t held = usage - std::min(usage, reclaimable);
        return limit - std::min(limit, held);
    }
};

/// What limits the memory of this process, when it was looked at. Sizes in bytes.
struct memory_limits {
    static constexpr std::uint64_t unlimited = std::numeric_limits<std::uint64_t>::max();

    std::uint64_t total = unlimited;      ///< the machine's memory (MemTotal)
    std::uint64_t available = unlimited;  ///< what the kernel could give without swapping (MemAvailable)
    std::vector<memory_group> groups;     ///< groups with a limit, this process's own first, then ancestors; v1 and v2

    /// The most that this process can ever have: the smallest of the machine's memory and all groups' limits.
    [[nodiscard]] std::uint64_t limit() const noexcept {
        std::uint64_t out = total;
        for (const auto& group : groups) out = std::min(out, group.limit);
        return out;
    }
    /// What it can have now on top of what it has: the smallest of MemAvailable and what is free in each group.
    [[nodiscard]] std::uint64_t free() const noexcept {
        std::uint64_t out = available;
        for (const auto& group : groups) out = std::min(out, group.free());
        return out;
    }
};

/// Reads the limits from /proc and the mounted control groups, below `root`. What can't be read doesn't limit.
[[nodiscard]] inline memory_limits read_memory_limits(const std::filesystem::path& root = "/") {
    memory_limits out;
    if (const auto text = detail::read_system_text(root / "proc/meminfo")) {
        if (const auto total = detail::line_number(*text, "MemTotal:")) out.total = *total * 1024;
        if (const auto available = detail::line_number(*text, "MemAvailable:")) out.available = *available * 1024;
    }
    // v1 writes "no limit" as the largest number of whole pages below 2^63.
    constexpr std::uint64_t no_limit = std::uint64_t{1} << 62;
    for (const auto& [folder, version] : detail::cgroup_folders("memory", root)) {
        const auto stat = detail::read_system_text(folder / "memory.stat").value_or("");
        memory_group group{folder};
        std::uint64_t limit = memory_limits::unlimited;
        const auto apply = [&](std::optional<std::uint64_t> number) {
            if (number && *number < no_limit) limit = std::min(limit, *number);
        };
        if (version == 2) {
            // Above memory.high a group is slowed down until it barely moves, so it counts as a limit too.
            apply(detail::read_system_number(folder / "memory.max"));
            apply(detail::read_system_number(folder / "memory.high"));
            group.usage = detail::read_system_number(folder / "memory.current").value_or(0);
            group.reclaimable = detail::line_number(stat, "inactive_file").value_or(0);
        } else {
            apply(detail::read_system_number(folder / "memory.limit_in_bytes"));
            // Also tells of ancestors that a container can't see.
            apply(detail::line_number(stat, "hierarchical_memory_limit"));
            group.usage = detail::read_system_number(folder / "memory.usage_in_bytes").value_or(0);
            const auto own = detail::line_number(stat, "inactive_file");
            group.reclaimable = detail::line_number(stat, "total_inactive_file").value_or(own.value_or(0));
        }
        if (limit == memory_limits::unlimited) continue;
        group.limit = limit;
        out.groups.push_back(std::move(group));
    }
    return out;
}

/// Memory that this process holds, in bytes; 0 for what can't be read.
struct process_memory {
    std::uint64_t resident = 0;   ///< in memory now (RSS)
    std::uint64_t peak = 0;       ///< the most that was ever resident
    std::uint64_t anonymous = 0;  ///< resident and its own: heap, stacks, buffers
    std::uint64_t mapped = 0;     ///< resident pages of files, which the page cache shares
};

[[nodiscard]] inline process_memory read_process_memory(const std::filesystem::path& root = "/") {
    process_memory out;
    const auto text = detail::read_system_text(root / "proc/self/status");
    if (!text) return out;
    const auto bytes = [&](std::string_view key) { return detail::line_number(*text, key).value_or(0) * 1024; };
    out.resident = bytes("VmRSS:");
    out.peak = bytes("VmHWM:");
    out.anonymous = bytes("RssAnon:");
    out.mapped = bytes("RssFile:");
    return out;
}

}  // namespace colibri
