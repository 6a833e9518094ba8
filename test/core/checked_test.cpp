#include "colibri/core/checked.hpp"

#include <doctest/doctest.h>

#include <cstdint>

using namespace colibri;

TEST_CASE_TEMPLATE("sums and products of small numbers, exhaustively", T, std::uint8_t) {
    for (unsigned a = 0; a < 256; ++a) {
        for (unsigned b = 0; b < 256; ++b) {
            const auto sum = checked_add(static_cast<T>(a), static_cast<T>(b));
            REQUIRE(sum.has_value() == (a + b < 256));
            if (sum) REQUIRE(*sum == a + b);
            const auto product = checked_mul(static_cast<T>(a), static_cast<T>(b));
            REQUIRE(product.has_value() == (a * b < 256));
            if (product) REQUIRE(*product == a * b);
        }
        for (unsigned step = 1; step < 256; step *= 2) {
            const unsigned expected = (a + step - 1) / step * step;
            const auto rounded = checked_round_up(static_cast<T>(a), static_cast<T>(step));
            // a + step - 1 must fit, not only the multiple.
            REQUIRE(rounded.has_value() == (a + step - 1 < 256));
            if (rounded) REQUIRE(*rounded == expected);
        }
    }
}

TEST_CASE("64-bit edges") {
    constexpr std::uint64_t most = ~std::uint64_t{0};
    static_assert(checked_add(most, std::uint64_t{0}) == most);
    static_assert(!checked_add(most, std::uint64_t{1}));
    static_assert(checked_mul(std::uint64_t{1} << 32, (std::uint64_t{1} << 32) - 1) ==
                  most - (std::uint64_t{1} << 32) + 1);
    static_assert(!checked_mul(std::uint64_t{1} << 32, std::uint64_t{1} << 32));
    static_assert(!checked_mul(std::uint64_t{3}, std::uint64_t{6148914691236517206}));
    static_assert(!checked_round_up(most, std::uint64_t{32}));
    static_assert(checked_round_up(std::uint64_t{33}, std::uint64_t{32}) == 64);
    static_assert(round_up(std::uint64_t{25}, std::uint64_t{24}) == 48);
    static_assert(round_up(std::uint64_t{48}, std::uint64_t{24}) == 48);
    CHECK(round_up(std::uint64_t{0}, std::uint64_t{7}) == 0);
}
