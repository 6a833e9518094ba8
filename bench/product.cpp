// Products of a matrix and columns of activations, per weight format: one column against the read bandwidth, many columns against the
// peak of multiply-adds.
#include "colibri/quant/format_list.hpp"
#include "colibri/simd/product.hpp"
#include "common.hpp"

namespace {

using colibri::dtype;

constexpr std::size_t width = 4096;

/// Random bytes are valid weights of every format; scales that are NaN or infinite cost no more than others.
struct matrix {
    colibri::aligned_buffer bytes;
    colibri::tensor_ref weights;

    matrix(dtype type, std::size_t rows) {
        const std::size_t size = colibri::quant::row_bytes(type, width).value() * rows;
        bytes = colibri::aligned_buffer::allocate(size).value();
        bench::noise noise;
        for (auto& word : bytes.as<std::uint32_t>()) word = static_cast<std::uint32_t>(noise.next() >> 32) & 0x37ff37ffu;
        weights = colibri::tensor_ref::make(type, colibri::shape::make({width, rows}).value(), {bytes.data(), size}).value();
    }
};

void measure(benchmark::State& state, dtype type, std::size_t rows, std::size_t columns, unsigned threads,
             const colibri::machine_limits& limits) {
    const matrix m(type, rows);
    const auto x = bench::noise().values(columns * width);
    std::vector<float> out(columns * rows);
    auto activations = colibri::simd::activations::make(columns, width).value();
    colibri::thread_pool pool(threads);
    for (auto _ : state) {
        activations.assign(x.data(), columns, width, width);
        colibri::simd::product(m.weights, activations, out.data(), rows, pool);
        benchmark::DoNotOptimize(out.data());
    }
    const auto bytes = static_cast<double>(m.bytes.size());
    const auto madds = static_cast<double>(rows * width * columns);
    const bool floats = type == dtype::f32 || type == dtype::f16 || type == dtype::bf16;
    state.counters["GB/s"] = bench::rate(bytes / 1e9);
    state.counters["Gop/s"] = bench::rate(2.0 * madds / 1e9);
    if (columns == 1 && bytes > 1e8) state.counters["of_bandwidth"] = bench::rate(bytes / limits.bandwidth);
    state.counters["of_peak"] = bench::rate(madds / (floats ? limits.float_peak : limits.integer_peak));
}

}  // namespace

int main(int argc, char** argv) {
    if (!bench::start(argc, argv)) return 1;
    const unsigned all = bench::threads();
    const auto one = bench::measure_limits(1);
    const auto several = all == 1 ? one : bench::measure_limits(all);
    bench::tell(1, one);
    if (all != 1) bench::tell(all, several);
    colibri::quant::for_each_format(colibri::quant::weight_formats{}, [&]<class F>(std::type_identity<F>) {
        const std::size_t row = colibri::quant::row_bytes(F::type, width).value();
        const std::size_t large = (std::size_t{256} << 20) / row / 16 * 16;
        const std::string name(colibri::name(F::type));
        const auto add = [&](const std::string& what, std::size_t rows, std::size_t columns, unsigned threads) {
            const auto limits = threads == 1 ? one : several;
            bench::add(name + "/" + what, [=](benchmark::State& state) { measure(state, F::type, rows, columns, threads, limits); });
        };
        add("gemv_memory_all_threads", large, 1, all);
        add("gemv_cache_1_thread", 128, 1, 1);
        add("gemm_4_columns_1_thread", 256, 4, 1);
        add("gemm_32_columns_1_thread", 256, 32, 1);
        add("gemm_256_columns_1_thread", 256, 256, 1);
        add("gemm_256_columns_all_threads", 1024, 256, all);
    });
    return bench::run();
}
