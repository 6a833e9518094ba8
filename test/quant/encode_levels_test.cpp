#include "colibri/quant/encode_levels.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "colibri/core/half.hpp"
#include "colibri/quant/encode_tensor.hpp"
#include "support/encode_levels.hpp"
#include "support/random_values.hpp"

using namespace colibri;
using namespace colibri::quant;
using colibri::quant::detail::encode_level;

namespace {

template <class F>
bool same(const std::vector<F>& a, const std::vector<F>& b) {
    return std::memcmp(a.data(), b.data(), a.size() * sizeof(F)) == 0;
}

}  // namespace

TEST_CASE("all levels encode to the same bytes") {
    for_each_format(weight_formats{}, []<class F>(std::type_identity<F>) {
        if constexpr (requires { colibri::quant::detail::baseline::search_shape<F>::kind; }) {
            CAPTURE(std::string(name(F::type)));
            const std::size_t blocks = 37;  // no whole number of batches
            auto x = test_support::bell_values(blocks * F::block_size, 21);
            for (std::size_t i = 0; i < F::block_size; ++i) x[i] = 0.0f;
            x[2 * F::block_size + 3] = std::numeric_limits<float>::infinity();
            x[3 * F::block_size] = 3e38f;
            const auto noise = test_support::bell_values(x.size(), 22);
            std::vector<float> w(x.size());
            for (std::size_t i = 0; i < w.size(); ++i) w[i] = noise[i] * noise[i];
            for (const float* importance : {static_cast<const float*>(nullptr), static_cast<const float*>(w.data())}) {
                std::vector<F> expected(blocks);
                colibri::quant::detail::search_blocks(x.data(), importance, blocks, expected.data(), encode_level::baseline);
                for (const auto level : test_support::encode_levels()) {
                    std::vector<F> made(blocks);
                    colibri::quant::detail::search_blocks(x.data(), importance, blocks, made.data(), level);
                    CHECK(same(made, expected));
                }
            }
        }
        if constexpr (encodable_format<F>) {
            CAPTURE(std::string(name(F::type)));
            const std::size_t blocks = 9;
            const auto x = test_support::bell_values(blocks * F::block_size, 23);
            std::vector<F> expected(blocks);
            for (std::size_t b = 0; b < blocks; ++b) expected[b] = F::encode(x.data() + b * F::block_size);
            for (const auto level : test_support::encode_levels()) {
                std::vector<F> made(blocks);
                colibri::quant::detail::encode_each(x.data(), blocks, made.data(), level);
                CHECK(same(made, expected));
            }
        }
    });
}

TEST_CASE("half floats become floats at every level as one by one") {
    std::vector<std::byte> in(2 * 65536 + 1);
    for (std::size_t i = 0; i < 65536; ++i) {
        const auto bits = static_cast<std::uint16_t>(i);
        std::memcpy(in.data() + 1 + 2 * i, &bits, sizeof bits);
    }
    for (const auto level : test_support::encode_levels()) {
        for (const std::size_t n : {std::size_t{65536}, std::size_t{65535}, std::size_t{7}, std::size_t{0}}) {
            std::vector<float> out(n + 1, 5.0f);
            colibri::quant::detail::widen_halves(in.data() + 1, n, out.data(), level);
            std::size_t unlike = 0;
            for (std::size_t i = 0; i < n; ++i) {
                const float expected = f16_to_f32(static_cast<std::uint16_t>(i));
                unlike += std::bit_cast<std::uint32_t>(out[i]) != std::bit_cast<std::uint32_t>(expected);
            }
            CHECK(unlike == 0);
            CHECK(out[n] == 5.0f);  // and nothing behind them
        }
    }
}

TEST_CASE("the largest magnitude is found at every level and every place") {
    for (const auto level : test_support::encode_levels()) {
        for (const std::size_t n : {std::size_t{1}, std::size_t{31}, std::size_t{32}, std::size_t{75}}) {
            for (std::size_t at = 0; at < n; ++at) {
                std::vector<float> x(n, 1.0f);
                x[at] = -2.5f;
                CHECK(colibri::quant::detail::largest_bits(x.data(), n, level) == std::bit_cast<std::uint32_t>(2.5f));
                x[at] = -std::numeric_limits<float>::quiet_NaN();
                CHECK(colibri::quant::detail::largest_bits(x.data(), n, level) > colibri::quant::detail::infinity_bits);
            }
        }
        CHECK(colibri::quant::detail::largest_bits(nullptr, 0, level) == 0);
    }
}
