#include "colibri/quant/rows.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

using namespace colibri;
using namespace colibri::quant;

static_assert(block_alignment(dtype::f32) == 4 && block_alignment(dtype::q4_k) == 2 &&
              block_alignment(dtype::mxfp4) == 1);
static_assert(block_alignment(dtype::iq1_s) == 2 && block_alignment(dtype::q8_k) == 1);

namespace {

std::vector<float> noise(std::size_t n) {
    std::mt19937 bits(9);
    std::vector<float> out(n);
    for (auto& v : out) v = static_cast<float>(bits() >> 8) * 0x1p-24f - 0.5f;
    return out;
}

}  // namespace

TEST_CASE("row_bytes of every type") {
    for (const auto& row : dtype_table) {
        CAPTURE(std::string(row.name));
        CHECK(row_bytes(row.type, 0).value() == 0);
        CHECK(row_bytes(row.type, row.block_size * 3u).value() == row.block_bytes * 3u);
        if (row.block_size > 1) CHECK(row_bytes(row.type, row.block_size + 1u).error().code == errc::bad_shape);
        const std::uint64_t huge = std::numeric_limits<std::uint64_t>::max() / row.block_size * row.block_size;
        if (row.block_bytes > row.block_size) CHECK(row_bytes(row.type, huge).error().code == errc::overflow);
    }
    CHECK(row_bytes(static_cast<dtype>(33), 32).error().code == errc::unsupported);
}

TEST_CASE("erased rows equal typed rows at any address") {
    const auto x = noise(512);
    for_each_format(weight_formats{}, [&]<class F>(std::type_identity<F>) {
        CAPTURE(std::string(name(F::type)));
        const std::size_t bytes = row_bytes(F::type, x.size()).value();
        std::vector<std::byte> memory(bytes + 1);
        const std::span<std::byte> odd(memory.data() + 1, bytes);
        std::vector<F> typed(x.size() / F::block_size);
        if constexpr (encodable_format<F>) {
            encode_row(x.data(), x.size(), typed.data());
            CHECK(encode_row(F::type, x, odd));
            CHECK(std::memcmp(odd.data(), typed.data(), bytes) == 0);
        } else {
            const auto refused = encode_row(F::type, x, odd);
            REQUIRE(!refused);
            CHECK(refused.error().code == errc::unsupported);
            CHECK(refused.error().message.find(name(F::type)) != std::string::npos);
        }
        std::vector<float> a(x.size(), -1.0f);
        std::vector<float> b(x.size(), -2.0f);
        decode_row(typed.data(), x.size(), a.data());
        std::memcpy(odd.data(), typed.data(), bytes);
        CHECK(decode_row(F::type, odd, b));
        CHECK(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
    });
}

TEST_CASE("floats survive the round trip: exactly in F32, to the nearest in the halves") {
    const auto x = noise(100);
    std::vector<std::byte> bytes(400);
    std::vector<float> y(100);
    encode_row(dtype::f32, x, bytes).value();
    decode_row(dtype::f32, bytes, y).value();
    CHECK(x == y);
    const std::span<std::byte> half(bytes.data(), 200);
    encode_row(dtype::f16, x, half).value();
    decode_row(dtype::f16, half, y).value();
    for (std::size_t i = 0; i < 100; ++i) CHECK(y[i] == f16_to_f32(f32_to_f16(x[i])));
    encode_row(dtype::bf16, x, half).value();
    decode_row(dtype::bf16, half, y).value();
    for (std::size_t i = 0; i < 100; ++i) CHECK(y[i] == bf16_to_f32(f32_to_bf16(x[i])));
}

TEST_CASE("rows of wrong sizes and types are refused by kind") {
    std::vector<float> x(64);
    std::vector<std::byte> bytes(68);
    CHECK(decode_row(dtype::q8_0, std::span(bytes).first(67), x).error().code == errc::truncated);
    CHECK(decode_row(dtype::q8_0, bytes, std::span(x).first(32)).error().code == errc::bad_count);
    CHECK(decode_row(dtype::q8_0, bytes, std::span(x).first(33)).error().code == errc::bad_shape);
    CHECK(decode_row(dtype::q4_k, bytes, x).error().code == errc::bad_shape);
    CHECK(encode_row(dtype::q8_0, x, std::span(bytes).first(34)).error().code == errc::truncated);
    CHECK(decode_row(static_cast<dtype>(4), bytes, x).error().code == errc::unsupported);
    std::vector<float> wide(256);
    std::vector<std::byte> q8_k_block(292);
    CHECK(decode_row(dtype::q8_k, q8_k_block, wide).error().code == errc::unsupported);
    CHECK(decode_row(dtype::q8_0, {}, {}));
}
