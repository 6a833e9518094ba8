#include "colibri/quant/reference_dot.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "colibri/core/buffer.hpp"
#include "colibri/quant/format_list.hpp"
#include "colibri/quant/rows.hpp"
#include "support/fma.hpp"
#include "support/scales.hpp"
#include "support/random_values.hpp"

using namespace colibri;
using namespace colibri::quant;

namespace {

/// Blocks of random codes and integer scales; half-float scales between 2^-9 and 2^-5, both signs.
template <class F>
std::vector<F> random_blocks(std::size_t n, unsigned seed) {
    std::mt19937 bits(seed);
    std::vector<F> out(n);
    for (auto& block : out) {
        unsigned char raw[sizeof(F)];
        for (auto& byte : raw) byte = static_cast<unsigned char>(bits() >> 11);
        std::memcpy(&block, raw, sizeof(F));
        const auto half = [&] {
            return static_cast<std::uint16_t>((bits() & 0x8000u) | (6u + bits() % 4u) << 10 | (bits() & 0x3ffu));
        };
        if constexpr (std::is_same_v<F, f32>) {
            block.bits = f16_to_f32(half());
        } else if constexpr (std::is_same_v<F, f16>) {
            block.bits = half();
        } else if constexpr (std::is_same_v<F, bf16>) {
            block.bits = f32_to_bf16(f16_to_f32(half()));
        } else if constexpr (std::is_same_v<F, mxfp4>) {
            block.e = static_cast<std::uint8_t>(118 + bits() % 6);
        } else {
            test_support::set_scale(block, half());
        }
        if constexpr (requires { block.dmin; }) block.dmin = half();
        if constexpr (requires { block.m; }) block.m = half();
    }
    return out;
}

struct quantised_column {
    explicit quantised_column(const std::vector<float>& x)
        : memory(aligned_buffer::allocate(activation_matrix::bytes(x.size(), 1)).value()) {
        const auto m = activation_matrix::over(memory.data(), x.size(), 1);
        quantise_column(x.data(), m, 0);
        view = m.column(0);
    }
    aligned_buffer memory;
    activation_view view;
};

template <class F>
struct product {
    float got;
    double exact;      // of the decoded weights and the activations as quantised
    double magnitude;  // sum of absolute products
};

template <class F>
product<F> multiply(const std::vector<F>& row, const std::vector<float>& x) {
    const std::size_t k = x.size();
    std::vector<float> weights(k);
    decode_row(row.data(), k, weights.data());
    std::vector<double> y(k);
    product<F> out{};
    if constexpr (float_format<F>) {
        out.got = dot_reference(row.data(), x.data(), k);
        for (std::size_t i = 0; i < k; ++i) y[i] = x[i];
    } else {
        const quantised_column column(x);
        out.got = dot_reference(row.data(), column.view, k);
        for (std::size_t i = 0; i < k; ++i) {
            const std::size_t g = i / 32;
            const auto& v = column.view;
            y[i] = static_cast<double>(v.plane.scales[g]) * v.plane.codes[i];
            if (v.has_residual(g)) y[i] += static_cast<double>(v.residual.scales[g]) * v.residual.codes[i];
        }
    }
    for (std::size_t i = 0; i < k; ++i) {
        out.exact += weights[i] * y[i];
        // A weight with a minimum is a difference: its two parts round on their own.
        double part = std::abs(weights[i]);
        if constexpr (minimum_format<F>) part += 2 * std::abs(static_cast<double>(row[i / F::block_size].minimum()));
        if constexpr (super_minimum_format<F>) {
            const F& block = row[i / F::block_size];
            part += 2 * std::abs(static_cast<double>(block.minimum_scale())) * block.sub_minimum(i % 256 / F::sub_size);
        }
        out.magnitude += part * std::abs(y[i]);
    }
    return out;
}

}  // namespace

TEST_CASE("the product of every format is that of its decoded values") {
    for_each_format(weight_formats{}, []<class F>(std::type_identity<F>) {
        CAPTURE(std::string(name(F::type)));
        for (const std::size_t k : {std::size_t{256}, std::size_t{576}, std::size_t{640}, std::size_t{2048}}) {
            if (k % F::block_size != 0) continue;
            CAPTURE(k);
            auto x = test_support::uniform_values(k, 17);
            x[k / 3] = 50.0f;  // a group with a residual, where there are enough groups
            const auto p = multiply(random_blocks<F>(k / F::block_size, static_cast<unsigned>(k)), x);
            // Per run of 16 or 32 at most two fused additions, each 2^-24, twice with a residual, and the product of two scales;
            // for floats k/16 fused additions and four of the tree. Decoding itself rounds at most twice.
            const double roundings = float_format<F> ? static_cast<double>(k) / 16 + 4 : static_cast<double>(k) / 16 * 4 + 4;
            CHECK(std::abs(p.got - p.exact) <= roundings * 0x1p-24 * p.magnitude);
            CHECK(p.magnitude > 0);
        }
    });
}

TEST_CASE("float products: sixteen lanes by index, fused, added as a fixed tree") {
    for (const std::size_t k : {std::size_t{0}, std::size_t{1}, std::size_t{15}, std::size_t{16}, std::size_t{17},
                                std::size_t{576}, std::size_t{1003}}) {
        CAPTURE(k);
        const auto row = random_blocks<f16>(k, 23);
        const auto x = test_support::uniform_values(k, 24);
        std::array<float, 16> lane{};
        for (std::size_t begin = 0; begin < k; begin += 16) {
            for (std::size_t i = begin; i < std::min(begin + 16, k); ++i) {
                lane[i - begin] = std::fma(f16_to_f32(row[i].bits), x[i], lane[i - begin]);
            }
        }
        std::array<float, 8> eight{};
        for (std::size_t i = 0; i < 8; ++i) eight[i] = lane[i] + lane[i + 8];
        const float expected =
            ((eight[0] + eight[4]) + (eight[2] + eight[6])) + ((eight[1] + eight[5]) + (eight[3] + eight[7]));
        CHECK(dot_reference(row.data(), x.data(), k) == expected);
    }
}

TEST_CASE("quantised products: one fused step for the codes, then one for the minimums, runs in order") {
    // Values at which any other order gives other bits.
    const std::size_t k = 64;
    const auto x = test_support::uniform_values(k, 31);
    const quantised_column column(x);
    const auto& y = column.view.plane;
    REQUIRE(!column.view.has_residual(0));
    std::size_t unfused_differs = 0;
    std::size_t order_differs = 0;
    for (unsigned seed = 0; seed < 50; ++seed) {
        const auto row = random_blocks<q4_1>(2, seed);
        float expected = 0;
        float unfused = 0;
        float swapped = 0;
        for (std::size_t b = 0; b < 2; ++b) {
            int isum = 0;
            int ysum = 0;
            for (std::size_t i = 0; i < 32; ++i) {
                isum += row[b].code(i) * y.codes[b * 32 + i];
                ysum += y.codes[b * 32 + i];
            }
            const volatile float scale = row[b].scale() * y.scales[b];  // volatile: rounded, and not fused below
            const volatile float weighted = y.scales[b] * static_cast<float>(ysum);
            const auto s = static_cast<float>(isum);
            expected = std::fma(row[b].minimum(), weighted, std::fma(s, scale, expected));
            swapped = std::fma(s, scale, std::fma(row[b].minimum(), weighted, swapped));
            const volatile float first = s * scale;
            const volatile float second = row[b].minimum() * weighted;
            unfused = (unfused + first) + second;
        }
        CHECK(dot_reference(row.data(), column.view, k) == expected);
        unfused_differs += unfused != expected;
        order_differs += swapped != expected;
    }
    CHECK(unfused_differs > 0);
    CHECK(order_differs > 0);
}

TEST_CASE("super-blocks: each run with its scale, then its minimum") {
    const auto x = test_support::uniform_values(512, 41);
    const quantised_column column(x);
    const auto& y = column.view.plane;
    const auto dot = [&](const auto& block, std::size_t base, std::size_t begin, std::size_t n) {
        int sum = 0;
        for (std::size_t i = begin; i < begin + n; ++i) sum += block.code(i) * y.codes[base + i];
        return static_cast<float>(sum);
    };
    for (unsigned seed = 0; seed < 20; ++seed) {
        const auto row5 = random_blocks<q5_k>(2, seed);
        const auto row6 = random_blocks<q6_k>(2, seed);
        const auto row2 = random_blocks<q2_k>(2, seed);
        float expected5 = 0;
        float expected6 = 0;
        float expected2 = 0;
        for (std::size_t r = 0; r < 32; ++r) {  // runs of 16 of both blocks
            const std::size_t b = r / 16;
            const std::size_t j = r % 16;
            const float scale = y.scales[r / 2];
            const volatile float scale6 = row6[b].scale() * static_cast<float>(row6[b].sub_scale(j)) * scale;
            expected6 = std::fma(dot(row6[b], b * 256, j * 16, 16), scale6, expected6);
            const volatile float scale2 = row2[b].scale() * static_cast<float>(row2[b].sub_scale(j)) * scale;
            const volatile float weighted2 = scale * static_cast<float>(y.sums[r]);
            expected2 = std::fma(dot(row2[b], b * 256, j * 16, 16), scale2, expected2);
            expected2 = std::fma(-(row2[b].minimum_scale() * static_cast<float>(row2[b].sub_minimum(j))), weighted2, expected2);
            if (r % 2 != 0) continue;
            const volatile float scale5 = row5[b].scale() * static_cast<float>(row5[b].sub_scale(j / 2)) * scale;
            const volatile float weighted5 = scale * static_cast<float>(y.sums[r] + y.sums[r + 1]);
            expected5 = std::fma(dot(row5[b], b * 256, j * 16, 32), scale5, expected5);
            expected5 = std::fma(-(row5[b].minimum_scale() * static_cast<float>(row5[b].sub_minimum(j / 2))), weighted5, expected5);
        }
        CHECK(dot_reference(row5.data(), column.view, 512) == expected5);
        CHECK(dot_reference(row6.data(), column.view, 512) == expected6);
        CHECK(dot_reference(row2.data(), column.view, 512) == expected2);
    }
}

TEST_CASE("the largest codes and scales") {
    // All products are exact here, and under the sanitizers an overflow stops the test.
    const quantised_column column(std::vector<float>(256, -127.0f));
    REQUIRE(column.view.plane.scales[0] == 1.0f);
    q6_k six{};
    six.d = 0x3c00;
    for (auto& s : six.scales) s = -128;
    CHECK(dot_reference(&six, column.view, 256) == -128.0f * 32 * 127 * 256);
    iq4_xs xs{};
    xs.d = 0x3c00;
    CHECK(dot_reference(&xs, column.view, 256) == -32.0f * 127 * 127 * 256);
}

TEST_CASE("NaN in weights or activations reaches the product") {
    auto x = test_support::uniform_values(64, 51);
    auto row = random_blocks<q8_0>(2, 52);
    CHECK(std::isfinite(multiply(row, x).got));
    x[40] = std::numeric_limits<float>::quiet_NaN();
    CHECK(std::isnan(multiply(row, x).got));
    x[40] = 0;
    row[0].d = 0x7e00;
    CHECK(std::isnan(multiply(row, x).got));
}

TEST_CASE("the compiler's fusing doesn't change products") {
    if (!test_support::has_fma()) {
        MESSAGE("not run: this CPU has no FMA");
        return;
    }
    for_each_format(weight_formats{}, []<class F>(std::type_identity<F>) {
        CAPTURE(std::string(name(F::type)));
        const std::size_t k = 1024;
        const auto row = random_blocks<F>(k / F::block_size, 61);
        const auto x = test_support::uniform_values(k, 62);
        const float plain = multiply(row, x).got;
        float fused = 0;
        if constexpr (float_format<F>) {
            test_support::with_fma([&] { fused = dot_reference(row.data(), x.data(), k); });
        } else {
            const quantised_column column(x);
            test_support::with_fma([&] { fused = dot_reference(row.data(), column.view, k); });
        }
        CHECK(plain == fused);
    });
}
