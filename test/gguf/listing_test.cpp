#include "colibri/gguf/listing.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <range/v3/range/conversion.hpp>
#include <string>
#include <vector>

#include "colibri/gguf/writer.hpp"
#include "support/scratch.hpp"

using namespace colibri;
using gguf::metadata;
using gguf::value;

namespace {

gguf::tensor_info plan(std::string name, dtype type, std::uint64_t row, std::uint64_t rows) {
    gguf::tensor_info out;
    out.name = std::move(name);
    out.type = type;
    out.n_dims = 2;
    out.dims = {row, rows, 1, 1};
    return out;
}

/// Writes a file with zeros as weights and opens it.
gguf::file made(const scratch::folder& folder, const metadata& meta, const std::vector<gguf::tensor_info>& tensors) {
    const auto path = folder.path() / "made.gguf";
    auto out = gguf::writer::create(path, meta, tensors).value();
    while (const auto* next = out.next())
        REQUIRE(out.write(std::vector<std::byte>(static_cast<std::size_t>(next->bytes))));
    REQUIRE(out.finish());
    return gguf::file::open(path).value();
}

metadata with(std::initializer_list<std::pair<const char*, const char*>> texts) {
    metadata meta;
    for (const auto& [key, text] : texts) meta.set(key, text);
    return meta;
}

}  // namespace

TEST_CASE("values as text") {
    CHECK(gguf::value_text(value::of(7)) == "7");
    CHECK(gguf::value_text(value::of(true)) == "true");
    CHECK(gguf::value_text(value::of(1e-5f)) == "1e-05");
    CHECK(gguf::value_text(value::of("a\x1b[0m\nb")) == "'a\\x1b[0m\\nb'");
    CHECK(gguf::value_text(value::of("abcdef"), {.max_text = 3}) == "'abc...'");
    const int numbers[] = {1, 2, 3};
    const value array = value::array(std::span<const int>(numbers));
    CHECK(gguf::value_text(array) == "[1, 2, 3]");
    CHECK(gguf::value_text(array, {.max_elements = 2}) == "[1, 2, ...]");
    CHECK(gguf::value_text(array, {.max_elements = 0}) == "[...]");
    const value nested[] = {array, value::strings(std::vector<std::string>{"x"})};
    CHECK(gguf::value_text(value::arrays(nested), {.max_elements = 2}) == "[[1, 2, ...], ['x']]");
    CHECK(gguf::type_text(value::arrays(nested)) == "array[2]");
    CHECK(gguf::type_text(array) == "i32[3]");
    CHECK(gguf::type_text(value::of(1.0)) == "f64");
    CHECK(gguf::value_text(value::strings(std::vector<std::string>{})) == "[]");
}

TEST_CASE("values as JSON are valid whatever they are") {
    const auto parsed = [](const value& shown) { return nlohmann::json::parse(gguf::value_json(shown)); };
    CHECK(parsed(value::of(std::numeric_limits<std::uint64_t>::max())) == std::numeric_limits<std::uint64_t>::max());
    CHECK(parsed(value::of(false)) == false);
    CHECK(parsed(value::of(0.1f)).get<float>() == 0.1f);
    CHECK(parsed(value::of(std::nan(""))) == "nan");
    CHECK(parsed(value::of(-std::numeric_limits<float>::infinity())) == "-inf");
    CHECK(parsed(value::of("\"q\\ \n\t\r\x01\x7f é 🐦")) == "\"q\\ \n\t\r\x01\x7f é 🐦");
    CHECK(parsed(value::of("bad \xff\xc3 byte")) == "bad \xef\xbf\xbd\xef\xbf\xbd byte");
    CHECK(parsed(value::of(std::string_view("nul\0", 4))).get<std::string>() == std::string("nul\0", 4));
    const float floats[] = {1.5f, -0.0f};
    const value nested[] = {value::array(std::span<const float>(floats)),
                            value::strings(std::vector<std::string>{"", "x"}), value::arrays({})};
    CHECK(parsed(value::arrays(nested)) == nlohmann::json::parse(R"([[1.5,-0.0],["","x"],[]])"));
}

TEST_CASE("rows of keys and tensors") {
    const scratch::folder folder;
    metadata meta;
    meta.set("general.architecture", "test");
    meta.set("n", 5u);
    const auto gguf = made(folder, meta, {plan("a", dtype::f32, 8, 2), plan("b", dtype::q8_0, 32, 3)});
    const auto keys = gguf::key_rows(gguf) | ranges::to<std::vector>();
    REQUIRE(keys.size() == 2);
    CHECK(keys[0].key == "general.architecture");
    CHECK(keys[0].type == "string");
    CHECK(keys[0].text == "'test'");
    CHECK(keys[1].text == "5");
    const auto tensors = gguf::tensor_rows(gguf) | ranges::to<std::vector>();
    REQUIRE(tensors.size() == 2);
    CHECK(tensors[1].name == "b");
    CHECK(tensors[1].type == "Q8_0");
    CHECK(tensors[1].shape == "[32, 3]");
    CHECK(tensors[1].elements == 96);
    CHECK(tensors[1].bytes == 102);
    CHECK(tensors[1].offset == gguf.tensors()[1].offset);
}

TEST_CASE("the summary counts") {
    const scratch::folder folder;
    const auto gguf = made(folder, with({{"general.architecture", "llama"}}),
                           {plan("a", dtype::f32, 8, 2), plan("b", dtype::q8_0, 32, 3), plan("c", dtype::f32, 1, 1)});
    const auto sum = gguf::summarize(gguf);
    CHECK(sum.kind == "a model (architecture llama)");
    CHECK(sum.file_bytes == std::filesystem::file_size(folder.path() / "made.gguf"));
    CHECK(sum.parameters == 16 + 96 + 1);
    CHECK(sum.data_bytes == 64 + 102 + 4);
    CHECK(sum.bits_per_weight == doctest::Approx(8.0 * 170 / 113));
    REQUIRE(sum.types.size() == 2);
    CHECK(sum.types[0].type == dtype::q8_0);
    CHECK(sum.types[1].tensors == 2);
    CHECK(sum.types[1].bytes == 68);
    const auto empty = gguf::summarize(made(folder, {}, {}));
    CHECK(empty.bits_per_weight == 0);
}

TEST_CASE("whole listings: text is safe and JSON is valid, with hostile texts in them") {
    const scratch::folder folder;
    metadata meta;
    meta.set("general.architecture", "ll\x1b[31mama");
    meta.set("evil", "\x1b]0;title\x07 \xff\xfe \xe2\x80\xae");
    meta.set("nan", std::nanf(""));
    meta.set("tokens", value::strings(std::vector<std::string>(100, "to\nken")));
    const auto gguf = made(folder, meta, {plan("t\xe2\x80\xaex", dtype::f32, 8, 2)});
    const std::string text = gguf::listing_text(gguf);
    for (const char c : text) REQUIRE((c == '\n' || static_cast<unsigned char>(c) >= 0x20));
    CHECK(text.find("\xe2\x80\xae") == std::string::npos);
    CHECK(text.find("string[100]") != std::string::npos);
    CHECK(text.find("1 tensors") != std::string::npos);
    CHECK(gguf::listing_text(gguf, {.tensors = false}).find("tensors (1)") == std::string::npos);
    const auto json = nlohmann::json::parse(gguf::listing_json(gguf));
    CHECK(json["kind"] == "a model (architecture ll\\x1b[31mama)");
    CHECK(json["parts"][0]["version"] == 3);
    CHECK(json["tensor_count"] == 1);
    CHECK(json["parameters"] == 16);
    CHECK(json["types"][0]["type"] == "F32");
    CHECK(json["metadata"][2]["value"] == "nan");
    CHECK(json["metadata"][3]["type"] == "string[100]");
    CHECK(json["metadata"][3]["value"].size() == 100);
    CHECK(json["tensors"][0]["shape"] == nlohmann::json::array({8, 2}));
    CHECK(!nlohmann::json::parse(gguf::listing_json(gguf, {.tensors = false})).contains("tensors"));
}

TEST_CASE("what a file is, in words, and models are told from the rest") {
    const scratch::folder folder;
    const std::vector<gguf::tensor_info> one = {plan("t", dtype::f32, 4, 1)};
    struct row {
        metadata meta;
        gguf::file_kind kind;
        const char* text;
    };
    metadata audio = with({{"general.architecture", "clip"}});
    audio.set("clip.has_audio_encoder", true);
    metadata old_imatrix;
    old_imatrix.set("imatrix.chunk_count", 5u);
    const std::vector<row> rows = {
        {with({{"general.architecture", "llama"}, {"general.type", "model"}}), gguf::file_kind::model,
         "a model (architecture llama)"},
        {{}, gguf::file_kind::model, "a model that doesn't name its architecture"},
        {with({{"general.architecture", "llama"}, {"general.type", "adapter"}, {"adapter.type", "lora"}}),
         gguf::file_kind::adapter, "a LoRA adapter for llama models"},
        {with({{"adapter.type", "other"}}), gguf::file_kind::adapter, "an adapter"},
        {with({{"general.architecture", "clip"}}), gguf::file_kind::projector,
         "a multimodal projector (mmproj), the part of a model that takes in pictures"},
        {audio, gguf::file_kind::projector, "a multimodal projector (mmproj), the part of a model that takes in sound"},
        {with({{"general.type", "mmproj"}, {"general.architecture", "other"}}), gguf::file_kind::projector,
         "a multimodal projector (mmproj), the part of a model that takes in pictures"},
        {with({{"general.type", "imatrix"}}), gguf::file_kind::importance,
         "an importance matrix (imatrix), made for quantising"},
        {old_imatrix, gguf::file_kind::importance, "an importance matrix (imatrix), made for quantising"},
        {with({{"general.architecture", "controlvector"}}), gguf::file_kind::control_vector, "a control vector"},
    };
    for (const auto& row : rows) {
        const auto gguf = made(folder, row.meta, one);
        CHECK(gguf::kind_of(gguf) == row.kind);
        CHECK(gguf::kind_text(gguf) == row.text);
        auto needed = gguf::require_model(gguf);
        CHECK(needed.has_value() == (row.kind == gguf::file_kind::model));
        if (!needed) {
            CHECK(needed.error().code == errc::unsupported);
            CHECK(needed.error().text().find(row.text) != std::string::npos);
            CHECK(needed.error().text().find("made.gguf") != std::string::npos);
        }
    }
    const auto bare = made(folder, with({{"general.architecture", "llama"}}), {});
    CHECK(gguf::kind_of(bare) == gguf::file_kind::vocabulary);
    CHECK(!gguf::require_model(bare));
    metadata odd;
    odd.set("general.type", 5u);  // of the wrong type: not a reason to fail here
    CHECK(gguf::kind_of(made(folder, odd, one)) == gguf::file_kind::model);
}
