#include "colibri/gguf/file.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "support/gguf_bytes.hpp"
#include "support/scratch.hpp"

using namespace colibri;
using namespace gguf_bytes;

namespace {

/// Part `number` of `count` with one tensor.
std::string part(unsigned number, unsigned count, unsigned total, const std::string& tensor_name) {
    return file({key("split.no", 2, le(static_cast<std::uint16_t>(number))),
                 key("split.count", 2, le(static_cast<std::uint16_t>(count))),
                 key("split.tensors.count", 5, le(static_cast<std::int32_t>(total))), key_u32("of.part", number)},
                {tensor(tensor_name, {8 * (number + 1)}, 0, 0)},
                std::string(32 * (number + 1), static_cast<char>('0' + number)));
}

bool has(const std::string& text, std::string_view word) { return text.find(word) != std::string::npos; }

}  // namespace

TEST_CASE("names of the parts of a split model") {
    using gguf::split_path;
    CHECK(split_path("dir/m-00002-of-00003.gguf", 0, 3).value() == "dir/m-00001-of-00003.gguf");
    CHECK(split_path("m-00001-of-00012.gguf", 11, 12).value() == "m-00012-of-00012.gguf");
    for (const char* bad : {"m.gguf", "m-00001-of-00002.gguf", "m-0001-of-00003.gguf", "m00001-of-00003.gguf",
                            "-of-00003.gguf", "m-0000x-of-00003.gguf", "m-00001-of-00003.bin"}) {
        CHECK_MESSAGE(!split_path(bad, 0, 3), bad);
    }
    CHECK(split_path("-00001-of-00003.gguf", 1, 3).value() == "-00002-of-00003.gguf");
}

TEST_CASE("all parts make one file, whichever is named") {
    const scratch::folder folder;
    for (unsigned i = 0; i < 3; ++i) {
        folder.put("m-0000" + std::to_string(i + 1) + "-of-00003.gguf", part(i, 3, 3, "t" + std::to_string(i)));
    }
    for (unsigned named = 1; named <= 3; ++named) {
        auto got = gguf::file::open(folder.path() / ("m-0000" + std::to_string(named) + "-of-00003.gguf"));
        REQUIRE(got);
        CHECK(got->parts().size() == 3);
        CHECK(got->meta().get<unsigned>("of.part").value() == 0);
        REQUIRE(got->tensors().size() == 3);
        for (unsigned i = 0; i < 3; ++i) {
            const auto* tensor = got->find("t" + std::to_string(i));
            REQUIRE(tensor != nullptr);
            CHECK(tensor->part == i);
            const auto& where = got->parts()[i];
            CHECK(where.path.filename() == "m-0000" + std::to_string(i + 1) + "-of-00003.gguf");
            CHECK(scratch::read(where.path).substr(tensor->offset, tensor->bytes) ==
                  std::string(32 * (i + 1), static_cast<char>('0' + i)));
        }
        CHECK(got->find("t3") == nullptr);
        CHECK(got->find("") == nullptr);
        CHECK(got->tensor_bytes() == 32 + 64 + 96);
    }
    auto one = gguf::file::open(folder.path() / "m-00002-of-00003.gguf", {.whole = false});
    REQUIRE(one);
    CHECK(one->parts().size() == 1);
    CHECK(one->find("t1")->part == 0);
    CHECK(one->find("t0") == nullptr);
}

TEST_CASE("parts that don't belong together are refused, and the part is named") {
    const scratch::folder folder;
    const auto first = folder.put("m-00001-of-00002.gguf", part(0, 2, 2, "a"));
    const auto second = folder.path() / "m-00002-of-00002.gguf";
    const auto refused = [&](const std::filesystem::path& path) {
        auto got = gguf::file::open(path);
        REQUIRE(!got);
        CHECK(got.error().code == errc::split);
        return got.error().text();
    };
    CHECK(has(refused(first), "m-00002-of-00002.gguf"));
    CHECK(has(refused(first), "there is no such file"));
    folder.put(second.filename(), part(1, 3, 2, "b"));
    CHECK(has(refused(first), "split.count"));
    folder.put(second.filename(), part(0, 2, 2, "b"));
    CHECK(has(refused(first), "split.no"));
    folder.put(second.filename(), part(1, 2, 2, "a"));
    CHECK(has(refused(first), "'a' is in two parts"));
    folder.put(second.filename(), "GGUF");
    CHECK(has(refused(first), "header"));
    folder.put(second.filename(), part(1, 2, 2, "b"));
    CHECK(gguf::file::open(first));
    folder.put(first.filename(), part(0, 2, 7, "a"));
    CHECK(has(refused(first), "split.tensors.count"));
    folder.put(first.filename(), part(5, 2, 2, "a"));
    CHECK(has(refused(first), "split.no"));
    std::filesystem::remove(first);
    CHECK(has(refused(second), "m-00001-of-00002.gguf"));
    const auto renamed = folder.put("model.gguf", part(0, 2, 2, "a"));
    CHECK(has(refused(renamed), "file name"));
    CHECK(gguf::file::open(renamed, {.whole = false}));
}

TEST_CASE("errors name the file, safely") {
    const scratch::folder folder;
    auto got = gguf::file::open(folder.put("evil\x1b[31m.gguf", "GGUF"));
    REQUIRE(!got);
    CHECK(got.error().text().find('\x1b') == std::string::npos);
    CHECK(has(got.error().text(), "evil\\x1b[31m.gguf"));
    CHECK(gguf::file::open(folder.path()).error().code == errc::not_a_file);
    CHECK(gguf::file::open(folder.path() / "none").error().code == errc::not_found);
}

TEST_CASE("a container in memory") {
    const std::string bytes = file({key_text("a", "b")}, {tensor("t", {8}, 0, 0)}, std::string(32, 'x'));
    memory_source source(std::as_bytes(std::span(bytes.data(), bytes.size())));
    auto got = gguf::file::read(source, "memory");
    REQUIRE(got);
    CHECK(got->find("t")->bytes == 32);
    memory_source cut(std::as_bytes(std::span(bytes.data(), bytes.size() - 1)));
    auto refused = gguf::file::read(cut, "memory");
    REQUIRE(!refused);
    CHECK(refused.error().text().starts_with("memory: tensor 't'"));
}
