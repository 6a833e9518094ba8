#include "colibri/sampling/random.hpp"

#include <doctest/doctest.h>

#include <array>
#include <random>

using namespace colibri::sampling;

namespace {

static_assert(std::uniform_random_bit_generator<generator>);

TEST_CASE("xoshiro256** gives the published sequence of the state 1, 2, 3, 4") {
    generator random(std::array<std::uint64_t, 4>{1, 2, 3, 4});
    for (const std::uint64_t expected : {11520u, 0u, 1509978240u}) CHECK(random() == expected);
    for (const std::uint64_t expected :
         {1215971899390074240u, 1216172134540287360u, 607988272756665600u, 16172922978634559625u, 8476171486693032832u,
          10595114339597558777u, 2904607092377533576u}) {
        CHECK(random() == expected);
    }
}

TEST_CASE("the seed is spread by SplitMix64 with its published sequence") {
    const generator random(1234567);
    CHECK(random.state() == std::array<std::uint64_t, 4>{6457827717110365317u, 3203168211198807973u,
                                                         9817491932198370423u, 4593380528125082431u});
}

TEST_CASE("streams of one seed differ") {
    generator a(7);
    generator b(7, 1);
    generator c(7, 2);
    const auto x = a();
    const auto y = b();
    const auto z = c();
    CHECK(x != y);
    CHECK(y != z);
    CHECK(x != z);
}

TEST_CASE("uniform numbers lie in [0, 1) and are spread evenly") {
    generator random(11);
    constexpr int draws = 100000;
    std::array<int, 20> bins{};
    for (int i = 0; i < draws; ++i) {
        const double u = random.uniform();
        REQUIRE(u >= 0.0);
        REQUIRE(u < 1.0);
        ++bins[static_cast<std::size_t>(u * 20)];
    }
    double chi2 = 0.0;
    for (const int n : bins) chi2 += (n - draws / 20.0) * (n - draws / 20.0) / (draws / 20.0);
    CHECK(chi2 < 43.8);  // 99.9 % point of chi-square with 19 degrees of freedom; the seed is fixed
}

TEST_CASE("below covers its range and never reaches its end") {
    generator random(5);
    std::array<int, 3> hits{};
    for (int i = 0; i < 3000; ++i) ++hits.at(random.below(3));
    for (const int n : hits) CHECK(n > 850);  // 1000 expected, standard deviation 26
    for (int i = 0; i < 100; ++i) CHECK(random.below(1) == 0);
}

}  // namespace
