#include "colibri/core/half.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

using namespace colibri;

namespace {

/// The value of a binary16 from the definition in IEEE 754, in double arithmetic.
double f16_by_definition(std::uint16_t bits) {
    const int exponent = (bits >> 10) & 31;
    const int mantissa = bits & 1023;
    const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
    if (exponent == 31) return mantissa != 0 ? std::numeric_limits<double>::quiet_NaN() : sign * INFINITY;
    if (exponent == 0) return sign * std::ldexp(mantissa, -24);
    return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

/// Compares `f32_to_f16(value)` with the nearest of two neighbouring halves, ties to even.
void check_rounding(float value, std::uint16_t below, std::uint16_t above) {
    const double low = f16_by_definition(below);
    // Rounding treats infinity as 65536, the number that would follow 65504.
    const double high = std::isinf(f16_by_definition(above)) ? 65536.0 : f16_by_definition(above);
    const double to_low = static_cast<double>(value) - low;
    const double to_high = high - static_cast<double>(value);
    const std::uint16_t expected = to_low < to_high   ? below
                                   : to_high < to_low ? above
                                                      : (below % 2 == 0 ? below : above);
    if (f32_to_f16(value) != expected) CHECK_MESSAGE(f32_to_f16(value) == expected, "value " << value);
}

}  // namespace

TEST_CASE("every f16 has the value that the definition gives, and comes back") {
    for (std::uint32_t number = 0; number < 65536; ++number) {
        const auto bits = static_cast<std::uint16_t>(number);
        const float value = f16_to_f32(bits);
        const double expected = f16_by_definition(bits);
        if (std::isnan(expected)) {
            REQUIRE(std::isnan(value));
            REQUIRE(std::isnan(f16_to_f32(f32_to_f16(value))));
            REQUIRE(std::signbit(value) == ((bits & 0x8000) != 0));
            // A NaN becomes quiet and otherwise keeps its payload.
            REQUIRE(f32_to_f16(value) == static_cast<std::uint16_t>(bits | 0x200));
        } else {
            REQUIRE(static_cast<double>(value) == expected);
            REQUIRE(std::signbit(value) == ((bits & 0x8000) != 0));
            REQUIRE(f32_to_f16(value) == bits);
        }
    }
}

TEST_CASE("f32 rounds to the nearest f16, ties to even, between every two neighbours") {
    for (std::uint16_t below = 0; below < 0x7c00; ++below) {
        const auto above = static_cast<std::uint16_t>(below + 1);
        const double low = f16_by_definition(below);
        const double high = above == 0x7c00 ? 65536.0 : f16_by_definition(above);
        const auto middle = static_cast<float>((low + high) / 2);  // exact: one more bit than a half
        check_rounding(middle, below, above);
        check_rounding(std::nextafter(middle, 0.0f), below, above);
        check_rounding(std::nextafter(middle, 1e9f), below, above);
        check_rounding(std::nextafter(static_cast<float>(low), 1e9f), below, above);
        // The sign doesn't change the rounding.
        if (f32_to_f16(-middle) != (f32_to_f16(middle) | 0x8000))
            CHECK(f32_to_f16(-middle) == (f32_to_f16(middle) | 0x8000));
    }
    CHECK(f32_to_f16(65519.99f) == 0x7bff);
    CHECK(f32_to_f16(65520.0f) == 0x7c00);
    CHECK(f32_to_f16(std::numeric_limits<float>::max()) == 0x7c00);
    CHECK(f32_to_f16(-INFINITY) == 0xfc00);
    CHECK(f32_to_f16(std::numeric_limits<float>::denorm_min()) == 0);
    CHECK(f32_to_f16(-0.0f) == 0x8000);
}

TEST_CASE("every bf16 is the upper half of its f32, and comes back") {
    for (std::uint32_t number = 0; number < 65536; ++number) {
        const auto bits = static_cast<std::uint16_t>(number);
        const float value = bf16_to_f32(bits);
        REQUIRE(std::bit_cast<std::uint32_t>(value) == number << 16);
        if (std::isnan(value)) REQUIRE(f32_to_bf16(value) == static_cast<std::uint16_t>(bits | 64));
        else REQUIRE(f32_to_bf16(value) == bits);
    }
}

TEST_CASE("f32 rounds to the nearest bf16, ties to even") {
    for (std::uint32_t upper = 0; upper < 0x7f80; ++upper) {
        const auto at = [&](std::uint32_t low) { return f32_to_bf16(std::bit_cast<float>((upper << 16) | low)); };
        REQUIRE(at(0x7fff) == upper);
        REQUIRE(at(0x8000) == upper + upper % 2);
        REQUIRE(at(0x8001) == upper + 1);
    }
    // A NaN whose payload is in the lower half only must not turn into infinity.
    CHECK(std::isnan(bf16_to_f32(f32_to_bf16(std::bit_cast<float>(0x7f800001u)))));
}

static_assert(f16_to_f32(0x3c00) == 1.0f && f32_to_f16(1.0f) == 0x3c00);
static_assert(bf16_to_f32(0x3f80) == 1.0f && f32_to_bf16(1.0f) == 0x3f80);
