// What bench/synthetic_model writes: blocks of the size asked for, and routers that use experts as unevenly as asked for.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "../../bench/synthetic_blocks.hpp"
#include "../../bench/synthetic_router.hpp"
#include "colibri/quant/rows.hpp"

namespace {

using synthetic::row_noise;
using synthetic::row_start;

struct moments {
    double mean = 0.0, deviation = 0.0;
};

moments moments_of(const std::vector<float>& values) {
    const auto n = static_cast<double>(values.size());
    moments out;
    for (const float v : values) out.mean += v / n;
    for (const float v : values) out.deviation += (v - out.mean) * (v - out.mean) / n;
    out.deviation = std::sqrt(out.deviation);
    return out;
}

/// 400 blocks of one row, decoded.
template <class Block>
std::vector<float> decoded(Block (*make)(row_noise&, float, row_start), float sd, row_start start) {
    row_noise noise(7);
    std::vector<Block> row;
    for (int i = 0; i < 400; ++i) row.push_back(make(noise, sd, i == 0 ? start : row_start::noise));
    std::vector<float> out(row.size() * Block::block_size);
    colibri::quant::decode_row(row.data(), out.size(), out.data());
    return out;
}

template <class Block>
void check_blocks(Block (*make)(row_noise&, float, row_start)) {
    // From embeddings to the narrowest output of a deep model.
    for (const float sd : {1.0f, 0.02f, 0.0014f}) {
        const auto values = decoded(make, sd, row_start::noise);
        const auto m = moments_of(values);
        // 102,400 values: the mean's own deviation is 0.003 of theirs, that of their deviation less. Scales are halves with 11 bits, fewer
        // below 2^-14, and scales of blocks vary: together less than one part in fifty.
        CHECK(std::abs(m.mean) < 0.02 * sd);
        CHECK(std::abs(m.deviation - sd) < 0.02 * sd);
        CHECK(std::all_of(values.begin(), values.end(), [&](float v) { return std::abs(v) < 4 * sd; }));
        CHECK(values == decoded(make, sd, row_start::noise));
    }
    const auto zero = decoded(make, 1.0f, row_start::zero);
    CHECK(std::all_of(zero.begin(), zero.begin() + synthetic::lead, [](float v) { return v == 0.0f; }));
    CHECK(moments_of({zero.begin() + synthetic::lead, zero.begin() + 256}).deviation > 0.8);
}

}  // namespace

TEST_CASE("random blocks have the mean and deviation asked for") {
    check_blocks(&synthetic::random_q4_k);
    check_blocks(&synthetic::random_q6_k);
    const auto constant = decoded(&synthetic::random_q4_k, 1.0f, row_start::constant);
    for (std::size_t i = 0; i < synthetic::lead; ++i) CHECK(constant[i] == doctest::Approx(synthetic::lead_value).epsilon(0.001));
    CHECK(std::abs(moments_of({constant.begin() + synthetic::lead, constant.begin() + 256}).mean) < 0.3);
}

TEST_CASE("routers use experts by rank as asked for") {
    constexpr std::uint32_t experts = 128, used = 8;
    constexpr int tokens = 4000;
    for (const float skew : {0.0f, 0.5f, 1.0f, 1.5f}) {
        const auto biases = synthetic::rank_biases(experts, used, skew);
        REQUIRE(biases.size() == experts);
        row_noise noise(3);
        std::vector<double> chosen(experts);
        std::vector<float> logits(experts);
        std::vector<std::uint32_t> order(experts);
        for (int t = 0; t < tokens; ++t) {
            for (std::uint32_t e = 0; e < experts; ++e) logits[e] = biases[e] + noise();
            std::iota(order.begin(), order.end(), 0u);
            std::partial_sort(order.begin(), order.begin() + used, order.end(), [&](auto a, auto b) { return logits[a] > logits[b]; });
            for (std::uint32_t i = 0; i < used; ++i) chosen[order[i]] += 1.0 / tokens;
        }
        const auto around = [&](std::uint32_t rank) { return std::accumulate(chosen.begin() + rank - 8, chosen.begin() + rank + 8, 0.0) / 16; };
        // Ranks 24 to 96, far from certainty: four times as far down, so many times less. The noise here is a sum of four parts, whose tails
        // are thinner than a bell's, and the least chosen logit isn't always at 0: a fifth of the exponent (measured: 0.12 of it).
        const double slope = std::log(around(24) / around(96)) / std::log(4.0);
        INFO(slope);
        CHECK(std::abs(slope - skew) < std::max(0.05, 0.2 * skew));
        CHECK(std::is_sorted(biases.rbegin(), biases.rend()));
    }
}

TEST_CASE("biases exist for every number of experts used") {
    for (const std::uint32_t used : {1u, 2u, 7u, 8u}) {
        for (const float skew : {0.0f, 1.0f, 10.0f}) {
            for (const float bias : synthetic::rank_biases(8, used, skew)) CHECK(std::isfinite(bias));
        }
    }
    CHECK(synthetic::normal_quantile(0.5) == doctest::Approx(0.0));
    CHECK(synthetic::normal_quantile(0.975) == doctest::Approx(1.959964).epsilon(1e-5));
}
