#include "colibri/eval/imatrix_statistics.hpp"

#include <doctest/doctest.h>

#include <cmath>

using namespace colibri;

TEST_CASE("figures of an importance matrix") {
    eval::importance_matrix matrix;
    matrix.entries["blk.1.x"] = {{4.0f, 4.0f, 0.0f, 8.0f}, {2.0}};
    matrix.entries["blk.0.x"] = {{1.0f, 1.0f, 0.0f, 2.0f}, {1.0}};
    matrix.entries["blk.1.stack"] = {{3.0f, 5.0f, 0.0f, 0.0f}, {1.0, 0.0}};
    matrix.entries["blk.0.stack"] = {{1.0f}, {1.0}};
    const auto f = eval::figures_of(matrix, "blk.1.x", matrix.entries["blk.1.x"]);
    CHECK(f.columns == 4);
    CHECK(f.sum == 8.0);
    CHECK(f.mean == 2.0);
    CHECK(f.least == 0.0);
    CHECK(f.most == 4.0);
    CHECK(f.deviation == doctest::Approx(std::sqrt(2.0)));
    CHECK(f.active == 0.75);
    CHECK(f.outstanding == 0.25);
    CHECK(f.entropy == doctest::Approx(1.5));
    REQUIRE(f.likeness);
    CHECK(*f.likeness == doctest::Approx(1.0));
    CHECK_FALSE(eval::figures_of(matrix, "blk.0.x", matrix.entries["blk.0.x"]).likeness);
    const auto stack = eval::figures_of(matrix, "blk.1.stack", matrix.entries["blk.1.stack"]);
    CHECK(stack.columns == 2);
    CHECK(stack.unused == 1);
    CHECK(stack.mean == 4.0);
    CHECK_FALSE(stack.likeness);
    eval::importance none{{1.0f}, {0.0}};
    CHECK(eval::figures_of(matrix, "output.weight", none).columns == 0);
    CHECK(eval::detail::layer_before("blk.12.attn_q.weight") == "blk.11.attn_q.weight");
    CHECK(eval::detail::layer_before("blk.x.y").empty());
    CHECK(eval::detail::layer_before("output.weight").empty());
}
