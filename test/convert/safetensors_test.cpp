#include "colibri/convert/safetensors.hpp"

#include "colibri/convert/weight_files.hpp"
#include "convert/made_files.hpp"
#include "support/scratch.hpp"

using namespace colibri;
using convert::element;
using convert::read_safetensors;

namespace {

result<std::vector<convert::stored_tensor>> read(const std::string& file) {
    memory_source source(std::as_bytes(std::span(file)));
    return read_safetensors(source);
}

error refused(const std::string& header, const std::string& data = std::string(16, '\0')) {
    const auto got = read(folders::safetensors_file(header, data));
    REQUIRE(!got);
    return got.error();
}

const std::string w = R"({"w":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}})";

}  // namespace

TEST_CASE("safetensors: tensors in the order of their data, with their place in the file") {
    const std::string header =
        R"({"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[3],"data_offsets":[4,10]},)"
        R"("a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"none":{"dtype":"F16","shape":[0,7],"data_offsets":[4,4]}})";
    const auto got = read(folders::safetensors_file(header, std::string(10, 'x')));
    REQUIRE_MESSAGE(got, (got ? std::string() : got.error().text()));
    REQUIRE(got->size() == 3);
    CHECK((*got)[0].name == "a");
    CHECK((*got)[0].elements() == 1);
    CHECK((*got)[0].offset == 8 + header.size());
    CHECK((*got)[1].name == "none");
    CHECK((*got)[1].elements() == 0);
    CHECK((*got)[2].name == "b");
    CHECK((*got)[2].type == element::bf16);
    CHECK((*got)[2].offset == 8 + header.size() + 4);
    CHECK((*got)[2].bytes == 6);
}

TEST_CASE("safetensors: every dtype has the size of its row") {
    for (const auto& row : convert::element_table) {
        CAPTURE(row.name);
        const std::uint64_t bytes = row.bits;  // 8 elements
        const auto got = read(folders::safetensors_file({{"w", std::string(row.name), {8}, std::string(bytes, '\0')}}));
        REQUIRE_MESSAGE(got, (got ? std::string() : got.error().text()));
        CHECK((*got)[0].type == row.type);
        CHECK(bits_of(row.type) == row.bits);
        CHECK(name(row.type) == row.name);
    }
}

TEST_CASE("safetensors: errors name the tensor, the code and the place") {
    const auto fault = [&](const std::string& header, errc code, const std::string& part) {
        const auto e = refused(header);
        CAPTURE(e.text());
        CHECK(e.code == code);
        CHECK(e.text().find(part) != std::string::npos);
    };
    fault(R"({"w":{"dtype":"F32","shape":[2,2],"data_offsets":[0,17]}})", errc::bad_shape, "'w'");
    fault(R"({"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}})", errc::truncated, "'w'");
    fault(R"({"w":{"dtype":"F32","shape":[2,2],"data_offsets":[16,0]}})", errc::bad_offset, "'w'");
    fault(R"({"w":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,16]}})", errc::overflow, "'w'");
    fault(R"({"w":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16],"extra":1}})", errc::bad_value, "extra");
    fault(R"({"w":{"dtype":"F32","dtype":"F32","shape":[2,2],"data_offsets":[0,16]}})", errc::duplicate, "dtype");
    fault(R"({"w":{"dtype":"F32","shape":2,"data_offsets":[0,16]}})", errc::bad_type, "shape");
    fault(R"({"w":{"dtype":"F32","shape":[[2]],"data_offsets":[0,16]}})", errc::bad_type, "shape");
    fault(R"({"w":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,4],"data_offsets":[0,16]}})", errc::bad_shape, "dimensions");
    fault(R"({"w":{"dtype":"F32","shape":[2,2],"data_offsets":[0,8,16]}})", errc::bad_count, "'w'");
    fault(R"({"w":[]})", errc::bad_type, "'w'");
    fault(R"({"w":7})", errc::bad_type, "'w'");
    fault("{\"w\":", errc::bad_value, "JSON");
    fault(R"({"a\u001b[31m":7})", errc::bad_type, "\\x1b");
    CHECK(refused(R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},"b":{"dtype":"U8","shape":[9],"data_offsets":[7,16]}})")
              .code == errc::bad_offset);
    const auto hole =
        refused(R"({"a":{"dtype":"U8","shape":[7],"data_offsets":[0,7]},"b":{"dtype":"U8","shape":[8],"data_offsets":[8,16]}})");
    CHECK(hole.code == errc::bad_offset);
    CHECK(hole.offset != error::no_offset);
    // Depth can't exhaust a stack.
    CHECK(refused("{\"w\":" + std::string(100000, '[') + std::string(100000, ']') + "}").code == errc::bad_type);
}

TEST_CASE("safetensors: any cut of a good file is refused") {
    const auto whole = folders::safetensors_file(w, std::string(16, 'x'));
    REQUIRE(read(whole));
    for (std::size_t size = 0; size < whole.size(); ++size) CHECK(!read(whole.substr(0, size)));
    CHECK(!read(whole + "x"));
}

TEST_CASE("safetensors: other files are told as what they are") {
    CHECK(read("GGUF\3\0\0\0").error().text().find("GGUF") != std::string::npos);
    CHECK(read("PK\x03\x04 and more").error().text().find("PyTorch") != std::string::npos);
    CHECK(read("version https://git-lfs").error().text().find("LFS") != std::string::npos);
}

TEST_CASE("weight files: shards belong together") {
    const scratch::folder work;
    const auto& path = work.path();
    const auto shard = [&](const std::string& name, const std::string& tensor) {
        scratch::write(path / name, folders::safetensors_file({{tensor, "F32", {1}, std::string(4, '\0')}}));
    };
    const auto index = [&](const std::string& text) { scratch::write(path / "model.safetensors.index.json", text); };
    shard("1.safetensors", "a");
    shard("2.safetensors", "b");
    index(R"({"weight_map":{"a":"1.safetensors","b":"2.safetensors"}})");
    const auto both = convert::weight_files::open(path);
    REQUIRE_MESSAGE(both, (both ? std::string() : both.error().text()));
    CHECK(both->tensors().size() == 2);
    CHECK(both->find("a") != nullptr);
    CHECK(both->find("c") == nullptr);

    const auto code_of = [&](const std::string& text) {
        index(text);
        const auto got = convert::weight_files::open(path);
        REQUIRE(!got);
        CHECK(got.error().text().find("index.json") != std::string::npos);
        return got.error().code;
    };
    CHECK(code_of(R"({"weight_map":{"a":"1.safetensors","b":"1.safetensors"}})") == errc::split);
    CHECK(code_of(R"({"weight_map":{"a":"1.safetensors","b":"3.safetensors"}})") == errc::split);
    CHECK(code_of(R"({"weight_map":{"a":"../1.safetensors"}})") == errc::split);
    CHECK(code_of(R"({"weight_map":{"a":7}})") == errc::split);
    CHECK(code_of(R"({"weight_map":{}})") == errc::split);
    CHECK(code_of(R"({"weight_map":[]})") == errc::split);
    CHECK(code_of(R"({"weight_map")") == errc::bad_value);
    std::filesystem::remove(path / "model.safetensors.index.json");
    CHECK(convert::weight_files::open(path).error().code == errc::not_found);  // two files and no index
    std::filesystem::remove(path / "2.safetensors");
    CHECK(convert::weight_files::open(path));
    shard("2.safetensors", "a");
    index(R"({"weight_map":{"a":"1.safetensors","b":"2.safetensors"}})");
    CHECK(convert::weight_files::open(path).error().code == errc::duplicate);
}
