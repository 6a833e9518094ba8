// The store for a way of holding weights, and the choice among them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "colibri/io/memory_limits.hpp"
#include "colibri/weights/file_store.hpp"
#include "colibri/weights/resident_store.hpp"

namespace colibri::weights {

/// What holding::automatic chooses for weights of `bytes` resident bytes beside which `others` bytes (the KV cache) are needed,
/// with `free` bytes of memory free: resident if an eighth of the free memory, at least 128 MiB, is left over. That much goes to
/// activations, logits and whatever else runs on the machine.
[[nodiscard]] constexpr holding choose_holding(std::uint64_t bytes, std::uint64_t others, std::uint64_t free) noexcept {
    const std::uint64_t margin = std::max<std::uint64_t>(free / 8, std::uint64_t{128} << 20);
    if (free < margin || others > free - margin) return holding::mapped;
    return bytes <= free - margin - others ? holding::resident : holding::mapped;
}

/// How to open a store.
struct store_options {
    holding how = holding::mapped;
    bool lock = false;         ///< keep all pages in memory (mlock)
    std::uint64_t others = 0;  ///< holding::automatic: bytes of memory that the model will need beside its weights
    load_options loading = {};
};

/// Opens the store for `groups`. Errors: those of `file_store::open` and `resident_store::open`.
[[nodiscard]] inline result<std::unique_ptr<store>> open_store(const gguf::file& file, const std::vector<group>& groups,
                                                               const store_options& options, std::vector<std::string>& notes) {
    auto how = options.how;
    if (how == holding::automatic) {
        auto plan = resident_plan::make(file, groups);
        if (!plan) return std::move(plan).error();
        how = choose_holding(plan->bytes, options.others, read_memory_limits().free());
    }
    if (how == holding::mapped) return file_store::open(file, groups, options.lock, notes);
    auto opened = resident_store::open(file, groups, options.lock, notes, options.loading);
    // What is free can be gone a moment later, or be forbidden to this process.
    if (!opened && opened.error().code == errc::out_of_memory && options.how == holding::automatic) {
        return file_store::open(file, groups, options.lock, notes);
    }
    return opened;
}

}  // namespace colibri::weights
