#include "colibri/eval/imatrix_file.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <string>
#include <vector>

#include "support/gguf_bytes.hpp"
#include "support/scratch.hpp"

using namespace colibri;
using eval::importance_matrix;
using gguf_bytes::le;

namespace {

result<importance_matrix> read(const std::string& bytes) {
    memory_source source(std::as_bytes(std::span(bytes.data(), bytes.size())));
    return eval::read_imatrix(source, "'it'", 10);
}

/// One entry of a .dat file.
std::string dat_entry(std::string_view name, std::int32_t windows, const std::vector<float>& values) {
    std::string out = le(static_cast<std::int32_t>(name.size())) + std::string(name) + le(windows) +
                      le(static_cast<std::int32_t>(values.size()));
    for (const float v : values) out += le(v);
    return out;
}

std::string floats(const std::vector<float>& values) {
    std::string out;
    for (const float v : values) out += le(v);
    return out.append(32 - out.size() % 32, '\0');
}

/// A GGUF matrix of one tensor "a" with the given shapes; `sums` and `counts` are its data.
std::string gguf_file(const std::vector<std::uint64_t>& sums_dims, const std::vector<float>& sums,
                      const std::vector<std::uint64_t>& counts_dims, const std::vector<float>& counts, std::uint32_t type = 0,
                      const std::string& kind = "imatrix") {
    const auto first = floats(sums);
    return gguf_bytes::file({gguf_bytes::key_text("general.type", kind), gguf_bytes::key_u32("imatrix.chunk_count", 7),
                             gguf_bytes::key_u32("imatrix.chunk_size", 256)},
                            {gguf_bytes::tensor("a.in_sum2", sums_dims, type, 0),
                             gguf_bytes::tensor("a.counts", counts_dims, type, first.size())},
                            first + floats(counts));
}

importance_matrix sample() {
    importance_matrix out;
    out.entries["blk.0.attn_q.weight"] = {{2.0f, 4.0f, 6.0f}, {2.0}};
    out.entries["blk.0.ffn_up_exps.weight"] = {{1.0f, 2.0f, 0.0f, 0.0f}, {4.0, 0.0}};
    out.datasets = {"text.txt"};
    out.chunks = 3;
    out.chunk_size = 512;
    return out;
}

}  // namespace

TEST_CASE("an importance matrix that is written is read back") {
    const scratch::folder folder;
    const auto path = folder.path() / "m.gguf";
    const auto matrix = sample();
    REQUIRE(eval::write_imatrix(matrix, path));
    CHECK(scratch::count(folder.path()) == 1);
    const auto back = eval::read_imatrix(path);
    REQUIRE(back);
    CHECK(back->datasets == matrix.datasets);
    CHECK(back->chunks == 3);
    CHECK(back->chunk_size == 512);
    REQUIRE(back->entries.size() == 2);
    for (const auto& [name, entry] : matrix.entries) {
        REQUIRE(back->find(name) != nullptr);
        CHECK(back->find(name)->sums == entry.sums);
        CHECK(back->find(name)->counts == entry.counts);
    }
}

TEST_CASE("means are sums over counts, and 1 where an expert was never used") {
    const auto matrix = sample();
    CHECK(matrix.mean("blk.0.attn_q.weight", 3).value() == std::vector<float>{1.0f, 2.0f, 3.0f});
    CHECK(matrix.mean("blk.0.ffn_up_exps.weight", 2, 2, 0).value() == std::vector<float>{0.25f, 0.5f});
    CHECK(matrix.mean("blk.0.ffn_up_exps.weight", 2, 2, 1).value() == std::vector<float>{1.0f, 1.0f});
    CHECK(matrix.mean("blk.0.attn_q.weight", 4).error().code == errc::bad_shape);
    CHECK(matrix.mean("blk.0.attn_q.weight", 3, 2).error().code == errc::bad_shape);
    CHECK(matrix.mean("blk.0.ffn_up_exps.weight", 2, 2, 2).error().code == errc::bad_shape);
    CHECK(matrix.mean("other", 4).error().code == errc::missing_tensor);
    CHECK_FALSE(matrix.find("blk.0.attn_q.weight")->fits(0));
}

TEST_CASE("one count may stand for a whole stack of experts") {
    const auto read_one = read(gguf_file({2, 3}, {2, 4, 6, 8, 10, 12}, {1}, {2}));
    REQUIRE(read_one);
    CHECK(read_one->mean("a", 2, 3, 2).value() == std::vector<float>{5.0f, 6.0f});
    CHECK(read_one->find("a")->columns() == 6);
    CHECK(read_one->chunks == 7);
    CHECK(read_one->chunk_size == 256);
    const auto each = read(gguf_file({2, 3}, {2, 4, 6, 8, 10, 12}, {1, 3}, {2, 1, 2}));
    REQUIRE(each);
    CHECK(each->mean("a", 2, 3, 1).value() == std::vector<float>{6.0f, 8.0f});
}

TEST_CASE("merging adds sums and counts, and keeps what only one has") {
    auto matrix = sample();
    importance_matrix other;
    other.entries["blk.0.attn_q.weight"] = {{1.0f, 1.0f, 1.0f}, {1.0}};
    other.entries["blk.0.ffn_up_exps.weight"] = {{1.0f, 0.0f, 3.0f, 6.0f}, {2.0, 3.0}};
    other.entries["output.weight"] = {{5.0f}, {1.0}};
    other.datasets = {"text.txt", "more.txt"};
    other.chunks = 4;
    other.chunk_size = 256;
    REQUIRE(matrix.merge(other));
    CHECK(matrix.mean("blk.0.attn_q.weight", 3).value() == std::vector<float>{1.0f, 5.0f / 3, 7.0f / 3});
    CHECK(matrix.mean("blk.0.ffn_up_exps.weight", 2, 2, 1).value() == std::vector<float>{1.0f, 2.0f});
    CHECK(matrix.find("output.weight")->sums == std::vector<float>{5.0f});
    CHECK(matrix.datasets == std::vector<std::string>{"text.txt", "more.txt"});
    CHECK(matrix.chunks == 5);  // four windows of 256 are two of 512

    importance_matrix wrong;
    wrong.entries["a.first"] = {{1.0f}, {1.0}};
    wrong.entries["blk.0.attn_q.weight"] = {{1.0f}, {1.0}};
    const auto refused = matrix.merge(wrong);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == errc::bad_shape);
    CHECK(matrix.find("a.first") == nullptr);
}

TEST_CASE("the older form is read, with and without its tail") {
    const std::string head = le(std::int32_t{2}) + dat_entry("a", 4, {8, 2}) + dat_entry("b", 0, {1});
    for (const std::string& tail : {std::string(), le(std::int32_t{4}), le(std::int32_t{4}) + le(std::int32_t{5}) + "x.txt",
                                    le(std::int32_t{4}) + le(std::int32_t{0})}) {
        const auto matrix = read(head + tail);
        REQUIRE_MESSAGE(matrix, matrix.error().text());
        CHECK(matrix->mean("a", 2).value() == std::vector<float>{2.0f, 0.5f});
        CHECK(matrix->mean("b", 1).value() == std::vector<float>{1.0f});
        CHECK(matrix->find("a")->count(0) == 40.0);  // windows of 10 tokens, as asked
        CHECK(matrix->chunks == (tail.empty() ? 0 : 4));
        CHECK(matrix->datasets.size() == (tail.size() > 8 ? 1 : 0));
    }
    // 640 entries begin with the bytes of a pickle; they are read nevertheless.
    std::string many = le(std::int32_t{640});
    for (int i = 0; i < 640; ++i) many += dat_entry("blk." + std::to_string(i), 1, {1});
    CHECK(read(many));
}

TEST_CASE("damaged files of the older form are refused before memory is taken") {
    const auto check = [](const std::string& bytes, errc code) {
        const auto matrix = read(bytes);
        REQUIRE_FALSE(matrix);
        CHECK_MESSAGE(matrix.error().code == code, matrix.error().text());
        CHECK(matrix.error().text().find("'it'") == 0);
    };
    const auto one = le(std::int32_t{1});
    check("", errc::truncated);
    check("ab", errc::truncated);
    check(le(std::int32_t{0}) + dat_entry("a", 1, {1}), errc::bad_count);
    check(le(std::int32_t{-1}) + dat_entry("a", 1, {1}), errc::bad_count);
    check(le(std::int32_t{2}) + dat_entry("a", 1, {1}), errc::bad_count);
    check(le(std::numeric_limits<std::int32_t>::max()) + dat_entry("a", 1, {1}), errc::bad_count);
    check(one + le(std::int32_t{-5}) + std::string(40, 'x'), errc::bad_count);
    check(one + le(std::int32_t{2000000000}) + std::string(40, 'x'), errc::bad_count);
    check(one + le(std::int32_t{100}) + std::string(40, 'x'), errc::truncated);
    check(one + dat_entry("a", -1, {1}), errc::bad_count);
    check(one + le(std::int32_t{1}) + "a" + le(std::int32_t{1}) + le(std::numeric_limits<std::int32_t>::max()) + le(1.0f), errc::truncated);
    check(one + dat_entry("a", 1, {}) + le(1.0f), errc::bad_count);
    check(one + dat_entry("\x1b[2J", 1, {1}), errc::bad_value);
    check(one + dat_entry("a", 1, {std::numeric_limits<float>::quiet_NaN()}), errc::bad_value);
    check(one + dat_entry("a", 1, {std::numeric_limits<float>::infinity()}), errc::bad_value);
    check(one + dat_entry("a", 1, {-1.0f}), errc::bad_value);
    check(le(std::int32_t{2}) + dat_entry("a", 1, {1}) + dat_entry("a", 1, {1}), errc::duplicate);
    check(one + dat_entry("a", 1, {1}) + "xy", errc::truncated);
    check(one + dat_entry("a", 1, {1}) + le(std::int32_t{1}) + le(std::int32_t{9}) + "x", errc::truncated);
    check(one + dat_entry("a", 1, {1}) + le(std::int32_t{1}) + le(std::int32_t{1}) + "xy", errc::bad_count);
    check("In the beginning was the word, and so on.", errc::bad_magic);
}

TEST_CASE("damaged GGUF matrices are refused with the tensor's name") {
    const auto check = [](const std::string& bytes, errc code) {
        const auto matrix = read(bytes);
        REQUIRE_FALSE(matrix);
        CHECK_MESSAGE(matrix.error().code == code, matrix.error().text());
    };
    CHECK(read(gguf_file({2}, {1, 2}, {1}, {1})));
    check(gguf_file({3}, {1, 2, 3}, {1, 2}, {1, 1}), errc::bad_shape);
    check(gguf_file({2}, {1, std::numeric_limits<float>::quiet_NaN()}, {1}, {1}), errc::bad_value);
    check(gguf_file({2}, {1, -2}, {1}, {1}), errc::bad_value);
    check(gguf_file({2}, {1, 2}, {1}, {std::numeric_limits<float>::infinity()}), errc::bad_value);
    check(gguf_file({2}, {1, 2}, {1}, {1}, 26), errc::bad_type);
    check(gguf_file({2}, {1, 2}, {1}, {1}, 0, "model"), errc::not_a_file);
    const auto alone = gguf_bytes::file({}, {gguf_bytes::tensor("a.in_sum2", {1}, 0, 0)}, floats({1}));
    check(alone, errc::missing_tensor);
    check(gguf_bytes::file({}, {gguf_bytes::tensor("a.weight", {1}, 0, 0)}, floats({1})), errc::not_a_file);
    auto cut = gguf_file({2}, {1, 2}, {1}, {1});
    cut.resize(cut.size() - 32);
    CHECK_FALSE(read(cut));
    CHECK_FALSE(read("GGUF"));
}
