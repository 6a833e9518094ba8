#include "colibri/quant/encode_tensor.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "colibri/quant/encoders.hpp"
#include "support/fma.hpp"
#include "support/random_values.hpp"

using namespace colibri;
using namespace colibri::quant;

namespace {

using searched = format_list<q4_0, q4_1, q5_0, q5_1, q8_0, iq4_nl, mxfp4, nvfp4, q1_0, q2_0, tq1_0, tq2_0, q2_k, q3_k, q4_k, q5_k,
                             q6_k, iq4_xs>;

std::vector<float> weights_of(std::size_t n, unsigned seed) {
    auto out = test_support::bell_values(n, seed);
    for (auto& v : out) v = v * v * 8 + 0.01f;
    return out;
}

template <class F>
std::vector<F> encoded(const std::vector<float>& x, const float* importance) {
    std::vector<F> out(x.size() / F::block_size);
    encode_blocks(x.data(), importance, out.size(), out.data());
    return out;
}

template <class F>
std::vector<float> decoded(const std::vector<F>& blocks) {
    std::vector<float> out(blocks.size() * F::block_size);
    decode_row(blocks.data(), out.size(), out.data());
    return out;
}

template <class F>
bool same(const std::vector<F>& a, const std::vector<F>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(F)) == 0;
}

double weighted_error(const std::vector<float>& a, const std::vector<float>& b, const std::vector<float>& w) {
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += w[i] * std::pow(static_cast<double>(a[i]) - b[i], 2);
    return sum;
}

template <class F>
int least_code() {
    switch (F::type) {
        case dtype::q4_0: return -8;
        case dtype::q5_0: return -16;
        case dtype::q8_0: return -127;
        case dtype::q3_k: return -4;
        case dtype::q6_k: return -32;
        case dtype::q2_0: case dtype::tq1_0: case dtype::tq2_0: return -1;
        default: return 0;
    }
}
template <class F>
unsigned code_count() {
    switch (F::type) {
        case dtype::q4_0: case dtype::q4_1: case dtype::q4_k: return 16;
        case dtype::q5_0: case dtype::q5_1: case dtype::q5_k: return 32;
        case dtype::q8_0: return 255;
        case dtype::q3_k: return 8;
        case dtype::q6_k: return 64;
        case dtype::tq1_0: return 3;
        default: return 4;  // Q2_0, TQ2_0, Q2_K
    }
}

}  // namespace

TEST_CASE("what is packed is what a block's accessors say") {
    std::mt19937 bits(5);
    for_each_format(searched{}, [&]<class F>(std::type_identity<F>) {
        CAPTURE(std::string(name(F::type)));
        for (int round = 0; round < 20; ++round) {
            std::int8_t codes[256] = {};
            std::int8_t scales[16] = {};
            std::int8_t minimums[16] = {};
            for (auto& code : codes) {
                const auto any = static_cast<unsigned>(bits());
                if constexpr (std::is_same_v<F, iq4_nl> || std::is_same_v<F, iq4_xs>) code = iq4_values[any % 16];
                else if constexpr (std::is_same_v<F, mxfp4> || std::is_same_v<F, nvfp4>) code = mxfp4_values[any % 16];
                else if constexpr (std::is_same_v<F, q1_0>) code = any % 2 == 0 ? -1 : 1;
                else code = static_cast<std::int8_t>(least_code<F>() + static_cast<int>(any % code_count<F>()));
            }
            for (std::size_t j = 0; j < 16; ++j) {
                const int any = static_cast<int>(bits() >> 1);
                switch (F::type) {
                    case dtype::q3_k: case dtype::iq4_xs: scales[j] = static_cast<std::int8_t>(any % 64 - 32); break;
                    case dtype::q6_k: scales[j] = static_cast<std::int8_t>(any % 256 - 128); break;
                    case dtype::nvfp4: scales[j] = static_cast<std::int8_t>(any % 127); break;
                    case dtype::q2_k: scales[j] = static_cast<std::int8_t>(any % 16); break;
                    default: scales[j] = static_cast<std::int8_t>(any % 64);
                }
                minimums[j] = static_cast<std::int8_t>(static_cast<int>(bits() >> 1) % (F::type == dtype::q2_k ? 16 : 64));
            }
            F block;
            std::memset(static_cast<void*>(&block), 0xa5, sizeof block);  // nothing of what was there is left
            colibri::quant::detail::pack(colibri::quant::detail::block_parts{0.25f, 0.5f, scales, minimums, codes}, block);
            bool equal = true;
            for (std::size_t i = 0; i < F::block_size; ++i) equal = equal && block.code(i) == codes[i];
            CHECK(equal);
            if constexpr (std::is_same_v<F, nvfp4>) {
                for (std::size_t j = 0; j < 4; ++j) CHECK(block.d[j] == scales[j]);
            } else {
                CHECK(block.scale() == 0.25f);
                if constexpr (super_format<F>) {
                    for (std::size_t j = 0; j < F::block_size / F::sub_size; ++j) CHECK(block.sub_scale(j) == scales[j]);
                }
                if constexpr (minimum_format<F>) CHECK(block.minimum() == 0.5f);
                if constexpr (super_minimum_format<F>) {
                    CHECK(block.minimum_scale() == 0.5f);
                    for (std::size_t j = 0; j < F::block_size / F::sub_size; ++j) CHECK(block.sub_minimum(j) == minimums[j]);
                }
            }
        }
    });
}

TEST_CASE("a block's bytes depend on nothing but its values and weights") {
    for_each_format(searched{}, []<class F>(std::type_identity<F>) {
        CAPTURE(std::string(name(F::type)));
        const std::size_t blocks = 19;  // no whole number of batches
        const auto x = test_support::bell_values(blocks * F::block_size, 1);
        const auto w = weights_of(x.size(), 2);
        for (const float* importance : {static_cast<const float*>(nullptr), w.data()}) {
            const auto together = encoded<F>(x, importance);
            std::vector<F> alone(blocks);
            for (std::size_t b = 0; b < blocks; ++b) {
                const std::size_t at = b * F::block_size;
                encode_blocks(x.data() + at, importance == nullptr ? nullptr : importance + at, 1, &alone[b]);
            }
            CHECK(same(together, alone));
            if (test_support::has_fma()) {
                std::vector<F> fused(blocks);
                test_support::with_fma([&] { encode_blocks(x.data(), importance, blocks, fused.data()); });
                CHECK_MESSAGE(same(together, fused), "the compiler's fusing changes the bytes");
            } else {
                MESSAGE("not run: encoding as compiled for FMA, which this CPU doesn't have");
            }
        }
    });
}

TEST_CASE("importance moves errors to where they don't matter") {
    for_each_format(searched{}, []<class F>(std::type_identity<F>) {
        CAPTURE(std::string(name(F::type)));
        const auto x = test_support::bell_values(64 * F::block_size, 3);
        const auto w = weights_of(x.size(), 4);
        const double without = weighted_error(x, decoded(encoded<F>(x, nullptr)), w);
        const double with = weighted_error(x, decoded(encoded<F>(x, w.data())), w);
        CHECK(with < without);
        // Its unit means nothing, nor do weights that are all alike or all zero differ from each other.
        auto scaled = w;
        for (auto& v : scaled) v *= 0x1p40f;
        CHECK(same(encoded<F>(x, w.data()), encoded<F>(x, scaled.data())));
        const std::vector<float> zeros(x.size(), 0.0f);
        const std::vector<float> ones(x.size(), 1.0f);
        const double even = weighted_error(x, decoded(encoded<F>(x, ones.data())), ones);
        const double nothing = weighted_error(x, decoded(encoded<F>(x, zeros.data())), ones);
        // Alike but for the floor beneath all weights, which decides between codes that are equally good: 5 %.
        CHECK(std::abs(nothing - even) <= even * 0.05);
    });
}

TEST_CASE("values of any size keep their relative error") {
    for_each_format(searched{}, []<class F>(std::type_identity<F>) {
        CAPTURE(std::string(name(F::type)));
        const auto x = test_support::bell_values(32 * F::block_size, 6);
        const auto w = weights_of(x.size(), 7);
        const double error = weighted_error(x, decoded(encoded<F>(x, w.data())), w);
        // A half float holds whole scales of these; NVFP4's 8-bit scales are coarse below 2^-6 and end at 448.
        const std::vector<float> factors = F::type == dtype::nvfp4 ? std::vector{0x1p2f} : std::vector{0x1p-4f, 0x1p8f};
        for (const float factor : factors) {
            auto y = x;
            for (auto& v : y) v *= factor;
            CHECK(weighted_error(y, decoded(encoded<F>(y, w.data())), w) <= error * factor * factor * 1.02);
        }
    });
}

TEST_CASE("extreme values are encoded without undefined conversions") {
    // Run under the sanitizers, which stop at a float that doesn't fit the integer it becomes.
    const float largest = std::numeric_limits<float>::max();
    const float smallest = std::numeric_limits<float>::denorm_min();
    for_each_format(searched{}, [&]<class F>(std::type_identity<F>) {
        CAPTURE(std::string(name(F::type)));
        for (const float value : {0.0f, -0.0f, largest, -largest, smallest, -smallest, 1e-30f, 1e30f, 6e4f, 1e-6f}) {
            std::vector<float> x(F::block_size, value);
            std::vector<float> w(F::block_size, 1.0f);
            for (std::size_t i = 0; i < x.size(); i += 3) x[i] = -x[i];
            w[1] = 1e30f;
            for (const float* importance : {static_cast<const float*>(nullptr), static_cast<const float*>(w.data())}) {
                const auto out = decoded(encoded<F>(x, importance));
                for (std::size_t i = 0; i < x.size(); ++i) {
                    // Without importance some formats have infinite scales where a half float ends, as the reference encoders do.
                    if (std::abs(value) < 65504.0f || importance != nullptr) CHECK(std::isfinite(out[i]));
                    if (value == 0.0f) CHECK(out[i] == 0.0f);
                }
            }
        }
    });
}

TEST_CASE("a value that isn't finite spoils its own block only") {
    for_each_format(searched{}, []<class F>(std::type_identity<F>) {
        CAPTURE(std::string(name(F::type)));
        auto x = test_support::bell_values(20 * F::block_size, 8);
        const auto w = weights_of(x.size(), 9);
        const auto sound = decoded(encoded<F>(x, w.data()));
        for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
            auto y = x;
            y[17 * F::block_size + 5] = bad;
            const auto out = decoded(encoded<F>(y, w.data()));
            for (std::size_t i = 0; i < x.size(); ++i) {
                if (i / F::block_size != 17) CHECK(out[i] == sound[i]);
                else if (F::type == dtype::nvfp4) CHECK(out[i] == 448 * 6);  // neither infinities nor NaNs there
                else CHECK(!std::isfinite(out[i]));
            }
        }
    });
}

TEST_CASE("values that a format holds exactly come back exactly") {
    for_each_format(format_list<tq1_0, tq2_0, q2_0, q4_0, iq4_nl, mxfp4>{}, []<class F>(std::type_identity<F>) {
        CAPTURE(std::string(name(F::type)));
        std::mt19937 bits(10);
        std::vector<float> x(8 * F::block_size);
        for (std::size_t i = 0; i < x.size(); ++i) {
            const auto any = static_cast<unsigned>(bits());
            int code = 0;
            if constexpr (std::is_same_v<F, iq4_nl>) code = iq4_values[any % 16];
            else if constexpr (std::is_same_v<F, mxfp4>) code = mxfp4_values[any % 16];
            else code = least_code<F>() + static_cast<int>(any % (F::type == dtype::tq2_0 ? 3 : code_count<F>()));
            x[i] = 0.25f * static_cast<float>(code);
        }
        const std::vector<float> ones(x.size(), 1.0f);
        CHECK(weighted_error(x, decoded(encoded<F>(x, ones.data())), ones) == 0);
    });
}

TEST_CASE("rows: types, sizes and importance are checked") {
    const auto x = test_support::bell_values(512, 11);
    const auto w = weights_of(512, 12);
    for (const auto& row : dtype_table) {
        CAPTURE(std::string(row.name));
        std::vector<std::byte> out(row_bytes(row.type, 512).value());
        const auto made = encode_row(row.type, x, w, out);
        CHECK(static_cast<bool>(made) == is_encodable(row.type));
        if (!made) CHECK(made.error().code == errc::unsupported);
        if (!is_encodable(row.type)) continue;
        const auto plain = encode_row(row.type, x, {}, out);
        CHECK(static_cast<bool>(plain) == !needs_importance(row.type));
        if (!plain) CHECK(plain.error().code == errc::unsupported);
        CHECK(encode_row(row.type, x, std::span(w).first(511), out).error().code == errc::bad_count);
        CHECK(encode_row(row.type, x, w, std::span(out).first(out.size() - 1)).error().code == errc::truncated);
        if (row.block_size > 1) {
            CHECK(encode_row(row.type, std::span(x).first(row.block_size - 1), {}, out).error().code == errc::bad_shape);
        }
    }
    for (const dtype type : {dtype::f32, dtype::f16, dtype::bf16, dtype::q4_k, dtype::iq4_xs}) CHECK(is_encodable(type));
    for (const dtype type : {dtype::i32, dtype::q8_k, dtype::q8_1, static_cast<dtype>(99)}) CHECK(!is_encodable(type));
}

TEST_CASE("rows are as their blocks, at any alignment") {
    const auto x = test_support::bell_values(32 * 256, 13);
    const auto w = weights_of(x.size(), 14);
    const auto blocks = encoded<q4_k>(x, w.data());
    std::vector<std::byte> out(blocks.size() * sizeof(q4_k) + 1);
    encode_row(dtype::q4_k, x, w, std::span(out).subspan(1)).value();
    CHECK(std::memcmp(out.data() + 1, blocks.data(), out.size() - 1) == 0);
}
