#include "repl/edit_buffer.hpp"

#include <doctest/doctest.h>

using namespace colibri::repl;

namespace {

// The text with '|' where the cursor is; the same notation sets a buffer up.
std::string shown(const edit_buffer& b) {
    std::string out = b.text();
    out.insert(b.cursor(), "|");
    return out;
}

edit_buffer buffer(const std::string& text) {
    const auto at = text.find('|');
    edit_buffer b;
    b.set(text.substr(0, at) + text.substr(at + 1));
    b.move_to(at);
    return b;
}

template <class Do>
std::string after(const std::string& text, Do&& what) {
    auto b = buffer(text);
    what(b);
    return shown(b);
}

}  // namespace

TEST_CASE("edit_buffer: inserting and erasing whole clusters") {
    CHECK(after("a|b", [](auto& b) { b.insert("xy"); }) == "axy|b");
    CHECK(after("ae\u0301|b", [](auto& b) { b.erase_left(); }) == "a|b");
    CHECK(after("a|\u4e2d\u6587", [](auto& b) { b.erase_right(); }) == "a|\u6587");
    CHECK(after("|a", [](auto& b) { b.erase_left(); }) == "|a");
    CHECK(after("a|", [](auto& b) { b.erase_right(); }) == "a|");
    CHECK(after("a\n|b", [](auto& b) { b.erase_left(); }) == "a|b");
}

TEST_CASE("edit_buffer: moving") {
    CHECK(after("a\u4e2d|b", [](auto& b) { b.left(); }) == "a|\u4e2db");
    CHECK(after("a|\u4e2db", [](auto& b) { b.right(); }) == "a\u4e2d|b");
    CHECK(after("one two-three|", [](auto& b) { b.word_left(); }) == "one two-|three");
    CHECK(after("one two-|three", [](auto& b) { b.word_left(); }) == "one |two-three");
    CHECK(after("one| two", [](auto& b) { b.word_right(); }) == "one two|");
    CHECK(after("\u00fcber| \u4e2d\u6587 x", [](auto& b) { b.word_right(); }) == "\u00fcber \u4e2d\u6587| x");
    CHECK(after("one\ntw|o\nthree", [](auto& b) { b.line_begin(); }) == "one\n|two\nthree");
    CHECK(after("one\ntw|o\nthree", [](auto& b) { b.line_end(); }) == "one\ntwo|\nthree");
    CHECK(after("one|\ntwo", [](auto& b) { b.line_begin(); }) == "|one\ntwo");
}

TEST_CASE("edit_buffer: killing and yanking") {
    CHECK(after("one\ntw|o\nthree", [](auto& b) { b.kill_to_line_end(); }) == "one\ntw|\nthree");
    CHECK(after("one\ntw|\nthree", [](auto& b) { b.kill_to_line_end(); }) == "one\ntw|three");
    CHECK(after("one\ntw|o", [](auto& b) { b.kill_to_line_begin(); }) == "one\n|o");
    CHECK(after("ls a/b-c|", [](auto& b) { b.kill_token_left(); }) == "ls |");
    CHECK(after("ls a/b-c|", [](auto& b) { b.kill_word_left(); }) == "ls a/b-|");
    CHECK(after("|one two", [](auto& b) { b.kill_word_right(); }) == "| two");
    CHECK(after("one |two", [](auto& b) {
              b.kill_to_line_end();
              b.line_begin();
              b.yank();
          }) == "two|one ");
    CHECK(after("a|", [](auto& b) {
              b.kill_to_line_begin();
              b.kill_to_line_end();  // nothing to kill: what was killed before stays
              b.yank();
              b.yank();
          }) == "aa|");
}

TEST_CASE("edit_buffer: transposing") {
    CHECK(after("ab|", [](auto& b) { b.transpose(); }) == "ba|");
    CHECK(after("a|b", [](auto& b) { b.transpose(); }) == "ba|");
    CHECK(after("x\u4e2d|e\u0301", [](auto& b) { b.transpose(); }) == "xe\u0301\u4e2d|");
    CHECK(after("|ab", [](auto& b) { b.transpose(); }) == "|ab");
    CHECK(after("a|", [](auto& b) { b.transpose(); }) == "a|");
    CHECK(after("x\na|", [](auto& b) { b.transpose(); }) == "x\na|");
}
