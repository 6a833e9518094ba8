// How many threads this process should use.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "colibri/core/concat.hpp"
#include "colibri/io/cgroup.hpp"

namespace colibri {

/// The processors that this process may use.
struct cpu_limits {
    unsigned logical = 1;              ///< processors that its affinity allows, hardware threads counted each
    unsigned cores = 1;                ///< physical cores among them
    std::optional<double> quota = {};  ///< processors' worth of time that its control groups allow

    /// Threads to compute with when nobody says: one per core, as two on one core share its arithmetic units; no more
    /// than the quota rounded to the nearest whole number, at least 1.
    [[nodiscard]] unsigned threads() const noexcept {
        if (!quota || *quota >= cores) return cores;
        return std::max(1u, static_cast<unsigned>(*quota + 0.5));
    }
};

namespace detail {

/// "0-3,8,10-11" as numbers; nothing if it isn't such a list.
[[nodiscard]] inline std::optional<std::vector<unsigned>> parse_cpu_list(std::string_view text) {
    std::vector<unsigned> out;
    for (const std::string_view piece : pieces_of(text, ',')) {
        const std::size_t dash = piece.find('-');
        const auto first = parse_number<unsigned>(piece.substr(0, dash));
        const auto last = dash == std::string_view::npos ? first : parse_number<unsigned>(piece.substr(dash + 1));
        if (!first || !last || *last < *first || *last - *first > 65536) return std::nullopt;
        for (unsigned cpu = *first; cpu <= *last; ++cpu) out.push_back(cpu);
    }
    return out;
}

/// The processors that this process's affinity allows; empty if unknown.
[[nodiscard]] inline std::vector<unsigned> allowed_cpus(const std::filesystem::path& root) {
    const auto status = read_system_text(root / "proc/self/status");
    if (!status) return {};
    for (std::string_view line : pieces_of(*status, '\n')) {
        constexpr std::string_view key = "Cpus_allowed_list:";
        if (!line.starts_with(key)) continue;
        line.remove_prefix(key.size());
        const std::size_t begin = line.find_first_not_of(" \t");
        if (begin == std::string_view::npos) return {};
        return parse_cpu_list(line.substr(begin)).value_or(std::vector<unsigned>{});
    }
    return {};
}

/// Processors' worth of time that one group allows, or nothing.
[[nodiscard]] inline std::optional<double> cpu_quota(const cgroup_folder& group) {
    std::optional<std::uint64_t> quota;
    std::optional<std::uint64_t> period;
    if (group.version == 2) {
        const auto text = read_system_text(group.path / "cpu.max");  // "max 100000" or "150000 100000"
        if (!text) return std::nullopt;
        const auto words = pieces_of(std::string_view(*text).substr(0, text->find('\n')), ' ');
        if (words.size() != 2) return std::nullopt;
        quota = parse_number<std::uint64_t>(words[0]);
        period = parse_number<std::uint64_t>(words[1]);
    } else {
        quota = read_system_number(group.path / "cpu.cfs_quota_us");  // "-1" means none
        period = read_system_number(group.path / "cpu.cfs_period_us");
    }
    if (!quota || !period || *quota == 0 || *period == 0) return std::nullopt;
    return static_cast<double>(*quota) / static_cast<double>(*period);
}

}  // namespace detail

/// Reads affinity, topology and quotas from /proc, /sys and the mounted control groups, below `root`. Without topology
/// every processor counts as a core; without /proc the standard library's number is taken.
[[nodiscard]] inline cpu_limits read_cpu_limits(const std::filesystem::path& root = "/") {
    cpu_limits out;
    const auto cpus = detail::allowed_cpus(root);
    if (cpus.empty()) {
        out.logical = out.cores = std::max(1u, std::thread::hardware_concurrency());
    } else {
        out.logical = static_cast<unsigned>(cpus.size());
        std::set<std::string> cores;  // each core by the list of its hardware threads
        unsigned unknown = 0;
        for (const unsigned cpu : cpus) {
            const auto topology = root / concat("sys/devices/system/cpu/cpu", cpu, "/topology");
            auto threads = detail::read_system_text(topology / "core_cpus_list");
            if (!threads)
                threads = detail::read_system_text(topology / "thread_siblings_list");  // its name before Linux 5.3
            if (threads) cores.insert(std::move(*threads));
            else ++unknown;
        }
        out.cores = static_cast<unsigned>(cores.size()) + unknown;
    }
    for (const auto& group : detail::cgroup_folders("cpu", root)) {
        if (const auto quota = detail::cpu_quota(group)) out.quota = std::min(out.quota.value_or(*quota), *quota);
    }
    return out;
}

/// Threads to compute with when nobody says.
[[nodiscard]] inline unsigned cpu_count() { return read_cpu_limits().threads(); }

}  // namespace colibri
