// What this machine can do at best, measured in the same run as everything that is compared with it.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "colibri/core/buffer.hpp"
#include "colibri/core/thread_pool.hpp"

namespace bench {

using clock = std::chrono::steady_clock;

[[nodiscard]] inline double seconds_since(clock::time_point start) {
    return std::chrono::duration<double>(clock::now() - start).count();
}

[[nodiscard]] inline double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    const std::size_t n = values.size();
    return n == 0 ? 0.0 : n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/// Bytes per second that `threads` threads read from a buffer of `bytes` bytes in huge pages, if the kernel gives them: median of
/// `rounds` sweeps after one that isn't counted. A buffer of the model's size says what reading a model can reach: DRAM, or the
/// last-level cache where it fits.
[[nodiscard]] inline double read_bandwidth(std::size_t bytes, unsigned threads, int rounds = 7) {
    auto buffer = colibri::aligned_buffer::allocate(bytes).value();
    const auto words = buffer.as<std::uint64_t>();
    for (std::size_t i = 0; i < words.size(); ++i) words[i] = i;
    colibri::thread_pool pool(threads);
    std::vector<std::uint64_t> sums(threads);
    std::vector<double> rates;
    for (int round = 0; round <= rounds; ++round) {
        const auto start = clock::now();
        pool.for_chunks(words.size(), std::size_t{1} << 16, [&](std::size_t begin, std::size_t end, unsigned worker) {
            // Eight sums, so that loads and not the adds' latency are the limit; compilers make vectors of them.
            std::uint64_t parts[8] = {};
            for (std::size_t i = begin; i + 8 <= end; i += 8) {
                for (std::size_t k = 0; k < 8; ++k) parts[k] += words[i + k];
            }
            for (const auto part : parts) sums[worker] += part;
        });
        if (round > 0) rates.push_back(static_cast<double>(words.size_bytes()) / seconds_since(start));
    }
    // The sums must be of use to somebody, or there is nothing to measure.
    volatile std::uint64_t sink = 0;
    for (const auto sum : sums) sink = sink + sum;
    return median(std::move(rates));
}

namespace detail {

/// Twelve chains of fused multiply-adds of one vector each: as many as any CPU has in flight. Assembler, because compilers fuse
/// or don't as their flags say.
#define COLIBRI_BENCH_CHAINS(NAME, BYTES, INSTRUCTION, CONSTRAINT)                                \
    inline double NAME(long steps) {                                                              \
        typedef float vector __attribute__((vector_size(BYTES)));                                 \
        vector factor = vector{} + 0.5f;                                                          \
        vector sums[12] = {};                                                                     \
        for (long i = 0; i < steps; ++i) {                                                        \
            _Pragma("GCC unroll 12") for (auto& sum : sums) {                                     \
                asm volatile(INSTRUCTION : "+" CONSTRAINT(sum) : CONSTRAINT(factor));             \
            }                                                                                     \
        }                                                                                         \
        return static_cast<double>(steps) * 12 * 2 * (BYTES / 4);                                 \
    }
#if defined(__x86_64__)
__attribute__((target("avx512f"))) COLIBRI_BENCH_CHAINS(chains_avx512, 64, "vfmadd231ps %1, %1, %0", "v")
__attribute__((target("avx2,fma"))) COLIBRI_BENCH_CHAINS(chains_avx2, 32, "vfmadd231ps %1, %1, %0", "x")
#elif defined(__aarch64__)
COLIBRI_BENCH_CHAINS(chains_neon, 16, "fmla %0.4s, %1.4s, %1.4s", "w")
#endif
#undef COLIBRI_BENCH_CHAINS

}  // namespace detail

/// Floating point operations per second of one thread, at best: multiply-adds (two operations each) that wait for nothing. 0 where
/// the CPU has none.
[[nodiscard]] inline double fma_rate(int rounds = 7) {
    double (*chains)(long) = nullptr;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) chains = &detail::chains_avx512;
    else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) chains = &detail::chains_avx2;
#elif defined(__aarch64__)
    chains = &detail::chains_neon;
#endif
    if (chains == nullptr) return 0.0;
    std::vector<double> rates;
    for (int round = 0; round <= rounds; ++round) {
        const auto start = clock::now();
        const double operations = chains(1000000);
        if (round > 0) rates.push_back(operations / seconds_since(start));
    }
    return median(std::move(rates));
}

}  // namespace bench
