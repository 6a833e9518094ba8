#include <doctest/doctest.h>

#include <clocale>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>

#include "colibri/core/concat.hpp"
#include "colibri/core/escape.hpp"
#include "colibri/core/number.hpp"

using namespace colibri;

TEST_CASE("concat joins text, characters, numbers and bools") {
    CHECK(concat() == "");
    CHECK(concat("a", 'b', std::string("c"), std::string_view("d")) == "abcd");
    CHECK(concat(true, ' ', false) == "true false");
    CHECK(concat(-1, ' ', 18446744073709551615u, ' ', std::numeric_limits<std::int64_t>::min()) ==
          "-1 18446744073709551615 -9223372036854775808");
    CHECK(concat(static_cast<std::uint8_t>(7), ' ', static_cast<signed char>(-3)) ==
          "7 -3");  // numbers, not characters
    CHECK(concat(0.1f, ' ', 0.1, ' ', 1e300, ' ', -0.0) == "0.1 0.1 1e+300 -0");
    CHECK(concat(std::numeric_limits<float>::infinity(), ' ', -std::numeric_limits<double>::infinity()) == "inf -inf");
    const char* text = "pointer to text";
    CHECK(concat(text) == "pointer to text");
}

TEST_CASE("numbers are written and read with a point in a comma locale, and come back exactly") {
    const char* old = std::setlocale(LC_ALL, nullptr);
    const std::string kept = old != nullptr ? old : "C";
    const bool comma = std::setlocale(LC_ALL, "de_DE.UTF-8") != nullptr ||
                       std::setlocale(LC_ALL, "de_DE.utf8") != nullptr ||
                       std::setlocale(LC_ALL, "fr_FR.UTF-8") != nullptr;
    MESSAGE(std::string(comma ? "comma locale: tested" : "comma locale: not installed, tested in the usual one"));
    CHECK(concat(1.5) == "1.5");
    CHECK(parse_number<double>("1.5") == 1.5);
    CHECK(!parse_number<double>("1,5"));
    std::mt19937 random(1);
    for (int i = 0; i < 100000; ++i) {
        const float value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
        if (std::isnan(value)) continue;
        const auto back = parse_number<float>(concat(value));
        REQUIRE(back.has_value());
        REQUIRE(std::bit_cast<std::uint32_t>(*back) == std::bit_cast<std::uint32_t>(value));
    }
    std::setlocale(LC_ALL, kept.c_str());
}

TEST_CASE("parse_number takes all of the text or nothing") {
    CHECK(parse_number<int>("42") == 42);
    CHECK(parse_number<int>("+42") == 42);
    CHECK(parse_number<int>("-42") == -42);
    CHECK(parse_number<std::uint64_t>("18446744073709551615") == 18446744073709551615u);
    CHECK(parse_number<double>("1e-3") == 0.001);
    CHECK(parse_number<double>("inf") == std::numeric_limits<double>::infinity());
    CHECK(std::isnan(parse_number<double>("nan").value_or(0)));
    for (const char* bad :
         {"", "+", "-", " 1", "1 ", "1x", "0x10", "1.0", "+-1", "--1", "18446744073709551616", "1\n", "é"}) {
        CHECK_MESSAGE(!parse_number<std::uint64_t>(bad), "text '" << bad << "'");
    }
    CHECK(!parse_number<std::uint8_t>("256"));
    CHECK(!parse_number<std::uint32_t>("-1"));
    CHECK(!parse_number<std::int8_t>("-129"));
    CHECK(!parse_number<double>("1e400"));
    CHECK(!parse_number<double>("1.5f"));
}

TEST_CASE("escaped text holds nothing that a terminal obeys") {
    CHECK(escaped("plain text") == "plain text");
    CHECK(escaped("a\nb\tc\rd\\e") == "a\\nb\\tc\\rd\\\\e");
    CHECK(escaped(std::string_view("nul\0", 4)) == "nul\\x00");
    CHECK(escaped("\x1b[31mred\x07\x7f") == "\\x1b[31mred\\x07\\x7f");
    CHECK(escaped("Zürich 東京 🐦") == "Zürich 東京 🐦");
    CHECK(escaped("\xc2\x9b"
                  "31m") == "\\xc2\\x9b31m");  // C1 control sequence introducer
    CHECK(escaped("\xe2\x80\xae"
                  "evil") == "\\xe2\\x80\\xaeevil");  // right-to-left override
    CHECK(escaped("\xe2\x81\xa6"
                  "x") == "\\xe2\\x81\\xa6x");            // isolate
    CHECK(escaped("\xe2\x80\xa8") == "\\xe2\\x80\\xa8");  // line separator
    for (const char* bad :
         {"\xff", "\xc0\xaf", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xc3", "\xe6\x9d", "\x80"}) {
        const std::string text = escaped(bad);
        for (const char c : text)
            CHECK_MESSAGE(static_cast<unsigned char>(c) < 0x80, "ill-formed bytes must be written as hex");
    }
    CHECK(escaped(std::string(300, 'x')) == std::string(200, 'x') + "...");
    CHECK(escaped("abcdef", 3) == "abc...");
    CHECK(escaped("abc", 3) == "abc");
    CHECK(escaped("aé", 2) == "aé");  // a character that begins inside the limit is shown whole
}

TEST_CASE("escaped text never has a raw control character, whatever the bytes") {
    std::mt19937 random(2);
    for (int round = 0; round < 20000; ++round) {
        std::string bytes(random() % 12, '\0');
        for (char& c : bytes) c = static_cast<char>(random());
        for (const char c : escaped(bytes)) {
            REQUIRE(static_cast<unsigned char>(c) >= 0x20);
            REQUIRE(static_cast<unsigned char>(c) != 0x7f);
        }
    }
}

TEST_CASE("quoted text is in single quotes, whatever kind of string it comes from") {
    const std::string text = "a\nb";
    std::string changeable = text;
    CHECK(quoted(text) == "'a\\nb'");
    CHECK(quoted(changeable) == "'a\\nb'");
    CHECK(quoted(std::string("x")) == "'x'");
    CHECK(quoted("literal") == "'literal'");
    CHECK(quoted(std::string_view("view"), 2) == "'vi...'");
}
