#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "colibri/quant/rows.hpp"
#include "colibri/simd/attention.hpp"
#include "colibri/simd/ops.hpp"
#include "simd/targets.hpp"

namespace {

using namespace colibri;

constexpr dtype kv_formats[] = {dtype::f32, dtype::f16, dtype::bf16, dtype::q8_0, dtype::q4_0};

std::vector<float> numbers(std::size_t n, unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    std::vector<float> out(n);
    for (auto& v : out) v = normal(random);
    return out;
}

/// Rows in a format, and the values that they hold.
struct rows {
    std::size_t width;
    std::size_t row_bytes;
    std::vector<std::byte> bytes;
    std::vector<float> values;

    rows(dtype type, std::size_t count, std::size_t width_, unsigned seed) : width(width_) {
        row_bytes = quant::row_bytes(type, width).value();
        bytes.resize(count * row_bytes);
        values.resize(count * width);
        const auto in = numbers(count * width, seed);
        for (std::size_t j = 0; j < count; ++j) {
            simd::store_row(type, in.data() + j * width, bytes.data() + j * row_bytes, width);
            const auto row = std::span(bytes).subspan(j * row_bytes, row_bytes);
            quant::decode_row(type, row, std::span(values).subspan(j * width, width)).value();
        }
    }
};

float tree(float (&lanes)[16]) {
    for (std::size_t apart = 8; apart > 0; apart /= 2) {
        for (std::size_t i = 0; i < apart; ++i) lanes[i] += lanes[i + apart];
    }
    return lanes[0];
}

float dot(const float* a, const float* b, std::size_t n) {
    float lanes[16] = {};
    for (std::size_t i = 0; i < n; ++i) lanes[i % 16] = std::fma(b[i], a[i], lanes[i % 16]);
    return tree(lanes);
}

bool same(float a, float b) { return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b); }

/// Attention over all positions in double precision.
std::vector<double> exact(const simd::attention_query& q, const rows& keys, const rows& values, std::size_t count) {
    std::vector<double> out(q.heads * q.head_v);
    for (std::size_t h = 0; h < q.heads; ++h) {
        std::vector<double> scores(count);
        double top = -1e300;
        for (std::size_t j = 0; j < count; ++j) {
            for (std::size_t d = 0; d < q.head_k; ++d) scores[j] += double(q.queries[h * q.head_k + d]) * keys.values[j * q.head_k + d];
            scores[j] *= q.scale;
            if (q.softcap > 0) scores[j] = q.softcap * std::tanh(scores[j] / q.softcap);
            top = std::max(top, scores[j]);
        }
        double sum = 0.0;
        for (auto& s : scores) sum += s = std::exp(s - top);
        for (std::size_t d = 0; d < q.head_v; ++d) {
            for (std::size_t j = 0; j < count; ++j) out[h * q.head_v + d] += scores[j] * values.values[j * q.head_v + d] / sum;
        }
    }
    return out;
}

/// Attention over `count` positions, span by span.
std::vector<float> attend(const simd::attention_query& q, dtype k, const rows& keys, dtype v, const rows& values, std::size_t count) {
    std::vector<float> out(q.heads * q.head_v, -1.0f);
    std::vector<float> scratch(simd::attention_scratch_floats(q.heads, q.head_v));
    simd::attention_state state(q, out.data(), scratch.data());
    for (std::size_t begin = 0; begin < count; begin += simd::attention_span) {
        const std::size_t n = std::min<std::size_t>(simd::attention_span, count - begin);
        state.add_span(k, keys.bytes.data() + begin * keys.row_bytes, v, values.bytes.data() + begin * values.row_bytes, n);
    }
    state.finish();
    return out;
}

}  // namespace

TEST_CASE("rows are stored as the scalar encoders store them") {
    for (const auto type : kv_formats) {
        INFO(name(type));
        auto in = numbers(96, 1);
        in[3] = 1e30f;  // infinity as f16
        in[40] = 1e-6f;  // subnormal as f16
        in[41] = -0.0f;
        in[42] = 65519.9f;
        std::vector<std::byte> want(quant::row_bytes(type, 96).value());
        quant::encode_row(type, in, want).value();
        test::on_every_target([&](std::string_view) {
            std::vector<std::byte> got(want.size() + 1, std::byte{0x5a});
            simd::store_row(type, in.data(), got.data(), 96);
            CHECK(std::memcmp(got.data(), want.data(), want.size()) == 0);
            CHECK(got.back() == std::byte{0x5a});
        });
    }
    const auto in = numbers(21, 2);
    test::on_every_target([&](std::string_view) {
        std::uint16_t halves[22] = {};
        simd::store_row(dtype::f16, in.data(), reinterpret_cast<std::byte*>(halves), 21);
        for (std::size_t i = 0; i < 21; ++i) CHECK(halves[i] == f32_to_f16(in[i]));
        CHECK(halves[21] == 0);
    });
}

TEST_CASE("scores and weighted sums follow their canonical order for all formats and numbers of heads") {
    struct shape {
        std::size_t width, count, heads;
    };
    for (const auto type : kv_formats) {
        for (const auto& s : {shape{64, 20, 3}, shape{32, 1, 1}, shape{128, 33, 9}, shape{96, 256, 4}, shape{20, 5, 2}, shape{7, 3, 5}}) {
            if (s.width % 32 != 0 && (type == dtype::q8_0 || type == dtype::q4_0)) continue;
            INFO(name(type), " width=", s.width, " count=", s.count, " heads=", s.heads);
            const rows keys(type, s.count, s.width, 3);
            const auto queries = numbers(s.heads * s.width, 4);
            auto weights = numbers(s.heads * 256, 5);
            test::on_every_target([&](std::string_view target) {
                const bool fused = test::is_fused(target);
                const simd::head_rows span{keys.bytes.data(), keys.row_bytes, s.count, s.width};
                std::vector<float> scores(s.heads * 256, -3.0f);
                simd::scores(type, span, queries.data(), s.width, s.heads, 0.125f, scores.data(), 256);
                std::vector<float> sums(s.heads * s.width + 1, -3.0f);
                simd::accumulate(type, span, weights.data(), 256, s.heads, sums.data(), s.width);
                CHECK(sums.back() == -3.0f);
                std::size_t wrong = 0;
                for (std::size_t h = 0; h < s.heads; ++h) {
                    for (std::size_t j = 0; j < 256; ++j) {
                        const float got = scores[h * 256 + j];
                        if (j >= s.count) {
                            wrong += got != -3.0f;
                            continue;
                        }
                        const float* key = keys.values.data() + j * s.width;
                        const float want = dot(queries.data() + h * s.width, key, s.width) * 0.125f;
                        double size = 0.0;
                        for (std::size_t d = 0; d < s.width; ++d) size += std::abs(double(key[d]) * queries[h * s.width + d]);
                        // Two roundings instead of one in width / 16 steps, plus the tree.
                        wrong += fused ? !same(got, want) : !(std::abs(got - want) <= size * 0.125 * (double(s.width) / 16 + 5) * 0x1p-23);
                    }
                    for (std::size_t d = 0; d < s.width; ++d) {
                        float want = 0.0f;
                        double size = 0.0;
                        for (std::size_t j = 0; j < s.count; ++j) {
                            want = std::fma(weights[h * 256 + j], keys.values[j * s.width + d], want);
                            size += std::abs(double(weights[h * 256 + j]) * keys.values[j * s.width + d]);
                        }
                        const float got = sums[h * s.width + d];
                        wrong += fused ? !same(got, want) : !(std::abs(got - want) <= size * double(s.count) * 0x1p-23);
                    }
                }
                CHECK(wrong == 0);
            });
        }
    }
}

TEST_CASE("attention agrees with double precision and has the same bits on all fused targets") {
    for (const auto k : kv_formats) {
        const auto v = k == dtype::q4_0 ? dtype::f16 : k;
        for (const std::size_t count : std::initializer_list<std::size_t>{1, 17, 256, 257, 600}) {
            for (const float softcap : {0.0f, 5.0f}) {
                INFO(name(k), " count=", count, " softcap=", softcap);
                const rows keys(k, count, 64, 6);
                const rows values(v, count, 96, 7);
                const auto queries = numbers(5 * 64, 8);
                const simd::attention_query q{queries.data(), 5, 64, 96, 0.125f, softcap};
                const auto want = exact(q, keys, values, count);
                std::vector<float> first;
                test::on_every_target([&](std::string_view target) {
                    const auto got = attend(q, k, keys, v, values, count);
                    double worst = 0.0;
                    for (std::size_t i = 0; i < got.size(); ++i) worst = std::max(worst, std::abs(got[i] - want[i]));
                    // Weighted means of values of size 1: errors of the weights (exp of scores of a few units, each off by about
                    // 1e-6) and of sums of up to 600 terms.
                    CHECK(worst < 2e-5);
                    if (!test::is_fused(target)) return;
                    if (first.empty()) first = got;
                    CHECK(std::memcmp(first.data(), got.data(), got.size() * sizeof(float)) == 0);
                });
            }
        }
    }
}

TEST_CASE("heads that are attended together or alone have the same bits") {
    const rows keys(dtype::f16, 300, 64, 9);
    const rows values(dtype::q8_0, 300, 64, 10);
    const auto queries = numbers(7 * 64, 11);
    test::on_every_target([&](std::string_view) {
        const auto together = attend({queries.data(), 7, 64, 64, 0.1f, 0.0f}, dtype::f16, keys, dtype::q8_0, values, 300);
        std::size_t wrong = 0;
        for (std::size_t h = 0; h < 7; ++h) {
            const auto alone = attend({queries.data() + h * 64, 1, 64, 64, 0.1f, 0.0f}, dtype::f16, keys, dtype::q8_0, values, 300);
            wrong += std::memcmp(alone.data(), together.data() + h * 64, 64 * sizeof(float)) != 0;
        }
        CHECK(wrong == 0);
    });
}

TEST_CASE("merged states equal one state over all spans closely, and empty states change nothing") {
    const rows keys(dtype::f32, 512, 32, 12);
    const auto queries = numbers(2 * 32, 13);
    const simd::attention_query q{queries.data(), 2, 32, 32, 0.3f, 0.0f};
    test::on_every_target([&](std::string_view) {
        const auto whole = attend(q, dtype::f32, keys, dtype::f32, keys, 512);
        std::vector<float> out(64), later_out(64), scratch(simd::attention_scratch_floats(2, 32)), later_scratch(scratch.size());
        simd::attention_state state(q, out.data(), scratch.data());
        simd::attention_state later(q, later_out.data(), later_scratch.data());
        state.add_span(dtype::f32, keys.bytes.data(), dtype::f32, keys.bytes.data(), 256);
        const std::vector<float> before = out;
        state.merge(later);
        CHECK(out == before);
        later.add_span(dtype::f32, keys.bytes.data() + 256 * 128, dtype::f32, keys.bytes.data() + 256 * 128, 256);
        state.merge(later);
        state.finish();
        CHECK(std::memcmp(whole.data(), out.data(), 64 * sizeof(float)) == 0);  // one span each: the same steps
    });
}

TEST_CASE("very unequal scores neither overflow nor vanish") {
    std::vector<float> keys(600 * 16, 0.0f);
    keys[300 * 16] = 1000.0f;
    std::vector<float> values(600 * 16, 1.0f);
    for (std::size_t d = 0; d < 16; ++d) values[300 * 16 + d] = 5.0f;
    std::vector<float> query(16, 0.0f);
    query[0] = 1.0f;
    test::on_every_target([&](std::string_view) {
        std::vector<float> out(16), scratch(simd::attention_scratch_floats(1, 16));
        simd::attention_state state({query.data(), 1, 16, 16, 1.0f, 0.0f}, out.data(), scratch.data());
        for (std::size_t begin = 0; begin < 600; begin += 256) {
            state.add_span(dtype::f32, reinterpret_cast<const std::byte*>(keys.data() + begin * 16), dtype::f32,
                           reinterpret_cast<const std::byte*>(values.data() + begin * 16), std::min<std::size_t>(256, 600 - begin));
        }
        state.finish();
        for (const float v : out) CHECK(v == 5.0f);
    });
}
