#include "colibri/simd/attention.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "colibri/quant/rows.hpp"
#include "simd/targets.hpp"
#include "support/attention.hpp"

namespace {

using namespace colibri;
using attention_reference::numbers;

constexpr dtype kv_formats[] = {dtype::f32, dtype::f16, dtype::bf16, dtype::q8_0, dtype::q4_0};

bool has_blocks(dtype type) { return type == dtype::q8_0 || type == dtype::q4_0; }

/// Keys as panels and values as rows in a format, and the numbers that they hold.
struct cached_rows {
    std::size_t width;
    std::vector<std::byte> panels, rows;
    std::vector<float> values;

    cached_rows(dtype type, std::size_t count, std::size_t width_, unsigned seed) : width(width_) {
        const std::size_t bytes = quant::row_bytes(type, width).value();
        REQUIRE(bytes == simd::kv_row_bytes(type, width));
        panels.resize((count + 15) / 16 * 16 * bytes);
        rows.resize(count * bytes);
        values.resize(count * width);
        const auto in = numbers(count * width, seed);
        for (std::size_t j = 0; j < count; ++j) {
            simd::store_key(type, in.data() + j * width, panels.data() + j / 16 * 16 * bytes, j % 16, width);
            simd::store_row(type, in.data() + j * width, rows.data() + j * bytes, width);
            quant::decode_row(type, std::span(rows).subspan(j * bytes, bytes), std::span(values).subspan(j * width, width)).value();
        }
    }
};

/// Query rows with what attend_span and the totals need.
struct asking {
    std::vector<float> queries;
    std::vector<const float*> pointers;
    simd::attention_rows rows;
    std::vector<float> maxima, sums, values, scratch;
    std::vector<float> total_maxima, total_sums, total_values;
    std::vector<float*> total_pointers;

    asking(std::size_t count, std::size_t head_k, std::size_t head_v, float scale, float softcap, unsigned seed)
        : queries(numbers(count * head_k, seed)),
          maxima(count),
          sums(count),
          values(count * head_v + 1, -7.0f),
          scratch(simd::attention_scratch_floats(count, head_k, head_v), NAN),
          total_maxima(count),
          total_sums(count),
          total_values(count * head_v) {
        for (std::size_t r = 0; r < count; ++r) {
            pointers.push_back(queries.data() + r * head_k);
            total_pointers.push_back(total_values.data() + r * head_v);
        }
        rows = {pointers.data(), count, head_k, head_v, scale, softcap};
    }
    simd::attention_part part() { return {maxima.data(), sums.data(), values.data()}; }
    simd::attention_totals totals() { return {total_maxima.data(), total_sums.data(), total_pointers.data()}; }

    attention_reference::query query(std::size_t r, bool fused) const {
        return {queries.data() + r * rows.head_k, rows.head_k, rows.head_v, rows.scale, rows.softcap, fused};
    }

    /// Every row over positions 0..count-1.
    std::vector<float> attend(dtype k, const cached_rows& keys, dtype v, const cached_rows& values_, std::size_t count) {
        simd::start_totals(rows, totals());
        for (std::size_t start = 0; start < count; start += 256) {
            const std::vector<simd::span_range> ranges(rows.count, {0, static_cast<std::uint32_t>(std::min<std::size_t>(256, count - start))});
            const simd::attention_source source{k, keys.panels.data() + start * simd::kv_row_bytes(k, rows.head_k), v,
                                                values_.rows.data() + start * simd::kv_row_bytes(v, rows.head_v)};
            simd::attend_span(rows, ranges.data(), source, part(), scratch.data());
            simd::merge_span(rows, part(), totals());
        }
        simd::finish_totals(rows, totals());
        return total_values;
    }
};

bool same(const float* a, const float* b, std::size_t n) { return std::memcmp(a, b, n * sizeof(float)) == 0; }

}  // namespace

TEST_CASE("rows are stored as the scalar encoders store them, keys side by side") {
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
            for (const std::size_t lane : {0u, 5u, 15u}) {
                std::vector<std::byte> panel(16 * want.size(), std::byte{0x5a});
                simd::store_key(type, in.data(), panel.data(), lane, 96);
                std::size_t wrong = 0;
                const auto check = [&](std::size_t at, std::size_t from, std::size_t bytes) {
                    // The unit at `at` of the panel holds 16 keys' `bytes` bytes from `from` of a row.
                    for (std::size_t other = 0; other < 16; ++other) {
                        for (std::size_t i = 0; i < bytes; ++i) {
                            const auto expected = other == lane ? want[from + i] : std::byte{0x5a};
                            wrong += panel[at + other * bytes + i] != expected;
                        }
                    }
                };
                if (has_blocks(type)) {
                    const std::size_t block = want.size() / 3;
                    for (std::size_t b = 0; b < 3; ++b) {
                        check(b * block * 16, b * block, 2);
                        for (std::size_t i = 2; i < block; ++i) check((b * block + i) * 16, b * block + i, 1);
                    }
                } else {
                    const std::size_t bytes = want.size() / 96;
                    for (std::size_t d = 0; d < 96; ++d) check(d * bytes * 16, d * bytes, bytes);
                }
                CHECK(wrong == 0);
            }
        });
    }
    const auto in = numbers(21, 2);
    test::on_every_target([&](std::string_view) {
        for (const auto type : {dtype::f16, dtype::bf16}) {
            std::uint16_t halves[22] = {};
            std::vector<std::uint16_t> panel(21 * 16 + 1);
            simd::store_row(type, in.data(), reinterpret_cast<std::byte*>(halves), 21);
            simd::store_key(type, in.data(), reinterpret_cast<std::byte*>(panel.data()), 15, 21);
            for (std::size_t i = 0; i < 21; ++i) {
                const auto want = type == dtype::f16 ? f32_to_f16(in[i]) : f32_to_bf16(in[i]);
                CHECK(halves[i] == want);
                CHECK(panel[i * 16 + 15] == want);
            }
            CHECK(halves[21] == 0);
            CHECK(panel.back() == 0);
        }
    });
}

TEST_CASE("rows over one span follow the canonical order for all formats, sizes and numbers of rows") {
    struct shape {
        std::size_t head_k, head_v, rows;
    };
    // Tiles of rows of every size, alone and behind each other; heads that are no multiple of 16 or 32; rows above
    // unpacked_rows.
    constexpr shape shapes[] = {{64, 64, 1}, {32, 64, 2}, {128, 96, 3}, {64, 128, 4}, {96, 32, 7}, {64, 64, 8}, {32, 32, 13},
                                {64, 96, 17}, {32, 64, 37}, {80, 80, 4}, {40, 72, 7}, {72, 40, 18}, {7, 5, 5}, {20, 24, 19}};
    for (const auto type : kv_formats) {
        for (const auto& s : shapes) {
            if (has_blocks(type) && (s.head_k % 32 != 0 || s.head_v % 32 != 0)) continue;
            INFO(name(type), " head_k=", s.head_k, " head_v=", s.head_v, " rows=", s.rows);
            const cached_rows keys(type, 256, s.head_k, 3);
            const cached_rows values(type, 256, s.head_v, 4);
            // Neighbours that overlap, rows with little and with nothing.
            std::vector<simd::span_range> ranges;
            for (std::uint32_t r = 0; r < s.rows; ++r) {
                const std::uint32_t begin = r % 5 == 4 ? 200 : r;
                const std::uint32_t end = r % 7 == 6 ? begin : std::min<std::uint32_t>(256, 203 + r * 11 % 60);
                ranges.push_back({begin, end});
            }
            test::on_every_target([&](std::string_view target) {
                asking a(s.rows, s.head_k, s.head_v, 0.125f, s.rows % 2 == 0 ? 3.0f : 0.0f, 5);
                simd::attend_span(a.rows, ranges.data(), {type, keys.panels.data(), type, values.rows.data()}, a.part(),
                                  a.scratch.data());
                CHECK(a.values.back() == -7.0f);
                std::size_t wrong = 0;
                for (std::size_t r = 0; r < s.rows; ++r) {
                    const auto want = attention_reference::over_span(a.query(r, test::is_fused(target)), keys.values.data(),
                                                                     values.values.data(), ranges[r].begin, ranges[r].end);
                    wrong += !same(&want.maximum, &a.maxima[r], 1) || !same(&want.sum, &a.sums[r], 1) ||
                             !same(want.values.data(), a.values.data() + r * s.head_v, s.head_v);
                }
                CHECK(wrong == 0);
            });
        }
    }
}

TEST_CASE("scores and weighted sums leave alone what isn't theirs") {
    const cached_rows keys(dtype::f16, 64, 48, 6);
    const auto queries = numbers(3 * 48, 7);
    const float* pointers[] = {queries.data(), queries.data() + 48, queries.data() + 96};
    const simd::span_range ranges[] = {{20, 30}, {33, 34}, {0, 64}};
    test::on_every_target([&](std::string_view) {
        const simd::head_rows panels{keys.panels.data(), 96, 48};
        std::vector<float> scores(4 * 256, -3.0f);  // accumulate may read one row more
        simd::scores(dtype::f16, panels, pointers, ranges, 3, 1.0f, scores.data());
        for (std::size_t r = 0; r < 3; ++r) {
            for (std::size_t j = 64; j < 256; ++j) CHECK(scores[r * 256 + j] == -3.0f);
        }
        std::vector<float> sums(3 * 50, -3.0f);
        simd::accumulate(dtype::f16, {keys.rows.data(), 96, 48}, scores.data(), ranges, 3, sums.data(), 50);
        for (std::size_t r = 0; r < 3; ++r) {
            CHECK(sums[r * 50 + 48] == -3.0f);
            CHECK(sums[r * 50 + 49] == -3.0f);
        }
    });
}

TEST_CASE("attention agrees with double precision and has the same bits on all fused targets") {
    for (const auto k : kv_formats) {
        const auto v = k == dtype::q4_0 ? dtype::f16 : k;
        for (const std::size_t count : std::initializer_list<std::size_t>{1, 17, 256, 257, 600}) {
            for (const float softcap : {0.0f, 5.0f}) {
                INFO(name(k), " count=", count, " softcap=", softcap);
                const cached_rows keys(k, count, 64, 6);
                const cached_rows values(v, count, 96, 7);
                asking a(5, 64, 96, 0.125f, softcap, 8);
                std::vector<double> want(5 * 96);
                for (std::size_t h = 0; h < 5; ++h) {
                    std::vector<double> weights(count);
                    double sum = 0.0;
                    for (std::size_t j = 0; j < count; ++j) {
                        for (std::size_t d = 0; d < 64; ++d) weights[j] += double(a.queries[h * 64 + d]) * keys.values[j * 64 + d];
                        weights[j] *= 0.125;
                        if (softcap > 0) weights[j] = softcap * std::tanh(weights[j] / softcap);
                        sum += weights[j] = std::exp(weights[j]);
                    }
                    for (std::size_t d = 0; d < 96; ++d) {
                        for (std::size_t j = 0; j < count; ++j) want[h * 96 + d] += weights[j] / sum * values.values[j * 96 + d];
                    }
                }
                std::vector<float> first;
                test::on_every_target([&](std::string_view target) {
                    const auto got = a.attend(k, keys, v, values, count);
                    double worst = 0.0;
                    for (std::size_t i = 0; i < got.size(); ++i) worst = std::max(worst, std::abs(got[i] - want[i]));
                    // Weighted means of values of size 1: errors of the weights (exp of scores of a few units, each off by about
                    // 1e-6) and of sums of up to 600 terms.
                    CHECK(worst < 2e-5);
                    std::size_t wrong = 0;
                    for (std::size_t h = 0; h < 5; ++h) {
                        const auto row = attention_reference::attend(a.query(h, test::is_fused(target)), keys.values.data(),
                                                                     values.values.data(), 0, count);
                        wrong += !same(row.data(), got.data() + h * 96, 96);
                    }
                    CHECK(wrong == 0);
                    if (!test::is_fused(target)) return;
                    if (first.empty()) first = got;
                    CHECK(same(first.data(), got.data(), got.size()));
                });
            }
        }
    }
}

TEST_CASE("what a row doesn't attend to can be anything") {
    for (const std::size_t count : {3u, 40u}) {  // read as they are kept, and unpacked
        cached_rows keys(dtype::f32, 64, 16, 9);
        cached_rows values(dtype::f32, 64, 24, 10);
        asking a(count, 16, 24, 1.0f, 0.0f, 11);
        std::vector<simd::span_range> ranges;
        for (std::uint32_t r = 0; r < count; ++r) ranges.push_back({r % 4, 60 - r % 3});
        const auto attend = [&] {
            simd::attend_span(a.rows, ranges.data(), {dtype::f32, keys.panels.data(), dtype::f32, values.rows.data()}, a.part(),
                              a.scratch.data());
            return a.values;
        };
        test::on_every_target([&](std::string_view) {
            const auto want = attend();
            const auto kept = values.rows;
            const auto kept_keys = keys.panels;
            for (const float odd : {INFINITY, NAN}) {
                // Positions 0 and 59 are seen by some rows only, 60 to 63 by none.
                for (const std::size_t j : {0u, 59u, 60u, 63u}) {
                    for (std::size_t d = 0; d < 24; ++d) std::memcpy(values.rows.data() + (j * 24 + d) * 4, &odd, 4);
                    for (std::size_t d = 0; d < 16; ++d) {
                        if (j >= 60) std::memcpy(keys.panels.data() + (j / 16 * 256 + d * 16 + j % 16) * 4, &odd, 4);
                    }
                }
                const auto got = attend();
                std::size_t wrong = 0;
                for (std::size_t r = 0; r < count; ++r) {
                    const bool sees = ranges[r].begin == 0 || ranges[r].end == 60;
                    for (std::size_t d = 0; d < 24; ++d) {
                        const float v = got[r * 24 + d];
                        wrong += sees ? std::isfinite(v) : !same(&v, &want[r * 24 + d], 1);
                    }
                }
                CHECK(wrong == 0);
                values.rows = kept;
                keys.panels = kept_keys;
            }
        });
    }
}

TEST_CASE("spans without positions change nothing, and a row without any becomes zeros") {
    const cached_rows keys(dtype::f32, 32, 32, 12);
    test::on_every_target([&](std::string_view) {
        asking a(2, 32, 32, 0.3f, 0.0f, 13);
        const simd::attention_source source{dtype::f32, keys.panels.data(), dtype::f32, keys.rows.data()};
        const simd::span_range some[] = {{0, 20}, {0, 0}};
        const simd::span_range none[] = {{0, 0}, {7, 7}};
        simd::start_totals(a.rows, a.totals());
        simd::attend_span(a.rows, some, source, a.part(), a.scratch.data());
        CHECK(a.maxima[1] == -INFINITY);
        CHECK(a.sums[1] == 0.0f);
        simd::merge_span(a.rows, a.part(), a.totals());
        const auto before = a.total_values;
        const auto sums = a.total_sums;
        simd::attend_span(a.rows, none, source, a.part(), a.scratch.data());
        simd::merge_span(a.rows, a.part(), a.totals());
        CHECK(a.total_values == before);
        CHECK(a.total_sums == sums);
        simd::finish_totals(a.rows, a.totals());
        for (std::size_t d = 0; d < 32; ++d) CHECK(a.total_values[32 + d] == 0.0f);
    });
}

TEST_CASE("very unequal scores neither overflow nor vanish") {
    std::vector<float> keys(608 * 16, 0.0f);
    keys[300 / 16 * 256 + 300 % 16] = 1000.0f;  // element 0 of key 300
    std::vector<float> values(600 * 16, 1.0f);
    for (std::size_t d = 0; d < 16; ++d) values[300 * 16 + d] = 5.0f;
    test::on_every_target([&](std::string_view) {
        asking a(1, 16, 16, 1.0f, 0.0f, 14);
        a.queries.assign(16, 0.0f);
        a.queries[0] = 1.0f;
        simd::start_totals(a.rows, a.totals());
        for (std::uint32_t start = 0; start < 600; start += 256) {
            const simd::span_range range{0, std::min(256u, 600 - start)};
            simd::attend_span(a.rows, &range,
                              {dtype::f32, reinterpret_cast<const std::byte*>(keys.data() + start * 16), dtype::f32,
                               reinterpret_cast<const std::byte*>(values.data() + start * 16)},
                              a.part(), a.scratch.data());
            simd::merge_span(a.rows, a.part(), a.totals());
        }
        simd::finish_totals(a.rows, a.totals());
        for (const float v : a.total_values) CHECK(v == 5.0f);
    });
}
