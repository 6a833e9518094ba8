#include "colibri/sampling/sampler.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <new>

#include "sampling/allocations.hpp"
#include "sampling/logits.hpp"

using namespace colibri;
using namespace colibri::sampling;

namespace {

std::vector<token_id> generate(sampler& s, std::size_t vocabulary, int count, std::uint64_t first_seed = 0) {
    std::vector<token_id> out;
    for (int i = 0; i < count; ++i) {
        const auto logits = sampling_test::logits(vocabulary, first_seed + static_cast<std::uint64_t>(i));
        const token_id token = s.next(logits).value();
        s.accept(token);
        out.push_back(token);
    }
    return out;
}

// What these chains chose when the test was written. The arithmetic is exact by construction, so every compiler,
// optimisation level and CPU has to choose the same; a change here is a change of everybody's texts and belongs into
// the change log.
TEST_CASE("pinned choices") {
    const auto run = [](params p, std::size_t vocabulary = 1000) {
        p.seed = 42;
        auto s = sampler::make(p, {.size = vocabulary}).value();
        for (token_id token = 0; token < 40; ++token) s.accept(token * 7 % 31);
        return generate(s, vocabulary, 12);
    };
    using ids = std::vector<token_id>;
    CHECK(run({}) == ids{734, 681, 556, 34, 867, 44, 582, 851, 915, 57, 151, 890});
    CHECK(run({}, 50000) == ids{5180, 15969, 32835, 36108, 35726, 37394, 24527, 33799, 42409, 25285, 32114, 11496});
    CHECK(run({.temperature = 0.0f}) == ids{5, 78, 158, 314, 502, 10, 142, 593, 375, 258, 301, 685});
    CHECK(run({.temperature = 1.5f, .top_k = 0, .top_p = 1.0f, .min_p = 0.0f}) ==
          ids{48, 390, 732, 932, 983, 772, 671, 860, 733, 575, 679, 276});
    CHECK(run({.dynamic_range = 0.5f, .dynamic_exponent = 1.3f, .top_k = 0, .top_p = 0.9f, .typical = 0.9f}) ==
          ids{310, 402, 786, 628, 996, 914, 552, 109, 241, 15, 707, 681});
    CHECK(run({.top_k = 0, .min_p = 0.0f, .top_n_sigma = 2.0f, .xtc_probability = 0.5f, .xtc_threshold = 0.02f}) ==
          ids{310, 709, 786, 734, 307, 657, 627, 113, 489, 83, 996, 683});
    CHECK(run({.repeat_penalty = 1.2f, .frequency_penalty = 0.3f, .presence_penalty = 0.2f, .dry_multiplier = 0.8f}) ==
          ids{638, 960, 878, 492, 225, 598, 232, 131, 915, 961, 355, 890});
    CHECK(run({.mirostat = 1}) == ids{310, 709, 649, 785, 215, 81, 597, 65, 179, 86, 515, 471});
    CHECK(run({.mirostat = 2, .mirostat_tau = 3.0f}) == ids{5, 405, 772, 997, 934, 387, 142, 717, 784, 591, 243, 121});
}

TEST_CASE("the composed chain and the run-time chain choose alike") {
    auto composed = penalties(64, 1.1f) | dry({.multiplier = 0.8f}) | top_n_sigma{2.5f} | top_k{40} | typical{0.99f} |
                    top_p{0.95f} | min_p{0.05f} | xtc(0.3f, 0.05f, 1, 17) | temperature{0.7f} | draw(17);
    auto s = sampler::make({.temperature = 0.7f,
                            .typical = 0.99f,
                            .top_n_sigma = 2.5f,
                            .xtc_probability = 0.3f,
                            .xtc_threshold = 0.05f,
                            .repeat_penalty = 1.1f,
                            .dry_multiplier = 0.8f,
                            .seed = 17})
                 .value();
    candidates c;
    for (std::uint64_t i = 0; i < 60; ++i) {
        const auto logits = sampling_test::logits(2000, i % 7);
        c.load(logits);
        composed(c);
        REQUIRE(s.next(logits).value() == c.choice().id);
        CHECK(s.chosen().probability == c.choice().probability);
        composed.accept(c.choice().id);
        s.accept(c.choice().id);
    }
    composed.reset();
    s.reset();
    const auto logits = sampling_test::logits(2000, 1);
    c.load(logits);
    c | composed;
    CHECK(s.next(logits).value() == c.choice().id);
}

TEST_CASE("any function of candidates is a step") {
    const std::vector<float> logits{1.0f, 2.0f, 3.0f};
    int calls = 0;
    auto chain = [&](candidates& c) { c.keep_if([](const candidate& one) { return one.id != 2; }); } | top_k{1} |
                 [&](candidates&) { ++calls; } | greedy{};
    candidates c(logits);
    c | chain;
    CHECK(c.choice().id == 1);
    CHECK(calls == 1);
}

TEST_CASE("reset, reseed, forget") {
    auto s = sampler::make({.temperature = 2.0f, .frequency_penalty = 1.0f, .seed = 5}).value();
    const auto first = generate(s, 300, 20);
    s.reset();
    CHECK(generate(s, 300, 20) == first);
    s.reset();
    s.reseed(6);
    CHECK(s.seed() == 6);
    CHECK(generate(s, 300, 20) != first);
    s.reseed(5);
    s.forget_text();
    CHECK(generate(s, 300, 20) == first);
    auto copy = s;
    CHECK(generate(copy, 300, 20, 100) == generate(s, 300, 20, 100));
}

TEST_CASE("a seed by chance is told and repeats the text") {
    auto s = sampler::make({.temperature = 3.0f}).value();
    auto other = sampler::make({.temperature = 3.0f}).value();
    CHECK(s.seed() != other.seed());  // equal once in four thousand million runs
    const auto text = generate(s, 500, 30);
    auto again = sampler::make({.temperature = 3.0f, .seed = s.seed()}).value();
    CHECK(generate(again, 500, 30) == text);
}

TEST_CASE("ignore_eos, biases, and ids beyond the vocabulary") {
    const std::vector<float> logits{0.0f, 1.0f, 9.0f, 8.0f, 50.0f};
    const vocabulary_info vocabulary{.size = 4, .piece = {}, .end_tokens = {2}};
    CHECK(sampler::make({.temperature = 0.0f}, vocabulary).value().next(logits).value() == 2);
    CHECK(sampler::make({.temperature = 0.0f, .ignore_eos = true}, vocabulary).value().next(logits).value() == 3);
    params p{.temperature = 0.0f, .ignore_eos = true};
    p.logit_bias = {{3, -100.0f}, {0, 5.0f}};
    auto s = sampler::make(p, vocabulary).value();
    CHECK(s.next(logits).value() == 0);
    CHECK(s.chosen().logit == 5.0f);
    s.accept(-7);
    s.accept(2147483647);
}

TEST_CASE("broken logits are an error, never a choice") {
    constexpr float nan = std::numeric_limits<float>::quiet_NaN();
    constexpr float infinity = std::numeric_limits<float>::infinity();
    for (params p : {params{}, params{.temperature = 0.0f}, params{.mirostat = 1}, params{.mirostat = 2},
                     params{.top_k = 0,
                     .typical = 0.5f,
                     .top_n_sigma = 1.0f,
                     .xtc_probability = 1.0f,
                     .repeat_penalty = 1.5f,
                     .dry_multiplier = 1.0f}}) {
        auto s = sampler::make(p).value();
        s.accept(1);
        s.accept(1);
        for (const auto& logits :
             {std::vector<float>{}, std::vector<float>{nan, -infinity, nan}, std::vector<float>(9000, nan)}) {
            const auto got = s.next(logits);
            REQUIRE(!got);
            CHECK(got.error().code == errc::bad_value);
            CHECK(s.chosen().id == -1);
        }
        const std::vector<float> one{nan, -infinity, -5.0f, nan};
        CHECK(s.next(one).value() == 2);
        CHECK(s.chosen().probability == 1.0f);
    }
    params all_forbidden;
    all_forbidden.logit_bias = {{0, -infinity}, {1, -infinity}};
    const auto got = sampler::make(all_forbidden).value().next(std::vector<float>{1.0f, 2.0f});
    REQUIRE(!got);
    CHECK(got.error().message == "every one of the 2 tokens is forbidden by a logit bias");
}

TEST_CASE("the probabilities that remained can be listed") {
    const std::vector<float> logits{0.0f, 1.0f, 3.0f, 2.0f};
    auto s = sampler::make({.temperature = 1.0f, .top_k = 3, .top_p = 1.0f, .min_p = 0.0f, .seed = 1}).value();
    const token_id chosen = s.next(logits).value();
    std::vector<token_id> ids;
    double sum = 0.0;
    for (const auto& one : s.remaining()) {
        ids.push_back(one.id);
        sum += static_cast<double>(one.probability);
        if (one.id == chosen) CHECK(one.probability == s.chosen().probability);
    }
    CHECK(ids == std::vector<token_id>{2, 3, 1});
    CHECK(sum == doctest::Approx(1.0).epsilon(1e-6));
}

TEST_CASE("nothing is allocated for a token") {
    const std::size_t start = sampling_test::allocations();
    ::operator delete(::operator new(8));           // called by name, so that it can't be optimised away
    REQUIRE(sampling_test::allocations() > start);  // the count works
    const std::size_t vocabulary = 20000;
    for (params p : {params{}, params{.temperature = 0.0f}, params{.top_k = 0}, params{.mirostat = 2},
                     params{.dynamic_range = 0.3f,
                     .top_k = 0,
                     .typical = 0.9f,
                     .top_n_sigma = 2.0f,
                     .xtc_probability = 0.5f,
                     .xtc_threshold = 0.01f,
                     .repeat_penalty = 1.1f,
                     .dry_multiplier = 0.8f,
                     .dry_last_n = 64}}) {
        p.seed = 3;
        auto s = sampler::make(p, {.size = vocabulary}).value();
        s.accept(static_cast<token_id>(vocabulary - 1));
        std::vector<std::vector<float>> logits;
        for (std::uint64_t i = 0; i < 8; ++i) logits.push_back(sampling_test::logits(vocabulary, i));
        const auto run = [&](int tokens) {
            token_id last = 0;
            for (int i = 0; i < tokens; ++i) {
                last = *s.next(logits[static_cast<std::size_t>(i) % 8]);
                s.accept(last);
            }
            return last;
        };
        run(200);
        const std::size_t before = sampling_test::allocations();
        const token_id last = run(100);
        CHECK(sampling_test::allocations() == before);
        CHECK(last >= 0);
    }
}

}  // namespace
