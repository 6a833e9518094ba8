// What the benchmarks share: the machine's limits, measured once in each run, and how results are registered.
#pragma once

#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "colibri/core/number.hpp"
#include "colibri/io/cpu_count.hpp"
#include "colibri/model/roofline.hpp"
#include "colibri/simd/machine.hpp"
#include "support/models.hpp"

namespace bench {

using benchmark::Counter;

/// Threads of the multi-threaded lines: COLIBRI_BENCH_THREADS, else the physical cores.
[[nodiscard]] inline unsigned threads() {
    static const unsigned count = [] {
        const char* asked = std::getenv("COLIBRI_BENCH_THREADS");
        const auto number = asked != nullptr ? colibri::parse_number<unsigned>(asked) : std::optional(colibri::cpu_count());
        if (number && *number > 0 && *number <= colibri::thread_pool::max_threads) return *number;
        std::cerr << "COLIBRI_BENCH_THREADS must be a number from 1 to " << colibri::thread_pool::max_threads << '\n';
        std::exit(1);
    }();
    return count;
}

/// What `count` threads reach at best: reading a buffer of `bytes`, and multiplying in registers.
[[nodiscard]] inline colibri::machine_limits measure_limits(unsigned count, std::size_t bytes = std::size_t{256} << 20) {
    colibri::thread_pool pool(count);
    return {colibri::simd::read_bandwidth(bytes, pool).value(), colibri::simd::integer_peak(pool), colibri::simd::float_peak(pool)};
}

/// One line per benchmark on standard error: what everything below is compared with.
inline void tell(unsigned count, const colibri::machine_limits& m) {
    std::cerr << "limits of " << count << (count == 1 ? " thread: " : " threads: ") << m.bandwidth / 1e9 << " GB/s read, "
              << 2 * m.integer_peak / 1e9 << " Gop/s of 8-bit codes, " << 2 * m.float_peak / 1e9 << " Gop/s of floats ("
              << colibri::simd::target_name() << ")\n";
}

/// Registers `body(state)` under a name. Five repetitions, of which the median counts.
template <class Body>
benchmark::internal::Benchmark* add(const std::string& name, Body body, benchmark::TimeUnit unit = benchmark::kMicrosecond) {
    return benchmark::RegisterBenchmark(name.c_str(), body)
        ->UseRealTime()
        ->Unit(unit)
        ->Repetitions(5)
        ->ReportAggregatesOnly();
}

/// A counter of something per second.
[[nodiscard]] inline Counter rate(double amount) { return {amount, Counter::kIsIterationInvariantRate}; }

/// Reproducible floats in [-1, 1), and numbers.
class noise {
public:
    explicit noise(std::uint64_t seed = 1) : state_(seed * 0x9e3779b97f4a7c15u + 1) {}
    [[nodiscard]] std::uint64_t next() noexcept {
        state_ ^= state_ << 13;
        state_ ^= state_ >> 7;
        state_ ^= state_ << 17;
        return state_;
    }
    [[nodiscard]] float value() noexcept { return static_cast<float>(static_cast<std::int64_t>(next()) >> 40) / 8388608.0f; }
    [[nodiscard]] std::vector<float> values(std::size_t count) {
        std::vector<float> out(count);
        for (auto& one : out) one = value();
        return out;
    }

private:
    std::uint64_t state_;
};

/// The file that COLIBRI_BENCH_MODEL names, else SmolLM2 from the cache that scripts/models.sh fills.
[[nodiscard]] inline std::optional<std::filesystem::path> model_file() {
    const char* named = std::getenv("COLIBRI_BENCH_MODEL");
    if (named != nullptr) return std::filesystem::path(named);
    auto found = models::file("smollm2");
    if (!found) std::cerr << "no model: name one with COLIBRI_BENCH_MODEL or run scripts/models.sh\n";
    return found;
}

/// The arguments that Google Benchmark knows; false if others are there. A tenth of a second for each repetition, unless
/// --benchmark_min_time says otherwise.
[[nodiscard]] inline bool start(int argc, char** argv) {
    static char least[] = "--benchmark_min_time=0.1";
    std::vector<char*> words(argv, argv + argc);
    words.insert(words.begin() + (argc > 0 ? 1 : 0), least);
    int count = static_cast<int>(words.size());
    benchmark::Initialize(&count, words.data());
    return !benchmark::ReportUnrecognizedArguments(count, words.data());
}

inline int run() {
    benchmark::RunSpecifiedBenchmarks();
    benchmark::Shutdown();
    return 0;
}

}  // namespace bench
