#include "colibri/sampling/selection.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "colibri/sampling/chain.hpp"
#include "sampling/logits.hpp"

using namespace colibri::sampling;

namespace {

TEST_CASE("draws follow the probabilities") {
    std::vector<float> logits;
    for (int i = 0; i < 12; ++i) logits.push_back(static_cast<float>(i % 5) * 0.5f);
    draw step(2024);
    constexpr int draws = 60000;
    std::vector<int> hits(12);
    candidates c;
    for (int i = 0; i < draws; ++i) {
        c.load(logits);
        step(c);
        ++hits[static_cast<std::size_t>(c.choice().id)];
    }
    double sum = 0.0;
    for (const float one : logits) sum += std::exp(static_cast<double>(one));
    double chi2 = 0.0;
    for (std::size_t i = 0; i < 12; ++i) {
        const double expected = draws * std::exp(static_cast<double>(logits[i])) / sum;
        chi2 += (hits[i] - expected) * (hits[i] - expected) / expected;
    }
    CHECK(chi2 < 31.3);  // 99.9 % point of chi-square with 11 degrees of freedom; the seed is fixed
}

TEST_CASE("a draw doesn't depend on how candidates were selected inside") {
    // Sorting in other portions, or not wholly, must give the same choice.
    const auto logits = sampling_test::logits(3000, 12);
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
        candidates a(logits);
        candidates b(logits);
        a.keep_best(500);
        b.sort_front(20);
        b.sort_front(100);
        b.keep_best(500);
        draw{seed}(a);
        draw{seed}(b);
        CHECK(a.choice().id == b.choice().id);
        candidates partly(logits);
        partly.sort_front(10);
        candidates wholly(logits);
        wholly.sort();
        draw{seed}(partly);
        draw{seed}(wholly);
        CHECK(partly.choice().id == wholly.choice().id);
    }
}

TEST_CASE("greedy takes the best, of equal ones the first") {
    const std::vector<float> logits{1.0f, 5.0f, 3.0f, 5.0f};
    candidates c(logits);
    c | greedy{};
    CHECK(c.choice().id == 1);
    CHECK(c.choice().probability == 1.0f);
    const std::vector<float> many(100000, 0.25f);
    c.load(many);
    c | greedy{};
    CHECK(c.choice().id == 0);
}

/// Mean surprise (bits) of what a step chooses from a Zipf-like distribution, after it has settled.
template <class Step>
double mean_surprise(Step step) {
    std::vector<float> logits;
    for (int i = 0; i < 5000; ++i) logits.push_back(static_cast<float>(-1.1 * std::log(i + 1.0)));
    double total = 0.0;
    candidates c;
    for (int i = 0; i < 3000; ++i) {
        c.load(logits);
        step(c);
        REQUIRE(c.chosen());
        // The surprise that the algorithms steer: among the candidates that remained.
        if (i >= 1000) total -= std::log2(static_cast<double>(c.choice().probability));
    }
    return total / 2000;
}

TEST_CASE("mirostat brings the mean surprise to its target") {
    // The distribution itself has 8.3 bits; targets below it can be reached. The mean of 2000 draws has a standard
    // error near 0.05 and the feedback makes it smaller.
    for (const float tau : {2.0f, 4.0f, 6.0f}) {
        CHECK(std::abs(mean_surprise(mirostat_v2(tau, 0.1f, 5)) - static_cast<double>(tau)) < 0.15);
        CHECK(std::abs(mean_surprise(mirostat(tau, 0.1f, 5)) - static_cast<double>(tau)) < 0.15);
    }
}

TEST_CASE("mirostat copes with odd distributions") {
    const std::vector<std::vector<float>> vocabularies{
        {0.0f}, {1.0f, 1.0f}, std::vector<float>(500, 2.0f), {1e38f, -1e38f, 0.0f}};
    for (const auto& logits : vocabularies) {
        for (const float tau : {0.0f, 5.0f, 1000.0f}) {
            mirostat one(tau, 0.1f, 1);
            mirostat_v2 two(tau, 10.0f, 1);
            for (int i = 0; i < 50; ++i) {
                candidates c(logits);
                one(c);
                CHECK(c.chosen());
                c.load(logits);
                two(c);
                CHECK(c.chosen());
            }
        }
    }
}

TEST_CASE("reset and reseed") {
    const auto logits = sampling_test::logits(200, 1);
    const auto run = [&](auto& step) {
        std::vector<token_id> out;
        for (int i = 0; i < 20; ++i) {
            candidates c(logits);
            step(c);
            out.push_back(c.choice().id);
        }
        return out;
    };
    draw step(3);
    const auto first = run(step);
    CHECK(run(step) != first);
    step.reset();
    CHECK(run(step) == first);
    step.reseed(4);
    const auto other = run(step);
    CHECK(other != first);
    step.reseed(3);
    CHECK(run(step) == first);
    mirostat_v2 miro(3.0f, 0.1f, 3);
    const auto chosen = run(miro);
    miro.reset();
    CHECK(run(miro) == chosen);
}

}  // namespace
