// Choosing a token from 262,144 logits (the largest vocabulary in use), per setting. One pass over the logits at one thread's bandwidth
// is the limit.
#include <cmath>

#include "colibri/sampling/sampler.hpp"
#include "common.hpp"

namespace {

using namespace colibri::sampling;

constexpr std::size_t vocabulary = 262144;

/// Logits as models have them: most of them a bell, some far above it.
std::vector<float> logits(float spread) {
    bench::noise noise(7);
    std::vector<float> out(vocabulary);
    for (auto& one : out) one = spread * (noise.value() + noise.value() + noise.value() + noise.value());
    for (int i = 0; i < 40; ++i) out[noise.next() % vocabulary] += 5.0f * spread * std::abs(noise.value());
    return out;
}

params plain() {
    params p;
    p.temperature = 0.8f;
    p.top_k = 0;
    p.top_p = 1.0f;
    p.min_p = 0.0f;
    p.seed = 42;
    return p;
}

void measure(benchmark::State& state, const params& p, float spread, double bandwidth) {
    const auto values = logits(spread);
    vocabulary_info info;
    info.size = vocabulary;
    auto s = sampler::make(p, info).value();
    bench::noise noise(3);
    for (int i = 0; i < 2000; ++i) s.accept(static_cast<token_id>(noise.next() % 500));
    for (auto _ : state) {
        const auto token = s.next(values).value();
        benchmark::DoNotOptimize(token);
        s.accept(token);
    }
    state.counters["of_bandwidth"] = bench::rate(static_cast<double>(vocabulary * sizeof(float)) / bandwidth);
}

}  // namespace

int main(int argc, char** argv) {
    if (!bench::start(argc, argv)) return 1;
    const auto limits = bench::measure_limits(1);
    bench::tell(1, limits);
    const auto add = [&](const std::string& name, const params& p) {
        for (const auto& [sure, spread] : {std::pair("sure", 3.0f), std::pair("unsure", 1.0f), std::pair("flat", 0.2f)}) {
            bench::add(name + "/" + sure, [=, s = spread](benchmark::State& state) { measure(state, p, s, limits.bandwidth); });
        }
    };
    params p;
    p.temperature = 0.0f;
    add("greedy", p);
    p = {};
    p.seed = 42;
    add("defaults", p);
    p.repeat_penalty = 1.1f;
    p.repeat_last_n = -1;
    p.presence_penalty = 0.5f;
    add("defaults_penalties", p);
    p = {};
    p.seed = 42;
    p.dry_multiplier = 0.8f;
    add("defaults_dry", p);
    add("temperature", plain());
    p = plain();
    p.top_p = 0.95f;
    add("top_p", p);
    p = plain();
    p.typical = 0.95f;
    add("typical", p);
    p = plain();
    p.min_p = 0.05f;
    add("min_p", p);
    p = plain();
    p.top_n_sigma = 1.5f;
    add("top_n_sigma", p);
    p = plain();
    p.xtc_probability = 1.0f;
    add("xtc", p);
    p = plain();
    p.dynamic_range = 0.5f;
    add("dynamic_temperature", p);
    p = plain();
    p.mirostat = 1;
    add("mirostat", p);
    p.mirostat = 2;
    add("mirostat_v2", p);
    return bench::run();
}
