// The vector operations between products: bytes read and written per second from cache, one thread.
#include <cmath>

#include "colibri/simd/ops.hpp"
#include "common.hpp"

int main(int argc, char** argv) {
    if (!bench::start(argc, argv)) return 1;
    namespace simd = colibri::simd;
    // `passes`: how many arrays of n floats the operation has to read or write.
    const auto add = [](const std::string& name, std::size_t n, double passes, auto operation) {
        bench::add(name + "/" + std::to_string(n), [=](benchmark::State& state) {
            auto a = bench::noise(1).values(n);
            const auto b = bench::noise(2).values(n);
            std::vector<float> out(n);
            for (auto _ : state) {
                operation(a.data(), b.data(), out.data(), n);
                benchmark::DoNotOptimize(out.data());
                benchmark::ClobberMemory();
            }
            state.counters["GB/s"] = bench::rate(passes * static_cast<double>(n * sizeof(float)) / 1e9);
        }, benchmark::kNanosecond);
    };
    add("rms_norm", 2048, 3, [](float* a, const float* b, float* out, std::size_t n) { simd::rms_norm(a, b, out, n, 1e-5f); });
    for (const std::size_t n : {256u, 4096u, 32768u}) {
        add("softmax", n, 2, [](float* a, const float*, float* out, std::size_t count) { simd::softmax(a, out, count); });
    }
    add("swiglu", 5632, 3, [](float* a, const float* b, float* out, std::size_t n) { simd::swiglu(a, b, out, n); });
    add("geglu", 5632, 3, [](float* a, const float* b, float* out, std::size_t n) { simd::geglu(a, b, out, n); });
    add("add", 2048, 3, [](float* a, const float* b, float* out, std::size_t n) { simd::add(a, b, out, n); });
    add("exp", 4096, 2, [](float* a, const float*, float* out, std::size_t n) { simd::exp(a, out, n); });
    // Rotations keep lengths, so doing it again and again overflows nothing.
    add("rope_interleaved", 128, 2, [](float* a, const float* b, float*, std::size_t n) { simd::rope_interleaved(a, b, b + n / 2, n); });
    add("rope_halves", 128, 2, [](float* a, const float* b, float*, std::size_t n) { simd::rope_halves(a, b, b + n / 2, n); });
    return bench::run();
}
