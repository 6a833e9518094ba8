#include "colibri/gguf/shard_writer.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "support/scratch.hpp"
#include "support/random_values.hpp"

using namespace colibri;
using gguf::metadata;
using gguf::tensor_info;

namespace {

tensor_info plan(std::string name, std::uint64_t floats, unsigned part = 0) {
    tensor_info out;
    out.name = std::move(name);
    out.dims[0] = floats;
    out.bytes = floats * 4;
    out.part = part;
    return out;
}

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }

metadata sample() {
    metadata meta;
    meta.set("general.architecture", "test");
    meta.set("general.alignment", std::uint32_t{64});
    meta.set("split.count", std::uint16_t{9});
    meta.set("text", std::string(500, 't'));
    return meta;
}

std::vector<unsigned> parts_of(const std::vector<tensor_info>& tensors) {
    std::vector<unsigned> out;
    for (const auto& tensor : tensors) out.push_back(tensor.part);
    return out;
}

// Writes all tensors; the contents are noise of the tensor's index.
void fill(gguf::shard_writer& out) {
    for (unsigned i = 0; i < out.tensors().size(); ++i) {
        const std::string all = test_support::random_text(static_cast<std::size_t>(out.tensors()[i].bytes), i);
        CHECK(out.next() == &out.tensors()[i]);
        REQUIRE(out.write(bytes_of(all).first(all.size() / 2)));
        REQUIRE(out.write(bytes_of(all).subspan(all.size() / 2)));
    }
    CHECK(out.next() == nullptr);
}

}  // namespace

TEST_CASE("sizes of parts are told in powers of 1000, with an i of 1024") {
    CHECK(gguf::parse_shard_size("50G").value() == 50'000'000'000);
    CHECK(gguf::parse_shard_size("1.5MB").value() == 1'500'000);
    CHECK(gguf::parse_shard_size("4gib").value() == std::uint64_t{4} << 30);
    CHECK(gguf::parse_shard_size("4GiB").value() == std::uint64_t{4} << 30);
    CHECK(gguf::parse_shard_size("12345").value() == 12345);
    for (const std::string_view wrong : {"", "G", "0k", "1e30G", "five", "-1M", "3X", "nanG"}) {
        CAPTURE(wrong);
        auto got = gguf::parse_shard_size(wrong);
        REQUIRE(!got);
        CHECK(got.error().code == errc::bad_value);
    }
}

TEST_CASE("a limit of bytes holds for whole files") {
    for (const std::uint64_t limit : {1800u, 2000u, 2500u, 4000u, 100000u}) {
        CAPTURE(limit);
        std::vector<tensor_info> tensors;
        for (int i = 0; i < 20; ++i) tensors.push_back(plan(concat("t", i), static_cast<std::uint64_t>(1 + i * 13 % 250)));
        REQUIRE(gguf::plan_split(sample(), tensors, {.max_bytes = limit}));
        const scratch::folder folder;
        auto out = gguf::shard_writer::create(folder.path() / "m.gguf", sample(), tensors).value();
        fill(out);
        REQUIRE(out.finish());
        for (std::size_t i = 0; i < out.paths().size(); ++i) {
            CHECK(std::filesystem::file_size(out.paths()[i]) <= limit);
        }
        CHECK((out.paths().size() == 1) == (limit == 100000));
        // A file is only closed because the next tensor didn't fit.
        auto whole = gguf::file::open(out.paths()[0]).value();
        for (std::size_t i = 1; i < whole.tensors().size(); ++i) {
            const auto& tensor = whole.tensors()[i];
            if (tensor.part == whole.tensors()[i - 1].part) continue;
            const auto left = limit - whole.parts()[tensor.part - 1].size;
            CHECK(tensor.bytes + 64 + 64 + 64 > left);  // its data, its entry and padding of both
        }
    }
}

TEST_CASE("a limit of tensors, and a number of files") {
    std::vector<tensor_info> tensors(7, plan("t", 100));
    REQUIRE(gguf::plan_split({}, tensors, {.max_tensors = 3}));
    CHECK(parts_of(tensors) == std::vector<unsigned>{0, 0, 0, 1, 1, 1, 2});
    REQUIRE(gguf::plan_split({}, tensors, {.parts = 3}));
    CHECK(parts_of(tensors) == std::vector<unsigned>{0, 0, 1, 1, 1, 2, 2});
    REQUIRE(gguf::plan_split({}, tensors, {.parts = 7}));
    CHECK(parts_of(tensors) == std::vector<unsigned>{0, 1, 2, 3, 4, 5, 6});
    REQUIRE(gguf::plan_split({}, tensors, {}));
    CHECK(parts_of(tensors) == std::vector<unsigned>(7, 0));
    tensors[0] = plan("large", 100000);
    REQUIRE(gguf::plan_split({}, tensors, {.parts = 3}));
    CHECK(parts_of(tensors)[1] == 1);
    CHECK(parts_of(tensors).back() == 2);
    tensors.back() = plan("large", 1000000);
    REQUIRE(gguf::plan_split({}, tensors, {.parts = 3}));
    CHECK(parts_of(tensors).back() == 2);
    CHECK(gguf::plan_split({}, tensors, {.parts = 8}).error().code == errc::invalid_argument);
    CHECK(gguf::plan_split({}, tensors, {.max_bytes = 100000}).error().text().find("'large'") != std::string::npos);
    CHECK(gguf::plan_split(sample(), tensors, {.max_bytes = 400}).error().text().find("metadata") != std::string::npos);
}

TEST_CASE("names of parts") {
    const auto first = [](const char* path, unsigned count) { return gguf::shard_paths(path, count)[0].string(); };
    CHECK(first("a/m.gguf", 1) == "a/m.gguf");
    CHECK(first("a/m.gguf", 2) == "a/m-00001-of-00002.gguf");
    CHECK(first("m", 100000) == "m-00001-of-100000.gguf");
    CHECK(first("m-00003-of-00004.gguf", 2) == "m-00001-of-00002.gguf");
    CHECK(first("m-0x003-of-00004.gguf", 2) == "m-0x003-of-00004-00001-of-00002.gguf");
    CHECK(first("-00003-of-00004.gguf", 2) == "-00003-of-00004-00001-of-00002.gguf");
    CHECK(gguf::shard_paths("m", 3)[2] == "m-00003-of-00003.gguf");
}

TEST_CASE("a set is read back as the model that was written") {
    const scratch::folder folder;
    auto out = gguf::shard_writer::create(folder.path() / "m", sample(),
                                          {plan("a", 30), plan("b", 7), plan("c", 100, 1), plan("d", 1, 2), plan("e", 9, 2)})
                   .value();
    fill(out);
    CHECK(!out.write(bytes_of("x")));
    CHECK(!std::filesystem::exists(out.paths()[0]));
    REQUIRE(out.finish());
    CHECK(scratch::count(folder.path()) == 3);
    const auto whole = gguf::file::open(folder.path() / "m-00002-of-00003.gguf").value();
    REQUIRE(whole.parts().size() == 3);
    CHECK(whole.meta().get<std::string>("text").value() == std::string(500, 't'));
    CHECK(whole.meta().get<std::uint32_t>("split.count").value() == 3);
    for (const auto& part : whole.parts()) CHECK(part.alignment == 64);
    REQUIRE(whole.tensors().size() == 5);
    for (unsigned i = 0; i < 5; ++i) {
        const auto& tensor = whole.tensors()[i];
        CHECK(tensor.name == out.tensors()[i].name);
        CHECK(tensor.part == out.tensors()[i].part);
        CHECK(tensor.offset == out.tensors()[i].offset);
        CHECK(scratch::read(whole.parts()[tensor.part].path).substr(tensor.offset, tensor.bytes) ==
              test_support::random_text(static_cast<std::size_t>(tensor.bytes), i));
    }
    const auto last = gguf::file::open(out.paths()[2], {.whole = false}).value();
    CHECK(last.meta().size() == 4);
    CHECK(last.meta().get<std::int32_t>("split.tensors.count").value() == 5);
}

TEST_CASE("one part has no keys of a split one; a first part may be metadata alone") {
    const scratch::folder folder;
    auto one = gguf::shard_writer::create(folder.path() / "one.gguf", sample(), {plan("a", 3)}).value();
    fill(one);
    REQUIRE(one.finish());
    CHECK(!gguf::file::open(folder.path() / "one.gguf").value().meta().contains("split.count"));
    auto bare = gguf::shard_writer::create(folder.path() / "bare.gguf", sample(), {plan("a", 3, 1)}).value();
    fill(bare);
    REQUIRE(bare.finish());
    CHECK(gguf::file::open(folder.path() / "bare-00001-of-00002.gguf").value().tensors().size() == 1);
    auto none = gguf::shard_writer::create(folder.path() / "none.gguf", sample(), {}).value();
    REQUIRE(none.finish());
}

TEST_CASE("what can't be a set is refused, and a set that isn't finished leaves nothing") {
    const scratch::folder folder;
    const auto refused = [&](std::vector<tensor_info> tensors) {
        auto out = gguf::shard_writer::create(folder.path() / "m", {}, std::move(tensors));
        REQUIRE(!out);
        CHECK(scratch::count(folder.path()) == 0);
        return out.error().code;
    };
    CHECK(refused({plan("a", 1), plan("b", 1, 2)}) == errc::invalid_argument);
    CHECK(refused({plan("a", 1), plan("b", 1, 1), plan("c", 1)}) == errc::invalid_argument);
    CHECK(refused({plan("a", 1), plan("a", 1, 1)}) == errc::duplicate);
    {
        auto out = gguf::shard_writer::create(folder.path() / "m", {}, {plan("a", 1), plan("b", 2, 1)}).value();
        CHECK(scratch::count(folder.path()) == 2);
        REQUIRE(out.write(bytes_of("1234")));
        REQUIRE(out.write(bytes_of("1234")));
        CHECK(out.finish().error().text().find("lacks 4 bytes") != std::string::npos);
        auto moved = std::move(out);
        CHECK(scratch::count(folder.path()) == 2);
    }
    CHECK(scratch::count(folder.path()) == 0);
}

TEST_CASE("through a link the file behind it is replaced, the link stays") {
    const scratch::folder folder;
    const auto behind = folder.put("data/first", "old");
    std::filesystem::create_symlink(behind, folder.path() / "m-00001-of-00002.gguf");
    auto out = gguf::shard_writer::create(folder.path() / "m", {}, {plan("a", 1), plan("b", 2, 1)}).value();
    fill(out);
    REQUIRE(out.finish());
    CHECK(std::filesystem::is_symlink(folder.path() / "m-00001-of-00002.gguf"));
    CHECK(scratch::read(behind).starts_with("GGUF"));
    CHECK(gguf::file::open(folder.path() / "m-00001-of-00002.gguf").value().tensors().size() == 2);
}
