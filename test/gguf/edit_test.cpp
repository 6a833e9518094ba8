#include "colibri/gguf/edit.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <string>

#include "support/gguf_bytes.hpp"
#include "support/made_gguf.hpp"
#include "support/scratch.hpp"

using namespace colibri;
using gguf::edit_way;
using gguf::metadata;
using gguf::value_type;

namespace {

metadata sample_meta() {
    metadata meta;
    meta.set("general.architecture", "test");
    meta.set("a.count", std::uint32_t{7});
    meta.set("a.rate", 0.5);
    meta.set("a.text", "hello");
    meta.set("a.long", std::string(2000, 'x'));
    meta.set("b.count", std::uint32_t{8});
    return meta;
}

std::filesystem::path sample(const scratch::folder& folder) {
    return made::gguf(folder.path() / "m.gguf", sample_meta(), {{"a", dtype::f32, {300}}, {"b", dtype::q4_k, {256, 9}}, {"c", dtype::i8, {70001}}});
}

ino_t inode(const std::filesystem::path& path) {
    struct stat status {};
    REQUIRE(::stat(path.c_str(), &status) == 0);
    return status.st_ino;
}

gguf::metadata_edit sets(std::initializer_list<const char*> texts) {
    gguf::metadata_edit out;
    for (const char* text : texts) out.set.push_back(gguf::parse_edit(text, sample_meta()).value());
    return out;
}

// Bytes of all tensors.
std::string data_of(const std::filesystem::path& path) {
    const auto model = gguf::file::open(path).value();
    const std::string all = scratch::read(path);
    std::string out;
    for (const auto& tensor : model.tensors()) out += all.substr(tensor.offset, tensor.bytes);
    return out;
}

}  // namespace

TEST_CASE("changes are written KEY=TYPE:VALUE") {
    const metadata meta = sample_meta();
    const auto got = [&](std::string_view text) { return gguf::parse_edit(text, meta).value(); };
    CHECK(got("k=u8:255").value == gguf::value::of(std::uint8_t{255}));
    CHECK(got("k=i64:-5").value == gguf::value::of(std::int64_t{-5}));
    CHECK(got("k=f32:0.1").value == gguf::value::of(0.1f));
    CHECK(got("k=f64:1e300").value == gguf::value::of(1e300));
    CHECK(got("k=bool:true").value == gguf::value::of(true));
    CHECK(got("k=str:a=b:c").value == gguf::value::of(std::string_view("a=b:c")));
    CHECK(got("k=string:").value == gguf::value::of(std::string_view("")));
    CHECK(got("k=string:").key == "k");
    CHECK(got("a.count=int:9").value.type() == value_type::u32);
    CHECK(got("a.count=int:-9").value.type() == value_type::i32);
    CHECK(got("k=int:5000000000").value.type() == value_type::i64);
    CHECK(got("k=int:18446744073709551615").value.type() == value_type::u64);
    CHECK(got("a.rate=float:2").value.type() == value_type::f64);
    CHECK(got("k=float:2").value.type() == value_type::f32);
    const std::int32_t numbers[] = {1, -2, 3};
    CHECK(got("k=i32[]:1,-2,3").value == gguf::value::array(std::span<const std::int32_t>(numbers)));
    CHECK(got("k=i32[]:").value.size() == 0);
    CHECK(got("k=string[]:a,,c,").value.size() == 4);
    CHECK(got("k=string[]:a,b").value.text_at(1) == "b");
    const bool truths[] = {true, false};
    CHECK(got("k=bool[]:1,false").value == gguf::value::array(std::span<const bool>(truths)));
    for (const char* wrong : {"", "k", "=u8:1", "k=5", "k=u8:256", "k=u8:-1", "k=u8:1 ", "k=u32:", "k=bool:yes", "k=word:1", "k=int[]:1",
                              "k=array:1", "k=array[]:1", "k=u8[]:1,,2", "k=f32:0,5", "k=int:1.5", "k=str:\xff", "k=str[]:a,\xc0"}) {
        CAPTURE(wrong);
        auto refused = gguf::parse_edit(wrong, meta);
        REQUIRE(!refused);
        CHECK(refused.error().code == errc::bad_value);
    }
}

TEST_CASE("a number is changed in place, within one sector") {
    const scratch::folder folder;
    const auto path = sample(folder);
    const std::string before = scratch::read(path);
    const auto id = inode(path);
    CHECK(gguf::edit_metadata(path, sets({"a.count=u32:7"})).value() == edit_way::none);
    CHECK(gguf::edit_metadata(path, sets({"a.count=u32:513", "a.text=str:HELLO"})).value() == edit_way::in_place);
    CHECK(inode(path) == id);
    metadata expected = sample_meta();
    expected.set("a.count", std::uint32_t{513});
    expected.set("a.text", "HELLO");
    CHECK(gguf::file::open(path).value().meta() == expected);
    const std::string after = scratch::read(path);
    REQUIRE(after.size() == before.size());
    std::size_t first = before.size(), last = 0;
    for (std::size_t i = 0; i < before.size(); ++i) {
        if (before[i] == after[i]) continue;
        first = std::min(first, i);
        last = i;
    }
    CHECK(first / 512 == last / 512);
}

TEST_CASE("what needs more than one sector makes a new file, with the same tensors") {
    const scratch::folder folder;
    const auto path = sample(folder);
    const std::string data = data_of(path);
    metadata expected = sample_meta();
    const auto changed = [&](const gguf::metadata_edit& edit) {
        const auto id = inode(path);
        CHECK(gguf::edit_metadata(path, edit).value() == edit_way::rewritten);
        CHECK(inode(path) != id);
        CHECK(gguf::file::open(path).value().meta() == expected);
        CHECK(data_of(path) == data);
        CHECK(scratch::count(folder.path()) == 1);
    };
    expected.set("a.count", std::uint32_t{1});  // more than 512 bytes lie between
    expected.set("b.count", std::uint32_t{2});
    changed(sets({"a.count=u32:1", "b.count=u32:2"}));
    expected.set("new.text", std::string(5000, 'n'));  // a longer header
    gguf::metadata_edit longer;
    longer.set.push_back({"new.text", gguf::value::of(std::string_view(std::string(5000, 'n')))});
    changed(longer);
    expected.remove("a.long");  // a shorter one
    changed({.remove = {"a.long"}, .set = {}});
    expected.remove("a.text");  // removed and set: at the end
    expected.set("a.text", 5);
    changed({.remove = {"a.text"}, .set = {{"a.text", gguf::value::of(5)}}});
}

TEST_CASE("with an output the file stays as it is") {
    const scratch::folder folder;
    const auto path = sample(folder);
    const std::string before = scratch::read(path);
    CHECK(gguf::edit_metadata(path, sets({"a.count=u32:1"}), folder.path() / "o.gguf").value() == edit_way::rewritten);
    CHECK(scratch::read(path) == before);
    CHECK(gguf::file::open(folder.path() / "o.gguf").value().meta().get<int>("a.count").value() == 1);
    CHECK(gguf::edit_metadata(path, {}, folder.path() / "copy.gguf").value() == edit_way::rewritten);
    CHECK(scratch::read(folder.path() / "copy.gguf") == before);
}

TEST_CASE("order, gaps, version and trailing bytes of a file are kept") {
    using namespace gguf_bytes;
    const scratch::folder folder;
    // Data in another order than the list, with a gap and bytes behind the end.
    const std::string data = std::string(16, 'B') + std::string(48, '\0') + std::string(16, 'A') + "tail";
    const auto path = folder.put("m.gguf", file({key_text("k", "v")}, {tensor("a", {4}, 0, 64), tensor("b", {4}, 0, 0)}, data, 32, 2));
    gguf::metadata_edit edit;
    edit.set.push_back({"k", gguf::value::of(std::string_view(std::string(100, 'w')))});
    REQUIRE(gguf::edit_metadata(path, edit));
    CHECK(scratch::read(path) == file({key_text("k", std::string(100, 'w'))}, {tensor("a", {4}, 0, 64), tensor("b", {4}, 0, 0)}, data, 32, 2));
}

TEST_CASE("changes that can't be made are refused, and the file stays") {
    const scratch::folder folder;
    const auto path = sample(folder);
    const std::string before = scratch::read(path);
    const auto refused = [&](const gguf::metadata_edit& edit) {
        auto got = gguf::edit_metadata(path, edit);
        REQUIRE(!got);
        CHECK(scratch::read(path) == before);
        CHECK(scratch::count(folder.path()) == 1);
        return got.error().code;
    };
    CHECK(refused({.remove = {"none"}, .set = {}}) == errc::missing_key);
    CHECK(refused({.remove = {"split.no"}, .set = {}}) == errc::invalid_argument);
    CHECK(refused({.remove = {}, .set = {{"general.alignment", gguf::value::of(64u)}}}) == errc::invalid_argument);
    CHECK(refused({.remove = {}, .set = {{"a\nb", gguf::value::of(1)}}}) == errc::bad_value);
    auto stopped = gguf::edit_metadata(path, {.remove = {"a.long"}, .set = {}}, {}, [](const progress&) { return false; });
    CHECK(stopped.error().code == errc::canceled);
    CHECK(scratch::read(path) == before);
    CHECK(scratch::count(folder.path()) == 1);
}
