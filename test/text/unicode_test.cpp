#include "colibri/text/unicode.hpp"

#include <doctest/doctest.h>

#include <bit>

#include "colibri/text/char_set.hpp"

using namespace colibri::text;

TEST_CASE("every code point has exactly one general category") {
    for (char32_t code = 0; code <= 0x10FFFF; ++code) {
        if (std::popcount(properties(code) & classes::any) != 1) FAIL("U+" << static_cast<unsigned>(code));
    }
    CHECK(properties(0x110000) == classes::cn);
    CHECK(properties(0xFFFFFFFF) == classes::cn);
}

TEST_CASE("properties of some code points") {
    CHECK(properties(U'\u01c5') == classes::lt);
    CHECK(properties(U'\u00aa') == classes::lo);
    CHECK((properties(U'\u0301') & classes::any) == classes::mn);
    CHECK(properties(U'\u0903') == classes::mc);
    CHECK(properties(U'\u0661') == classes::nd);
    CHECK(properties(U'\u2167') == classes::nl);
    CHECK(properties(U'\u00bd') == classes::no);
    CHECK(properties(U'_') == classes::pc);
    CHECK(properties(U'\u00ab') == classes::pi);
    CHECK(properties(U'$') == classes::sc);
    CHECK(properties(U'\U0001f600') == classes::so);
    CHECK(properties(U'\u200b') == classes::cf);  // no white space
    CHECK(properties(U'\ue000') == classes::co);
    CHECK(properties(0xD800) == classes::cs);
    CHECK(properties(U'\u0378') == classes::cn);
    CHECK((properties(U'\u3007') & (classes::nl | classes::han)) == (classes::nl | classes::han));
    CHECK((properties(U'\u3042') & classes::han) == 0);
}

TEST_CASE("white space is White_Space") {
    int count = 0;
    for (char32_t code = 0; code <= 0x10FFFF; ++code) count += is_white_space(code);
    CHECK(count == 25);
    for (const char32_t code : {U'\t', U'\r', U'\u0085', U'\u00a0', U'\u2003', U'\u2028', U'\u3000'})
        CHECK(is_white_space(code));
    CHECK_FALSE(is_white_space(U'\u001c'));
}

TEST_CASE("sets of code points") {
    static constexpr code_range more[] = {{U'0', U'3'}, {U'x', U'x'}};
    static constexpr code_range less[] = {{U'B', U'C'}};
    constexpr char_set set{classes::lu, classes::han, more, less};
    for (const char32_t in : {U'A', U'D', U'0', U'3', U'x'}) CHECK(set.contains(in));
    for (const char32_t out : {U'B', U'C', U'4', U'/', U'w', U'y', U'a'}) CHECK_FALSE(set.contains(out));
}
