// Attention over a cache, for shapes of real models: decode of one token at a depth, beside the read bandwidth of this machine, and
// a prompt of 512 tokens, beside the rate of fused multiply-adds. Both limits are measured in the same run.

#include <benchmark/benchmark.h>

#include <iostream>
#include <string>
#include <vector>

#include "colibri/kv/attention.hpp"
#include "colibri/simd/targets.hpp"
#include "common.hpp"

namespace {

using colibri::kv_type;

struct model_shape {
    const char* name;
    std::uint32_t layers, heads, kv_heads, head_size;
};
constexpr model_shape shapes[] = {
    {"llama_1b", 22, 32, 4, 64},
    {"gemma3_270m_global", 3, 4, 1, 256},  // its layers without a window
    {"llama_7b", 4, 32, 32, 128},          // four layers of 32: no groups of heads
};

double bandwidth[2] = {};  ///< bytes a second: one thread, all threads
double peak = 0.0;         ///< operations a second of one thread

/// A cache filled up to `depth` positions, and queries.
struct subject {
    colibri::attention_sizes sizes;
    std::unique_ptr<colibri::kv_store> kv;
    colibri::batch_attention attention;
    std::vector<float> queries, out;

    subject(const model_shape& m, kv_type type, std::uint32_t depth, std::size_t tokens, unsigned threads) {
        const auto context = depth + static_cast<std::uint32_t>(tokens);
        sizes = {m.heads, m.kv_heads, m.head_size, m.head_size, context, tokens, threads};
        colibri::kv_shape shape;
        shape.layers.assign(m.layers, {context, 0});
        shape.kv_heads = m.kv_heads;
        shape.head_k = shape.head_v = m.head_size;
        shape.context = context;
        kv = *colibri::make_kv_store(shape, type, type);
        attention = *colibri::batch_attention::make(sizes);
        std::vector<float> row(std::size_t{m.kv_heads} * m.head_size);
        std::uint32_t state = 1;
        const auto next = [&] {
            state = state * 1664525u + 1013904223u;
            return static_cast<float>(state >> 8) * 0x1p-24f - 0.5f;
        };
        for (auto& v : row) v = next();
        for (std::uint32_t layer = 0; layer < m.layers; ++layer) {
            for (std::uint32_t p = 0; p < context; ++p) {
                row[p % row.size()] = next();
                kv->store(layer, 0, p, row.data(), row.data());
            }
        }
        queries.resize(tokens * m.heads * m.head_size);
        out.resize(queries.size());
        for (auto& v : queries) v = next();
        std::vector<colibri::token_place> places;
        for (std::uint32_t t = 0; t < tokens; ++t) places.push_back({0, depth + t});
        attention.plan(places);
    }

    void run(std::uint32_t layers, colibri::thread_pool& pool) {
        colibri::attention_job job;
        job.scale = 0.125f;
        job.queries = queries.data();
        job.out = out.data();
        job.query_stride = job.out_stride = std::size_t{sizes.heads} * sizes.head_k;
        for (job.layer = 0; job.layer < layers; ++job.layer) attention.run(job, *kv, pool);
        benchmark::DoNotOptimize(out.data());
    }
};

void decode(benchmark::State& state, const model_shape& m, kv_type type, std::uint32_t depth, unsigned threads) {
    colibri::thread_pool pool(threads);
    subject s(m, type, depth, 1, threads);
    double tokens = 0.0;
    for (auto _ : state) {
        s.run(m.layers, pool);
        tokens += 1.0;
    }
    using benchmark::Counter;
    const auto bytes = static_cast<double>(s.kv->bytes());
    state.counters["MB"] = bytes / 1e6;
    state.counters["GB/s"] = Counter(tokens * bytes / 1e9, Counter::kIsRate);
    state.counters["of_bandwidth"] = Counter(tokens * bytes / bandwidth[threads > 1], Counter::kIsRate);
}

void prompt(benchmark::State& state, const model_shape& m, kv_type type, std::uint32_t depth, std::uint32_t count) {
    colibri::thread_pool pool(1);
    subject s(m, type, depth, count, 1);
    double done = 0.0;
    for (auto _ : state) {
        s.run(m.layers, pool);
        done += 1.0;
    }
    using benchmark::Counter;
    // Two products of head_size for each token and position that it sees.
    const double pairs = count * (depth + (count + 1) / 2.0);
    const double operations = 4.0 * m.head_size * m.heads * m.layers * pairs;
    state.counters["Gflop/s"] = Counter(done * operations / 1e9, Counter::kIsRate);
    if (peak > 0.0) state.counters["of_peak"] = Counter(done * operations / peak, Counter::kIsRate);
}

}  // namespace

int main(int argc, char** argv) {
    if (!bench::start(argc, argv)) return 1;
    const unsigned threads = bench::threads();
    const auto one = bench::measure_limits(1);
    bandwidth[0] = one.bandwidth;
    bandwidth[1] = threads == 1 ? one.bandwidth : bench::measure_limits(threads).bandwidth;
    peak = 2.0 * one.float_peak;
    std::cerr << "target " << colibri::simd::target_name() << ", read bandwidth over 256 MiB " << bandwidth[0] / 1e9
              << " GB/s with one thread, " << bandwidth[1] / 1e9 << " GB/s with " << threads << "; multiply-adds "
              << peak / 1e9 << " Gflop/s with one thread\n";
    for (const auto& m : shapes) {
        const auto add = [&](const std::string& what, auto&& body) {
            benchmark::RegisterBenchmark((std::string(m.name) + "/" + what).c_str(), body)
                ->UseRealTime()->Unit(benchmark::kMillisecond)->Repetitions(5)->ReportAggregatesOnly();
        };
        for (const auto type : {kv_type::f16, kv_type::q8_0}) {
            const std::string format(name(type));
            for (const std::uint32_t depth : {4096u, 16384u}) {
                for (const unsigned t : {1u, threads}) {
                    if (t == 1 || threads > 1) {
                        add("decode/" + format + "/depth:" + std::to_string(depth) + "/threads:" + std::to_string(t),
                            [&m, type, depth, t](benchmark::State& state) { decode(state, m, type, depth, t); });
                    }
                    if (threads == 1) break;
                }
            }
            for (const std::uint32_t depth : {0u, 4096u}) {
                add("prompt_512/" + format + "/depth:" + std::to_string(depth) + "/threads:1",
                    [&m, type, depth](benchmark::State& state) { prompt(state, m, type, depth, 512); });
            }
        }
    }
    return bench::run();
}
