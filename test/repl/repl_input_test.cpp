#include "repl/repl_input.hpp"

#include <doctest/doctest.h>

#include <vector>

using namespace colibri::repl;

namespace {

std::string message(std::string_view text) {
    const auto input = parse_input(text);
    CHECK(input.kind == input_kind::message);
    return input.text;
}

std::vector<std::string> joined(const std::vector<std::string_view>& lines) {
    line_joiner joiner;
    std::vector<std::string> out;
    for (const auto line : lines) {
        if (auto whole = joiner.add(line)) out.push_back(*whole);
    }
    if (auto rest = joiner.finish()) out.push_back("unfinished: " + *rest);
    return out;
}

using texts = std::vector<std::string>;

}  // namespace

TEST_CASE("a command is '/' and letters as the whole first word") {
    auto input = parse_input("/set temp 0.5 ");
    CHECK(input.kind == input_kind::command);
    CHECK(input.name == "set");
    CHECK(input.text == "temp 0.5");
    CHECK(parse_input("/Help").name == "help");
    CHECK(parse_input("/system\tBe brief.\nVery.").text == "Be brief.\nVery.");
    CHECK(parse_input("/showcase").name == "showcase");  // not "show"
    CHECK(message("/usr/bin fails") == "/usr/bin fails");
    CHECK(message("/etc/passwd") == "/etc/passwd");
    CHECK(message("/ alone") == "/ alone");
    CHECK(message("/") == "/");
    CHECK(message("/5 of it") == "/5 of it");
    CHECK(message("/a-b") == "/a-b");
    CHECK(message(" /help") == " /help");
}

TEST_CASE("two slashes stand for one") {
    CHECK(message("//help me") == "/help me");
    CHECK(message("///") == "//");
    CHECK(message("a // b") == "a // b");
}

TEST_CASE("blank input is empty") {
    for (const auto text : {"", " ", "\n\t ", "\"\"\"\"\"\"", "\"\"\"\n\"\"\""})
        CHECK(parse_input(text).kind == input_kind::empty);
}

TEST_CASE("blocks") {
    CHECK(is_open_block("\"\"\""));
    CHECK(is_open_block("\"\"\"a\nb"));
    CHECK(is_open_block("\"\"\"\""));
    CHECK(!is_open_block("\"\"\"a\"\"\""));
    CHECK(!is_open_block("\"\"\"a\nb\n\"\"\" "));
    CHECK(!is_open_block("a \"\"\""));
    CHECK(is_open_block("/system \"\"\"a"));
    CHECK(!is_open_block("/system a"));
    CHECK(message("\"\"\"a\nb\"\"\"") == "a\nb");
    CHECK(message("\"\"\"\na\n\nb\n\"\"\"") == "a\n\nb");
    CHECK(message("\"\"\"/help\"\"\"") == "/help");
    CHECK(message("\"\"\"unfinished\nat the end") == "unfinished\nat the end");
    CHECK(parse_input("/system \"\"\"\nBe\nbrief\n\"\"\"").text == "Be\nbrief");
    CHECK(message("say \"\"\"x\"\"\"") == "say \"\"\"x\"\"\"");
}

TEST_CASE("literal text is a message, and its block form means the same") {
    for (const std::string_view text : {"/clear\nnow", "\"\"\"doc\"\"\"\ndef f():", "//x\ny", "a\n", "\n\na"}) {
        CHECK(parse_input(text, true).kind == input_kind::message);
        CHECK(parse_input(text, true).text == text);
        CHECK(message(as_block(text)) == text);
    }
}

TEST_CASE("piped lines") {
    CHECK(joined({"one", "two"}) == texts{"one", "two"});
    CHECK(joined({"a\\", "b"}) == texts{"a\nb"});
    CHECK(joined({"a\\\\", "b"}) == texts{"a\\\\", "b"});
    CHECK(joined({"a\\\\\\", "b"}) == texts{"a\\\\\nb"});
    CHECK(joined({"\"\"\"", "a\\", "", "b", "\"\"\"", "c"}) == texts{"\"\"\"\na\\\n\nb\n\"\"\"", "c"});
    CHECK(joined({"\"\"\"a", "b"}) == texts{"unfinished: \"\"\"a\nb"});
    CHECK(joined({"a\\"}) == texts{"unfinished: a"});
    CHECK(joined({"", "x"}) == texts{"", "x"});
}
