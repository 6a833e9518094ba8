#include "colibri/sampling/truncation.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "colibri/sampling/selection.hpp"
#include "colibri/sampling/temperature.hpp"
#include "sampling/logits.hpp"

using namespace colibri::sampling;

namespace {

// Golden cases test each step in small vocabularies; here: large ones (other code paths), odd parameters, and that
// nothing breaks.

std::vector<token_id> ids(candidates& c) {
    std::vector<token_id> out;
    for (const auto& one : c) out.push_back(one.id);
    std::sort(out.begin(), out.end());
    return out;
}

template <class Step>
std::vector<token_id> left(const std::vector<float>& logits, Step step) {
    candidates c(logits);
    step(c);
    return ids(c);
}

std::vector<std::pair<float, token_id>> sorted(const std::vector<float>& logits) {
    std::vector<std::pair<float, token_id>> out;
    for (std::size_t i = 0; i < logits.size(); ++i) out.emplace_back(-logits[i], static_cast<token_id>(i));
    std::sort(out.begin(), out.end());
    return out;
}

TEST_CASE("top-p in a large flat vocabulary is the shortest prefix that reaches p") {
    const auto logits = sampling_test::logits(30000, 4);
    const auto order = sorted(logits);
    double sum = 0.0;
    for (const auto& [logit, id] : order) sum += std::exp(-static_cast<double>(logit));
    for (const float p : {0.01f, 0.3f, 0.9f, 0.999f}) {
        double reached = 0.0;
        std::size_t count = 0;
        while (reached < static_cast<double>(p) * sum) reached += std::exp(-static_cast<double>(order[count++].first));
        const auto got = left(logits, top_p{p, 1});
        // The sums in double and in weights differ in the 9th digit: one token of 1/30000 of the mass more or less.
        CHECK(std::abs(static_cast<double>(got.size()) - static_cast<double>(count)) <= 1.0);
        std::vector<token_id> prefix;
        for (std::size_t i = 0; i < got.size(); ++i) prefix.push_back(order[i].second);
        std::sort(prefix.begin(), prefix.end());
        CHECK(got == prefix);
    }
}

TEST_CASE("min-p keeps what is likely enough, from the logits and from the list alike") {
    const auto logits = sampling_test::logits(20000, 8);
    const float best = *std::max_element(logits.begin(), logits.end());
    std::vector<token_id> expected;
    for (std::size_t i = 0; i < logits.size(); ++i) {
        // Logits are multiples of 1/64 and ln 0.2 = -1.609 is none, so no token sits on the threshold.
        if (std::exp(static_cast<double>(logits[i] - best)) >= 0.2) expected.push_back(static_cast<token_id>(i));
    }
    CHECK(left(logits, min_p{0.2f, 1}) == expected);
    CHECK(left(logits, [](candidates& c) {
              static_cast<void>(c.size());
              min_p{0.2f, 1}(c);
          }) == expected);
    CHECK(left(logits, min_p{0.2f, 7000}).size() == 7000);
}

TEST_CASE("typical sampling of a large vocabulary keeps the nearest to the entropy") {
    const auto logits = sampling_test::logits(5000, 6);
    double sum = 0.0;
    for (const float one : logits) sum += std::exp(static_cast<double>(one));
    std::vector<double> surprise;
    double entropy = 0.0;
    for (const float one : logits) {
        surprise.push_back(std::log(sum) - static_cast<double>(one));
        entropy += std::exp(-surprise.back()) * surprise.back();
    }
    const auto got = left(logits, typical{0.6f});
    double inside = 0.0;
    double widest = 0.0;
    for (const token_id id : got) {
        inside += std::exp(-surprise[static_cast<std::size_t>(id)]);
        widest = std::max(widest, std::abs(surprise[static_cast<std::size_t>(id)] - entropy));
    }
    CHECK(inside > 0.6 - 1e-6);
    CHECK(inside < 0.6 + 1e-3);  // no token has more than 1/1000
    std::size_t nearer = 0;
    for (const double one : surprise) nearer += std::abs(one - entropy) < widest - 1e-6 ? 1 : 0;
    CHECK(nearer <= got.size());
    CHECK(nearer + 100 > got.size());  // equal logits, hence equal distances, come in groups of about 5000 / 1025
}

TEST_CASE("XTC with a probability removes the top choices that often") {
    std::vector<float> logits{5.0f, 4.9f, 4.8f, 0.0f};
    xtc step(0.3f, 0.1f, 1, 7);
    int removed = 0;
    for (int i = 0; i < 10000; ++i) {
        candidates c(logits);
        step(c);
        REQUIRE((c.size() == 4 || ids(c) == std::vector<token_id>{2, 3}));
        removed += c.size() == 2 ? 1 : 0;
    }
    CHECK(std::abs(removed - 3000) < 183);  // 4 standard deviations of 46
    xtc keeps(1.0f, 0.1f, 3, 1);
    CHECK(left(logits, keeps).size() == 4);  // 2 would be left, fewer than min_keep
}

TEST_CASE("every step leaves something, whatever its parameters") {
    constexpr float nan = std::numeric_limits<float>::quiet_NaN();
    constexpr float infinity = std::numeric_limits<float>::infinity();
    const std::vector<std::vector<float>> vocabularies{{0.0f},
                                                       {1.0f, 1.0f, 1.0f},
                                                       {nan, 2.0f, -infinity},
                                                       {infinity, infinity, 0.0f},
                                                       {-1e38f, 1e38f, -3e38f, 3e38f},
                                                       std::vector<float>(10000, -7.5f),
                                                       {1e-40f, 0.0f, -0.0f}};
    for (const auto& logits : vocabularies) {
        for (const float p : {-1.0f, 0.0f, 1e-30f, 0.5f, 1.0f, 2.0f, infinity, -infinity, nan}) {
            INFO("size ", logits.size(), " p ", p);
            CHECK(!left(logits, top_p{p, 1}).empty());
            CHECK(!left(logits, top_p{p, 0}).empty());
            CHECK(!left(logits, min_p{p, 0}).empty());
            CHECK(!left(logits, typical{p, 0}).empty());
            CHECK(!left(logits, top_n_sigma{p}).empty());
            CHECK(!left(logits, xtc(1.0f, p, 0)).empty());
            CHECK(!left(logits, xtc(p, 0.1f, 0)).empty());
            CHECK(!left(logits, temperature{p}).empty());
            CHECK(!left(logits, dynamic_temperature{p, 0.5f, 1.0f}).empty());
            CHECK(!left(logits, dynamic_temperature{0.8f, p, 1.0f}).empty());
            CHECK(!left(logits, dynamic_temperature{0.8f, 0.5f, p}).empty());
            CHECK(!left(logits, top_k{1}).empty());
        }
    }
}

TEST_CASE("NaN is never a candidate and infinity counts as the largest number") {
    constexpr float nan = std::numeric_limits<float>::quiet_NaN();
    constexpr float infinity = std::numeric_limits<float>::infinity();
    candidates c(std::vector<float>{});
    const std::vector<float> logits{nan, 1.0f, infinity, -infinity, 2.0f};
    c.load(logits);
    c.sort();
    c.normalize();
    CHECK(ids(c) == std::vector<token_id>{1, 2, 4});
    CHECK(c[0].id == 2);
    CHECK(c[0].probability == 1.0f);
    CHECK(c[1].probability == 0.0f);
}

/// The ids that stay when everything is sorted by (key, id) and summed up plainly.
std::vector<token_id> first_by(const std::vector<float>& logits, double p, std::size_t min_keep, bool by_gap) {
    float best = -1e30f;
    for (const float one : logits) best = std::max(best, one);
    struct entry {
        std::uint64_t key;
        float logit;
        token_id id;
        std::uint64_t weight;
    };
    std::vector<entry> all;
    detail::uint128 moment = 0;
    std::uint64_t total = 0;
    for (std::size_t i = 0; i < logits.size(); ++i) {
        if (!detail::possible(logits[i])) continue;
        const auto distance = detail::distance(best, logits[i]);
        const auto weight = detail::weight_at(distance);
        all.push_back({distance, logits[i], static_cast<token_id>(i), weight});
        moment += static_cast<detail::uint128>(weight) * distance;
        total += weight;
    }
    const auto expected = static_cast<std::uint64_t>(moment / total);
    if (by_gap) {
        for (auto& one : all) one.key = one.key > expected ? one.key - expected : expected - one.key;
    }
    std::sort(all.begin(), all.end(), [&](const entry& a, const entry& b) {
        if (a.key != b.key) return a.key < b.key;
        if (!by_gap && a.logit != b.logit) return a.logit > b.logit;
        return a.id < b.id;
    });
    const auto wanted = static_cast<std::uint64_t>(p * static_cast<double>(total)) + (by_gap ? 1 : 0);
    std::uint64_t reached = 0;
    std::vector<token_id> out;
    for (const auto& one : all) {
        if (reached >= wanted && out.size() >= std::max<std::size_t>(min_keep, 1)) break;
        reached += one.weight;
        out.push_back(one.id);
    }
    std::sort(out.begin(), out.end());
    return out;
}

TEST_CASE("top-p and typical keep what sorting everything keeps, with and without a list") {
    for (const std::size_t size : {1u, 70u, 5003u}) {
        for (const float spread : {1.0f, 0.01f, 0.0f}) {  // with 0 all are equal, and only ids decide
            auto logits = sampling_test::logits(size, size + 1);
            for (float& one : logits) one *= spread;
            if (size > 50) {
                logits[20] = -std::numeric_limits<float>::infinity();
                logits[30] = std::numeric_limits<float>::quiet_NaN();
                logits[40] = 100.0f * spread;
            }
            for (const float p : {0.0f, 0.3f, 0.9f, 0.999f}) {
                for (const std::size_t min_keep : {1u, 33u, 3000u}) {
                    for (const bool listed : {false, true}) {
                        for (const bool by_gap : {false, true}) {
                            CAPTURE(size);
                            CAPTURE(spread);
                            CAPTURE(p);
                            CAPTURE(min_keep);
                            candidates c(logits);
                            if (listed) c.keep_if([](const candidate&) { return true; });
                            if (by_gap) typical{p, min_keep}(c);
                            else top_p{p, min_keep}(c);
                            std::vector<token_id> got;
                            for (const auto& one : c) got.push_back(one.id);
                            std::sort(got.begin(), got.end());
                            REQUIRE(got == first_by(logits, static_cast<double>(p), min_keep, by_gap));
                        }
                    }
                }
            }
        }
    }
}

TEST_CASE("a temperature before and changes around it give the same with and without a list") {
    const auto logits = sampling_test::logits(5000, 4);
    const std::vector<token_id> ids{3, 70, 4999};
    const auto up = [](std::size_t, float logit) { return logit + 20.0f; };
    const auto run = [&](bool listed) {
        candidates c(logits);
        if (listed) c.keep_if([](const candidate&) { return true; });
        c.change(ids, up);
        temperature{0.7f}(c);
        c.change(ids, up);
        temperature{1.5f}(c);
        top_p{0.8f, 1}(c);
        draw{9}(c);
        std::vector<std::pair<token_id, float>> out{{c.choice().id, c.choice().probability}};
        for (const auto& one : c) out.emplace_back(one.id, one.logit);
        return out;
    };
    CHECK(run(false) == run(true));
    // A draw from all of them needs no list.
    candidates lazy(logits), made(logits);
    made.keep_if([](const candidate&) { return true; });
    for (auto* c : {&lazy, &made}) {
        temperature{0.5f}(*c);
        draw{5}(*c);
    }
    CHECK(lazy.choice().id == made.choice().id);
    CHECK(lazy.choice().probability == made.choice().probability);
    CHECK(lazy.size() == 5000);
}

}  // namespace
