#include "repl/keys.hpp"

#include <doctest/doctest.h>

#include <vector>

using namespace colibri::repl;

namespace {

std::vector<key> keys_of(std::string_view bytes) {
    key_decoder decoder;
    decoder.feed(bytes);
    std::vector<key> out;
    while (auto k = decoder.next()) out.push_back(*k);
    return out;
}

key_kind kind_of(std::string_view bytes) {
    const auto keys = keys_of(bytes);
    REQUIRE(keys.size() == 1);
    return keys[0].kind;
}

}  // namespace

TEST_CASE("keys: what terminals send") {
    CHECK(kind_of("\r") == key_kind::enter);
    CHECK(kind_of("\n") == key_kind::newline);
    CHECK(kind_of("\x1b\r") == key_kind::newline);
    CHECK(kind_of("\x1b[13;2u") == key_kind::newline);
    CHECK(kind_of("\x1b[27;2;13~") == key_kind::newline);
    CHECK(kind_of("\t") == key_kind::tab);
    CHECK(kind_of("\x7f") == key_kind::backspace);
    CHECK(kind_of("\x08") == key_kind::backspace);
    CHECK(kind_of("\x1b\x7f") == key_kind::word_backspace);
    CHECK(kind_of("\x1b[A") == key_kind::up);
    CHECK(kind_of("\x1bOB") == key_kind::down);
    CHECK(kind_of("\x1b[C") == key_kind::right);
    CHECK(kind_of("\x1b[D") == key_kind::left);
    CHECK(kind_of("\x1b[1;5C") == key_kind::word_right);
    CHECK(kind_of("\x1b[1;3D") == key_kind::word_left);
    CHECK(kind_of("\x1b[H") == key_kind::home);
    CHECK(kind_of("\x1b[1~") == key_kind::home);
    CHECK(kind_of("\x1b[7~") == key_kind::home);
    CHECK(kind_of("\x1bOF") == key_kind::end);
    CHECK(kind_of("\x1b[4~") == key_kind::end);
    CHECK(kind_of("\x1b[3~") == key_kind::del);
    CHECK(kind_of("\x1b[5~") == key_kind::page_up);
    CHECK(kind_of("\x1b[6~") == key_kind::page_down);
    CHECK(kind_of("\x1b[15~") == key_kind::unknown);
    CHECK(kind_of("\x1b[[A") == key_kind::unknown);
    CHECK(keys_of("\x01") == std::vector<key>{{key_kind::ctrl, "a"}});
    CHECK(keys_of("\x1a") == std::vector<key>{{key_kind::ctrl, "z"}});
    CHECK(keys_of("\x1b"
                  "b") == std::vector<key>{{key_kind::alt, "b"}});
}

TEST_CASE("keys: UTF-8 that arrives in pieces") {
    key_decoder decoder;
    decoder.feed("\xe4");
    CHECK(!decoder.next());
    CHECK(decoder.incomplete());
    decoder.feed(
        "\xb8\xad"
        "x");
    CHECK(decoder.next() == key{key_kind::text, "\u4e2d"});
    CHECK(decoder.next() == key{key_kind::text, "x"});
    CHECK(!decoder.incomplete());
    CHECK(keys_of("\xff"
                  "a") == std::vector<key>{{key_kind::text, "\ufffd"}, {key_kind::text, "a"}});
    CHECK(keys_of("\xe4"
                  "a") == std::vector<key>{{key_kind::text, "\ufffd"}, {key_kind::text, "a"}});
}

TEST_CASE("keys: an escape alone, after a wait") {
    key_decoder decoder;
    decoder.feed("\x1b");
    CHECK(!decoder.next());
    CHECK(decoder.incomplete());
    CHECK(decoder.flush() == key{key_kind::escape});
    CHECK(!decoder.flush());
    decoder.feed("\x1b[1;");
    CHECK(!decoder.next());
    CHECK(decoder.flush() == key{key_kind::unknown});
    CHECK(!decoder.incomplete());
}

TEST_CASE("keys: a paste is one key, in however many pieces it comes") {
    CHECK(keys_of("\x1b[200~a\rb\r\nc\n\x1b[201~d") ==
          std::vector<key>{{key_kind::paste, "a\nb\nc\n"}, {key_kind::text, "d"}});
    key_decoder decoder;
    decoder.feed("\x1b[200~one\x1b[2");
    CHECK(!decoder.next());
    CHECK(decoder.pasting());
    CHECK(!decoder.incomplete());
    decoder.feed("01~");
    CHECK(decoder.next() == key{key_kind::paste, "one"});
    CHECK(!decoder.pasting());
}

TEST_CASE("keys: a paste whose end never comes doesn't hang") {
    key_decoder decoder;
    decoder.feed("\x1b[200~lost");
    CHECK(!decoder.next());
    CHECK(decoder.flush() == key{key_kind::paste, "lost"});
    decoder.feed("x");
    CHECK(decoder.next() == key{key_kind::text, "x"});
}

TEST_CASE("keys: escape sequences inside a paste are text") {
    CHECK(keys_of("\x1b[200~\x1b[A\x03\x1b[201~") == std::vector<key>{{key_kind::paste, "\x1b[A\x03"}});
}
