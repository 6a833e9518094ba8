#include "colibri/core/statistics.hpp"

#include <doctest/doctest.h>

#include <vector>

using namespace colibri;

TEST_CASE("quantiles lie between the sorted values in proportion") {
    const std::vector<double> values = {4.0, 1.0, 3.0, 2.0};
    CHECK(median(values) == 2.5);
    CHECK(quantile(values, 0.0) == 1.0);
    CHECK(quantile(values, 1.0) == 4.0);
    CHECK(quantile(values, 2.0) == 4.0);
    CHECK(quantile(values, 0.1) == doctest::Approx(1.3));
    CHECK(median(std::vector<double>{7.0}) == 7.0);
    CHECK(median(std::vector<double>{9.0, 1.0, 5.0}) == 5.0);
    CHECK(median({}) == 0.0);
}

TEST_CASE("mean and standard deviation of a sample") {
    const std::vector<double> values = {2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0};
    CHECK(mean(values) == 5.0);
    CHECK(standard_deviation(values) == doctest::Approx(2.138089935));
    CHECK(standard_deviation(std::vector<double>{3.0}) == 0.0);
    CHECK(mean({}) == 0.0);
}
