#include "colibri/core/fixed_weight.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "colibri/simd/ops.hpp"
#include "simd/targets.hpp"

using namespace colibri;

TEST_CASE("weights are the same integers on every target") {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    constexpr float most = std::numeric_limits<float>::max();
    std::mt19937 random(5);
    std::vector<float> x = {0.0f, -0.0f, -infinity, std::numeric_limits<float>::quiet_NaN(), -most, -1e-30f, -1e30f, -28.4f, -28.5f,
                            -29.0f, -1e-7f, -0.6931472f, -20.0f, -1.0f / 256, -700.0f, -2.0f};
    std::uniform_real_distribution<float> near(-45.0f, 0.0f), close(-0.01f, 0.0f);
    while (x.size() < 4096) x.push_back(x.size() % 2 == 0 ? near(random) : close(random));
    test::on_every_target([&](std::string_view) {
        for (const float best : {0.0f, 12.375f, 1e10f, most}) {
            std::vector<float> logits = x;
            for (float& one : logits) one += best == most ? 0.0f : best;
            for (const std::size_t n : {std::size_t{16}, logits.size()}) {
                std::vector<std::uint64_t> distances(n, 7), weights(n, 7);
                simd::weigh(logits.data(), n, best, distances.data(), weights.data());
                std::size_t wrong = 0;
                for (std::size_t i = 0; i < n; ++i) {
                    const auto distance = fixed_weight::distance(best, logits[i]);
                    wrong += distances[i] != distance || weights[i] != fixed_weight::weight_at(distance) ? 1 : 0;
                }
                CHECK(wrong == 0);
            }
        }
    });
}
