#include "colibri/io/byte_reader.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

using namespace colibri;

namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
    return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace

TEST_CASE("numbers are little-endian and never read past the end") {
    const std::string text("\x01\x02\x03\x04\x05\x06\x07\x08\xff", 9);
    byte_reader in(bytes_of(text), 100);
    CHECK(in.read<std::uint16_t>("a").value() == 0x0201);
    CHECK(in.read<std::uint32_t>("b").value() == 0x06050403);
    CHECK(in.offset() == 106);
    CHECK(in.remaining() == 3);
    auto cut = in.read<std::uint32_t>("the count");
    REQUIRE(!cut);
    CHECK(cut.error().code == errc::truncated);
    CHECK(cut.error().offset == 106);
    CHECK(cut.error().message == "the file ends inside the count: 4 bytes are needed, 3 are left");
    CHECK(in.remaining() == 3);  // a failed read takes nothing
    CHECK(in.text(2, "c").value() == std::string_view("\x07\x08"));
    CHECK(in.read<std::int8_t>("d").value() == -1);
    CHECK(!in.read<std::uint8_t>("e"));
    CHECK(in.bytes(0, "nothing").value().empty());
    CHECK(!in.bytes(std::numeric_limits<std::uint64_t>::max(), "all"));
    std::string out;
    CHECK(!in.append(out, 1, "one"));
    CHECK(out.empty());
}

TEST_CASE("a windowed reader gives what a reader of memory gives, in any steps") {
    std::mt19937 random(4);
    std::string data(300000, '\0');
    for (char& c : data) c = static_cast<char>(random());
    for (int round = 0; round < 20; ++round) {
        memory_source source(bytes_of(data));
        source_reader windowed(source);
        byte_reader whole(bytes_of(data));
        while (whole.remaining() != 0) {
            REQUIRE(windowed.offset() == whole.offset());
            REQUIRE(windowed.remaining() == whole.remaining());
            switch (random() % 4) {
                case 0: {
                    auto a = windowed.read<std::uint64_t>("n");
                    auto b = whole.read<std::uint64_t>("n");
                    REQUIRE(a.has_value() == b.has_value());
                    if (a) {
                        REQUIRE(*a == *b);
                    } else {
                        REQUIRE(a.error().text() == b.error().text());
                    }
                    break;
                }
                case 1:
                    REQUIRE(windowed.read<std::uint8_t>("n").value() == whole.read<std::uint8_t>("n").value());
                    break;
                default: {
                    const std::uint64_t count = random() % 10 == 0 ? random() % 200000 : random() % 50;
                    std::string a;
                    std::string b;
                    const bool ok = windowed.append(a, count, "text").has_value();
                    REQUIRE(ok == whole.append(b, count, "text").has_value());
                    REQUIRE(a == b);
                }
            }
        }
        CHECK(source.bytes_read() <= data.size() + 20 * 64 * 1024);  // nearly every byte is fetched once
    }
}

TEST_CASE("a limit stops a reader before it reads or allocates") {
    const std::string data(100000, 'x');
    memory_source source(bytes_of(data));
    source_reader in(source, 1000);
    std::string out;
    REQUIRE(in.append(out, 998, "text"));
    auto past = in.read<std::uint32_t>("a number");
    REQUIRE(!past);
    CHECK(past.error().code == errc::limit);
    CHECK(!in.append(out, 90000, "text"));
    CHECK(out.size() == 998);
    CHECK(in.read<std::uint16_t>("a number"));
    CHECK(!in.read<std::uint8_t>("a number"));
}

TEST_CASE("sources refuse ranges that they don't have") {
    const std::string data = "0123456789";
    memory_source source(bytes_of(data));
    std::vector<std::byte> out(4);
    REQUIRE(source.read_at(6, out));
    CHECK(std::memcmp(out.data(), "6789", 4) == 0);
    CHECK(source.bytes_read() == 4);
    for (const std::uint64_t offset :
         {std::uint64_t{7}, std::uint64_t{11}, std::numeric_limits<std::uint64_t>::max()}) {
        auto refused = source.read_at(offset, out);
        REQUIRE(!refused);
        CHECK(refused.error().code == errc::truncated);
        CHECK(refused.error().offset == offset);
    }
    CHECK(source.read_at(10, {}));
    CHECK(source.bytes_read() == 4);
}
