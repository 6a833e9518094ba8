#include "colibri/quant/encode_grid.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "colibri/quant/format_list.hpp"
#include "support/encode_levels.hpp"
#include "support/fma.hpp"

using namespace colibri;
using namespace colibri::quant;

namespace {

using grid_formats = format_list<iq1_s, iq1_m, iq2_xxs, iq2_xs, iq2_s, iq3_xxs, iq3_s>;
using values = std::array<float, 256>;

/// Roughly normal numbers.
values noise(unsigned seed, float scale = 1.0f) {
    std::mt19937 bits(seed);
    values out;
    for (auto& v : out) {
        float sum = -6.0f;
        for (int n = 0; n < 12; ++n) sum += static_cast<float>(bits() >> 8) * 0x1p-24f;
        v = sum * scale;
    }
    return out;
}

values weights(unsigned seed) {
    values out = noise(seed);
    for (auto& v : out) v = v * v + 0.01f;
    return out;
}

template <class F>
F encoded(const values& x, const float* importance = nullptr) {
    return block_encoder<F>::encode(x.data(), importance);
}

template <class F>
values decoded(const F& block) {
    values out;
    block.decode(out.data());
    return out;
}

template <class F>
double squared_error(const values& x, const F& block, const float* importance = nullptr) {
    const values y = decoded(block);
    double sum = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
        const double rest = static_cast<double>(x[i]) - y[i];
        sum += (importance != nullptr ? importance[i] : 1.0f) * rest * rest;
    }
    return sum;
}

template <class F>
bool same_bytes(const F& a, const F& b) {
    return std::memcmp(&a, &b, sizeof(F)) == 0;
}

/// Searches with random costs find what looking at every point finds. Whole numbers: their sums are exact in any order.
template <class Grid, class Table, class Values>
void check_against_all_points(const Grid& search, const Table& grid, const Values& values_of_digits) {
    std::mt19937 bits(3);
    const auto levels = test_support::encode_levels();
    std::uint16_t guess = 0;
    for (int n = 0; n < 300; ++n) {
        float costs[Grid::digits * Grid::columns] = {};
        for (std::size_t i = 0; i < Grid::digits; ++i) {
            for (std::size_t v = 0; v < Grid::base; ++v) costs[i * Grid::columns + v] = static_cast<float>(bits() % 23);
            costs[i * Grid::columns + bits() % Grid::base] = 0.0f;
        }
        const auto cost_of = [&](std::size_t p) {
            float sum = 0.0f;
            for (std::size_t i = 0; i < Grid::digits; ++i) {
                std::size_t v = 0;
                while (values_of_digits[v] != grid_value(grid[p], i)) ++v;
                sum += costs[i * Grid::columns + v];
            }
            return sum;
        };
        float least = std::numeric_limits<float>::infinity();
        for (std::size_t p = 0; p < grid.size(); ++p) least = cost_of(p) < least ? cost_of(p) : least;
        std::uint16_t first = 0;
        for (const auto level : levels) {
            std::uint16_t point = guess;
            const float found = quant::detail::nearest_point(search, costs, point, std::numeric_limits<float>::infinity(), level);
            CHECK(found == least);
            CHECK(cost_of(point) == least);
            if (level == levels.front()) first = point;
            CHECK(point == first);  // of several that cost the same, too
            CHECK(quant::detail::nearest_point(search, costs, point, least, level) == least);
        }
        guess = first;
    }
}

/// All levels find the same point at the same cost where sums are rounded, bit for bit.
template <class Grid>
void check_levels(const Grid& search, const std::vector<quant::detail::encode_level>& levels) {
    std::mt19937 bits(4);
    for (int n = 0; n < 2000; ++n) {
        float costs[Grid::digits * Grid::columns] = {};
        for (std::size_t i = 0; i < Grid::digits; ++i) {
            for (std::size_t v = 0; v < Grid::base; ++v) costs[i * Grid::columns + v] = static_cast<float>(bits() >> 8) * 0x1p-24f;
            costs[i * Grid::columns + bits() % Grid::base] = 0.0f;
        }
        std::uint16_t first = 0;
        const float expected = quant::detail::nearest_point(search, costs, first, std::numeric_limits<float>::infinity(), levels[0]);
        for (const auto level : levels) {
            std::uint16_t point = 0;
            CHECK(quant::detail::nearest_point(search, costs, point, std::numeric_limits<float>::infinity(), level) == expected);
            CHECK(point == first);
        }
    }
}

}  // namespace

TEST_CASE("grid blocks have the same bytes at every level") {
    const auto levels = test_support::encode_levels();
    check_levels(quant::detail::iq1_search, levels);
    check_levels(quant::detail::iq2_xxs_search, levels);
    check_levels(quant::detail::iq2_xs_search, levels);
    check_levels(quant::detail::iq2_s_search, levels);
    check_levels(quant::detail::iq3_xxs_search, levels);
    check_levels(quant::detail::iq3_s_search, levels);
    for_each_format(grid_formats{}, [&]<class F>(std::type_identity<F>) {
        CAPTURE(std::string(name(F::type)));
        const values w = weights(1);
        std::mt19937 bits(5);
        for (unsigned seed = 0; seed < 200; ++seed) {
            // Beyond what a half float can scale, weights are far from all points and costs lose their last digits.
            values x = noise(seed, seed % 2 == 0 ? 1.0f : 1e15f);
            for (auto& v : x) v *= bits() % 4 == 0 ? 30.0f : 1.0f;
            for (const float* importance : {static_cast<const float*>(nullptr), w.data()}) {
                const F expected = quant::detail::encode_grid<F>(x.data(), importance, levels[0]);
                for (const auto level : levels) CHECK(same_bytes(quant::detail::encode_grid<F>(x.data(), importance, level), expected));
            }
        }
    });
}

TEST_CASE("the nearest point is the nearest of all") {
    check_against_all_points(quant::detail::iq1_search, iq1_grid, iq1_values);
    check_against_all_points(quant::detail::iq2_xxs_search, iq2_xxs_grid, iq2_values);
    check_against_all_points(quant::detail::iq2_xs_search, iq2_xs_grid, iq2_values);
    check_against_all_points(quant::detail::iq2_s_search, iq2_s_grid, iq2_values);
    check_against_all_points(quant::detail::iq3_xxs_search, iq3_xxs_grid, iq3_xxs_values);
    check_against_all_points(quant::detail::iq3_s_search, iq3_s_grid, iq3_s_values);
}

TEST_CASE("turning one sign of eight is tried for all eight, with every point") {
    // Exhaustive for IQ2_XXS: all points times all eight turned weights.
    using shape = quant::detail::grid_shape<iq2_xxs>;
    const values x = noise(17);
    const values w = weights(18);
    for (std::size_t g = 0; g < 16; ++g) {
        float magnitude[8];
        float push[8];
        float costs[8 * 4] = {};
        constexpr float scale = 0.04f;
        const auto cost = [&](std::size_t i, int value, bool turned) {
            const float rest = magnitude[i] + (turned ? scale : -scale) * static_cast<float>(value);
            return w[g * 8 + i] * rest * rest;
        };
        for (std::size_t i = 0; i < 8; ++i) {
            magnitude[i] = std::abs(x[g * 8 + i]);
            push[i] = 4.0f * scale * w[g * 8 + i] * magnitude[i];
            float low = cost(i, 8, false);
            for (const int v : iq2_values) low = std::min(low, cost(i, v, false));
            for (std::size_t v = 0; v < 3; ++v) costs[i * 4 + v] = cost(i, iq2_values[v], false) - low;
        }
        const auto total = [&](std::uint16_t point, std::size_t turned) {
            float sum = 0.0f;
            for (std::size_t i = 0; i < 8; ++i) sum += cost(i, grid_value(shape::grid[point], i), i == turned);
            return sum;
        };
        float least = std::numeric_limits<float>::infinity();
        for (std::uint16_t p = 0; p < 256; ++p) {
            for (std::size_t turned = 0; turned < 8; ++turned) least = std::min(least, total(p, turned));
        }
        std::uint16_t point = 0;
        const auto mark = quant::detail::nearest_with_turn<iq2_xxs>(costs, push, true, &point, quant::detail::highest_level());
        REQUIRE(std::popcount(mark) == 1);
        // Both sums round some twenty times.
        CHECK(total(point, static_cast<std::size_t>(std::countr_zero(mark))) <= least * 1.00001f);
    }
}

TEST_CASE("what a block can hold exactly comes back") {
    for_each_format(grid_formats{}, [&]<class F>(std::type_identity<F>) {
        CAPTURE(std::string(name(F::type)));
        std::mt19937 bits(5);
        double worst = 0;
        for (int n = 0; n < 8; ++n) {
            F block{};
            unsigned char bytes[sizeof(F)];
            for (auto& byte : bytes) byte = static_cast<unsigned char>(bits());
            std::memcpy(&block, bytes, sizeof(F));
            if constexpr (requires { block.d; }) {
                block.d = 0x3c00;
            } else {
                for (std::size_t k = 0; k < 4; ++k) {
                    const unsigned quarter = 0x3c00u >> (4 * k) & 15u;
                    block.scales[k] = static_cast<std::uint16_t>((block.scales[k] & 0xfffu) | quarter << 12);
                }
            }
            const values x = decoded(block);
            double sum = 0;
            for (const float v : x) sum += static_cast<double>(v) * v;
            worst = std::max(worst, squared_error(x, encoded<F>(x)) / sum);
        }
        // Most come back whole; 0.0025 was the worst, where the search for a scale missed the true one.
        CHECK(worst < 0.005);
    });
}

TEST_CASE("blocks of zeros, of one value, of very small and very large values") {
    for_each_format(grid_formats{}, [&]<class F>(std::type_identity<F>) {
        CAPTURE(std::string(name(F::type)));
        CHECK(same_bytes(encoded<F>(values{}), F{}));
        for (const float top : {1e-45f, 1e-38f, 1e-9f, 1e-6f, 3.0f, 1e6f, 1e20f, 3e38f}) {
            CAPTURE(top);
            values same;
            same.fill(top);
            values mixed = noise(7, top / 6.0f);
            for (const values& x : {same, mixed}) {
                const F block = encoded<F>(x);
                double sum = 0;
                for (const float v : x) sum += static_cast<double>(v) * v;
                for (const float v : decoded(block)) CHECK(std::isfinite(v));
                // Never worse than zeros; half floats hold scales of 6e-8 and more up to 65504.
                CHECK(squared_error(x, block) <= sum);
                if (top > 1e-5f && top < 1e5f) CHECK(squared_error(x, block) < 0.4 * sum);
            }
        }
        values one{};
        one[100] = -5.0f;
        CHECK(squared_error(one, encoded<F>(one)) < 25.0);
    });
}

TEST_CASE("a block with an infinity or a NaN becomes NaN") {
    for_each_format(grid_formats{}, [&]<class F>(std::type_identity<F>) {
        for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
            values x = noise(1);
            x[77] = bad;
            for (const float v : decoded(encoded<F>(x))) CHECK(std::isnan(v));
        }
    });
}

TEST_CASE("importance decides where the error goes, not how large it is written") {
    for_each_format(grid_formats{}, [&]<class F>(std::type_identity<F>) {
        CAPTURE(std::string(name(F::type)));
        const values none{};
        double with = 0;
        double without = 0;
        for (unsigned seed = 0; seed < 8; ++seed) {
            const values x = noise(seed, 0.02f);
            values w = weights(100 + seed);
            const F block = encoded<F>(x, w.data());
            with += squared_error(x, block, w.data());
            without += squared_error(x, encoded<F>(x), w.data());
            for (auto& v : w) v *= 1024.0f;
            CHECK(same_bytes(block, encoded<F>(x, w.data())));
            CHECK(same_bytes(encoded<F>(x), encoded<F>(x, none.data())));  // nothing counts: everything does alike
        }
        CHECK(with < without);
    });
}

TEST_CASE("the bytes don't depend on the compiler's fusing") {
    if (!test_support::has_fma()) {
        MESSAGE("not run: encoding as compiled for FMA, which this CPU doesn't have");
        return;
    }
    for_each_format(grid_formats{}, [&]<class F>(std::type_identity<F>) {
        CAPTURE(std::string(name(F::type)));
        for (unsigned seed = 0; seed < 4; ++seed) {
            const values x = noise(seed);
            const values w = weights(seed + 50);
            F fused;
            test_support::with_fma([&] { fused = encoded<F>(x, w.data()); });
            CHECK(same_bytes(fused, encoded<F>(x, w.data())));
        }
    });
}
