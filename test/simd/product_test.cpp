#include <doctest/doctest.h>

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
#include "colibri/quant/reference_dot.hpp"
#include "colibri/quant/rows.hpp"
#include "colibri/simd/product.hpp"
#include "simd/targets.hpp"

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
    else block.d = f32_to_f16(scale(random));
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
        constexpr std::size_t group = F::block_size == 1 ? 32 : F::block_size;
        const bool codes = !quant::float_format<F>;
        auto memory = aligned_buffer::allocate(quant::activation_matrix<group>::bytes(codes ? k : 0, columns)).value();
        const auto quantised = quant::activation_matrix<group>::over(memory.data(), codes ? k : 0, columns);
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
                const double steps = quant::float_format<F> ? double(k) / 16 + 5 : double(k / F::block_size) * 4;  // residuals double the steps
                allowed[c * rows + r] = size * steps * 0x1p-23 + 1e-30;
            }
        }
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
void check_format(std::size_t k, std::size_t rows, std::size_t columns, unsigned threads) {
    const problem<F> p(k, rows, columns, static_cast<unsigned>(k * 31 + rows * 7 + columns));
    INFO(name(F::type), " k=", k, " rows=", rows, " columns=", columns, " threads=", threads);
    thread_pool pool(threads);
    test::on_every_target([&](std::string_view target) {
        const std::size_t stride = rows + 3;
        std::vector<float> out(columns * stride + 1, -7.0f);
        auto x = simd::activations::make(columns, k).value();
        x.assign(p.x.data(), columns, k, k);
        std::vector<std::uint32_t> all(columns);
        std::iota(all.begin(), all.end(), 0u);
        simd::product(p.tensor(), x, out.data(), stride, pool);
        CHECK(p.wrong(out.data(), stride, all, test::is_fused(target)) == 0);
        std::size_t touched = 0;  // nothing is written between the columns or behind the last one
        for (std::size_t i = 0; i < out.size(); ++i) touched += i % stride >= rows || i / stride >= columns ? out[i] != -7.0f : 0;
        CHECK(touched == 0);

        const std::vector<std::uint32_t> some = {static_cast<std::uint32_t>(columns - 1), 0};
        std::fill(out.begin(), out.end(), -7.0f);
        simd::product(p.tensor(), x, std::span(some).first(columns > 1 ? 2 : 1), out.data(), stride, pool);
        CHECK(p.wrong(out.data(), stride, std::span(some).first(columns > 1 ? 2 : 1), test::is_fused(target)) == 0);
    });
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
    const auto check = [&]<std::size_t Group>(std::integral_constant<std::size_t, Group>, std::size_t k, auto&& change) {
        std::vector<float> x(3 * k);
        for (auto& v : x) v = normal(random);
        change(x);
        auto memory = aligned_buffer::allocate(quant::activation_matrix<Group>::bytes(k, 3)).value();
        const auto want = quant::activation_matrix<Group>::over(memory.data(), k, 3);
        for (std::size_t c = 0; c < 3; ++c) quant::quantise_column(x.data() + c * k, want, c);
        thread_pool pool(2);
        std::size_t residuals = 0;
        test::on_every_target([&](std::string_view) {
            auto got = simd::activations::make(3, k).value();
            got.assign(x.data(), 3, k, k);
            const dtype type = Group == 32 ? dtype::q4_0 : dtype::q4_k;
            got.prepare(type, pool);
            simd::product_arguments a;
            got.describe(type, a);
            CHECK(std::memcmp(a.codes, want.codes, 3 * want.code_stride(k)) == 0);
            CHECK(std::memcmp(a.scales, want.scales, 3 * (k / Group) * sizeof(float)) == 0);
            CHECK(std::memcmp(a.sums, want.sums, 3 * (k / want.run) * sizeof(std::int16_t)) == 0);
            REQUIRE(std::memcmp(a.flags, want.flags, 3 * want.flag_stride(k)) == 0);
            for (std::size_t c = 0; c < 3; ++c) {
                const auto column = want.column(c);
                for (std::size_t g = 0; g < k / Group; ++g) {
                    if (!column.has_residual(g)) continue;
                    ++residuals;
                    CHECK(a.residual_scales[c * a.scale_stride + g] == column.residual_scales[g]);
                    CHECK(std::memcmp(a.residual_codes + c * a.code_stride + g * Group, column.residual_codes + g * Group, Group) == 0);
                    constexpr std::size_t runs = Group / quant::activation_matrix<Group>::run;
                    CHECK(std::memcmp(a.residual_sums + c * a.sum_stride + g * runs, column.residual_sums + g * runs,
                                      runs * sizeof(std::int16_t)) == 0);
                }
            }
        });
        return residuals;
    };
    constexpr std::integral_constant<std::size_t, 32> by_32;
    constexpr std::integral_constant<std::size_t, 256> by_256;
    const auto nothing = [](std::vector<float>&) {};
    const auto outliers = [](std::vector<float>& x) {
        for (std::size_t i = 0; i < x.size(); i += 601) x[i] *= 40.0f;
    };
    for (const std::size_t k : std::initializer_list<std::size_t>{32, 96, 576, 2048}) {
        check(by_32, k, nothing);
        CHECK((k < 100 || check(by_32, k, outliers) > 0));
    }
    for (const std::size_t k : std::initializer_list<std::size_t>{256, 1536}) {
        check(by_256, k, nothing);
        CHECK((k < 1000 || check(by_256, k, outliers) > 0));
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
    check(by_32, 1024, special);
    check(by_256, 1024, special);
}
