#include "colibri/gguf/writer.hpp"

#include <doctest/doctest.h>

#include <random>
#include <string>
#include <vector>

#include "colibri/gguf/file.hpp"
#include "support/gguf_bytes.hpp"
#include "support/scratch.hpp"
#include "support/random_values.hpp"

using namespace colibri;
using gguf::metadata;
using gguf::tensor_info;
using gguf::value;

namespace {

tensor_info plan(std::string name, dtype type, std::vector<std::uint64_t> dims) {
    tensor_info out;
    out.name = std::move(name);
    out.type = type;
    out.n_dims = static_cast<unsigned>(dims.size());
    for (std::size_t i = 0; i < dims.size(); ++i) out.dims[i] = dims[i];
    return out;
}

std::span<const std::byte> bytes_of(std::string_view text) {
    return std::as_bytes(std::span(text.data(), text.size()));
}

metadata sample() {
    metadata meta;
    meta.set("general.architecture", "test");
    meta.set("a.u8", std::uint8_t{200});
    meta.set("a.i64", std::int64_t{-5});
    meta.set("a.f32", 0.1f);
    meta.set("a.f64", 0.1);
    meta.set("a.bool", true);
    meta.set("a.empty", "");
    const std::vector<std::string> texts = {"one", "", "three"};
    meta.set("a.texts", value::strings(texts));
    const std::int16_t numbers[] = {1, -2};
    const value inner[] = {value::array(std::span<const std::int16_t>(numbers)), value::strings(texts)};
    meta.set("a.nested", value::arrays(inner));
    return meta;
}

}  // namespace

TEST_CASE("what is written is read back, for any alignment and any pieces") {
    for (const std::uint32_t alignment : {0u, 8u, 24u, 32u, 4096u, 65536u}) {
        const scratch::folder folder;
        const auto path = folder.path() / "out.gguf";
        metadata meta = sample();
        if (alignment != 0) meta.set("general.alignment", alignment);
        auto out = gguf::writer::create(path, meta,
                                        {plan("a", dtype::f32, {3}), plan("b", dtype::q4_k, {256, 3}),
                                         plan("c", dtype::i8, {1, 1, 1, 7}), plan("scalar", dtype::f32, {})});
        REQUIRE(out);
        std::vector<std::string> contents;
        std::mt19937 random(10);
        for (const auto& tensor : out->tensors()) {
            CHECK(out->next() == &tensor);
            contents.push_back(test_support::random_text(static_cast<std::size_t>(tensor.bytes), static_cast<unsigned>(contents.size())));
            std::string_view left = contents.back();
            while (!left.empty()) {
                const std::size_t now = 1 + random() % left.size();
                REQUIRE(out->write(bytes_of(left.substr(0, now))));
                left.remove_prefix(now);
            }
        }
        CHECK(out->next() == nullptr);
        REQUIRE(out->finish());
        auto got = gguf::file::open(path);
        REQUIRE(got);
        CHECK(got->meta() == meta);
        CHECK(got->parts()[0].version == 3);
        CHECK(got->parts()[0].size % got->parts()[0].alignment == 0);
        REQUIRE(got->tensors().size() == 4);
        const std::string all = scratch::read(path);
        for (std::size_t i = 0; i < 4; ++i) {
            const auto& read = got->tensors()[i];
            const auto& written = out->tensors()[i];
            CHECK(read.name == written.name);
            CHECK(read.type == written.type);
            CHECK(read.n_dims == written.n_dims);
            CHECK(read.dims == written.dims);
            CHECK(read.offset == written.offset);
            CHECK(read.bytes == written.bytes);
            CHECK(all.substr(read.offset, read.bytes) == contents[i]);
        }
    }
}

TEST_CASE("the bytes are the format's, field by field") {
    using namespace gguf_bytes;
    const scratch::folder folder;
    metadata meta;
    meta.set("k", "v");
    meta.set("n", 7u);
    auto out =
        gguf::writer::create(folder.path() / "f", meta, {plan("t", dtype::f32, {2, 4}), plan("u", dtype::f16, {5})})
            .value();
    REQUIRE(out.write(bytes_of(std::string(32, 'T'))));
    REQUIRE(out.write(bytes_of(std::string(10, 'U'))));
    REQUIRE(out.finish());
    std::string expected =
        file({key_text("k", "v"), key_u32("n", 7)}, {tensor("t", {2, 4}, 0, 0), tensor("u", {5}, 1, 32)},
             std::string(32, 'T') + std::string(10, 'U') + std::string(22, '\0'));
    CHECK(scratch::read(folder.path() / "f") == expected);
}

TEST_CASE("metadata alone, and nothing at all, are files too") {
    const scratch::folder folder;
    auto out = gguf::writer::create(folder.path() / "f", sample(), {}).value();
    REQUIRE(out.finish());
    CHECK(gguf::file::open(folder.path() / "f").value().meta() == sample());
    auto empty = gguf::writer::create(folder.path() / "g", {}, {}).value();
    REQUIRE(empty.finish());
    CHECK(gguf::file::open(folder.path() / "g").value().meta().size() == 0);
}

TEST_CASE("too many or too few bytes are refused, and nothing appears") {
    const scratch::folder folder;
    const auto path = folder.path() / "f";
    {
        auto out = gguf::writer::create(path, {}, {plan("t", dtype::f32, {4}), plan("u", dtype::f32, {4})}).value();
        auto much = out.write(bytes_of(std::string(17, 'x')));
        REQUIRE(!much);
        CHECK(much.error().code == errc::invalid_argument);
        REQUIRE(out.write(bytes_of(std::string(16, 'x'))));
        CHECK(out.next()->name == "u");
        REQUIRE(out.write(bytes_of(std::string(15, 'x'))));
        auto little = out.finish();
        REQUIRE(!little);
        CHECK(little.error().message == "the tensor 'u' lacks 1 bytes");
        REQUIRE(out.write(bytes_of("x")));
        CHECK(!out.write(bytes_of("x")));
    }
    CHECK(scratch::count(folder.path()) == 0);
}

TEST_CASE("what no reader would take is not written") {
    const scratch::folder folder;
    const auto refused = [&](const metadata& meta, std::vector<tensor_info> tensors, errc code) {
        auto out = gguf::writer::create(folder.path() / "f", meta, std::move(tensors));
        REQUIRE(!out);
        CHECK(out.error().code == code);
        CHECK(scratch::count(folder.path()) == 0);
    };
    const auto with_key = [](std::string_view key) {
        metadata meta;
        meta.set(key, 1);
        return meta;
    };
    refused(with_key(""), {}, errc::bad_value);
    refused(with_key("a\nb"), {}, errc::bad_value);
    refused(with_key("\xff"), {}, errc::bad_utf8);
    refused(with_key(std::string(65536, 'k')), {}, errc::bad_count);
    refused(with_key("general.alignment"), {}, errc::bad_type);
    metadata odd;
    odd.set("general.alignment", 12u);
    refused(odd, {}, errc::bad_alignment);
    refused({}, {plan(std::string(65, 't'), dtype::f32, {1})}, errc::bad_value);
    refused({}, {plan("", dtype::f32, {1})}, errc::bad_value);
    refused({}, {plan("t", dtype::q4_0, {31})}, errc::bad_shape);
    refused({}, {plan("t", dtype::f32, {0})}, errc::bad_shape);
    refused({}, {plan("t", static_cast<dtype>(4), {32})}, errc::bad_type);
    refused({}, {plan("t", dtype::f32, {1}), plan("u", dtype::f32, {1}), plan("t", dtype::f32, {1})}, errc::duplicate);
    refused({}, {plan("t", dtype::i8, {~std::uint64_t{0} >> 1}), plan("u", dtype::f32, {1})}, errc::overflow);
    tensor_info hidden = plan("t", dtype::f32, {4});
    hidden.dims[2] = 3;
    refused({}, {hidden}, errc::bad_shape);
    CHECK(gguf::writer::create(folder.path() / "none" / "f", {}, {}).error().code == errc::not_found);
}
