#include "colibri/sampling/penalties.hpp"

#include <doctest/doctest.h>

#include <map>
#include <set>

#include "sampling/logits.hpp"

using namespace colibri::sampling;

namespace {

TEST_CASE("the history keeps the newest") {
    for (const std::size_t limit : {1u, 2u, 5u}) {
        token_history history(limit);
        for (token_id token = 0; token < 13; ++token) {
            history.push(token);
            REQUIRE(history.size() == std::min<std::size_t>(limit, static_cast<std::size_t>(token) + 1));
            for (std::size_t age = 0; age < history.size(); ++age)
                CHECK(history[age] == token - static_cast<token_id>(age));
        }
        history.clear();
        CHECK(history.size() == 0);
        history.push(7);
        CHECK(history[0] == 7);
    }
    token_history all;
    for (token_id token = 0; token < 1000; ++token) all.push(token);
    CHECK(all.size() == 1000);
    CHECK(all[999] == 0);
    token_history none(0);
    none.push(1);
    CHECK(none.size() == 0);
}

TEST_CASE("penalties follow the window as it moves, like counting anew each time") {
    const auto logits = sampling_test::logits(60, 5);
    for (const std::int32_t last_n : {1, 7, 64, -1}) {
        penalties step(last_n, 1.3f, 0.25f, 0.5f);
        std::vector<token_id> text;
        generator random(3);
        for (int i = 0; i < 300; ++i) {
            const auto token = static_cast<token_id>(random.below(60));
            text.push_back(token);
            step.accept(token);
            if (i % 7 != 0) continue;
            std::map<token_id, int> counts;
            const std::size_t window =
                last_n < 0 ? text.size() : std::min(text.size(), static_cast<std::size_t>(last_n));
            for (std::size_t age = 0; age < window; ++age) ++counts[text[text.size() - 1 - age]];
            candidates c(logits);
            step(c);
            REQUIRE(c.size() == 60);
            for (const auto& one : c) {
                const auto before = static_cast<double>(logits[static_cast<std::size_t>(one.id)]);
                double expected = before;
                if (const auto found = counts.find(one.id); found != counts.end()) {
                    const double factor = static_cast<double>(1.3f);
                    expected = (before > 0 ? before / factor : before * factor) - 0.25 * found->second - 0.5;
                }
                REQUIRE(one.logit == static_cast<float>(expected));
            }
        }
        step.reset();
        candidates c(logits);
        step(c);
        for (const auto& one : c) CHECK(one.logit == logits[static_cast<std::size_t>(one.id)]);
    }
}

TEST_CASE("penalties keep logits finite") {
    const std::vector<float> logits{-3e38f, 3e38f, 1.0f};
    penalties step(8, 1e6f, 1000.0f, 1000.0f);
    for (int i = 0; i < 8; ++i) step.accept(i % 2);
    candidates c(logits);
    step(c);
    CHECK(c.size() == 3);
}

TEST_CASE("biases add up, forbid, and ignore unknown ids") {
    const std::vector<float> logits{1.0f, 2.0f, 3.0f, 4.0f};
    const std::vector<bias> biases{
        {1, 2.0f}, {99, 5.0f}, {1, 3.0f}, {3, -std::numeric_limits<float>::infinity()}, {-4, 1.0f}};
    logit_bias step(biases);
    candidates c(logits);
    step(c);
    c.sort();
    REQUIRE(c.size() == 3);
    CHECK(c[0].id == 1);
    CHECK(c[0].logit == 7.0f);
    CHECK(c[1].id == 2);
    CHECK(c[2].id == 0);
}

}  // namespace
