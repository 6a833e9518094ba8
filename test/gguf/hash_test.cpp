#include "colibri/gguf/hash.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "support/made_gguf.hpp"
#include "support/scratch.hpp"

using namespace colibri;

namespace {

// Larger than a window, so that tensors are broken off and go on.
std::filesystem::path sample(const scratch::folder& folder) {
    gguf::metadata meta;
    meta.set("general.architecture", "test");
    return made::gguf(folder.path() / "m:1.gguf", meta,
                      {{"small", dtype::f32, {3}}, {"large", dtype::i8, {(9u << 20) + 5}}, {"blocks", dtype::q6_k, {256, 50000}},
                       {"name:with:colons", dtype::f16, {100}}, {"end", dtype::i8, {1}}});
}

}  // namespace

TEST_CASE("each tensor's hash is that of its bytes, the whole's that of all") {
    const scratch::folder folder;
    const auto path = sample(folder);
    const auto model = gguf::file::open(path).value();
    const std::string all = scratch::read(path);
    thread_pool one(1), four(4);
    const auto hashes = gguf::hash_tensors(model, one).value();
    sha256 whole;
    for (std::size_t i = 0; i < model.tensors().size(); ++i) {
        const auto& tensor = model.tensors()[i];
        const auto bytes = std::as_bytes(std::span(all)).subspan(tensor.offset, tensor.bytes);
        CHECK(hashes.tensors[i] == sha256::of(bytes));
        whole.update(bytes);
    }
    CHECK(hashes.whole == whole.finish());
    const auto again = gguf::hash_tensors(model, four).value();
    CHECK(again.tensors == hashes.tensors);
    CHECK(again.whole == hashes.whole);
}

TEST_CASE("a list agrees with the model that it was made from, by whatever name the file goes") {
    const scratch::folder folder;
    const auto path = sample(folder);
    thread_pool pool(2);
    const auto model = gguf::file::open(path).value();
    const auto hashes = gguf::hash_tensors(model, pool).value();
    const auto list = gguf::parse_hash_list(gguf::hash_list_text(model, hashes)).value();
    REQUIRE(list.size() == 6);
    std::filesystem::rename(path, folder.path() / "other");
    const auto renamed = gguf::file::open(folder.path() / "other").value();
    auto same = gguf::compare_hashes(renamed, hashes, list);
    CHECK(same.same());
    CHECK(same.whole == true);
    // Only the whole, only tensors, names without a file.
    CHECK(gguf::compare_hashes(renamed, hashes, std::span(list).last(1)).whole == true);
    CHECK(gguf::compare_hashes(renamed, hashes, std::span(list).last(1)).same());
    CHECK(!gguf::compare_hashes(renamed, hashes, std::span(list).first(5)).whole.has_value());
    CHECK(gguf::compare_hashes(renamed, hashes, std::span(list).first(5)).same());
    auto bare = list;
    bare.pop_back();
    for (auto& line : bare) line.name = line.name.substr(line.name.find(".gguf:") + 6);
    CHECK(gguf::compare_hashes(renamed, hashes, bare).same());
    // What is wrong is named.
    auto wrong = list;
    wrong[1].hash[0] = wrong[1].hash[0] == '0' ? '1' : '0';
    wrong[5].hash = wrong[1].hash;
    wrong[2].name += "x";
    same = gguf::compare_hashes(renamed, hashes, wrong);
    CHECK(!same.same());
    CHECK(same.differing == std::vector<std::size_t>{1});
    CHECK(same.missing == std::vector<std::string>{"blocksx"});
    CHECK(same.unlisted == std::vector<std::size_t>{2});
    CHECK(same.whole == false);
}

TEST_CASE("lists that are none are refused with the line's number") {
    const std::string zeros(64, '0');
    const auto refused = [](std::string_view text) { return gguf::parse_hash_list(text).error().text(); };
    CHECK(refused("").find("no SHA-256") != std::string::npos);
    CHECK(refused("xxh64  0123456789abcdef  m.gguf\n").find("no SHA-256") != std::string::npos);
    CHECK(refused(concat("# list\nsha256  ", zeros, "  a\nsomething\n")).find("line 3") != std::string::npos);
    CHECK(refused(concat("sha256  ", zeros.substr(1), "  a\n")).find("line 1") != std::string::npos);
    CHECK(refused(concat("sha256  ", zeros, "\n")).find("names nothing") != std::string::npos);
    CHECK(refused(concat("sha256  ", std::string(64, 'G'), "  a\n")).find("64 digits") != std::string::npos);
    CHECK(gguf::parse_hash_list(concat("sha1  x  a\r\n\nsha256  ", zeros, "  a b\r\n")).value()[0].name == "a b");
}

TEST_CASE("hashing stops on request and notices a file that became shorter") {
    const scratch::folder folder;
    const auto path = sample(folder);
    const auto model = gguf::file::open(path).value();
    thread_pool pool(1);
    std::uint64_t seen = 0;
    auto stopped = gguf::hash_tensors(model, pool, [&](const progress& p) {
        seen = p.done;
        return false;
    });
    CHECK(stopped.error().code == errc::canceled);
    CHECK(seen > 0);
    std::filesystem::resize_file(path, 1000);
    CHECK(gguf::hash_tensors(model, pool).error().code == errc::truncated);
}
