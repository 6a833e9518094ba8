#include "colibri/quant/encode.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include "colibri/quant/format_list.hpp"
#include "support/fma.hpp"
#include "support/random_values.hpp"

using namespace colibri;
using namespace colibri::quant;

namespace {

template <class Fn>
void for_each_block_encoder(Fn&& fn) {
    for_each_format(format_list<q4_0, q4_1, q5_0, q5_1, q8_0, mxfp4>{}, [&](auto format) { fn(format); });
}

template <class F>
std::array<float, F::block_size> values(const F& block) {
    std::array<float, F::block_size> out{};
    block.decode(out.data());
    return out;
}

template <class F>
bool same(const F& a, const F& b) {
    return std::memcmp(&a, &b, sizeof(F)) == 0;
}

/// Largest error that rounding to the format's steps may cause for one block, given how it is made.
template <class F>
double allowed_error(const float* x) {
    double least = x[0];
    double greatest = x[0];
    double magnitude = 0;
    for (std::size_t i = 0; i < F::block_size; ++i) {
        least = std::min<double>(least, x[i]);
        greatest = std::max<double>(greatest, x[i]);
        magnitude = std::max<double>(magnitude, std::abs(x[i]));
    }
    // The roundings of x / d in float: 2^-23 of codes up to 127.
    const double slack = 1e-6 * magnitude;
    // A half float keeps 11 bits, and no bit below 2^-24: what a scale is off, times the largest code.
    const auto half = [](double value, int code) { return value * 0x1p-11 + code * 0x1p-25; };
    const double range = greatest - least;
    switch (F::type) {
        case dtype::q8_0: return magnitude / 127 / 2 + half(magnitude, 127) + slack;
        // Symmetric codes end one step early on one side: up to a whole step there.
        case dtype::q4_0: return magnitude / 8 + half(magnitude, 8) + slack;
        case dtype::q5_0: return magnitude / 16 + half(magnitude, 16) + slack;
        case dtype::q4_1: return range / 15 / 2 + half(range, 15) + half(magnitude, 1) + slack;
        case dtype::q5_1: return range / 31 / 2 + half(range, 31) + half(magnitude, 1) + slack;
        // MXFP4: the largest is 4 to 8 times the scale and becomes 6 at most, off by less than 2 of 8; below it, codes
        // are at most 2 of at least 4 apart.
        default: return magnitude / 4;
    }
}

}  // namespace

TEST_CASE("encoding a block errs by no more than its step") {
    for_each_block_encoder([]<class F>(std::type_identity<F>) {
        CAPTURE(std::string(name(F::type)));
        for (const float scale : {1e-3f, 1.0f, 300.0f}) {
            const auto x = test_support::bell_values(200 * F::block_size, 7, scale);
            for (std::size_t b = 0; b < 200; ++b) {
                const float* block = x.data() + b * F::block_size;
                const auto decoded = values(F::encode(block));
                double worst = 0;
                for (std::size_t i = 0; i < F::block_size; ++i) {
                    worst = std::max(worst, std::abs(static_cast<double>(decoded[i]) - block[i]));
                }
                CHECK(worst <= allowed_error<F>(block));
            }
        }
    });
}

TEST_CASE("a block of zeros is zeros again") {
    for_each_block_encoder([]<class F>(std::type_identity<F>) {
        CAPTURE(std::string(name(F::type)));
        for (const float zero : {0.0f, -0.0f}) {
            std::array<float, F::block_size> x{};
            x.fill(zero);
            for (const float v : values(F::encode(x.data()))) CHECK(v == 0.0f);
        }
    });
}

TEST_CASE("a constant block keeps its value to a half float's precision") {
    for_each_format(format_list<q4_0, q4_1, q5_0, q5_1, q8_0>{}, []<class F>(std::type_identity<F>) {
        CAPTURE(std::string(name(F::type)));
        for (const float value : {0.3f, -0.3f, 1000.0f}) {
            std::array<float, F::block_size> x{};
            x.fill(value);
            // 2^-11: the precision of the one half float that carries the value.
            for (const float v : values(F::encode(x.data()))) CHECK(std::abs(v - value) <= std::abs(value) * 0x1p-11f);
        }
    });
}

TEST_CASE("what a symmetric encoder wrote, it writes again") {
    for_each_format(format_list<q4_0, q5_0, q8_0, mxfp4>{}, []<class F>(std::type_identity<F>) {
        CAPTURE(std::string(name(F::type)));
        const auto x = test_support::bell_values(300 * F::block_size, 11, 2.0f);
        for (std::size_t b = 0; b < 300; ++b) {
            const F once = F::encode(x.data() + b * F::block_size);
            CHECK(same(F::encode(values(once).data()), once));
        }
    });
}

TEST_CASE("one infinity or NaN is seen in every value of its block") {
    for_each_block_encoder([]<class F>(std::type_identity<F>) {
        CAPTURE(std::string(name(F::type)));
        const float bad[] = {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                             std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::quiet_NaN()};
        for (const float value : bad) {
            for (const std::size_t place : {std::size_t{0}, F::block_size / 2, F::block_size - 1}) {
                auto x = test_support::bell_values(F::block_size, 3);
                x[place] = value;
                for (const float v : values(F::encode(x.data()))) CHECK(!std::isfinite(v));
            }
        }
    });
}

TEST_CASE("the ends of the float range are encoded without undefined conversions") {
    // Run under the sanitizers, which stop at a float that doesn't fit the integer it becomes.
    const float largest = std::numeric_limits<float>::max();
    const float tiny = std::numeric_limits<float>::denorm_min();
    for_each_block_encoder([&]<class F>(std::type_identity<F>) {
        CAPTURE(std::string(name(F::type)));
        for (const float value : {largest, tiny, 0x1p-126f, 0x1p-124f, 0x1p-121f, 70000.0f * 127}) {
            std::array<float, F::block_size> x{};
            for (std::size_t i = 0; i < F::block_size; ++i) x[i] = i % 3 == 0 ? value : i % 3 == 1 ? -value : 0.0f;
            const auto decoded = values(F::encode(x.data()));
            // Too small for a half float: zeros. Too large: not finite, never a wrong finite number.
            if (!std::is_same_v<F, mxfp4> && value < 1.0f) {
                for (const float v : decoded) CHECK(v == 0.0f);
            }
            if (!std::is_same_v<F, mxfp4> && value == largest) CHECK(!std::isfinite(decoded[0]));
        }
    });
}

TEST_CASE("half-way values go where the format's rounding sends them") {
    std::array<float, 32> x{};
    x[0] = 127.0f;  // scale 1
    x[1] = 2.5f;
    x[2] = -2.5f;
    x[3] = 0.49999997f;
    const q8_0 ties_away = q8_0::encode(x.data());
    CHECK(ties_away.qs[1] == 3);
    CHECK(ties_away.qs[2] == -3);
    CHECK(ties_away.qs[3] == 0);

    std::array<float, 32> y{};
    y[0] = -8.0f;  // scale 1
    y[1] = 2.5f;
    y[2] = -2.5f;
    const q4_0 ties_up = q4_0::encode(y.data());
    CHECK(ties_up.code(1) == 3);
    CHECK(ties_up.code(2) == -2);
}

TEST_CASE("the largest magnitude keeps its sign, and the first of two equal ones decides") {
    std::array<float, 32> x{};
    x[4] = 2.0f;
    x[9] = -2.0f;
    const q4_0 block = q4_0::encode(x.data());
    CHECK(block.scale() == -0.25f);
    CHECK(values(block)[4] == 2.0f);
    CHECK(values(block)[9] == -1.75f);
}

TEST_CASE("codes don't depend on the compiler's fusing") {
    if (!test_support::has_fma()) {
        MESSAGE("not run: this CPU has no FMA");
        return;
    }
    // Products that round up to k - 8.5 exactly: with a fused sum they stay below and give another code.
    std::mt19937 bits(5);
    std::size_t touchy = 0;
    for (int round = 0; round < 20000; ++round) {
        std::array<float, 32> x{};
        x[0] = -(1.0f + static_cast<float>(bits() >> 8) * 0x1p-24f);
        const float inverse = 1.0f / (x[0] / -8.0f);
        for (std::size_t i = 1; i < 32; ++i) {
            const float target = static_cast<float>(i % 14) - 6.5f;
            x[i] = target / inverse;
            volatile float product = x[i] * inverse;  // volatile: rounded, whatever this build's flags are
            touchy += static_cast<int>(std::fma(x[i], inverse, 8.5f)) != static_cast<int>(product + 8.5f);
        }
        const q4_0 plain = q4_0::encode(x.data());
        q4_0 fused{};
        test_support::with_fma([&] { fused = q4_0::encode(x.data()); });
        if (!same(plain, fused)) {
            FAIL_CHECK("round " << round);
            break;
        }
        for (std::size_t i = 1; i < 32; ++i) {
            volatile float product = x[i] * inverse;
            const int expected = std::min(static_cast<int>(product + 8.5f), 15);
            if (plain.code(i) != expected - 8) FAIL_CHECK("round " << round << ", value " << i);
        }
    }
    MESSAGE("values for which fusing would have mattered: " << touchy);
    CHECK(touchy > 0);
}

TEST_CASE("reciprocal and to_code hold at their limits") {
    CHECK(quant::detail::reciprocal(0.0f) == 0.0f);
    CHECK(quant::detail::reciprocal(0x1p-128f) == 0.0f);
    CHECK(std::isfinite(quant::detail::reciprocal(0x1p-128f + 0x1p-149f)));
    CHECK(quant::detail::reciprocal(-4.0f) == -0.25f);
    CHECK(quant::detail::to_code(std::numeric_limits<float>::quiet_NaN(), 15) == 0);
    CHECK(quant::detail::to_code(-1e30f, 15) == 0);
    CHECK(quant::detail::to_code(1e30f, 15) == 15);
    CHECK(quant::detail::to_code(14.99f, 15) == 14);
    static_assert(quant::detail::nearest_away(0.49999997f) == 0 && quant::detail::nearest_away(-0.5f) == -1);
    static_assert(quant::detail::nearest_away(1.5f) == 2 && quant::detail::nearest_away(2.5f) == 3);
    static_assert(quant::detail::nearest_even(0.5f) == 0 && quant::detail::nearest_even(1.5f) == 2 &&
                  quant::detail::nearest_even(-2.5f) == -2);
}

// Encoding also works at compile time.
static_assert([] {
    float x[32] = {};
    x[0] = 127.0f;
    x[5] = -3.0f;
    const q8_0 block = q8_0::encode(x);
    return block.d == 0x3c00 && block.qs[0] == 127 && block.qs[5] == -3;
}());
