#include "colibri/sampling/candidates.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <range/v3/view/take.hpp>
#include <range/v3/view/transform.hpp>

#include "sampling/logits.hpp"

using namespace colibri::sampling;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

/// What candidates should be, done plainly.
std::vector<candidate> plainly(const std::vector<float>& logits) {
    std::vector<candidate> out;
    for (std::size_t id = 0; id < logits.size(); ++id) {
        if (logits[id] > -infinity)
            out.push_back({static_cast<token_id>(id), std::min(logits[id], largest_logit), 0.0f});
    }
    std::sort(out.begin(), out.end(), better{});
    return out;
}

void check_equal(candidates& got, const std::vector<candidate>& expected) {
    REQUIRE(got.size() == expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
        REQUIRE(got[i].id == expected[i].id);
        REQUIRE(got[i].logit == expected[i].logit);
    }
}

TEST_CASE("the best of a vocabulary are found, whatever its size, whatever is in it") {
    candidates c;
    for (const std::size_t size : {1u, 2u, 63u, 64u, 65u, 130u, 1000u, 5003u, 20000u}) {
        for (const std::size_t count : {1u, 2u, 40u, 64u, 300u, 5000u}) {
            auto logits = sampling_test::logits(size, size + count);
            for (std::size_t i = 3; i < size; i += 17) logits[i] = -infinity;
            for (std::size_t i = 5; i < size; i += 29) logits[i] = not_a_number;
            if (size > 600) logits[size / 2] = infinity;
            INFO("size ", size, " count ", count);
            auto expected = plainly(logits);
            if (expected.size() > count) expected.resize(count);
            c.load(logits);
            c.keep_best(count);
            check_equal(c, expected);
        }
    }
}

TEST_CASE("changes count before and after the list was made") {
    for (const bool list_first : {false, true}) {
        for (const std::size_t size : {100u, 6000u}) {
            const auto logits = sampling_test::logits(size, 3);
            auto changed = logits;
            std::vector<token_id> ids{5, 0, 99, -1, 1000000, static_cast<token_id>(size - 2), 70};
            std::vector<float> amounts{50, -50, 30, 1, 1, 20, -infinity};
            for (std::size_t i = 0; i < ids.size(); ++i) {
                if (ids[i] >= 0 && static_cast<std::size_t>(ids[i]) < size)
                    changed[static_cast<std::size_t>(ids[i])] += amounts[i];
            }
            const auto all = plainly(changed);
            INFO("size ", size, " list first ", list_first);
            candidates c;
            const auto load = [&] {
                c.load(logits);
                if (list_first) CHECK(c.size() == size);
                c.change(ids, [&](std::size_t i, float logit) { return logit + amounts[i]; });
                CHECK(c.best() == all.front().logit);
            };
            load();
            c.keep_best(30);
            check_equal(c, {all.begin(), all.begin() + 30});
            load();
            c.sort();
            check_equal(c, all);
            load();
            c.keep_at_least(7.5f);
            c.sort();
            auto high = all;
            std::erase_if(high, [](const candidate& one) { return one.logit < 7.5f; });
            check_equal(c, high);
            load();
            c.change(ids, [&](std::size_t i, float logit) { return logit - amounts[i]; });
            c.keep_best(25);
            auto back = logits;
            back[70] = -infinity;  // what was removed stays removed
            const auto restored = plainly(back);
            check_equal(c, {restored.begin(), restored.begin() + 25});
        }
    }
}

TEST_CASE("storage is reused without a trace of the last token") {
    candidates c;
    const auto first = sampling_test::logits(5000, 1);
    const auto second = sampling_test::logits(4000, 2);
    const std::vector<token_id> ids{17, 4500};
    c.load(first);
    c.change(ids, [](std::size_t, float logit) { return logit + 100.0f; });
    c.load(second);
    c.keep_best(10);
    auto expected = plainly(second);
    expected.resize(10);
    check_equal(c, expected);
    CHECK_FALSE(c.chosen());
}

TEST_CASE("probabilities are those of softmax") {
    const auto logits = sampling_test::logits(777, 9);
    candidates c(logits);
    c.normalize();
    double sum = 0.0;
    for (const float one : logits) sum += std::exp(static_cast<double>(one));
    double total = 0.0;
    for (const auto& one : c) {
        const double exact = std::exp(static_cast<double>(one.logit)) / sum;
        CHECK(std::abs(static_cast<double>(one.probability) - exact) <=
              exact * 1e-6 + 1e-11);  // float's and the weights' rounding
        total += static_cast<double>(one.probability);
    }
    CHECK(total == doctest::Approx(1.0).epsilon(1e-6));
}

TEST_CASE("no candidates at all") {
    candidates c;
    CHECK(c.empty());
    std::vector<float> none{not_a_number, -infinity, -infinity};
    for (const auto& logits : {std::vector<float>{}, none}) {
        c.load(logits);
        CHECK(c.empty());
        c.keep_best(5);
        c.normalize();
        c.drop_front(3);
        c.sort();
        CHECK(c.empty());
        CHECK(c.size() == 0);
        CHECK(c.choice().id == -1);
    }
}

TEST_CASE("candidates are a range") {
    const std::vector<float> logits{1, 3, 2};
    candidates c(logits);
    c.sort();
    std::vector<token_id> ids;
    for (const token_id id : c | ranges::views::take(2) | ranges::views::transform(&candidate::id)) ids.push_back(id);
    CHECK(ids == std::vector<token_id>{1, 2});
    c.choose(1);
    CHECK(c.choice().id == 2);
    CHECK(static_cast<double>(c.choice().probability) == doctest::Approx(0.24472847));
}

}  // namespace
