#include "colibri/tensor/shape.hpp"

#include <doctest/doctest.h>

#include <limits>

using namespace colibri;

TEST_CASE("a shape counts columns, rows, slices and elements") {
    const shape one;
    CHECK(one.elements() == 1);
    const shape s = shape::make({576, 1536, 8}).value();
    CHECK(s.columns() == 576);
    CHECK(s.rows() == 1536 * 8);
    CHECK(s.slices() == 8);
    CHECK(s.elements() == 576ull * 1536 * 8);
    CHECK(s.slice() == shape::make({576, 1536}).value());
    CHECK(s.text() == "576 x 1536 x 8");
    CHECK(shape::make({7}).value().text() == "7");
    CHECK(shape::make({7, 1, 2, 1}).value().text() == "7 x 1 x 2");
    CHECK(shape::make({7}).value() == shape::make({7, 1, 1, 1}).value());
}

TEST_CASE("a shape that no tensor has is refused") {
    CHECK(shape::make({}).error().code == errc::bad_shape);
    CHECK(shape::make({1, 2, 3, 4, 5}).error().code == errc::bad_shape);
    CHECK(shape::make({4, 0, 4}).error().code == errc::bad_shape);
    const std::uint64_t half = std::uint64_t{1} << 32;
    CHECK(shape::make({half, half}).error().code == errc::overflow);
    CHECK(shape::make({half, half / 2, 1}));
    CHECK(shape::make({std::numeric_limits<std::uint64_t>::max()}));
}
