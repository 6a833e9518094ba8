#include "colibri/session/benchmark.hpp"

#include <doctest/doctest.h>

#include "support/tiny_models.hpp"

using namespace colibri;

namespace {

session make(const model& m, std::uint32_t sequences = 1) {
    session_options options;
    options.threads = 1;
    options.context = 128;
    options.sequences = sequences;
    options.ubatch = 16;
    auto made = session::make(m, options);
    REQUIRE(made);
    return *std::move(made);
}

}  // namespace

TEST_CASE("benchmark: each case does the work that it says, again and again") {
    for (const auto* name : {"llama", "gemma3"}) {
        const auto m = tiny::open(name);
        for (const benchmark_case what : {benchmark_case{20, 0, 0}, {0, 6, 0}, {20, 6, 0}, {20, 6, 30}, {0, 6, 90}, {1, 1, 1}}) {
            auto s = make(m, 2);
            for (int round = 0; round < 3; ++round) {
                const auto seconds = run_benchmark(s, what);
                REQUIRE(seconds);
                CHECK(*seconds > 0.0);
                for (const std::uint32_t sequence : {0u, 1u}) CHECK(s.used(sequence) == what.context());
                // Only what is timed was evaluated: the depth was found in the cache.
                if (what.prompt != 0) CHECK(s.statistics().cached_tokens == what.depth);
            }
            const machine_limits limits{.bandwidth = 1e9, .integer_peak = 1e9, .float_peak = 1e9};
            const auto least = least_work(s, what, limits, limits);
            CHECK(least.seconds > 0.0);
            CHECK(least.bytes > 0.0);
        }
    }
}

TEST_CASE("benchmark: it stops on request, and says what doesn't fit") {
    const auto m = tiny::open("llama");
    auto s = make(m);
    cancel_flag cancel;
    cancel.request();
    const auto stopped = run_benchmark(s, {0, 3, 0}, &cancel);
    REQUIRE(!stopped);
    CHECK(stopped.error().code == errc::canceled);
    const auto long_one = run_benchmark(s, {200, 0, 0});
    REQUIRE(!long_one);
    CHECK(long_one.error().code == errc::context_full);
}

TEST_CASE("benchmark: the knee is the fewest threads within 5 % of the best") {
    const std::vector<unsigned> threads = {1, 2, 4, 8, 16};
    CHECK(knee(threads, std::vector<double>{10, 19, 30, 30.5, 29}) == 4);
    CHECK(knee(threads, std::vector<double>{10, 19, 30, 40, 60}) == 16);
    CHECK(knee(threads, std::vector<double>{30, 30, 30, 30, 30}) == 1);
    CHECK(knee(std::vector<unsigned>{8, 2}, std::vector<double>{30, 29}) == 2);
    CHECK(knee({}, {}) == 0);
}

TEST_CASE("session: prompts may have threads of their own") {
    const auto m = tiny::open("llama");
    session_options options;
    options.context = 64;
    const auto plan = plan_session(m, options);
    REQUIRE(plan);
    CHECK(plan->evaluation.threads == read_cpu_limits().threads());
    CHECK(plan->evaluation.threads_batch == read_cpu_limits().batch_threads());
    options.threads = 3;
    CHECK(plan_session(m, options)->evaluation.threads_batch == 3);
    options.threads_batch = 2;
    CHECK(plan_session(m, options)->evaluation.threads == 3);
    CHECK(plan_session(m, options)->evaluation.threads_batch == 2);
    options.threads_batch = 1025;
    CHECK(plan_session(m, options).error().code == errc::invalid_argument);
    // The logits have the same bits whatever the threads are.
    options.threads_batch = 2;
    options.threads = 1;
    auto few = session::make(m, options);
    options.threads_batch = 1;
    options.threads = 2;
    auto other = session::make(m, options);
    REQUIRE((few && other));
    const auto tokens = tiny::tokens(40, m.params().vocabulary);
    const session::next_token next{0, 5};
    for (auto* s : {&*few, &*other}) {
        REQUIRE(s->prompt(tokens));
        REQUIRE(s->advance({&next, 1}));
    }
    const auto a = few->logits();
    const auto b = other->logits();
    CHECK(std::equal(a.begin(), a.end(), b.begin(), b.end()));
}

TEST_CASE("benchmark: of streamed weights reads are counted, and the disk is a limit") {
    model_options options;
    options.holding = weights::holding::streamed;
    options.streaming.piece = 8192;
    options.streaming.ring = 32768;
    options.streaming.memory = model::open_header(tiny::path("llama")).value().tensors().weight_bytes * 3 / 4;
    const auto m = tiny::open("llama", options);
    auto s = make(m);
    const benchmark_case what{.prompt = 0, .generate = 20, .depth = 4};
    std::uint64_t read = 0;
    REQUIRE(run_benchmark(s, what, nullptr, &read));
    const auto& plan = m.memory().streaming;
    REQUIRE(plan.streamed_bytes > 0);
    // At both ends up to a ring of reads is under way; a looked-up row takes at most two blocks of the disk.
    CHECK(read + plan.ring_bytes >= 20 * plan.streamed_bytes);
    CHECK(read <= 20 * (plan.streamed_bytes + 8192) + plan.ring_bytes);
    const machine_limits fast{1e15, 1e15, 1e15};
    const double seconds = least_work(s, what, fast, fast, 1e6).seconds;
    CHECK(seconds >= 20e-6 * static_cast<double>(plan.streamed_bytes));
    CHECK(seconds <= 20e-6 * static_cast<double>(plan.streamed_bytes + 8192));
    CHECK(least_work(s, what, fast, fast).seconds < 1e-6);
}
