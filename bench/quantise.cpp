// Quantising activations, which every product of quantised weights does first: bytes of floats per second, one thread.
#include "colibri/simd/product.hpp"
#include "common.hpp"

namespace {

void measure(benchmark::State& state, colibri::dtype type, std::size_t columns, std::size_t width) {
    const auto x = bench::noise().values(columns * width);
    auto activations = colibri::simd::activations::make(columns, width).value();
    colibri::thread_pool pool(1);
    for (auto _ : state) {
        activations.assign(x.data(), columns, width, width);
        activations.prepare(type, pool);
        benchmark::ClobberMemory();
    }
    state.counters["GB/s"] = bench::rate(static_cast<double>(columns * width * sizeof(float)) / 1e9);
}

}  // namespace

int main(int argc, char** argv) {
    if (!bench::start(argc, argv)) return 1;
    for (const auto& [name, type] : {std::pair("groups_of_32", colibri::dtype::q8_0), std::pair("groups_of_256", colibri::dtype::q4_k)}) {
        for (const std::size_t columns : {1u, 256u}) {
            bench::add(std::string(name) + "/2048x" + std::to_string(columns),
                       [=, t = type](benchmark::State& state) { measure(state, t, columns, 2048); });
        }
    }
    return bench::run();
}
