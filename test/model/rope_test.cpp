#include "colibri/model/rope.hpp"

#include <doctest/doctest.h>

#include <cmath>

using namespace colibri;

namespace {

hparams plain(std::uint32_t dimensions) {
    hparams h;
    h.rope_dimensions = dimensions;
    h.trained_context = 2048;
    return h;
}

}  // namespace

TEST_CASE("rope: frequencies are base^(-2i/d)") {
    const auto rope = make_rope_frequencies(plain(64), 10000.0f, true, {});
    REQUIRE(rope.frequency.size() == 32);
    CHECK(rope.magnitude == 1.0f);
    for (std::size_t i = 0; i < 32; ++i) {
        // Rounded once to float: half an ulp, 2^-24 relative; the double computation behind it is exact to 1e-14.
        const double expected = std::pow(10000.0, -2.0 * static_cast<double>(i) / 64.0);
        CHECK(std::abs(rope.frequency[i] - expected) <= expected * 0x1p-24 * 1.001);
    }
}

TEST_CASE("rope: linear scaling divides all frequencies, unless the layer is unscaled") {
    auto h = plain(32);
    h.scaling = rope_scaling::linear;
    h.scaling_factor = 8.0f;
    const auto scaled = make_rope_frequencies(h, 10000.0f, true, {});
    const auto unscaled = make_rope_frequencies(h, 10000.0f, false, {});
    for (std::size_t i = 0; i < 16; ++i) CHECK(scaled.frequency[i] == unscaled.frequency[i] / 8.0f);  // a power of two: exact
}

TEST_CASE("rope: factors divide frequency by frequency") {
    const auto h = plain(8);
    const float factors[] = {1.0f, 2.0f, 4.0f, 32.0f};
    const auto with = make_rope_frequencies(h, 500000.0f, true, factors);
    const auto without = make_rope_frequencies(h, 500000.0f, true, {});
    for (std::size_t i = 0; i < 4; ++i) CHECK(with.frequency[i] == without.frequency[i] / factors[i]);
}

TEST_CASE("rope: yarn keeps fast pairs, stretches slow ones, and scales the magnitude") {
    auto h = plain(64);
    h.scaling = rope_scaling::yarn;
    h.scaling_factor = 4.0f;
    h.scaling_original_context = 2048;
    const auto yarn = make_rope_frequencies(h, 10000.0f, true, {});
    const auto none = make_rope_frequencies(plain(64), 10000.0f, true, {});
    CHECK(yarn.frequency.front() == none.frequency.front());
    CHECK(yarn.frequency.back() == doctest::Approx(none.frequency.back() / 4.0f).epsilon(1e-6));
    for (std::size_t i = 0; i < 32; ++i) {
        CHECK(yarn.frequency[i] <= none.frequency[i] * 1.000001f);
        CHECK(yarn.frequency[i] >= none.frequency[i] / 4.0f * 0.999999f);
    }
    CHECK(yarn.magnitude == doctest::Approx(0.1 * std::log(4.0) + 1.0).epsilon(1e-6));
    h.yarn_attention_factor = 1.5f;
    CHECK(make_rope_frequencies(h, 10000.0f, true, {}).magnitude == 1.5f);
}

TEST_CASE("rope: a row holds cosines and sines of position times frequency") {
    const auto rope = make_rope_frequencies(plain(16), 10000.0f, true, {});
    float cosine[8], sine[8];
    for (const std::uint32_t position : {0u, 1u, 777u, 131071u}) {
        fill_rope_row(rope, position, cosine, sine);
        for (std::size_t i = 0; i < 8; ++i) {
            const double angle = static_cast<float>(position) * rope.frequency[i];
            CHECK(std::abs(cosine[i] - std::cos(angle)) <= 0x1p-24);
            CHECK(std::abs(sine[i] - std::sin(angle)) <= 0x1p-24);
        }
    }
}
