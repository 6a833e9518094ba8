#include "repl/display.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace colibri::repl;

TEST_CASE("columns: East Asian wide is two, combining none") {
    CHECK(columns_of(U'a') == 1);
    CHECK(columns_of(U'\u00e9') == 1);
    CHECK(columns_of(U'\u0301') == 0);      // combining acute
    CHECK(columns_of(U'\u200d') == 0);      // zero-width joiner
    CHECK(columns_of(U'\ufe0f') == 0);      // variation selector
    CHECK(columns_of(U'\u4e2d') == 2);      // CJK ideograph
    CHECK(columns_of(U'\uff21') == 2);      // fullwidth A
    CHECK(columns_of(U'\uff71') == 1);      // halfwidth katakana
    CHECK(columns_of(U'\U0001f600') == 2);  // emoji
    CHECK(columns_of(U'\U00020000') == 2);  // plane 2
    CHECK(columns_of(U'\U0001f1e9') == 1);  // one flag letter
    CHECK(columns_of(U'\u1100') == 2);      // Hangul initial
    CHECK(columns_of(U'\u1161') == 0);      // Hangul vowel, joins the initial
    CHECK(columns_of(std::string_view("a\u4e2de\u0301")) == 4);
    CHECK(columns_of(std::string_view("\x1b")) == 2);  // shown as ^[
}

TEST_CASE("clusters: marks, joined emoji and flags move as one") {
    const std::string text = "ae\u0301\U0001f1e9\U0001f1ea\U0001f468\u200d\U0001f469x";
    std::size_t at = 0;
    std::vector<std::size_t> borders{0};
    while (at < text.size()) borders.push_back(at = next_cluster(text, at));
    CHECK(borders == std::vector<std::size_t>{0, 1, 4, 12, 23, 24});
    for (std::size_t i = borders.size(); i-- > 1;) CHECK(previous_cluster(text, borders[i]) == borders[i - 1]);
    CHECK(next_cluster(text, text.size()) == text.size());
    CHECK(previous_cluster(text, 0) == 0);
}

TEST_CASE("clusters end at lines, and bad bytes are single") {
    CHECK(next_cluster("\n\u0301", 0) == 1);
    CHECK(previous_cluster("ab\ncd", 3) == 2);
    CHECK(previous_cluster("ab\ncd", 2) == 1);
    const std::string bad = "\xe4\xb8";
    CHECK(next_cluster(bad, 0) == 2);  // one maximal subpart
    CHECK(next_cluster("\xff\xff", 0) == 1);
}

TEST_CASE("valid_utf8 counts what it replaces") {
    std::size_t replaced = 0;
    CHECK(valid_utf8("a\xff\u00e9\xc3", replaced) == "a\ufffd\u00e9\ufffd");
    CHECK(replaced == 2);
    CHECK(valid_utf8("fine", replaced) == "fine");
    CHECK(replaced == 2);
}

TEST_CASE("without_controls shows what would drive a terminal") {
    CHECK(without_controls("a\x1b[31mb\x07\n\tc\x7f\u009b") == "a^[[31mb^G\n\tc^?\ufffd");
}
