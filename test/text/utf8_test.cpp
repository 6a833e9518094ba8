#include "colibri/text/utf8.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace colibri::text;

TEST_CASE("every code point is read as it was written") {
    for (char32_t code = 0; code <= 0x10FFFF; ++code) {
        if (code == 0xD800) code = 0xE000;
        std::string bytes;
        append_utf8(bytes, code);
        const code_point read = decode_utf8(bytes, 0);
        const bool same = read.valid && read.value == code && read.size == bytes.size();
        if (!same) FAIL("U+" << static_cast<unsigned>(code));
    }
}

TEST_CASE("what UTF-8 can't express becomes U+FFFD") {
    std::string out;
    append_utf8(out, 0xD800);
    append_utf8(out, 0x110000);
    CHECK(out == "\xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST_CASE("ill-formed text is replaced by maximal subparts") {
    const std::string fffd = "\xEF\xBF\xBD";
    CHECK(replace_ill_formed("caf\xC3\xA9") == "caf\xC3\xA9");
    CHECK(replace_ill_formed("a\xFF"
                             "b") == "a" + fffd + "b");
    CHECK(replace_ill_formed("\xC0\xAF") == fffd + fffd);                        // overlong
    CHECK(replace_ill_formed("\xE0\x80\xAF") == fffd + fffd + fffd);             // overlong
    CHECK(replace_ill_formed("\xED\xA0\x80") == fffd + fffd + fffd);             // surrogate
    CHECK(replace_ill_formed("\xF4\x90\x80\x80") == fffd + fffd + fffd + fffd);  // above U+10FFFF
    CHECK(replace_ill_formed("\xF0\x9F\x98") == fffd);                           // one cut character
    CHECK(replace_ill_formed("\xF0\x9F\x98z") == fffd + "z");
    CHECK(replace_ill_formed("\xE2\x82\xE2\x82\xAC") == fffd + "\xE2\x82\xAC");
    CHECK(is_utf8("\xE2\x82\xAC"));
    CHECK_FALSE(is_utf8("\xE2\x82"));
    CHECK_FALSE(is_utf8("\xED\xBF\xBF"));
}

TEST_CASE("the tail to hold back is exactly what may still become a character") {
    CHECK(incomplete_tail("") == 0);
    CHECK(incomplete_tail("abc") == 0);
    CHECK(incomplete_tail("\xC3") == 1);
    CHECK(incomplete_tail("a\xE2\x82") == 2);
    CHECK(incomplete_tail("\xF0\x9F\x98") == 3);
    CHECK(incomplete_tail("\xF0\x9F\x98\x80") == 0);
    CHECK(incomplete_tail("\xE2\x82\xAC") == 0);
    CHECK(incomplete_tail("\x80\x80\x80\x80") == 0);  // nothing to wait for
    CHECK(incomplete_tail("\xE0\x80") == 0);          // can't become well-formed
    CHECK(incomplete_tail("\xED\xA0") == 0);
    CHECK(incomplete_tail("\xF5\x80") == 0);
    CHECK(incomplete_tail("\xC0") == 0);
    for (char32_t code : {U'\u00e9', U'\u20ac', U'\U0001f600'}) {
        std::string whole;
        append_utf8(whole, code);
        for (std::size_t cut = 1; cut < whole.size(); ++cut) CHECK(incomplete_tail("x" + whole.substr(0, cut)) == cut);
    }
}
