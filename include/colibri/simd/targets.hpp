// The choice of instruction set: made once, at the first kernel call, and open to be seen and forced.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "colibri/core/concat.hpp"
#include "colibri/core/error.hpp"
#include "colibri/core/escape.hpp"
#include "colibri/simd/config.hpp"
#include "colibri/simd/cpu.hpp"
#include "colibri/simd/kernel_table.hpp"
#include "colibri/simd/kernels.hpp"

namespace colibri::simd {
inline namespace COLIBRI_SIMD_ABI {

/// A set of instructions that Colibri has kernels for.
struct target_info {
    std::string_view name;  ///< "avx512vnni", "avx512", "avx2vnni", "avx2", "sse4", "baseline"; "neondot", "neon" on ARM
    bool compiled;          ///< whether this program contains its kernels
    bool runnable;          ///< whether this CPU and operating system can run them
};

/// All targets of this architecture, best first.
[[nodiscard]] std::vector<target_info> targets();

/// Name of the target in use. Chooses it if nothing has been chosen: the one that the environment variable COLIBRI_SIMD
/// names if that can run, else the best one that can.
[[nodiscard]] std::string_view target_name() noexcept;

/// Uses the target `name` from now on. Not while kernels run in other threads. Errors: invalid_argument (unknown name),
/// unsupported (left out of this program, or not runnable on this CPU).
[[nodiscard]] result<void> force_target(std::string_view name);

/// force_target with the value of COLIBRI_SIMD; success if it is unset or empty. Programs call this at start so that a wrong
/// value is told: a kernel call can't.
[[nodiscard]] result<void> force_target_from_environment();

namespace detail {

/// The entry in use; null before the first choice. Constant-initialised: nothing runs before main.
inline std::atomic<const target_entry*> active_entry{nullptr};

[[nodiscard]] inline const target_entry* choose_target() noexcept {
    const auto cpu = detect_cpu();
    const char* wanted = std::getenv("COLIBRI_SIMD");
    const target_entry* best = nullptr;
    const target_entry* last = nullptr;
    for (const auto& entry : all_targets()) {
        if (entry.kernels == nullptr) continue;
        last = &entry;
        if (!entry.runnable(cpu)) continue;
        if (wanted != nullptr && entry.name == wanted) {
            best = &entry;
            break;
        }
        if (best == nullptr) best = &entry;
    }
    // Without any runnable entry the whole program is compiled for another CPU; the last entry is what it is compiled for.
    const target_entry* chosen = best != nullptr ? best : last;
    const target_entry* none = nullptr;
    active_entry.compare_exchange_strong(none, chosen, std::memory_order_acq_rel);
    return active_entry.load(std::memory_order_acquire);
}

[[nodiscard]] inline const target_entry& active() noexcept {
    const target_entry* entry = active_entry.load(std::memory_order_acquire);
    return entry != nullptr ? *entry : *choose_target();
}

/// The kernels in use.
[[nodiscard]] inline const kernel_table& kernels() noexcept { return *active().kernels; }

}  // namespace detail

inline std::vector<target_info> targets() {
    const auto cpu = detect_cpu();
    std::vector<target_info> out;
    for (const auto& entry : detail::all_targets()) {
        out.push_back({entry.name, entry.kernels != nullptr, entry.runnable(cpu)});
    }
    return out;
}

inline std::string_view target_name() noexcept { return detail::active().name; }

inline result<void> force_target(std::string_view name) {
    std::string known;
    for (const auto& entry : detail::all_targets()) {
        known += concat(known.empty() ? "" : ", ", entry.name);
        if (entry.name != name) continue;
        if (entry.kernels == nullptr) {
            return error{errc::unsupported, concat("this program was built without the SIMD target ", name)};
        }
        if (!entry.runnable(detect_cpu())) {
            return error{errc::unsupported, concat("this CPU can't run the SIMD target ", name)};
        }
        detail::active_entry.store(&entry, std::memory_order_release);
        return {};
    }
    return error{errc::invalid_argument, concat(quoted(name), " is no SIMD target; known ones are ", known)};
}

inline result<void> force_target_from_environment() {
    const char* wanted = std::getenv("COLIBRI_SIMD");
    if (wanted == nullptr || *wanted == '\0') return {};
    auto forced = force_target(wanted);
    if (!forced) return std::move(forced).error().within("environment variable COLIBRI_SIMD");
    return {};
}

}  // namespace COLIBRI_SIMD_ABI
}  // namespace colibri::simd
