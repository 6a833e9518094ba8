// Containers with one thing wrong, every cut of a file, and many random changes of one.
#include <doctest/doctest.h>

#include <random>
#include <string>
#include <vector>

#include "colibri/gguf/container_reader.hpp"
#include "support/gguf_bytes.hpp"

using namespace colibri;
using namespace gguf_bytes;

namespace {

result<gguf::container> parse(std::string_view bytes, const gguf::container_limits& limits = {}) {
    const std::vector<char> exact(bytes.begin(), bytes.end());  // so that a sanitizer sees a read past the end
    memory_source source(std::as_bytes(std::span(exact)));
    return gguf::read_container(source, limits);
}

/// Two F32 tensors and a key of every kind.
std::string sample(std::uint32_t version = 3) {
    return file({key_text("general.architecture", "test"), key_u32("general.alignment", 32), key("flag", 7, le('\1')),
                 key("texts", 9, le(8u) + le(std::uint64_t{2}) + text("a") + text("")),
                 key("nested", 9, le(9u) + le(std::uint64_t{1}) + le(5u) + le(std::uint64_t{2}) + le(-1) + le(7))},
                {tensor("a.weight", {8, 4}, 0, 0), tensor("b.weight", {32}, 8, 128)}, std::string(128 + 34, 'd'), 32,
                version);
}

errc code_of(const std::string& bytes) {
    auto got = parse(bytes);
    REQUIRE(!got);
    return got.error().code;
}

}  // namespace

TEST_CASE("a container is read whole, version 2 and 3") {
    for (const std::uint32_t version : {2u, 3u}) {
        const std::string bytes = sample(version);
        auto got = parse(bytes);
        REQUIRE(got);
        CHECK(got->where.version == version);
        CHECK(got->where.size == bytes.size());
        CHECK(got->where.alignment == 32);
        CHECK(got->meta.size() == 5);
        CHECK(got->meta.get<bool>("flag").value());
        CHECK(got->meta.get_array<std::string>("texts").value() == std::vector<std::string>{"a", ""});
        CHECK(got->meta.find("nested")->element(0).to_vector<int>().value() == std::vector<int>{-1, 7});
        REQUIRE(got->tensors.size() == 2);
        const auto& b = got->tensors[1];
        CHECK(b.name == "b.weight");
        CHECK(b.type == dtype::q8_0);
        CHECK(b.n_dims == 1);
        CHECK(b.dims == std::array<std::uint64_t, 4>{32, 1, 1, 1});
        CHECK(b.bytes == 34);
        CHECK(b.offset == got->where.data_offset + 128);
        CHECK(b.offset + b.bytes == bytes.size());
    }
}

TEST_CASE("no cut of a file is taken for a whole one") {
    const std::string bytes = sample();
    for (std::size_t size = 0; size < bytes.size(); ++size) {
        auto got = parse(std::string_view(bytes).substr(0, size));
        REQUIRE(!got);
        REQUIRE(!got.error().message.empty());
    }
    CHECK(parse(bytes + "trailing bytes are harmless"));
}

TEST_CASE("random changes never do worse than an error") {
    const std::string good = sample();
    std::mt19937 random(9);
    std::size_t refused = 0;
    for (int round = 0; round < 100000; ++round) {
        std::string bytes = good;
        for (auto changes = 1 + random() % 3; changes != 0; --changes) {
            const std::size_t at = random() % (bytes.size() - 162);
            switch (random() % 3) {
                case 0: bytes[at] = static_cast<char>(random()); break;
                case 1: bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8)); break;
                default: bytes.replace(at, 8, le(std::uint64_t{1} << random() % 64)); break;
            }
        }
        auto got = parse(bytes);
        if (!got) {
            ++refused;
            continue;
        }
        for (const auto& tensor : got->tensors) {
            REQUIRE(tensor.offset + tensor.bytes <= bytes.size());
            REQUIRE(tensor.offset % got->where.alignment == 0);
        }
    }
    // Most changes hit structure; values, names and shapes that still fit may change.
    CHECK(refused > 50000);
    CHECK(refused < 100000);
}

TEST_CASE("duplicates in large headers are found without going through all pairs") {
    std::vector<std::string> keys;
    std::vector<std::string> tensors;
    for (unsigned i = 0; i < 20000; ++i) {
        keys.push_back(key_u32("key." + std::to_string(i), i));
        tensors.push_back(tensor("t." + std::to_string(i), {8}, 0, std::uint64_t{i} * 32));
    }
    auto good = parse(file(keys, tensors, std::string(20000 * 32, 'x')));
    REQUIRE(good);
    CHECK(good->tensors.size() == 20000);
    auto doubled = tensors;
    doubled.back() = tensor("t.77", {8}, 0, 19999 * 32);
    auto twice = parse(file(keys, doubled, std::string(20000 * 32, 'x')));
    REQUIRE(!twice);
    CHECK(twice.error().code == errc::duplicate);
    CHECK(twice.error().text().find("'t.77'") != std::string::npos);
    keys.back() = key_u32("key.5", 1);
    CHECK(code_of(file(keys, tensors, std::string(20000 * 32, 'x'))) == errc::duplicate);
}

TEST_CASE("the header has a limit") {
    const std::string bytes =
        file({key("large", 9, le(0u) + le(std::uint64_t{100000}) + std::string(100000, 'x'))}, {}, "");
    CHECK(parse(bytes));
    auto refused = parse(bytes, {.header_bytes = 50000});
    REQUIRE(!refused);
    CHECK(refused.error().code == errc::limit);
    CHECK(refused.error().text().find("'large'") != std::string::npos);
}

TEST_CASE("alignments: any multiple of 8, powers of two or not") {
    for (const std::size_t alignment : {8u, 16u, 24u, 40u, 64u, 4096u, 65536u}) {
        const std::size_t second = (64 + alignment - 1) / alignment * alignment;
        const std::string bytes =
            file({key_u32("general.alignment", static_cast<std::uint32_t>(alignment))},
                 {tensor("a", {16}, 0, 0), tensor("b", {16}, 0, second)}, std::string(second + 64, 'x'), alignment);
        auto got = parse(bytes);
        REQUIRE(got);
        CHECK(got->where.alignment == alignment);
        CHECK(got->tensors[1].offset % alignment == 0);
        CHECK(got->tensors[1].offset + 64 == bytes.size());
    }
    for (const std::uint32_t bad : {0u, 1u, 4u, 12u, 31u, 0x80000000u, 0xffffffffu}) {
        CHECK(code_of(file({key_u32("general.alignment", bad)}, {}, "")) == errc::bad_alignment);
    }
    CHECK(code_of(file({key("general.alignment", 10, le(std::uint64_t{32}))}, {}, "")) == errc::bad_type);
}

TEST_CASE("names") {
    const auto with_key = [](std::string_view name) { return file({key_u32(name, 1)}, {}, ""); };
    const auto with_tensor = [](std::string_view name) {
        return file({}, {tensor(name, {8}, 0, 0)}, std::string(32, 'x'));
    };
    CHECK(parse(with_key(std::string(65535, 'k'))));
    CHECK(code_of(with_key(std::string(65536, 'k'))) == errc::bad_count);
    CHECK(parse(with_key("ключ")));
    CHECK(code_of(with_key("")) == errc::bad_value);
    CHECK(code_of(with_key("a\nb")) == errc::bad_value);
    CHECK(code_of(with_key("a\x7f")) == errc::bad_value);
    for (const char* bad :
         {"\xff", "\xc0\x80", "\xe0\x9f\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xc3", "a\xe2\x82"}) {
        CHECK(code_of(with_key(bad)) == errc::bad_utf8);
        CHECK(code_of(with_tensor(bad)) == errc::bad_utf8);
    }
    for (const char* good :
         {"\xc2\x80", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"}) {
        CHECK(parse(with_key(good)));
    }
    CHECK(parse(with_tensor(std::string(64, 't'))));
    CHECK(code_of(with_tensor(std::string(65, 't'))) == errc::bad_value);
    CHECK(code_of(with_tensor("")) == errc::bad_value);
    CHECK(code_of(with_tensor(std::string_view("a\0b", 3))) == errc::bad_value);
}

TEST_CASE("tensors may stand in any order with gaps, but not on each other") {
    const auto at = [](std::uint64_t a, std::uint64_t b) {
        return file({}, {tensor("a", {8}, 0, a), tensor("b", {8}, 0, b)}, std::string(96, 'x'));
    };
    CHECK(parse(at(0, 32)));
    CHECK(parse(at(32, 0)));
    CHECK(parse(at(64, 0)));
    CHECK(code_of(at(32, 32)) == errc::bad_offset);
    CHECK(code_of(at(0, 8)) == errc::bad_offset);
    CHECK(code_of(at(0, 96)) == errc::truncated);
    CHECK(code_of(at(0, ~std::uint64_t{31})) == errc::overflow);
    CHECK(code_of(at(0, std::uint64_t{1} << 63)) == errc::bad_offset);
    // A tensor that reaches into the next one.
    CHECK(code_of(file({}, {tensor("a", {9}, 0, 0), tensor("b", {8}, 0, 32)}, std::string(96, 'x'))) ==
          errc::bad_offset);
}

TEST_CASE("offsets in errors are those of the faulty field") {
    auto got = parse(file({key_u32("a", 1)}, {tensor("t", {8, 0}, 0, 0)}, ""));
    REQUIRE(!got);
    // header, key (length, 1 byte, type, value), name (length, 1 byte), number of dimensions
    CHECK(got.error().offset == 24 + 8 + 1 + 4 + 4 + 8 + 1 + 4);
    CHECK(got.error().text() == "tensor 't': the shape [8, 0] has a dimension of 0 or below (at byte 54)");
}
