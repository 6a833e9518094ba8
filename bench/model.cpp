// Decode and prompt speed of a model beside the least time that reading and computing take on this machine.
#include "colibri/session/benchmark.hpp"
#include "common.hpp"

namespace {

void measure(benchmark::State& state, const colibri::model& m, const colibri::benchmark_case& what, const colibri::machine_limits& limits) {
    colibri::session_options options;
    options.context = static_cast<std::uint32_t>(what.context());
    options.threads = bench::threads();
    auto session = colibri::session::make(m, options).value();
    for (auto _ : state) state.SetIterationTime(colibri::run_benchmark(session, what).value());
    const auto least = colibri::least_work(session, what, limits, limits);
    state.counters["tok/s"] = bench::rate(what.prompt + what.generate);
    state.counters["GB/s"] = bench::rate(least.bytes / 1e9);
    state.counters["Gop/s"] = bench::rate(2.0 * (least.integer_madds + least.float_madds) / 1e9);
    state.counters["of_limit"] = bench::rate(least.seconds);
}

}  // namespace

int main(int argc, char** argv) {
    if (!bench::start(argc, argv)) return 1;
    const auto path = bench::model_file();
    if (!path) return 2;
    const auto opened = colibri::model::open(*path);
    if (!opened) {
        std::cerr << opened.error().text() << '\n';
        return 2;
    }
    const auto& m = *opened;
    const double bytes = colibri::roofline(m, colibri::kv_type::f16, colibri::kv_type::f16, {}).bytes_per_token();
    const auto limits = bench::measure_limits(bench::threads(), static_cast<std::size_t>(bytes));
    std::cerr << m.title() << ": " << bytes / 1e6 << " MB a token\n";
    bench::tell(bench::threads(), limits);
    const auto add = [&](const std::string& name, const colibri::benchmark_case& what) {
        bench::add(name, [=](benchmark::State& state) { measure(state, m, what, limits); }, benchmark::kMillisecond)->UseManualTime();
    };
    add("decode_16/depth_0", {0, 16, 0});
    add("decode_16/depth_1024", {0, 16, 1024});
    add("prompt_32", {32, 0, 0});
    add("prompt_256", {256, 0, 0});
    add("prompt_1024", {1024, 0, 0});
    return bench::run();
}
