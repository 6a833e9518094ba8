#include "colibri/session/text_filter.hpp"

#include <doctest/doctest.h>

using colibri::text_filter;

TEST_CASE("text filter: never cuts a character") {
    text_filter filter;
    const std::string text = "a\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80z";
    std::string out;
    for (const char byte : text) {
        const auto piece = filter.push(std::string_view(&byte, 1));
        if (!piece.empty()) CHECK((static_cast<unsigned char>(piece[0]) & 0xc0) != 0x80);
        out += piece;
    }
    CHECK(out == text);
    CHECK(filter.flush().empty());
}

TEST_CASE("text filter: bytes that can't become a character pass") {
    text_filter filter;
    CHECK(filter.push("\xff\xfe" "a") == "\xff\xfe" "a");
    CHECK(filter.push("\xe2\x82") == "");
    CHECK(filter.push("x") == "\xe2\x82x");
    CHECK(filter.push("\xf0\x9f") == "");
    CHECK(filter.flush() == "\xf0\x9f");
}

TEST_CASE("text filter: a stop string over several pieces ends the text before it") {
    text_filter filter({"User:", "###"});
    CHECK(filter.push("Hello U") == "Hello ");
    CHECK(filter.push("s") == "");
    CHECK(filter.push("ing ") == "Using ");
    CHECK(filter.push("it #") == "it ");
    CHECK(filter.push("# ") == "## ");
    CHECK(filter.push("end Us") == "end ");
    CHECK(filter.push("er: more") == "");
    CHECK(filter.stopped());
    CHECK(filter.stop() == "User:");
    CHECK(filter.push("anything") == "");
    CHECK(filter.flush() == "");
}

TEST_CASE("text filter: the earliest of several stops wins; what was held comes out at the end") {
    text_filter filter({"cd", "abcd", ""});
    CHECK(filter.push("xab") == "x");
    CHECK(filter.push("cd") == "");
    CHECK(filter.stop() == "abcd");
    text_filter open({"STOP"});
    CHECK(open.push("a STO") == "a ");
    CHECK(open.flush() == "STO");
}
