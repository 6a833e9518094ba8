// What passes before the first token: opening a model whose file is in the page cache, making a session, a prompt of one token.
#include "colibri/session/session.hpp"
#include "common.hpp"

int main(int argc, char** argv) {
    if (!bench::start(argc, argv)) return 1;
    const auto path = bench::model_file();
    if (!path) return 2;
    if (const auto opened = colibri::model::open(*path); !opened) {
        std::cerr << opened.error().text() << '\n';
        return 2;
    }
    colibri::session_options options;
    options.context = 4096;
    options.threads = bench::threads();
    const std::pair<const char*, colibri::weights::holding> ways[] = {{"mapped", colibri::weights::holding::mapped},
                                                                        {"resident", colibri::weights::holding::resident}};
    for (const auto& [name, how] : ways) {
        colibri::model_options how_held;
        how_held.holding = how;
        bench::add(std::string("open/") + name, [=](benchmark::State& state) {
            double bytes = 0.0;
            for (auto _ : state) bytes = static_cast<double>(colibri::model::open(*path, how_held).value().file().tensor_bytes());
            state.counters["GB/s"] = bench::rate(bytes / 1e9);
        }, benchmark::kMillisecond);
        bench::add(std::string("open_to_first_token/") + name, [=](benchmark::State& state) {
            for (auto _ : state) {
                const auto m = colibri::model::open(*path, how_held).value();
                auto session = colibri::session::make(m, options).value();
                const colibri::text::token_id token = 1;
                session.prompt({&token, 1}).value();
                benchmark::DoNotOptimize(session.logits().data());
            }
        }, benchmark::kMillisecond);
    }
    const auto m = colibri::model::open(*path).value();
    bench::add("session", [=](benchmark::State& state) {
        for (auto _ : state) benchmark::DoNotOptimize(colibri::session::make(m, options).value().context());
    }, benchmark::kMillisecond);
    return bench::run();
}
