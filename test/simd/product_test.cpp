#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <type_traits>
#include <vector>

#include "colibri/core/buffer.hpp"
#include "colibri/core/half.hpp"
#include "colibri/quant/panel.hpp"
#include "colibri/quant/reference_dot.hpp"
#include "colibri/quant/rows.hpp"
#include "colibri/simd/product.hpp"
#include "simd/targets.hpp"
#include "support/scales.hpp"

namespace {

using namespace colibri;

/// A block of random codes with scales of ordinary size; the integer scales inside super-blocks are random bits too.
template <class F>
F random_block(std::mt19937& random) {
    F block;
    std::uniform_int_distribution<int> byte(0, 255);
    std::uniform_real_distribution<float> scale(0.001f, 0.02f);
    unsigned char bytes[sizeof(F)];
    for (auto& b : bytes) b = static_cast<unsigned char>(byte(random));
    std::memcpy(&block, bytes, sizeof(F));
    if constexpr (F::type == dtype::f32) block.bits = scale(random) * (random() % 2 == 0 ? 1.0f : -1.0f);
    else if constexpr (F::type == dtype::f16) block.bits = f32_to_f16(scale(random) * (random() % 2 == 0 ? 1.0f : -1.0f));
    else if constexpr (F::type == dtype::bf16) block.bits = f32_to_bf16(scale(random) * (random() % 2 == 0 ? 1.0f : -1.0f));
    else if constexpr (F::type == dtype::mxfp4) block.e = static_cast<std::uint8_t>(random() % 32 == 0 ? random() % 4 : 118 + random() % 6);
    else test_support::set_scale(block, f32_to_f16(scale(random)));
    if constexpr (requires { block.m; }) block.m = f32_to_f16(-scale(random) * 8);
    if constexpr (requires { block.dmin; }) block.dmin = f32_to_f16(scale(random));
    return block;
}

template <class F>
struct problem {
    std::size_t k = 0;
    std::size_t rows = 0;
    std::size_t columns = 0;
    std::vector<F> weights;
    std::vector<float> x;
    std::vector<float> expected;   ///< the scalar reference, fused
    std::vector<double> allowed;   ///< bound of the error of targets without fused multiply-add

    problem(std::size_t k_, std::size_t rows_, std::size_t columns_, unsigned seed) : k(k_), rows(rows_), columns(columns_) {
        std::mt19937 random(seed);
        std::normal_distribution<float> normal;
        weights.resize(rows * k / F::block_size);
        for (auto& block : weights) block = random_block<F>(random);
        x.resize(columns * k);
        for (auto& v : x) v = normal(random);
        for (std::size_t i = 0; i < x.size(); i += 1 + random() % 300) x[i] *= 25.0f;  // groups that get a residual
        if (columns > 1) std::fill_n(x.begin(), k / 2, 0.0f);  // groups without any scale
        expected.resize(rows * columns);
        allowed.resize(rows * columns);
        std::vector<float> row(k);
        const bool codes = !quant::float_format<F>;
        auto memory = aligned_buffer::allocate(quant::activation_matrix::bytes(codes ? k : 0, columns)).value();
        const auto quantised = quant::activation_matrix::over(memory.data(), codes ? k : 0, columns);
        for (std::size_t c = 0; c < columns && codes; ++c) quant::quantise_column(x.data() + c * k, quantised, c);
        for (std::size_t r = 0; r < rows; ++r) {
            const F* first = weights.data() + r * k / F::block_size;
            quant::decode_row(first, k, row.data());
            for (std::size_t c = 0; c < columns; ++c) {
                const float* column = x.data() + c * k;
                double size = 0.0;
                // What is summed in float: the products, and with minimums two terms of either sign per block. Their sizes are
                // bounded by |scale| * max code * |y|; the decoded weights' own size falls short of that only by the minimum.
                for (std::size_t i = 0; i < k; ++i) size += std::abs(double(row[i]) * double(column[i]));
                if constexpr (quant::float_format<F>) {
                    expected[c * rows + r] = quant::dot_reference(first, column, k);
                } else {
                    expected[c * rows + r] = quant::dot_reference(first, quantised.column(c), k);
                    for (std::size_t b = 0; b < k / F::block_size; ++b) {
                        double minimum = 0.0;
                        if constexpr (quant::super_minimum_format<F>) minimum = std::abs(double(first[b].minimum_scale())) * 63;
                        else if constexpr (quant::minimum_format<F>) minimum = std::abs(double(first[b].minimum()));
                        for (std::size_t i = b * F::block_size; i < (b + 1) * F::block_size; ++i) size += minimum * std::abs(double(column[i]));
                    }
                }
                // One more rounding for every block's product (float formats: for every weight), each half an ulp of a
                // partial sum that is at most `size`; twice that for safety against the rounding of the sums themselves.
                const double steps = quant::float_format<F> ? double(k) / 16 + 5 : double(k / 16) * 4;  // residuals double the steps
                allowed[c * rows + r] = size * steps * 0x1p-23 + 1e-30;
            }
        }
    }

    /// The weights as panels in `memory`, which is allocated.
    [[nodiscard]] tensor_ref panels(aligned_buffer& memory) const {
        const auto dims = shape::make({k, rows}).value();
        memory = aligned_buffer::allocate(tensor_ref::panels_bytes(F::type, dims).value()).value();
        const std::size_t size = quant::panel_bytes(F::type, k);
        const std::size_t row = k / F::block_size * sizeof(F);
        for (std::size_t r = 0; r < rows; r += 16) {
            quant::pack_panel(F::type, std::as_bytes(std::span(weights)).data() + r * row, row, std::min<std::size_t>(16, rows - r), k,
                              memory.data() + r / 16 * size);
        }
        return tensor_ref::make_panels(F::type, dims, {memory.data(), memory.size()}).value();
    }

    [[nodiscard]] tensor_ref tensor() const {
        const auto dims = shape::make({k, rows}).value();
        return tensor_ref::make(F::type, dims, std::as_bytes(std::span(weights))).value();
    }

    /// Number of results that differ from what they must be.
    std::size_t wrong(const float* out, std::size_t stride, std::span<const std::uint32_t> chosen, bool fused) const {
        std::size_t bad = 0;
        for (std::size_t j = 0; j < chosen.size(); ++j) {
            for (std::size_t r = 0; r < rows; ++r) {
                const float got = out[j * stride + r];
                const float want = expected[chosen[j] * rows + r];
                if (fused) bad += std::bit_cast<std::uint32_t>(got) != std::bit_cast<std::uint32_t>(want);
                else bad += !(std::abs(double(got) - double(want)) <= allowed[chosen[j] * rows + r]);
            }
        }
        return bad;
    }
};

template <class F>
void check_weights(const problem<F>& p, const tensor_ref& weights, thread_pool& pool) {
    const std::size_t columns = p.columns;
    test::on_every_target([&](std::string_view target) {
        const std::size_t stride = p.rows + 3;
        std::vector<float> out(columns * stride + 1, -7.0f);
        auto x = simd::activations::make(columns, p.k).value();
        x.assign(p.x.data(), columns, p.k, p.k);
        std::vector<std::uint32_t> all(columns);
        std::iota(all.begin(), all.end(), 0u);
        simd::product(weights, x, out.data(), stride, pool);
        CHECK(p.wrong(out.data(), stride, all, test::is_fused(target)) == 0);
        std::size_t touched = 0;  // nothing is written between the columns or behind the last one
        for (std::size_t i = 0; i < out.size(); ++i) touched += i % stride >= p.rows || i / stride >= columns ? out[i] != -7.0f : 0;
        CHECK(touched == 0);

        // Some columns only, then others: what was found out about the first must not be used for the second.
        for (const std::size_t wanted : {std::size_t{2}, columns / 2 + 1}) {
            std::vector<std::uint32_t> some(all.rbegin(), all.rbegin() + static_cast<std::ptrdiff_t>(std::min(wanted, columns)));
            std::fill(out.begin(), out.end(), -7.0f);
            simd::product(weights, x, some, out.data(), stride, pool);
            CHECK(p.wrong(out.data(), stride, some, test::is_fused(target)) == 0);
        }
        simd::product(weights, x, out.data(), stride, pool);
        CHECK(p.wrong(out.data(), stride, all, test::is_fused(target)) == 0);
    });
}

template <class F>
void check_format(std::size_t k, std::size_t rows, std::size_t columns, unsigned threads) {
    const problem<F> p(k, rows, columns, static_cast<unsigned>(k * 31 + rows * 7 + columns));
    INFO(name(F::type), " k=", k, " rows=", rows, " columns=", columns, " threads=", threads);
    thread_pool pool(threads);
    check_weights(p, p.tensor(), pool);
    if constexpr (quant::code_format<F>) {
        INFO("panels");
        aligned_buffer memory;
        check_weights(p, p.panels(memory), pool);
    }
}

}  // namespace

TEST_CASE("products of every format equal the scalar reference on every target") {
    quant::for_each_format(quant::weight_formats{}, [&]<class F>(std::type_identity<F>) {
        if (F::block_size <= 32) {
            for (const std::size_t k : std::initializer_list<std::size_t>{32, 96, 576, 640}) check_format<F>(k, 21, 1, 1);
            check_format<F>(576, 37, 9, 2);
            check_format<F>(160, 3, 2, 1);
        }
        if (F::block_size == 1) {
            for (const std::size_t k : std::initializer_list<std::size_t>{1, 7, 17, 50}) check_format<F>(k, 5, 3, 1);
        }
        if (F::block_size == 64) {
            for (const std::size_t k : std::initializer_list<std::size_t>{64, 192, 576, 832}) check_format<F>(k, 21, 1, 1);
            check_format<F>(576, 37, 9, 2);
        }
        if (F::block_size == 128) {
            for (const std::size_t k : std::initializer_list<std::size_t>{128, 384}) check_format<F>(k, 21, 1, 1);
            check_format<F>(640, 37, 9, 2);
        }
        check_format<F>(256, 64, 1, 2);
        check_format<F>(768, 50, 7, 2);
        check_format<F>(512, 17, 4, 1);
        check_format<F>(512, 33, 13, 2);
        check_format<F>(256, 1, 1, 1);
    });
}

TEST_CASE("a group of products shares one quantisation and gives each job its own result") {
    const problem<quant::q4_k> a(512, 40, 3, 1);
    const problem<quant::q6_k> b(512, 23, 3, 2);
    const problem<quant::q8_0> c(512, 70, 3, 3);
    thread_pool pool(2);
    test::on_every_target([&](std::string_view target) {
        std::vector<float> out_a(40 * 3), out_b(23 * 3), out_c(70 * 3);
        auto x = simd::activations::make(3, 512).value();
        x.assign(a.x.data(), 3, 512, 512);
        const simd::product_job jobs[] = {
            {a.tensor(), out_a.data(), 40}, {b.tensor(), out_b.data(), 23}, {c.tensor(), out_c.data(), 70}};
        simd::products(jobs, x, pool);
        std::vector<float> alone(70 * 3);
        const simd::product_job* job = jobs;
        for (const auto* out : {&out_a, &out_b, &out_c}) {
            auto fresh = simd::activations::make(3, 512).value();
            fresh.assign(a.x.data(), 3, 512, 512);
            simd::product(job->w, fresh, alone.data(), job->out_stride, pool);
            CHECK(std::memcmp(alone.data(), out->data(), out->size() * sizeof(float)) == 0);
            ++job;
        }
        const std::uint32_t all[] = {0, 1, 2};
        CHECK(a.wrong(out_a.data(), 40, all, test::is_fused(target)) == 0);
    });
}

TEST_CASE("the bits of a product don't depend on threads or on the number of columns") {
    const problem<quant::q5_k> p(1024, 300, 20, 5);
    test::on_every_target([&](std::string_view) {
        auto x = simd::activations::make(20, 1024).value();
        std::vector<float> many(300 * 20);
        thread_pool two(2);
        x.assign(p.x.data(), 20, 1024, 1024);
        simd::product(p.tensor(), x, many.data(), 300, two);
        thread_pool one(1);
        std::size_t different = 0;
        for (std::size_t c = 0; c < 20; ++c) {
            std::vector<float> single(300);
            x.assign(p.x.data() + c * 1024, 1, 1024, 1024);
            simd::product(p.tensor(), x, single.data(), 300, one);
            different += std::memcmp(single.data(), many.data() + c * 300, 300 * sizeof(float)) != 0;
        }
        CHECK(different == 0);
    });
}

TEST_CASE("a NaN among the activations makes the results NaN") {
    const problem<quant::q4_0> p(64, 8, 1, 9);
    auto values = p.x;
    values[40] = std::numeric_limits<float>::quiet_NaN();
    thread_pool pool(1);
    test::on_every_target([&](std::string_view) {
        auto x = simd::activations::make(1, 64).value();
        x.assign(values.data(), 1, 64, 64);
        std::vector<float> out(8);
        simd::product(p.tensor(), x, out.data(), 8, pool);
        for (const float v : out) CHECK(std::isnan(v));
    });
}

TEST_CASE("activations refuse what memory can't hold") {
    const auto huge = simd::activations::make(std::size_t{1} << 40, std::size_t{1} << 40);
    REQUIRE(!huge);
    CHECK(huge.error().code == errc::overflow);
}

TEST_CASE("activations are quantised to the bytes of the scalar reference") {
    std::mt19937 random(11);
    std::normal_distribution<float> normal;
    const auto check = [&](std::size_t k, auto&& change) {
        std::vector<float> x(3 * k);
        for (auto& v : x) v = normal(random);
        change(x);
        auto memory = aligned_buffer::allocate(quant::activation_matrix::bytes(k, 3)).value();
        const auto want = quant::activation_matrix::over(memory.data(), k, 3);
        for (std::size_t c = 0; c < 3; ++c) quant::quantise_column(x.data() + c * k, want, c);
        thread_pool pool(2);
        std::size_t residuals = 0;
        test::on_every_target([&](std::string_view) {
            auto got = simd::activations::make(3, k).value();
            got.assign(x.data(), 3, k, k);
            got.prepare(dtype::q4_0, pool);
            simd::product_arguments a;
            got.describe(dtype::q4_0, a);
            for (std::size_t c = 0; c < 3; ++c) {
                const auto wanted = want.column(c);
                const auto column = a.activations.column(c);
                const auto same = [](const quant::activation_plane& one, const quant::activation_plane& other, std::size_t g, std::size_t n) {
                    return std::memcmp(one.codes + g * 32, other.codes + g * 32, n * 32) == 0 &&
                           std::memcmp(one.scales + g, other.scales + g, n * sizeof(float)) == 0 &&
                           std::memcmp(one.weighted + g, other.weighted + g, n * sizeof(float)) == 0 &&
                           std::memcmp(one.sums + g * 2, other.sums + g * 2, n * 2 * sizeof(std::int16_t)) == 0;
                };
                CHECK(same(column.plane, wanted.plane, 0, k / 32));
                for (std::size_t i = k; i < want.stride.codes; ++i) CHECK(column.plane.codes[i] == 0);
                REQUIRE(std::memcmp(column.flags, wanted.flags, want.stride.flags) == 0);
                for (std::size_t g = 0; g < k / 32; ++g) {
                    if (!wanted.has_residual(g)) continue;
                    ++residuals;
                    CHECK(same(column.residual, wanted.residual, g, 1));
                }
            }
        });
        return residuals;
    };
    const auto nothing = [](std::vector<float>&) {};
    const auto outliers = [](std::vector<float>& x) {
        for (std::size_t i = 0; i < x.size(); i += 601) x[i] *= 40.0f;
    };
    for (const std::size_t k : std::initializer_list<std::size_t>{32, 96, 576, 2048}) {
        check(k, nothing);
        CHECK((k < 100 || check(k, outliers) > 0));
    }
    const auto special = [](std::vector<float>& x) {
        const float infinity = std::numeric_limits<float>::infinity();
        std::fill_n(x.begin(), 300, 0.0f);
        std::fill_n(x.begin() + 600, 40, -0.0f);
        x[700] = 1e-38f;          // with zeros around: a scale that would be subnormal
        x[1300] = infinity;
        x[1700] = std::nanf("");
        x[1900] = 3e38f;
        x[2000] = 127.0f;         // ties: d = 1
        for (std::size_t i = 2016; i < 2048; ++i) x[i] = static_cast<float>(i) - 2031.5f;
        x[2016] = 127.0f;
        std::fill_n(x.begin() + 640, 64, 0.0f);
        x[650] = -1e-38f;
    };
    check(1024, special);
}
