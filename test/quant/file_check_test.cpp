#include "colibri/quant/file_check.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "support/gguf_bytes.hpp"
#include "support/made_gguf.hpp"
#include "support/scratch.hpp"

using namespace colibri;

namespace {

constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();
constexpr float infinity = std::numeric_limits<float>::infinity();

quant::file_check check(const std::filesystem::path& path, unsigned threads = 2) {
    thread_pool pool(threads);
    return quant::check_file(gguf::file::open(path).value(), pool).value();
}

}  // namespace

TEST_CASE("values that aren't finite are counted and found, whatever the type") {
    const scratch::folder folder;
    std::vector<float> large(3'000'000, 0.25f);  // more than a window
    large[70'000] = not_a_number;
    large[2'999'999] = -infinity;
    large[2'500'000] = infinity;
    std::vector<double> doubles(5000, 1e300);
    doubles[4999] = std::numeric_limits<double>::quiet_NaN();
    std::string blocks(18 * 40, '\0');  // Q4_0: a half float and 16 bytes of codes
    blocks[18 * 30] = '\x00';
    blocks[18 * 30 + 1] = '\x7c';  // infinity: 31 codes of -8 and one of 0, which makes a NaN
    blocks[18 * 30 + 2] = '\x08';
    const auto path = made::gguf(folder.path() / "m", {},
                                 {{"good", dtype::f32, {4}, made::bytes_of(std::vector<float>{1, 2, 3, 4})},
                                  {"large", dtype::f32, {1000, 3000}, made::bytes_of(large)},
                                  {"doubles", dtype::f64, {5000}, made::bytes_of(doubles)},
                                  {"whole", dtype::i32, {3}, made::bytes_of(std::vector<std::int32_t>{0x7fc00000, -1, 0x7f800000})},
                                  {"blocks", dtype::q4_0, {32, 40}, blocks}});
    for (const unsigned threads : {1u, 3u}) {
        const auto found = check(path, threads);
        CHECK(!found.sound());
        REQUIRE(found.not_finite.size() == 3);
        CHECK(found.not_finite[0].tensor == 1);
        CHECK(found.not_finite[0].nans == 1);
        CHECK(found.not_finite[0].infinities == 2);
        CHECK(found.not_finite[0].first == 70'000);
        CHECK(found.not_finite[1].tensor == 2);
        CHECK(found.not_finite[1].first == 4999);
        CHECK(found.not_finite[2].tensor == 4);
        CHECK(found.not_finite[2].first == 30 * 32);
        CHECK(found.not_finite[2].nans == 1);
        CHECK(found.not_finite[2].infinities == 31);
        CHECK(found.values == 4 + 3'000'000 + 5000 + 3 + 32 * 40);
        CHECK(found.unused.empty());
        CHECK(found.dirty_padding == 0);
        CHECK(found.in_order);
    }
}

TEST_CASE("types that can't be decoded are named") {
    const scratch::folder folder;
    const auto path = made::gguf(folder.path() / "m", {}, {{"a", dtype::f32, {2}, std::string(8, '\0')}, {"b", dtype::q8_k, {256}}});
    const auto found = check(path);
    CHECK(found.undecodable == std::vector<std::size_t>{1});
    CHECK(!found.sound());
}

TEST_CASE("padding, gaps, bytes behind the end, and order are told") {
    using namespace gguf_bytes;
    const scratch::folder folder;
    const auto made = [&](std::string_view data, std::uint64_t offset_a, std::uint64_t offset_b) {
        return check(folder.put("m", file({key_text("k", "v")}, {tensor("a", {4}, 0, offset_a), tensor("b", {4}, 0, offset_b)}, data)));
    };
    const std::string numbers(16, '\0');
    auto found = made(numbers + std::string(16, '\0') + numbers, 0, 32);  // without padding at the end
    CHECK(found.sound());
    CHECK(found.unused.empty());
    CHECK(found.dirty_padding == 0);
    found = made(numbers + std::string(15, '\0') + "x" + numbers + "yz", 0, 32);
    CHECK(found.sound());
    CHECK(found.dirty_padding == 3);
    CHECK(found.unused.empty());
    found = made(numbers + std::string(80, 'g') + numbers + std::string(16, '\0') + "behind", 96, 0);
    CHECK(found.sound());
    CHECK(!found.in_order);
    CHECK(found.dirty_padding == 16);
    REQUIRE(found.unused.size() == 2);
    CHECK(found.unused[0].bytes == 64);
    CHECK(found.unused[1].bytes == 6);
    const auto model = gguf::file::open(folder.path() / "m").value();
    CHECK(found.unused[0].offset == model.parts()[0].data_offset + 32);
    CHECK(found.unused[1].offset == model.parts()[0].size - 6);
}
