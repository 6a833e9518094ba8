#include "colibri/kv/kv_cache.hpp"

#include <doctest/doctest.h>

#include <cstring>

using namespace colibri;

namespace {

kv_shape shape_of(std::uint32_t context, std::uint32_t window, std::uint32_t ubatch, std::uint32_t sequences = 1) {
    kv_shape shape;
    shape.kv_heads = 2;
    shape.head_k = 32;
    shape.head_v = 64;
    shape.context = context;
    shape.sequences = sequences;
    shape.layers = {{context, 0}, {kept_positions(context, window, ubatch), window}};
    return shape;
}

/// Rows whose every element tells position and head; small integers, so that every cache format but the 4-bit one is exact enough.
void store(kv_store& kv, std::uint32_t sequence, std::uint32_t position) {
    std::vector<float> k(2 * 32), v(2 * 64);
    for (std::size_t head = 0; head < 2; ++head) {
        for (std::size_t i = 0; i < 32; ++i) k[head * 32 + i] = static_cast<float>(position * 2 + head);
        for (std::size_t i = 0; i < 64; ++i) v[head * 64 + i] = -static_cast<float>(position * 2 + head);
    }
    for (std::uint32_t layer = 0; layer < 2; ++layer) kv.store(layer, sequence, position, k.data(), v.data());
}

float first_key(const kv_store& kv, std::uint32_t layer, std::uint32_t sequence, std::uint32_t head, std::uint32_t position) {
    float out = 0;
    std::memcpy(&out, kv.rows(layer, sequence, head, position / 16 * 16).keys + position % 16 * sizeof out, sizeof out);
    return out;
}

}  // namespace

TEST_CASE("kv: the size is the sum over layers of kept positions x heads x row bytes") {
    const auto shape = shape_of(1024, 100, 64, 3);
    CHECK(shape.layers[1].kept == 256);  // 100 + 64 - 1, in whole spans of 256
    const std::uint64_t positions = (1024 + 256) * 3;
    CHECK(kv_bytes(shape, kv_type::f32, kv_type::f32) == positions * 2 * (32 * 4 + 64 * 4));
    CHECK(kv_bytes(shape, kv_type::f16, kv_type::q8_0) == positions * 2 * (32 * 2 + 64 / 32 * 34));
    CHECK(kv_bytes(shape, kv_type::q4_0, kv_type::bf16) == positions * 2 * (18 + 64 * 2));
    for (const auto k : kv_types) {
        for (const auto v : kv_types) {
            const auto kv = make_kv_store(shape, k, v);
            REQUIRE(kv);
            CHECK((*kv)->bytes() == kv_bytes(shape, k, v));
            CHECK((*kv)->key_type() == k);
            CHECK((*kv)->value_type() == v);
        }
    }
}

TEST_CASE("kv: positions are held in whole panels of 16 keys") {
    auto shape = shape_of(100, 0, 16);
    const auto kv = *make_kv_store(shape, kv_type::f16, kv_type::f16);
    CHECK(kv->bytes() == 2 * 112 * 2 * (32 * 2 + 64 * 2));
    CHECK(kv_bytes(shape, kv_type::f16, kv_type::f16) == kv->bytes());
}

TEST_CASE("kv: heads that are no multiple of the format's block are refused with both numbers") {
    auto shape = shape_of(64, 0, 16);
    shape.head_k = 16;
    const auto refused = make_kv_store(shape, kv_type::q8_0, kv_type::f16);
    REQUIRE(!refused);
    CHECK(refused.error().code == errc::bad_shape);
    CHECK(refused.error().message.find("32") != std::string::npos);
    CHECK(refused.error().message.find("16") != std::string::npos);
    CHECK(make_kv_store(shape, kv_type::f16, kv_type::q8_0));
}

TEST_CASE("kv: a cache larger than any machine is an error, not a crash") {
    auto shape = shape_of(2147483647u, 0, 16, 65536);
    const auto refused = make_kv_store(shape, kv_type::f32, kv_type::f32);
    REQUIRE(!refused);
    CHECK((refused.error().code == errc::overflow || refused.error().code == errc::out_of_memory));
}

TEST_CASE("kv: rows of one head are contiguous within a span, in a ring too") {
    auto kv = *make_kv_store(shape_of(1024, 100, 64), kv_type::f32, kv_type::f32);
    for (std::uint32_t p = 0; p < 700; ++p) store(*kv, 0, p);
    kv->claim(0, 700);
    kv->append(0, 700);
    CHECK(kv->length(0) == 700);
    for (std::uint32_t p = 600; p < 700; ++p) {
        for (std::uint32_t head = 0; head < 2; ++head) {
            CHECK(first_key(*kv, 0, 0, head, p) == static_cast<float>(p * 2 + head));
            CHECK(first_key(*kv, 1, 0, head, p) == static_cast<float>(p * 2 + head));
        }
        if (p % 16 != 0) continue;
        CHECK(kv->rows(1, 0, 0, p).keys == kv->rows(1, 0, 0, p / kv_span * kv_span).keys + p % kv_span * 32 * sizeof(float));
        CHECK(kv->rows(1, 0, 0, p).values == kv->rows(1, 0, 0, p / kv_span * kv_span).values + p % kv_span * 64 * sizeof(float));
    }
}

TEST_CASE("kv: a prefix can be reused while the windows still hold what it sees") {
    auto kv = *make_kv_store(shape_of(1024, 100, 64), kv_type::f32, kv_type::f32);
    kv->claim(0, 200);
    kv->append(0, 200);
    CHECK(kv->reusable(0, 50) == 50);    // the ring of 256 has lost nothing yet
    kv->claim(0, 400);
    kv->append(0, 200);
    CHECK(kv->reusable(0, 400) == 400);
    CHECK(kv->reusable(0, 1000) == 400);
    // Positions below 400 - 256 = 144 are gone; position p sees p - 99 and on.
    CHECK(kv->reusable(0, 243) == 243);
    CHECK(kv->reusable(0, 242) == 0);
    CHECK(kv->truncate(0, 300) == 300);
    CHECK(kv->length(0) == 300);
    CHECK(kv->reusable(0, 242) == 0);    // what was lost stays lost
    CHECK(kv->truncate(0, 242) == 0);
    kv->claim(0, 10);
    kv->append(0, 10);
    CHECK(kv->reusable(0, 5) == 5);      // empty in between: a fresh start
}

TEST_CASE("kv: a copied sequence has the first positions of the other") {
    auto kv = *make_kv_store(shape_of(512, 100, 64, 2), kv_type::f32, kv_type::f32);
    for (std::uint32_t p = 0; p < 80; ++p) store(*kv, 0, p);
    kv->claim(0, 80);
    kv->append(0, 80);
    kv->copy(0, 1, 50);
    CHECK(kv->length(1) == 50);
    CHECK(kv->length(0) == 80);
    for (std::uint32_t p = 0; p < 50; ++p) CHECK(first_key(*kv, 1, 1, 1, p) == static_cast<float>(p * 2 + 1));
}
