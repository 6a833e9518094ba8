#include "colibri/io/byte_size.hpp"

#include <doctest/doctest.h>

#include <string_view>

using namespace colibri;

TEST_CASE("byte_size: units are powers of 1024") {
    const auto is = [](std::string_view text, std::uint64_t bytes) {
        CAPTURE(text);
        const auto got = parse_byte_size(text);
        REQUIRE(got);
        CHECK(*got == bytes);
    };
    is("0", 0);
    is("123456", 123456);
    is("512B", 512);
    is("64k", 65536);
    is("64KB", 65536);
    is("1200M", std::uint64_t{1200} << 20);
    is("800MiB", std::uint64_t{800} << 20);
    is("800mib", std::uint64_t{800} << 20);
    is("800 MiB", std::uint64_t{800} << 20);
    is("1.5G", std::uint64_t{1536} << 20);
    is("1.5g", std::uint64_t{1536} << 20);
    is(".5K", 512);
    is("0.001K", 1);
    is("2T", std::uint64_t{2} << 40);
    is("18446744073709551615", ~std::uint64_t{0});
    is("16777215T", std::uint64_t{16777215} << 40);
}

TEST_CASE("byte_size: what is no size is refused in a sentence") {
    for (const std::string_view text : {"", " ", "M", "x", "-1", "+1", "-1G", "1e9", "1.2.3G", ".", ".G", "1,5G", "1 G B", "1GG", "1Gi", "1iB",
                                        "12Q", "G1", "0x10", "inf", "nan", "auto", "1  G"}) {
        CAPTURE(text);
        const auto got = parse_byte_size(text);
        REQUIRE(!got);
        CHECK(got.error().code == errc::bad_value);
        CHECK(got.error().message.find("is not a size; write for example 1.5G, 1200M or 800MiB") != std::string::npos);
    }
    for (const std::string_view text : {"18446744073709551616", "16777216T", "17179869184G", "99999999.5T", "100000000000000000000000000"}) {
        CAPTURE(text);
        REQUIRE(!parse_byte_size(text));
        CHECK(parse_byte_size(text).error().message.find("is too large") != std::string::npos);
    }
    CHECK(parse_byte_size("1.5").error().message == "'1.5' is not a whole number of bytes; write for example 1.5G, 1200M or 800MiB");
}

TEST_CASE("byte_size: rates are powers of 1000 and need a unit") {
    CHECK(parse_byte_rate("900M/s").value() == 900e6);
    CHECK(parse_byte_rate("1.5G").value() == 1.5e9);
    CHECK(parse_byte_rate("20k/s").value() == 20e3);
    CHECK(parse_byte_rate("1T/s").value() == 1e12);
    for (const std::string_view wrong : {"", "40", "M/s", "-1G/s", "0G/s", "1G/h", "5 apples/s", "fast", "nanG", "infG", "9999T/s", "1GiB/s"}) {
        CAPTURE(wrong);
        const auto got = parse_byte_rate(wrong);
        REQUIRE(!got);
        CHECK(got.error().code == errc::bad_value);
    }
}
