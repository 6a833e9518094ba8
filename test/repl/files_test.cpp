#include "repl/files.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "repl/line_source.hpp"
#include "support/scratch.hpp"

using namespace colibri;
using namespace colibri::repl;

namespace {

std::string text_of(std::string_view bytes) {
    std::size_t replaced = 0;
    return as_text(bytes, replaced);
}

// All lines that `bytes` have when they come through a pipe.
std::vector<std::string> lines_of(std::string_view bytes) {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    REQUIRE(::write(ends[1], bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
    ::close(ends[1]);
    line_source source(ends[0]);
    std::vector<std::string> out;
    while (true) {
        const auto line = source.next();
        REQUIRE(line);
        if (line->how == line_source::status::end) break;
        out.push_back(line->text);
    }
    ::close(ends[0]);
    return out;
}

using lines = std::vector<std::string>;

}  // namespace

TEST_CASE("as_text: byte-order marks, line ends, bad bytes") {
    CHECK(text_of("a\r\nb\r\n") == "a\nb");
    CHECK(text_of("\xef\xbb\xbf"
                  "a") == "a");
    CHECK(text_of("a\n\n") == "a\n");
    CHECK(text_of("a\rb") == "a\rb");
    CHECK(text_of("") == "");
    CHECK(text_of("\n") == "");
    CHECK(text_of(std::string_view("a\0b", 3)) == std::string_view("a\0b", 3));
    std::size_t replaced = 0;
    CHECK(as_text("a\xff\xfe", replaced) == "a\ufffd\ufffd");
    CHECK(replaced == 2);
}

TEST_CASE("line_source: lines as they are meant") {
    CHECK(lines_of("") == lines{});
    CHECK(lines_of("a") == lines{"a"});
    CHECK(lines_of("a\nb\n") == lines{"a", "b"});
    CHECK(lines_of("a\r\nb\r\n") == lines{"a", "b"});
    CHECK(lines_of("\xef\xbb\xbf"
                   "a\n") == lines{"a"});
    CHECK(lines_of("\xef\xbb\xbf") == lines{});
    CHECK(lines_of("\xef\xbb") == lines{"\ufffd"});
    CHECK(lines_of("\n\n") == lines{"", ""});
    CHECK(lines_of("x\xff\n") == lines{"x\ufffd"});
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    line_source source(ends[0]);
    REQUIRE(::write(ends[1], "a\n", 2) == 2);
    CHECK(source.next()->text == "a");  // a short first line doesn't wait for more
    ::close(ends[0]);
    ::close(ends[1]);
}

TEST_CASE("read_whole_file: files, FIFOs and what can't be read") {
    const scratch::folder folder;
    const std::string large(300000, 'x');
    CHECK(*read_whole_file(folder.put("file", large)) == large);
    CHECK(read_whole_file(folder.path()).error().code == errc::not_a_file);
    CHECK(read_whole_file(folder.path() / "none").error().code == errc::not_found);
    CHECK(read_whole_file("/dev/null")->empty());
}

TEST_CASE("replace_private_file: whole, private, and nothing left behind") {
    const scratch::folder folder;
    const auto file = folder.put("file", "old");
    REQUIRE(replace_private_file(file, "new"));
    CHECK(scratch::read(file) == "new");
    struct stat status {};
    REQUIRE(::stat(file.c_str(), &status) == 0);
    CHECK((status.st_mode & 07777u) == 0600u);
    CHECK(scratch::count(folder.path()) == 1);
    CHECK(!replace_private_file(folder.path() / "no" / "file", "x"));
    CHECK(!replace_private_file(folder.path(), "x"));
}

TEST_CASE("expand_home") {
    ::setenv("HOME", "/home/x", 1);
    CHECK(expand_home("~/a") == "/home/x/a");
    CHECK(expand_home("~") == "/home/x");
    CHECK(expand_home("~user/a") == "~user/a");
    CHECK(expand_home("a/~") == "a/~");
}
