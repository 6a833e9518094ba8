#include "colibri/quant/activation.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "colibri/core/buffer.hpp"
#include "colibri/quant/format_list.hpp"
#include "support/fma.hpp"
#include "support/random_values.hpp"

using namespace colibri;
using namespace colibri::quant;

namespace {

template <std::size_t Group>
struct column {
    explicit column(const std::vector<float>& x)
        : codes(x.size()), scales(x.size() / Group), sums(x.size() / activation_run) {
        quantise_values<Group>(x.data(), x.size(), codes.data(), scales.data(), sums.data());
    }
    std::vector<std::int8_t> codes;
    std::vector<float> scales;
    std::vector<std::int16_t> sums;
};

template <std::size_t Group>
void check_codes(const std::vector<float>& x) {
    const column<Group> y(x);
    for (std::size_t g = 0; g < x.size() / Group; ++g) {
        float top = 0;
        for (std::size_t i = 0; i < Group; ++i) top = std::max(top, std::abs(x[g * Group + i]));
        const volatile float d = top / 127.0f;  // volatile: rounded at each step, whatever this build's flags are
        const volatile float inverse = 1.0f / d;
        CHECK(y.scales[g] == d);
        for (std::size_t i = 0; i < Group; ++i) {
            const volatile float scaled = x[g * Group + i] * inverse;
            if (y.codes[g * Group + i] != std::nearbyint(scaled)) FAIL_CHECK("group " << g << ", value " << i);
        }
    }
    constexpr std::size_t run = activation_run;
    for (std::size_t r = 0; r < y.sums.size(); ++r) {
        int sum = 0;
        for (std::size_t i = 0; i < run; ++i) sum += y.codes[r * run + i];
        CHECK(y.sums[r] == sum);
    }
}

}  // namespace

TEST_CASE("codes are x times the rounded reciprocal of the scale, to the nearest, ties to even") {
    check_codes<32>(test_support::uniform_values(576, 1));
    check_codes<256>(test_support::uniform_values(1024, 2));
}

TEST_CASE("the compiler's fusing doesn't change activations") {
    if (!test_support::has_fma()) {
        MESSAGE("not run: this CPU has no FMA");
        return;
    }
    // Values whose product with the reciprocal lies at a tie or one rounding beside it: a fused sum would move some of
    // them.
    auto x = test_support::uniform_values(256 * 64, 3);
    std::size_t touchy = 0;
    for (std::size_t g = 0; g < x.size() / 32; ++g) {
        float* group = x.data() + g * 32;
        group[0] = 1.6f + group[0] * 0.01f;
        const float inverse = 1.0f / (group[0] / 127.0f);
        for (std::size_t i = 1; i < 32; ++i) {
            group[i] = (static_cast<float>(i * 3) + 0.5f) / inverse;
            const volatile float product = group[i] * inverse;
            touchy += std::fma(group[i], inverse, 0x1.8p23f) - 0x1.8p23f != std::nearbyint(product);
        }
    }
    CHECK(touchy > 0);
    check_codes<32>(x);
    const column<32> plain(x);
    std::vector<std::int8_t> codes(x.size());
    std::vector<float> scales(x.size() / 32);
    std::vector<std::int16_t> sums(x.size() / 16);
    test_support::with_fma([&] { quantise_values<32>(x.data(), x.size(), codes.data(), scales.data(), sums.data()); });
    CHECK(plain.codes == codes);
    CHECK(plain.scales == scales);
    CHECK(plain.sums == sums);
}

TEST_CASE("ties go to the even code") {
    std::vector<float> x(32, 0.0f);
    x[0] = 127.0f;  // scale 1
    x[1] = 0.5f;
    x[2] = 1.5f;
    x[3] = -2.5f;
    x[4] = -126.5f;
    const column<32> y(x);
    CHECK(y.scales[0] == 1.0f);
    CHECK(int(y.codes[1]) == 0);
    CHECK(int(y.codes[2]) == 2);
    CHECK(int(y.codes[3]) == -2);
    CHECK(int(y.codes[4]) == -126);
    CHECK(y.sums[0] == 127 + 0 + 2 - 2 - 126);
}

TEST_CASE("a code is at most half a step off") {
    const auto x = test_support::uniform_values(256 * 40, 4);
    const column<256> y(x);
    for (std::size_t i = 0; i < x.size(); ++i) {
        const double d = y.scales[i / 256];
        // Half a step, and the roundings of the scale, its reciprocal and the product: 3 times 2^-24 of at most 127
        // steps.
        CHECK(std::abs(x[i] - d * y.codes[i]) <= d * (0.5 + 127 * 3 * 0x1p-24));
    }
}

TEST_CASE("groups whose scale would be subnormal are zero, and no other") {
    std::vector<float> x(64, 0.0f);
    x[3] = -0x1p-126f * 127.0f;  // scale 2^-126: the least that is kept
    x[40] = std::nextafter(0x1p-126f * 127.0f, 0.0f) * 0.99f;
    const column<32> y(x);
    CHECK(y.scales[0] == 0x1p-126f);
    CHECK(int(y.codes[3]) == -127);
    CHECK(y.scales[1] == 0.0f);
    CHECK(int(y.codes[40]) == 0);
    CHECK(y.sums[1] == 0);
}

TEST_CASE("a zero group is zero; the largest floats are no special case") {
    std::vector<float> x(64, 0.0f);
    x[1] = -0.0f;
    x[32] = std::numeric_limits<float>::max();
    x[33] = std::numeric_limits<float>::lowest();
    const column<32> y(x);
    CHECK(y.scales[0] == 0.0f);
    CHECK(std::isfinite(y.scales[1]));
    CHECK(int(y.codes[32]) == 127);
    CHECK(int(y.codes[33]) == -127);
}

TEST_CASE("an infinity or a NaN makes the scale of its group NaN and leaves the others alone") {
    for (const float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN()}) {
        auto x = test_support::uniform_values(96, 5);
        x[50] = bad;
        const column<32> y(x);
        CHECK(std::isfinite(y.scales[0]));
        CHECK(std::isnan(y.scales[1]));
        CHECK(std::isfinite(y.scales[2]));
        for (std::size_t i = 32; i < 64; ++i) CHECK(int(y.codes[i]) == 0);
        CHECK((y.sums[2] == 0 && y.sums[3] == 0));
    }
}

TEST_CASE("a matrix of columns lies inside its bytes, without overlaps, padded with zeros") {
    for (const std::size_t k : {std::size_t{32}, std::size_t{96}, std::size_t{576}, std::size_t{640}}) {
        CAPTURE(k);
        const std::size_t n = 3;
        using matrix = activation_matrix;
        auto memory = aligned_buffer::allocate(matrix::bytes(k, n)).value();
        std::memset(memory.data(), 0x55, memory.size());
        const matrix m = matrix::over(memory.data(), k, n);
        CHECK(m.k == k);
        CHECK(m.columns == n);
        std::vector<std::vector<float>> x;
        for (std::size_t c = 0; c < n; ++c) {
            x.push_back(test_support::uniform_values(k, static_cast<unsigned>(100 + c)));
            quantise_column(x[c].data(), m, c);
        }
        for (std::size_t c = 0; c < n; ++c) {
            const column<32> alone(x[c]);
            const auto view = m.column(c).plane;
            CHECK(reinterpret_cast<std::uintptr_t>(view.codes) % 64 == 0);
            CHECK(std::memcmp(view.codes, alone.codes.data(), k) == 0);
            CHECK(std::memcmp(view.scales, alone.scales.data(), alone.scales.size() * sizeof(float)) == 0);
            CHECK(std::memcmp(view.sums, alone.sums.data(), alone.sums.size() * sizeof(std::int16_t)) == 0);
            for (std::size_t g = 0; g < k / 32; ++g) {
                const volatile float weighted = alone.scales[g] * static_cast<float>(alone.sums[2 * g] + alone.sums[2 * g + 1]);
                CHECK(view.weighted[g] == weighted);
            }
            for (std::size_t i = k; i < m.stride.codes; ++i) CHECK(int(view.codes[i]) == 0);
            CHECK(reinterpret_cast<const std::byte*>(view.sums + alone.sums.size()) <= memory.data() + memory.size());
        }
    }
}

TEST_CASE("a Q8_K block is quantised as activations are, per 256") {
    auto x = test_support::uniform_values(512, 6);
    const column<256> y(x);
    for (std::size_t b = 0; b < 2; ++b) {
        const q8_k block = q8_k::encode(x.data() + b * 256);
        CHECK(block.d == y.scales[b]);
        CHECK(std::memcmp(block.qs, y.codes.data() + b * 256, 256) == 0);
        CHECK(std::memcmp(block.bsums, y.sums.data() + b * 16, sizeof block.bsums) == 0);
    }
}

// Also at compile time.
static_assert([] {
    float x[32] = {};
    x[0] = -127.0f;
    x[9] = 3.5f;
    std::int8_t codes[32] = {};
    float scale = 0;
    float weighted = 0;
    std::int16_t sums[2] = {};
    quantise_activations(x, 32, {codes, &scale, &weighted, sums});
    return scale == 1.0f && codes[0] == -127 && codes[9] == 4 && sums[0] == -123 && sums[1] == 0 && weighted == -123.0f;
}());

namespace {

struct residual_column {
    explicit residual_column(const std::vector<float>& x)
        : memory(aligned_buffer::allocate(activation_matrix::bytes(x.size(), 2)).value()),
          matrix(activation_matrix::over(memory.data(), x.size(), 2)) {
        quantise_column(x.data(), matrix, 1);
        view = matrix.column(1);
    }
    /// Value i as products see it.
    [[nodiscard]] double value(std::size_t i) const {
        double out = static_cast<double>(view.plane.scales[i / 32]) * view.plane.codes[i];
        if (view.has_residual(i / 32)) out += static_cast<double>(view.residual.scales[i / 32]) * view.residual.codes[i];
        return out;
    }
    aligned_buffer memory;
    activation_matrix matrix;
    activation_view view{};
};

void check_residuals(std::size_t k, std::size_t outlier) {
    CAPTURE(k);
    auto x = test_support::uniform_values(k, 71);
    x[outlier] = 40.0f;
    const residual_column y(x);
    float scale_sum = 0.0f;
    for (std::size_t g = 0; g < k / 32; ++g) scale_sum += y.view.plane.scales[g];
    const float limit = residual_threshold * scale_sum;
    for (std::size_t g = 0; g < k / 32; ++g) {
        CHECK(y.view.has_residual(g) == (y.view.plane.scales[g] * static_cast<float>(k / 32) > limit));
    }
    CHECK(y.view.has_residual(outlier / 32));
    const std::size_t begin = outlier / 32 * 32;
    for (std::size_t i = begin; i < begin + 32; ++i) {
        // The rest is at most half a step, 40 / 127 / 2; its own step is a 127th of that.
        CHECK(std::abs(y.value(i) - x[i]) <= 40.0 / 127 / 2 / 127 / 2 * 1.001);
    }
    for (std::size_t r = begin / 16; r < begin / 16 + 2; ++r) {
        int sum = 0;
        for (std::size_t i = 0; i < 16; ++i) sum += y.view.residual.codes[r * 16 + i];
        CHECK(int(y.view.residual.sums[r]) == sum);
    }
}

}  // namespace

TEST_CASE("a group whose scale is over a fraction of the mean has a residual, others have none") {
    check_residuals(576, 100);
    check_residuals(576, 575);  // in the last chunk, which isn't whole
    check_residuals(4096, 3000);
    auto mixed = test_support::uniform_values(1024, 72);
    for (std::size_t i = 0; i < 512; ++i) mixed[i] *= 0.03f;  // half of the groups are below the mean
    const residual_column y(mixed);
    for (std::size_t g = 0; g < 32; ++g) CHECK(y.view.has_residual(g) == (g >= 16));
}

TEST_CASE("columns whose scales are all alike have no residuals") {
    const auto flat = test_support::uniform_values(4096, 73);
    const residual_column y(flat);
    for (std::size_t g = 0; g < 128; ++g) CHECK(!y.view.has_residual(g));
    // Just above the limit: sixteen groups of scale 1 and one of 1.9 (mean 1.053, times residual_peak 1.84).
    const float scales[] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1.9f};
    CHECK(residual_limit(scales, 17) == residual_threshold * 17.9f);
    const float even[] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1.8f};
    CHECK(residual_limit(even, 17) == std::numeric_limits<float>::infinity());
}

TEST_CASE("residuals: zeros, exact values and NaN have none") {
    CHECK(!residual_column(std::vector<float>(512, 0.0f)).view.has_residual(3));
    std::vector<float> exact(512, 0.0f);
    exact[5] = 127.0f;  // a large scale, and nothing left
    CHECK(!residual_column(exact).view.has_residual(0));
    auto broken = test_support::uniform_values(512, 74);
    broken[0] = 1000.0f;
    broken[400] = std::numeric_limits<float>::quiet_NaN();
    for (std::size_t g = 0; g < 16; ++g) CHECK(!residual_column(broken).view.has_residual(g));
}
