// How many threads this process should use.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
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
    unsigned fast_cores = 1;           ///< performance cores among these; all where there is one kind
    std::optional<double> quota = {};  ///< processors' worth of time that its control groups allow

    /// Threads to answer with when nobody says: one per performance core, as two on one core share its arithmetic units and
    /// a few fast cores already read as fast as the memory can; no more than the quota rounded to the nearest whole
    /// number, at least 1.
    [[nodiscard]] unsigned threads() const noexcept { return within_quota(fast_cores); }

    /// Threads for prompts when nobody says: one per core of every kind, as work is handed out in pieces and slow cores
    /// take fewer of them; within the quota like `threads`.
    [[nodiscard]] unsigned batch_threads() const noexcept { return within_quota(cores); }

    /// Threads beyond which more would only wait for each other: every hardware thread, no more than the quota rounded up.
    [[nodiscard]] unsigned most_threads() const noexcept {
        if (!quota || *quota >= logical) return logical;
        const auto whole = static_cast<unsigned>(*quota);
        return std::max(1u, *quota > whole ? whole + 1 : whole);
    }

private:
    [[nodiscard]] unsigned within_quota(unsigned count) const noexcept {
        if (!quota || *quota >= count) return count;
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

/// Of `cpus`, the faster kind on a machine that has several; all of them if it has one or doesn't say.
[[nodiscard]] inline std::set<unsigned> fast_cpus(const std::vector<unsigned>& cpus, const std::filesystem::path& root) {
    std::set<unsigned> all(cpus.begin(), cpus.end());
    // Intel's hybrids list their two kinds.
    if (const auto list = read_system_text(root / "sys/devices/cpu_core/cpus")) {
        std::set<unsigned> fast;
        const auto text = std::string_view(*list);
        for (const unsigned cpu : parse_cpu_list(text.substr(0, text.find('\n'))).value_or(std::vector<unsigned>{})) {
            if (all.contains(cpu)) fast.insert(cpu);
        }
        return fast.empty() ? all : fast;
    }
    // Elsewhere by what each is worth: first of its capacity (ARM's little cores have 25 to 55 % of the big ones', middle
    // ones 70 % and more), else of its highest frequency (dense cores have about 65 %, plain ones 90 % and more).
    struct measure {
        std::string_view file;
        double share;
    };
    for (const auto [file, share] : {measure{"cpu_capacity", 0.6}, measure{"cpufreq/cpuinfo_max_freq", 0.75}}) {
        std::vector<std::pair<unsigned, std::uint64_t>> values;
        std::uint64_t best = 0;
        bool differ = false;
        for (const unsigned cpu : cpus) {
            const auto value = read_system_number(root / concat("sys/devices/system/cpu/cpu", cpu, "/", file));
            if (!value) break;
            differ = differ || (best != 0 && *value != best);
            best = std::max(best, *value);
            values.emplace_back(cpu, *value);
        }
        if (values.size() != cpus.size() || !differ) continue;
        std::set<unsigned> fast;
        for (const auto& [cpu, value] : values) {
            if (static_cast<double>(value) >= share * static_cast<double>(best)) fast.insert(cpu);
        }
        return fast;
    }
    return all;
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
        out.logical = out.cores = out.fast_cores = std::max(1u, std::thread::hardware_concurrency());
    } else {
        out.logical = static_cast<unsigned>(cpus.size());
        const auto fast = detail::fast_cpus(cpus, root);
        std::map<std::string, bool> cores;  // each core by the list of its hardware threads; whether it is a fast one
        for (const unsigned cpu : cpus) {
            const auto topology = root / concat("sys/devices/system/cpu/cpu", cpu, "/topology");
            auto threads = detail::read_system_text(topology / "core_cpus_list");
            if (!threads)
                threads = detail::read_system_text(topology / "thread_siblings_list");  // its name before Linux 5.3
            const bool is_fast = fast.contains(cpu);
            auto& core = cores[threads ? std::move(*threads) : concat("cpu", cpu)];
            core = core || is_fast;
        }
        out.cores = static_cast<unsigned>(cores.size());
        out.fast_cores = 0;
        for (const auto& [name, is_fast] : cores) out.fast_cores += is_fast ? 1 : 0;
    }
    for (const auto& group : detail::cgroup_folders("cpu", root)) {
        if (const auto quota = detail::cpu_quota(group)) out.quota = std::min(out.quota.value_or(*quota), *quota);
    }
    return out;
}

/// Threads to answer with when nobody says.
[[nodiscard]] inline unsigned cpu_count() { return read_cpu_limits().threads(); }

}  // namespace colibri
