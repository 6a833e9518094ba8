#include "colibri/simd/machine.hpp"

#include <doctest/doctest.h>

#include "simd/targets.hpp"

using namespace colibri;

TEST_CASE("the machine's limits are found on every target") {
    thread_pool pool(2, 2);
    // Only that something was measured: speed itself is never a test's business.
    test::on_every_target([&](std::string_view) {
        CHECK(simd::integer_peak(pool, 1) > 0.0);
        CHECK(simd::float_peak(pool, 1) > 0.0);
        std::int32_t integers = 0;
        float floats = 0.0f;
        CHECK(simd::detail::kernels().integer_peak(3, &integers) > 0);
        CHECK(integers != 0);
        CHECK(simd::detail::kernels().float_peak(3, &floats) > 0);
        CHECK(floats > 0.0f);
    });
    const auto bandwidth = simd::read_bandwidth(std::size_t{5} << 20, pool, 3);
    REQUIRE(bandwidth);
    CHECK(*bandwidth > 0.0);
    CHECK(simd::read_bandwidth(0, pool, 1));
    CHECK(!simd::read_bandwidth(~std::size_t{0}, pool, 1));
}
