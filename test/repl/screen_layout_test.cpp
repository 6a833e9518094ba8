#include "repl/screen_layout.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace colibri::repl;

namespace {

std::vector<std::string> rows_of(std::string_view text, std::size_t columns, std::size_t indent = 2) {
    std::vector<std::string> out;
    for (const auto& row : lay_out(text, 0, indent, indent, columns).rows)
        out.push_back(shown_text(text, row, columns));
    return out;
}

std::pair<std::size_t, std::size_t> cursor_of(std::string_view text, std::size_t at, std::size_t columns) {
    const auto layout = lay_out(text, at, 2, 2, columns);
    return {layout.cursor_row, layout.cursor_column};
}

using rows = std::vector<std::string>;
using place = std::pair<std::size_t, std::size_t>;

}  // namespace

TEST_CASE("layout: lines wrap at the screen's edge") {
    CHECK(rows_of("", 10) == rows{""});
    CHECK(rows_of("abc", 10) == rows{"abc"});
    CHECK(rows_of("abcdefghij", 10) == rows{"abcdefgh", "ij"});
    CHECK(rows_of("a\nb", 10) == rows{"a", "b"});
    CHECK(rows_of("a\n", 10) == rows{"a", ""});
    const auto layout = lay_out("abcdefghij", 0, 2, 2, 10);
    CHECK(layout.rows[0].full);
    CHECK(layout.rows[0].indent == 2);
    CHECK(layout.rows[1].indent == 0);
    CHECK(!layout.rows[1].starts_line);
}

TEST_CASE("layout: a full row leaves room for the cursor behind it") {
    CHECK(rows_of("abcdefgh", 10) == rows{"abcdefgh", ""});
    CHECK(cursor_of("abcdefgh", 8, 10) == place{1, 0});
    CHECK(rows_of("abcdefgh\nx", 10) == rows{"abcdefgh", "", "x"});
    CHECK(cursor_of("abcdefgh\nx", 8, 10) == place{1, 0});
    CHECK(cursor_of("abcdefgh\nx", 9, 10) == place{2, 2});
}

TEST_CASE("layout: the cursor") {
    CHECK(cursor_of("abc", 0, 10) == place{0, 2});
    CHECK(cursor_of("abc", 3, 10) == place{0, 5});
    CHECK(cursor_of("abcdefghij", 8, 10) == place{1, 0});
    CHECK(cursor_of("abcdefghij", 10, 10) == place{1, 2});
    CHECK(cursor_of("a\nbc", 1, 10) == place{0, 3});
    CHECK(cursor_of("a\nbc", 2, 10) == place{1, 2});
}

TEST_CASE("layout: wide characters don't straddle the edge") {
    CHECK(rows_of("abcdefg\u4e2dx", 10) == rows{"abcdefg", "\u4e2dx"});
    CHECK(!lay_out("abcdefg\u4e2dx", 0, 2, 2, 10).rows[0].full);
    CHECK(cursor_of("abcdefg\u4e2dx", 7, 10) == place{1, 0});
    CHECK(rows_of("\u4e2d\u4e2d\u4e2d\u4e2d", 10) == rows{"\u4e2d\u4e2d\u4e2d\u4e2d", ""});
    CHECK(rows_of("abcdefge\u0301", 10) == rows{"abcdefge\u0301", ""});
}

TEST_CASE("layout: tabs and controls") {
    CHECK(rows_of("\tx", 20) == rows{"      x"});  // to column 8, behind a prompt of 2
    CHECK(rows_of("\x1b", 10) == rows{"^["});
    CHECK(cursor_of("\x1b", 1, 10) == place{0, 4});
    CHECK(rows_of("abcdefg\t", 10) == rows{"abcdefg ", ""});
}

TEST_CASE("layout: finding a position by row and column") {
    const std::string_view text = "abcdefghij\n\u4e2d\u6587x";
    const auto layout = lay_out(text, 0, 2, 2, 10);
    REQUIRE(layout.rows.size() == 3);
    CHECK(position_at(text, layout, 0, 4, 10) == 2);
    CHECK(position_at(text, layout, 0, 9, 10) == 7);   // never behind the row's end: that is the next row
    CHECK(position_at(text, layout, 1, 9, 10) == 10);  // the line is shorter
    CHECK(position_at(text, layout, 2, 3, 10) == 11);  // in the middle of a wide character: before it
    CHECK(position_at(text, layout, 2, 4, 10) == 14);
    CHECK(position_at(text, layout, 2, 0, 10) == 11);
}
