// Decode and prompt speed of a model beside the read bandwidth of this machine, measured in the same run.
//
// The model is the file that COLIBRI_BENCH_MODEL names, else SmolLM2 from the cache that scripts/models.sh fills.
// COLIBRI_BENCH_THREADS: threads (default: the physical cores this process may use).

#include <benchmark/benchmark.h>

#include <cstdlib>
#include <iostream>
#include <optional>
#include <string>

#include "colibri/core/number.hpp"
#include "colibri/io/cpu_count.hpp"
#include "colibri/session/session.hpp"
#include "colibri/simd/targets.hpp"
#include "machine.hpp"
#include "support/models.hpp"

namespace {

struct subject {
    colibri::model model;
    unsigned threads;
    double sweep_bytes;     ///< weights that one decoded token reads: all but the rows of an untied embedding
    double bandwidth;       ///< bytes per second over a buffer of that size
};

std::optional<subject> chosen;

std::vector<colibri::text::token_id> some_tokens(std::size_t count) {
    std::vector<colibri::text::token_id> out;
    const auto size = chosen->model.params().vocabulary;
    for (std::size_t i = 0; i < count; ++i) out.push_back(static_cast<colibri::text::token_id>((i * 7919 + 13) % size));
    return out;
}

colibri::session make_session(std::uint32_t context) {
    colibri::session_options options;
    options.context = context;
    options.threads = chosen->threads;
    return colibri::session::make(chosen->model, options).value();
}

/// Decode: one token after the other at a given depth.
void decode(benchmark::State& state) {
    const auto depth = static_cast<std::uint32_t>(state.range(0));
    constexpr std::uint32_t count = 32;
    auto session = make_session(depth + 2 * count);
    session.prompt(some_tokens(depth)).value();
    double tokens = 0.0;
    for (auto _ : state) {
        state.PauseTiming();
        session.fork(0, 0, depth);
        state.ResumeTiming();
        for (std::uint32_t i = 0; i < count; ++i) {
            const colibri::session::next_token next{0, static_cast<colibri::text::token_id>(i + 100)};
            session.advance({&next, 1}).value();
        }
        tokens += count;
    }
    using benchmark::Counter;
    state.counters["tok/s"] = Counter(tokens, Counter::kIsRate);
    state.counters["GB/s"] = Counter(tokens * chosen->sweep_bytes / 1e9, Counter::kIsRate);
    state.counters["of_bandwidth"] = Counter(tokens * chosen->sweep_bytes / chosen->bandwidth, Counter::kIsRate);
}

/// Prompt: a number of tokens from an empty cache.
void prompt(benchmark::State& state) {
    const auto tokens = some_tokens(static_cast<std::size_t>(state.range(0)));
    auto session = make_session(static_cast<std::uint32_t>(tokens.size()) + 1);
    double done = 0.0;
    for (auto _ : state) {
        state.PauseTiming();
        session.clear();
        state.ResumeTiming();
        session.prompt(tokens).value();
        done += static_cast<double>(tokens.size());
    }
    using benchmark::Counter;
    state.counters["tok/s"] = Counter(done, Counter::kIsRate);
    // Two operations (multiply, add) for each weight of the matrices and each token, the head aside: it runs for one token.
    const auto& h = chosen->model.params();
    const double head = static_cast<double>(h.hidden) * h.vocabulary;
    const double weights = static_cast<double>(chosen->model.tensors().parameters) - head;
    state.counters["Gop/s"] = Counter(done * 2.0 * weights / 1e9, Counter::kIsRate);
}

BENCHMARK(decode)->Arg(16)->Arg(1024)->UseRealTime()->Unit(benchmark::kMillisecond)->Repetitions(5)->ReportAggregatesOnly();
BENCHMARK(prompt)->Arg(32)->Arg(256)->UseRealTime()->Unit(benchmark::kMillisecond)->Repetitions(5)->ReportAggregatesOnly();

}  // namespace

int main(int argc, char** argv) {
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
    const char* named = std::getenv("COLIBRI_BENCH_MODEL");
    const auto path = named != nullptr ? std::optional<std::filesystem::path>(named) : models::file("smollm2");
    if (!path) {
        std::cerr << "no model: name one with COLIBRI_BENCH_MODEL or run scripts/models.sh\n";
        return 2;
    }
    auto opened = colibri::model::open(*path);
    if (!opened) {
        std::cerr << opened.error().text() << '\n';
        return 2;
    }
    const char* asked = std::getenv("COLIBRI_BENCH_THREADS");
    const auto threads = asked != nullptr ? colibri::parse_number<unsigned>(asked) : std::optional<unsigned>(colibri::cpu_count());
    if (!threads || *threads == 0) {
        std::cerr << "COLIBRI_BENCH_THREADS must be a number above 0\n";
        return 1;
    }
    double bytes = static_cast<double>(opened->file().tensor_bytes());
    if (const auto* embedding = opened->file().find("token_embd.weight"); opened->file().find("output.weight") != nullptr) {
        bytes -= static_cast<double>(embedding->bytes);
    }
    const double bandwidth = bench::read_bandwidth(static_cast<std::size_t>(bytes), *threads);
    chosen = subject{*opened, *threads, bytes, bandwidth};
    std::cerr << opened->title() << ": " << bytes / 1e6 << " MB of weights a token, " << *threads << " threads, target "
              << colibri::simd::target_name() << "\nread bandwidth over a buffer of that size: " << bandwidth / 1e9
              << " GB/s, so the limit is " << bandwidth / bytes << " tok/s\n";
    benchmark::RunSpecifiedBenchmarks();
    benchmark::Shutdown();
    chosen.reset();
    return 0;
}
