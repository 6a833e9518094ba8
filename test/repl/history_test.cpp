#include "repl/history.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include "colibri/core/concat.hpp"
#include "support/scratch.hpp"

using namespace colibri;
using namespace colibri::repl;

namespace {

unsigned mode_of(const std::filesystem::path& path) {
    struct stat status {};
    REQUIRE(::stat(path.c_str(), &status) == 0);
    return status.st_mode & 07777u;
}

}  // namespace

TEST_CASE("history: entries of several lines are one line of the file and come back whole") {
    for (const std::string_view entry : {"one", "a\nb\n", "back\\slash\\n", "tab\there", "cr\r\n", "\u4e2d"}) {
        const auto line = encode_history_entry(entry);
        CHECK(line.find_first_of("\r\n") == std::string::npos);
        CHECK(decode_history_entry(line) == entry);
    }
    CHECK(decode_history_entry("ends in \\") == "ends in \\");
}

TEST_CASE("history: the file is private, also in new folders and where it was not before") {
    const scratch::folder folder;
    const auto file = folder.path() / "a" / "b" / "history";
    history past;
    REQUIRE(past.attach(file));
    REQUIRE(past.add("first"));
    CHECK(mode_of(file) == 0600);
    CHECK(mode_of(folder.path() / "a") == 0700);
    CHECK(scratch::read(file) == "first\n");
    std::filesystem::permissions(file, std::filesystem::perms(0644));
    REQUIRE(past.add("two\nlines"));
    CHECK(mode_of(file) == 0600);
    CHECK(scratch::read(file) == "first\ntwo\\nlines\n");
    CHECK(scratch::count(file.parent_path()) == 1);  // no temporary file is left

    history again;
    REQUIRE(again.attach(file));
    CHECK(again.entries() == std::vector<std::string>{"first", "two\nlines"});
}

TEST_CASE("history: repetitions and empty entries aren't kept") {
    history past;
    REQUIRE(past.add("a"));
    REQUIRE(past.add("a"));
    REQUIRE(past.add(""));
    REQUIRE(past.add("b"));
    REQUIRE(past.add("a"));
    CHECK(past.entries() == std::vector<std::string>{"a", "b", "a"});
}

TEST_CASE("history: two programs share the file") {
    const scratch::folder folder;
    const auto file = folder.path() / "history";
    history one, two;
    REQUIRE(one.attach(file));
    REQUIRE(two.attach(file));
    REQUIRE(one.add("from one"));
    REQUIRE(two.add("from two"));
    REQUIRE(one.add("again"));
    CHECK(scratch::read(file) == "from one\nfrom two\nagain\n");
    CHECK(one.entries() == std::vector<std::string>{"from one", "again"});
}

TEST_CASE("history: the oldest entries go when there are too many or too large") {
    const scratch::folder folder;
    std::string bytes;
    for (int i = 0; i < 1200; ++i) bytes += concat("entry ", i, "\n");
    const auto file = folder.put("history", bytes);
    history past;
    REQUIRE(past.attach(file));
    CHECK(past.entries().size() == history::max_entries);
    CHECK(past.entries().front() == "entry 200");
    REQUIRE(past.add("new"));
    CHECK(past.entries().size() == history::max_entries);
    CHECK(past.entries().back() == "new");
    REQUIRE(past.add(std::string(history::max_bytes - 20, 'x')));
    CHECK(past.entries().size() < 5);
    CHECK(std::filesystem::file_size(file) <= history::max_bytes);
}

TEST_CASE("history: detached, the file stays as it is") {
    const scratch::folder folder;
    const auto file = folder.put("history", "old\n");
    history past;
    REQUIRE(past.attach(file));
    past.detach();
    REQUIRE(past.add("secret"));
    CHECK(scratch::read(file) == "old\n");
    CHECK(past.entries().back() == "secret");
    CHECK(!past.attached());
}

TEST_CASE("history: a folder that can't be written is an error, and the entry stays in memory") {
    const scratch::folder folder;
    folder.put("file", "");
    history past;
    REQUIRE(past.attach(folder.path() / "file" / "history"));
    const auto done = past.add("kept");
    REQUIRE(!done);
    CHECK(done.error().message.find("file") != std::string::npos);
    CHECK(past.entries() == std::vector<std::string>{"kept"});
}

TEST_CASE("history: something else than a file in its place is left alone") {
    const scratch::folder folder;
    std::filesystem::create_symlink("/dev/null", folder.path() / "history");
    history past;
    REQUIRE(past.attach(folder.path() / "history"));
    CHECK(!past.add("x"));
    CHECK(std::filesystem::is_symlink(folder.path() / "history"));
}

TEST_CASE("history: where the file is") {
    ::setenv("XDG_STATE_HOME", "/state", 1);
    CHECK(default_history_file() == std::filesystem::path("/state/colibri/history"));
    ::setenv("XDG_STATE_HOME", "relative", 1);  // not allowed, so it doesn't count
    ::setenv("HOME", "/home/x", 1);
    CHECK(default_history_file() == std::filesystem::path("/home/x/.local/state/colibri/history"));
    ::unsetenv("XDG_STATE_HOME");
    ::unsetenv("HOME");
    CHECK(!default_history_file());
}
