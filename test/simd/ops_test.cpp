#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "colibri/simd/ops.hpp"
#include "simd/targets.hpp"

namespace {

using namespace colibri;

std::vector<float> numbers(std::size_t n, unsigned seed, float scale = 1.0f) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0.0f, scale);
    std::vector<float> out(n);
    for (auto& v : out) v = normal(random);
    return out;
}

/// Distance of a float to the exact value in units of the float's last place.
double ulps(float got, double exact) {
    const float nearest = static_cast<float>(exact);
    const float size = std::max(std::abs(nearest), std::numeric_limits<float>::min());
    const double ulp = std::nextafter(size, std::numeric_limits<float>::infinity()) - size;
    return std::abs(double(got) - exact) / ulp;
}

constexpr std::size_t sizes[] = {1, 2, 15, 16, 17, 31, 48, 64, 100, 257};

/// Sum of 16 lanes as docs/numerics.md says.
float tree(float (&lanes)[16]) {
    for (std::size_t apart = 8; apart > 0; apart /= 2) {
        for (std::size_t i = 0; i < apart; ++i) lanes[i] += lanes[i + apart];
    }
    return lanes[0];
}

/// Keeps the test's own arithmetic from being fused.
float rounded(float v) {
    volatile float kept = v;
    return kept;
}

using binary = void (*)(const float*, const float*, float*, std::size_t);

/// Runs an operation on every target, in place and not, checks that nothing behind the end is written and that targets with fused
/// multiply-add agree; returns the last fused target's results.
std::vector<float> same_on_fused_targets(binary operation, const std::vector<float>& a, const std::vector<float>& b) {
    const std::size_t n = a.size();
    std::vector<float> first;
    test::on_every_target([&](std::string_view target) {
        std::vector<float> out(n + 1, -9.0f);
        operation(a.data(), b.data(), out.data(), n);
        CHECK(out[n] == -9.0f);
        std::vector<float> in_place = a;
        operation(in_place.data(), b.data(), in_place.data(), n);
        CHECK(std::memcmp(in_place.data(), out.data(), n * sizeof(float)) == 0);
        out.resize(n);
        if (!test::is_fused(target)) return;
        if (first.empty()) first = out;
        CHECK(std::memcmp(first.data(), out.data(), n * sizeof(float)) == 0);
    });
    return first;
}

}  // namespace

TEST_CASE("exp is within 1.1 ulp of the exact value and exact at its ends") {
    std::vector<float> x;
    for (float v = -104.5f; v < 88.7f; v += 0.00371f) x.push_back(v);
    for (std::uint32_t bits = 0x30000000u; bits < 0x3f800000u; bits += 0x2345u) {
        x.push_back(std::bit_cast<float>(bits));
        x.push_back(-std::bit_cast<float>(bits));
    }
    const float infinity = std::numeric_limits<float>::infinity();
    test::on_every_target([&](std::string_view target) {
        std::vector<float> out(x.size());
        simd::exp(x.data(), out.data(), x.size());
        double worst = 0.0;
        for (std::size_t i = 0; i < x.size(); ++i) worst = std::max(worst, ulps(out[i], std::exp(double(x[i]))));
        INFO("worst ", worst, " ulp on ", std::string(target));
        // Without FMA the polynomial's steps round twice.
        CHECK(worst < (test::is_fused(target) ? 1.1 : 1.5));
        const float ends[] = {0.0f, -0.0f, -infinity, -1e30f, -105.0f, infinity, 1e30f, 88.8f, std::nanf("")};
        float got[9];
        simd::exp(ends, got, 9);
        CHECK(got[0] == 1.0f);
        CHECK(got[1] == 1.0f);
        for (int i = 2; i < 5; ++i) CHECK(got[i] == 0.0f);
        for (int i = 5; i < 8; ++i) CHECK(got[i] == infinity);
        CHECK(std::isnan(got[8]));
    });
}

TEST_CASE("tanh is within 2.5 ulp of the exact value, odd, and 1 at infinity") {
    std::vector<float> x;
    for (std::uint32_t bits = 0x00800000u; bits < 0x41400000u; bits += 0x1237u) x.push_back(std::bit_cast<float>(bits));
    test::on_every_target([&](std::string_view target) {
        std::vector<float> out(x.size());
        std::vector<float> minus = x;
        for (auto& v : minus) v = -v;
        simd::tanh(x.data(), out.data(), x.size());
        simd::tanh(minus.data(), minus.data(), x.size());
        double worst = 0.0;
        std::size_t odd = 0;
        for (std::size_t i = 0; i < x.size(); ++i) {
            worst = std::max(worst, ulps(out[i], std::tanh(double(x[i]))));
            odd += minus[i] == -out[i];
        }
        INFO("worst ", worst, " ulp on ", std::string(target));
        CHECK(worst < (test::is_fused(target) ? 2.5 : 3.5));
        CHECK(odd == x.size());
        const float ends[] = {std::numeric_limits<float>::infinity(), -1e20f, 0.0f, std::nanf("")};
        float got[4];
        simd::tanh(ends, got, 4);
        CHECK(got[0] == 1.0f);
        CHECK(got[1] == -1.0f);
        CHECK(got[2] == 0.0f);
        CHECK(std::isnan(got[3]));
    });
}

TEST_CASE("swiglu and geglu") {
    for (const std::size_t n : sizes) {
        const auto gate = numbers(n, 1, 3.0f);
        const auto up = numbers(n, 2);
        const auto silu = same_on_fused_targets(simd::swiglu, gate, up);
        const auto gelu = same_on_fused_targets(simd::geglu, gate, up);
        for (std::size_t i = 0; i < silu.size(); ++i) {
            const double g = gate[i];
            const double u = up[i];
            // A few roundings of 2^-24 each; 1 + tanh cancels for large negative g, so gelu's error is relative to |g * u|.
            CHECK(silu[i] == doctest::Approx(g / (1 + std::exp(-g)) * u).epsilon(1e-6));
            CHECK(std::abs(gelu[i] - g / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (g + 0.044715 * g * g * g))) * u) <= 5e-7 * std::abs(g * u));
        }
    }
    const float far[] = {-200.0f, 200.0f, -1e30f};
    const float one[] = {1.0f, 1.0f, 1.0f};
    test::on_every_target([&](std::string_view) {
        float out[3];
        simd::swiglu(far, one, out, 3);
        CHECK(out[0] == 0.0f);
        CHECK(out[1] == 200.0f);
        CHECK(out[2] == 0.0f);
        simd::geglu(far, one, out, 2);
        CHECK(out[0] == 0.0f);
        CHECK(out[1] == 200.0f);
    });
}

TEST_CASE("add, scale, multiply_add") {
    for (const std::size_t n : sizes) {
        const auto a = numbers(n, 3);
        const auto b = numbers(n, 4);
        const auto sum = same_on_fused_targets(simd::add, a, b);
        for (std::size_t i = 0; i < sum.size(); ++i) CHECK(sum[i] == a[i] + b[i]);
        test::on_every_target([&](std::string_view target) {
            auto scaled = a;
            simd::scale(scaled.data(), 0.3f, n);
            auto mixed = b;
            simd::multiply_add(0.7f, a.data(), mixed.data(), n);
            std::size_t wrong = 0;
            for (std::size_t i = 0; i < n; ++i) {
                wrong += scaled[i] != a[i] * 0.3f;
                wrong += mixed[i] != (test::is_fused(target) ? std::fma(0.7f, a[i], b[i]) : rounded(0.7f * a[i]) + b[i]);
            }
            CHECK(wrong == 0);
        });
    }
}

TEST_CASE("softcap") {
    const auto x = numbers(333, 5, 40.0f);
    test::on_every_target([&](std::string_view) {
        auto out = x;
        simd::softcap(out.data(), 30.0f, out.size());
        // tanh within 3.5 ulp, and two more roundings.
        for (std::size_t i = 0; i < x.size(); ++i) CHECK(out[i] == doctest::Approx(30.0 * std::tanh(x[i] / 30.0)).epsilon(5e-7));
    });
}

TEST_CASE("rms_norm follows its canonical order") {
    for (const std::size_t n : sizes) {
        const auto x = numbers(n, 6);
        const auto weight = numbers(n, 7);
        float lanes[16] = {};
        for (std::size_t i = 0; i < n; ++i) lanes[i % 16] = std::fma(x[i], x[i], lanes[i % 16]);
        const float factor = 1.0f / std::sqrt(tree(lanes) / static_cast<float>(n) + 1e-5f);
        test::on_every_target([&](std::string_view target) {
            std::vector<float> out(n + 1, -9.0f);
            std::vector<float> plain(n);
            simd::rms_norm(x.data(), weight.data(), out.data(), n, 1e-5f);
            simd::rms_norm(x.data(), nullptr, plain.data(), n, 1e-5f);
            CHECK(out[n] == -9.0f);
            std::size_t wrong = 0;
            for (std::size_t i = 0; i < n; ++i) {
                const float want = rounded(x[i] * factor);
                if (test::is_fused(target)) wrong += plain[i] != want || out[i] != want * weight[i];
                // The sum of squares differs in the last places only: n / 16 + 4 roundings, halved by the root.
                else wrong += !(std::abs(out[i] - want * weight[i]) <= std::abs(want * weight[i]) * (float(n) / 32 + 8) * 0x1p-24f);
            }
            CHECK(wrong == 0);
        });
    }
}

TEST_CASE("softmax sums to one, survives large values, agrees on fused targets") {
    for (const std::size_t n : sizes) {
        auto x = numbers(n, 8, 20.0f);
        x[n / 2] += 1000.0f;
        x[n / 3] = x[n / 2] - 2.0f;
        std::vector<float> first;
        test::on_every_target([&](std::string_view target) {
            std::vector<float> out(n);
            simd::softmax(x.data(), out.data(), n);
            double top = -1e30;
            for (const float v : x) top = std::max(top, double(v));
            double sum = 0.0;
            for (const float v : x) sum += std::exp(double(v) - top);
            for (std::size_t i = 0; i < n; ++i) CHECK(out[i] == doctest::Approx(std::exp(double(x[i]) - top) / sum).epsilon(1e-5));
            if (!test::is_fused(target)) return;
            if (first.empty()) first = out;
            CHECK(std::memcmp(first.data(), out.data(), n * sizeof(float)) == 0);
        });
    }
}

TEST_CASE("rope turns pairs, leaves the rest, and rounds as documented") {
    for (const std::size_t rotated : std::initializer_list<std::size_t>{2, 8, 32, 34, 64, 80, 128}) {
        const std::size_t n = rotated + 6;
        const std::size_t pairs = rotated / 2;
        const auto x = numbers(n, 9);
        std::vector<float> cosine(pairs);
        std::vector<float> sine(pairs);
        for (std::size_t i = 0; i < pairs; ++i) {
            cosine[i] = std::cos(0.37f * static_cast<float>(i + 1));
            sine[i] = std::sin(0.37f * static_cast<float>(i + 1));
        }
        test::on_every_target([&](std::string_view target) {
            const auto fused = [&](float a, float b, float c) { return test::is_fused(target) ? std::fma(a, b, c) : rounded(a * b) + c; };
            auto interleaved = x;
            auto halves = x;
            simd::rope_interleaved(interleaved.data(), cosine.data(), sine.data(), rotated);
            simd::rope_halves(halves.data(), cosine.data(), sine.data(), rotated);
            std::size_t wrong = 0;
            for (std::size_t i = 0; i < pairs; ++i) {
                const auto check = [&](const std::vector<float>& out, std::size_t first, std::size_t second) {
                    const float a = x[first];
                    const float b = x[second];
                    wrong += out[first] != fused(a, cosine[i], -rounded(b * sine[i]));
                    wrong += out[second] != fused(b, cosine[i], rounded(a * sine[i]));
                };
                check(interleaved, 2 * i, 2 * i + 1);
                check(halves, i, pairs + i);
            }
            for (std::size_t i = rotated; i < n; ++i) wrong += interleaved[i] != x[i] || halves[i] != x[i];
            CHECK(wrong == 0);
        });
    }
}

TEST_CASE("max and argmax") {
    for (const std::size_t n : sizes) {
        auto x = numbers(n, 10);
        test::on_every_target([&](std::string_view) {
            for (const std::size_t at : {std::size_t{0}, n / 2, n - 1}) {
                auto y = x;
                y[at] = 50.0f;
                CHECK(simd::max(y.data(), n) == 50.0f);
                CHECK(simd::argmax(y.data(), n) == at);
                y[n - 1] = 50.0f;  // the first of equals
                CHECK(simd::argmax(y.data(), n) == at);
            }
        });
    }
    test::on_every_target([&](std::string_view) {
        std::vector<float> x(40, -std::numeric_limits<float>::infinity());
        CHECK(simd::argmax(x.data(), 40) == 0);
        x[30] = -1e30f;
        x[3] = std::nanf("");
        x[35] = std::nanf("");
        CHECK(simd::argmax(x.data(), 40) == 30);
        std::vector<float> nothing(20, std::nanf(""));
        CHECK(simd::argmax(nothing.data(), 20) == 0);
    });
}
