// Products of a matrix and columns of activations, per format: bytes of weights per second for one column, operations per second for
// many. Beside the read bandwidth of this machine, measured in the same run.

#include <benchmark/benchmark.h>

#include <iostream>
#include <string>
#include <vector>

#include "colibri/io/cpu_count.hpp"
#include "colibri/quant/format_list.hpp"
#include "colibri/simd/product.hpp"
#include "colibri/simd/targets.hpp"
#include "machine.hpp"

namespace {

using colibri::dtype;

constexpr std::size_t columns_of_weights = 4096;

double bandwidth = 0.0;

/// Random bytes are valid weights of every format; scales that are NaN or infinite cost no more than others.
struct matrix {
    colibri::aligned_buffer bytes;
    colibri::tensor_ref weights;

    matrix(dtype type, std::size_t rows) {
        const std::size_t size = colibri::quant::row_bytes(type, columns_of_weights).value() * rows;
        bytes = colibri::aligned_buffer::allocate(size).value();
        std::uint64_t state = 88172645463325252u;
        for (auto& word : bytes.as<std::uint32_t>()) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            word = static_cast<std::uint32_t>(state >> 32) & 0x37ff37ffu;
        }
        weights = colibri::tensor_ref::make(type, colibri::shape::make({columns_of_weights, rows}).value(),
                                            {bytes.data(), size}).value();
    }
};

void run(benchmark::State& state, dtype type, std::size_t rows, std::size_t columns, unsigned threads) {
    const matrix m(type, rows);
    std::vector<float> x(columns * columns_of_weights);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 255) / 255.0f - 0.5f;
    std::vector<float> out(columns * rows);
    auto activations = colibri::simd::activations::make(columns, columns_of_weights).value();
    colibri::thread_pool pool(threads);
    double products = 0.0;
    for (auto _ : state) {
        activations.assign(x.data(), columns, columns_of_weights, columns_of_weights);
        colibri::simd::product(m.weights, activations, out.data(), rows, pool);
        benchmark::DoNotOptimize(out.data());
        products += 1.0;
    }
    using benchmark::Counter;
    const auto size = static_cast<double>(m.bytes.size());
    state.counters["Gop/s"] =
        Counter(products * 2.0 * static_cast<double>(rows * columns_of_weights * columns) / 1e9, Counter::kIsRate);
    if (columns == 1) {
        state.counters["GB/s"] = Counter(products * size / 1e9, Counter::kIsRate);
        state.counters["of_bandwidth"] = Counter(products * size / bandwidth, Counter::kIsRate);
    }
}

}  // namespace

int main(int argc, char** argv) {
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
    const unsigned threads = colibri::cpu_count();
    bandwidth = bench::read_bandwidth(std::size_t{256} << 20, threads);
    std::cerr << "target " << colibri::simd::target_name() << ", " << threads << " threads, read bandwidth over 256 MiB "
              << bandwidth / 1e9 << " GB/s\n";
    colibri::quant::for_each_format(colibri::quant::weight_formats{}, [&]<class F>(std::type_identity<F>) {
        const std::size_t row = colibri::quant::row_bytes(F::type, columns_of_weights).value();
        const std::size_t rows = (std::size_t{256} << 20) / row / 16 * 16;
        const std::string name(colibri::name(F::type));
        const auto add = [&](const std::string& what, std::size_t r, std::size_t c, unsigned t) {
            benchmark::RegisterBenchmark((name + "/" + what).c_str(),
                                         [=](benchmark::State& state) { run(state, F::type, r, c, t); })
                ->UseRealTime()->Unit(benchmark::kMillisecond)->Repetitions(5)->ReportAggregatesOnly();
        };
        add("1_column_256MiB_all_threads", rows, 1, threads);
        add("1_column_in_cache_1_thread", 128, 1, 1);
        add("256_columns_1_thread", 256, 256, 1);
    });
    benchmark::RunSpecifiedBenchmarks();
    benchmark::Shutdown();
    return 0;
}
