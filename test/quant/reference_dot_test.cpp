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

using namespace colibri;
using namespace colibri::quant;

namespace {

std::vector<float> noise(std::size_t n, unsigned seed) {
    std::mt19937 bits(seed);
    std::vector<float> out(n);
    for (auto& v : out) v = (static_cast<float>(bits() >> 8) * 0x1p-24f - 0.5f) * 3.0f;
    return out;
}

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
            block.d = half();
        }
        if constexpr (requires { block.dmin; }) block.dmin = half();
        if constexpr (requires { block.m; }) block.m = half();
    }
    return out;
}

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
        using matrix = activation_matrix<activation_group<F>>;
        auto memory = aligned_buffer::allocate(matrix::bytes(k, 1)).value();
        const auto m = matrix::over(memory.data(), k, 1);
        quantise_column(x.data(), m, 0);
        out.got = dot_reference(row.data(), m.column(0), k);
        const auto column = m.column(0);
        for (std::size_t i = 0; i < k; ++i) {
            const std::size_t g = i / matrix::group;
            y[i] = static_cast<double>(m.scales[g]) * m.codes[i];
            if (column.has_residual(g)) y[i] += static_cast<double>(column.residual_scales[g]) * column.residual_codes[i];
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
            const std::size_t blocks = k / F::block_size;
            auto x = noise(k, 17);
            x[k / 3] = 50.0f;  // a group with a residual, where there are enough groups
            const auto p = multiply(random_blocks<F>(blocks, static_cast<unsigned>(k)), x);
            // Per block at most two fused additions, a product of scales and an integer made a float, each 2^-24; for
            // floats k/16 fused additions and four of the tree. Decoding itself rounds at most twice.
            const double roundings =
                float_format<F> ? static_cast<double>(k) / 16 + 4 : static_cast<double>(blocks) * 2 + 4;
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
        const auto x = noise(k, 24);
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

TEST_CASE("quantised products: one fused step for the codes, then one for the minimums, blocks in order") {
    // Two blocks with values at which any other order gives other bits.
    const std::size_t k = 64;
    const auto x = noise(k, 31);
    std::int8_t codes[k];
    float scales[2];
    std::int16_t sums[2];
    quantise_activations<32>(x.data(), k, codes, scales, sums);
    std::size_t unfused_differs = 0;
    std::size_t order_differs = 0;
    for (unsigned seed = 0; seed < 50; ++seed) {
        const auto row = random_blocks<q4_1>(2, seed);
        float expected = 0;
        float unfused = 0;
        float swapped = 0;
        for (std::size_t b = 0; b < 2; ++b) {
            int isum = 0;
            for (std::size_t i = 0; i < 32; ++i) isum += row[b].code(i) * codes[b * 32 + i];
            const volatile float scale = row[b].scale() * scales[b];  // volatile: rounded, and not fused below
            const volatile float minimum = row[b].minimum() * scales[b];
            const auto s = static_cast<float>(isum);
            const auto t = static_cast<float>(sums[b]);
            expected = std::fma(t, minimum, std::fma(s, scale, expected));
            swapped = std::fma(s, scale, std::fma(t, minimum, swapped));
            const volatile float first = s * scale;
            const volatile float second = t * minimum;
            unfused = (unfused + first) + second;
        }
        CHECK(dot_reference(row.data(), activation_view<32>{codes, scales, sums}, k) == expected);
        unfused_differs += unfused != expected;
        order_differs += swapped != expected;
    }
    CHECK(unfused_differs > 0);
    CHECK(order_differs > 0);
}

TEST_CASE("super-blocks: integer scales are multiplied in before the one conversion") {
    const auto x = noise(512, 41);
    std::vector<std::int8_t> codes(512);
    float scales[2];
    std::int16_t sums[32];
    quantise_activations<256>(x.data(), 512, codes.data(), scales, sums);
    for (unsigned seed = 0; seed < 20; ++seed) {
        const auto row = random_blocks<q5_k>(2, seed);
        const auto row6 = random_blocks<q6_k>(2, seed);
        float expected = 0;
        float expected6 = 0;
        for (std::size_t b = 0; b < 2; ++b) {
            std::int64_t isum = 0;
            std::int64_t msum = 0;
            std::int64_t isum6 = 0;
            for (std::size_t i = 0; i < 256; ++i) {
                const int y = codes[b * 256 + i];
                isum += row[b].sub_scale(i / 32) * row[b].code(i) * y;
                msum += row[b].sub_minimum(i / 32) * y;
                isum6 += row6[b].sub_scale(i / 16) * row6[b].code(i) * y;
            }
            expected = std::fma(static_cast<float>(isum), row[b].scale() * scales[b], expected);
            expected = std::fma(-static_cast<float>(msum), row[b].minimum_scale() * scales[b], expected);
            expected6 = std::fma(static_cast<float>(isum6), row6[b].scale() * scales[b], expected6);
        }
        const activation_view<256> y{codes.data(), scales, sums};
        CHECK(dot_reference(row.data(), y, 512) == expected);
        CHECK(dot_reference(row6.data(), y, 512) == expected6);
    }
}

TEST_CASE("integer sums don't overflow at the largest codes and scales") {
    // Under the sanitizers an overflow stops the test.
    std::vector<float> x(256, -1.0f);
    std::vector<std::int8_t> codes(256);
    float scale = 0;
    std::int16_t sums[16];
    quantise_activations<256>(x.data(), 256, codes.data(), &scale, sums);
    const activation_view<256> y{codes.data(), &scale, sums};
    q6_k six{};
    six.d = 0x3c00;
    for (auto& s : six.scales) s = -128;
    CHECK(dot_reference(&six, y, 256) == std::fma(-128.0f * 32 * 127 * 256, scale, 0.0f));
    iq4_xs xs{};
    xs.d = 0x3c00;
    CHECK(dot_reference(&xs, y, 256) == std::fma(-32.0f * 127 * 127 * 256, scale, 0.0f));
}

TEST_CASE("NaN in weights or activations reaches the product") {
    auto x = noise(64, 51);
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
        const auto x = noise(k, 62);
        const float plain = multiply(row, x).got;
        float fused = 0;
        if constexpr (float_format<F>) {
            test_support::with_fma([&] { fused = dot_reference(row.data(), x.data(), k); });
        } else {
            using matrix = activation_matrix<activation_group<F>>;
            auto memory = aligned_buffer::allocate(matrix::bytes(k, 1)).value();
            const auto m = matrix::over(memory.data(), k, 1);
            quantise_column(x.data(), m, 0);
            test_support::with_fma([&] { fused = dot_reference(row.data(), m.column(0), k); });
        }
        CHECK(plain == fused);
    });
}
