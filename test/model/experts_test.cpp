#include "colibri/model/experts.hpp"

#include <doctest/doctest.h>

#include <limits>

using namespace colibri;

TEST_CASE("experts: the largest logits win, ties go to the lower number, weights are a softmax over the chosen") {
    const float logits[] = {1.0f, 5.0f, 3.0f, 5.0f, 3.0f, -2.0f};
    std::uint32_t chosen[3];
    float weights[3];
    choose_experts(logits, 6, 3, chosen, weights);
    CHECK(chosen[0] == 1);
    CHECK(chosen[1] == 2);
    CHECK(chosen[2] == 3);
    CHECK(weights[0] == weights[2]);
    CHECK(weights[0] + weights[1] + weights[2] == doctest::Approx(1.0));
    CHECK(weights[1] / weights[0] == doctest::Approx(std::exp(-2.0)));
}

TEST_CASE("experts: all of them, one of them, and logits that are no numbers") {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const float logits[] = {nan, nan, nan, nan};
    std::uint32_t chosen[4];
    float weights[4];
    choose_experts(logits, 4, 4, chosen, weights);
    for (std::uint32_t i = 0; i < 4; ++i) CHECK(chosen[i] == i);
    const float one[] = {0.0f, -1.0f, 7.0f, 2.0f};
    choose_experts(one, 4, 1, chosen, weights);
    CHECK(chosen[0] == 2);
    CHECK(weights[0] == 1.0f);
}
