// What this machine can do at best: measured, to stand beside what Colibri reaches in the same run.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "colibri/core/buffer.hpp"
#include "colibri/core/statistics.hpp"
#include "colibri/core/thread_pool.hpp"
#include "colibri/simd/targets.hpp"

namespace colibri::simd {
inline namespace COLIBRI_SIMD_ABI {

/// Bytes per second that the pool's threads read from one buffer in huge pages, if the kernel gives them: the median of
/// `rounds` sweeps after one that isn't counted. A buffer of a model's size tells what reading the model can reach: DRAM, or
/// the last-level cache where it fits. Allocates the buffer. Errors: out_of_memory.
[[nodiscard]] inline result<double> read_bandwidth(std::size_t bytes, thread_pool& pool, unsigned rounds = 7) {
    using clock = std::chrono::steady_clock;
    constexpr std::size_t piece = std::size_t{1} << 16;  // words; larger than what a core has in flight, small beside a model
    auto buffer = aligned_buffer::allocate(std::max<std::size_t>(bytes, 64));
    if (!buffer) return std::move(buffer).error();
    const auto words = buffer->as<std::uint64_t>();
    pool.for_chunks(words.size(), piece, [&](std::size_t begin, std::size_t end, unsigned) {
        for (std::size_t i = begin; i < end; ++i) words[i] = i;
    });
    std::atomic<std::uint64_t> sum{0};  // of use to somebody, or there would be nothing to measure
    std::vector<double> rates;
    for (unsigned round = 0; round <= rounds; ++round) {
        const auto start = clock::now();
        pool.for_chunks(words.size(), piece, [&](std::size_t begin, std::size_t end, unsigned) {
            // One word of each line of 64 bytes brings the line; adding all of them would be slower than memory (24 against 40 GB/s
            // on a thread of a Zen 5). Asked for ahead, as the products do: prefetchers of CPUs stop at each 4096 bytes.
            std::uint64_t parts[8] = {};
            for (std::size_t i = begin; i + 64 <= end; i += 64) {
                for (std::size_t k = 0; k < 8; ++k) {
                    __builtin_prefetch(words.data() + std::min(i + 8 * k + 1024, words.size() - 1));
                    parts[k] += words[i + 8 * k];
                }
            }
            for (const auto part : parts) sum.fetch_add(part, std::memory_order_relaxed);
        });
        const double seconds = std::chrono::duration<double>(clock::now() - start).count();
        if (round > 0 && seconds > 0.0) rates.push_back(static_cast<double>(words.size_bytes()) / seconds);
    }
    return median(rates);
}

namespace detail {

/// Multiply-adds per second of a kernel that does them in registers; the best of `rounds`, as anything else disturbs only.
template <class Sink>
[[nodiscard]] inline double register_peak(std::uint64_t (*kernel)(std::size_t, Sink*), thread_pool& pool, unsigned rounds) {
    using clock = std::chrono::steady_clock;
    constexpr std::size_t per_piece = 2000;
    const std::size_t pieces = 64 * std::size_t{pool.used()};
    std::atomic<Sink> kept{};
    double best = 0.0;
    for (unsigned round = 0; round <= rounds; ++round) {
        std::atomic<std::uint64_t> done{0};
        const auto start = clock::now();
        pool.for_chunks(pieces, 1, [&](std::size_t begin, std::size_t end, unsigned) {
            for (std::size_t i = begin; i < end; ++i) {
                Sink sink{};
                done.fetch_add(kernel(per_piece, &sink), std::memory_order_relaxed);
                kept.store(sink, std::memory_order_relaxed);
            }
        });
        const double seconds = std::chrono::duration<double>(clock::now() - start).count();
        if (round > 0 && seconds > 0.0) best = std::max(best, static_cast<double>(done.load()) / seconds);
    }
    return best;
}

}  // namespace detail

/// Multiply-adds per second of 8-bit codes that the pool's threads do in registers with the target in use. No product of
/// quantised weights can be faster. Two operations are one multiply-add. Allocates nothing.
[[nodiscard]] inline double integer_peak(thread_pool& pool, unsigned rounds = 5) {
    return detail::register_peak(detail::kernels().integer_peak, pool, rounds);
}

/// The same for fused multiply-adds of floats.
[[nodiscard]] inline double float_peak(thread_pool& pool, unsigned rounds = 5) {
    return detail::register_peak(detail::kernels().float_peak, pool, rounds);
}

}  // namespace COLIBRI_SIMD_ABI
}  // namespace colibri::simd
