#include "colibri/sampling/weight.hpp"

#include <doctest/doctest.h>

#include <cmath>

using namespace colibri::sampling;

namespace {

static_assert(detail::weight(3.5f, 3.5f) == detail::full_weight);
static_assert(colibri::fixed_weight::floor_sqrt(0) == 0 && colibri::fixed_weight::floor_sqrt(15) == 3 && colibri::fixed_weight::floor_sqrt(16) == 4);
static_assert(detail::weight_at(detail::far_away) == 0);

TEST_CASE("weights are e^(logit - best)") {
    for (int i = 0; i <= 28000; ++i) {
        const float logit = static_cast<float>(-i) / 1000.0f;
        const double exact = std::exp(static_cast<double>(logit));
        const double got = static_cast<double>(detail::weight(0.0f, logit)) / static_cast<double>(detail::full_weight);
        // The series' error, and less than two units of the last bit from the cut distance and the cut result.
        REQUIRE(std::abs(got - exact) <= exact * 0x1p-36 + 0x1p-39);
    }
}

TEST_CASE("weights of halvings are exact") {
    for (std::uint64_t n = 0; n <= 40; ++n) CHECK(detail::weight_at(n << 40) == detail::full_weight >> n);
    CHECK(detail::weight_at(std::uint64_t{41} << 40) == 0);
}

TEST_CASE("a better logit never weighs less, apart from the last bits") {
    std::uint64_t before = detail::full_weight;
    for (std::uint64_t distance = 0; distance < (std::uint64_t{45} << 40);
         distance += (std::uint64_t{1} << 40) / 1021) {
        const std::uint64_t now = detail::weight_at(distance);
        CHECK(now <= before + 4);
        before = now;
    }
}

TEST_CASE("far and extreme logits") {
    constexpr float most = 3.4028234663852886e38f;
    CHECK(detail::weight(most, -most) == 0);
    CHECK(detail::weight(most, most) == detail::full_weight);
    CHECK(detail::weight(0.0f, -1e30f) == 0);
    CHECK(detail::distance(most, -most) == detail::far_away);
}

}  // namespace
