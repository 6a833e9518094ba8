// What the program says when the kernel can't give it a page of a mapped file.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "colibri/io/mapped_file.hpp"
#include "repl/exit_code.hpp"
#include "repl/terminal.hpp"
#include "support/scratch.hpp"

using namespace colibri;

namespace {

// What is said on standard error of a program whose mapped file shrinks.
std::string said_of_crash(bool line_is_open) {
    const scratch::folder folder;
    const auto path = folder.put("mapped", std::string(100000, 'x'));
    const auto said = folder.path() / "said";
    const ::pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        const int out = ::open(said.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
        ::dup2(out, STDERR_FILENO);
        repl::prepare_process();
        repl::note_open_line(line_is_open);
        const auto mapped = mapped_file::open(path);
        if (!mapped || ::truncate(path.c_str(), 10) != 0) ::_exit(99);
        const volatile std::byte* const last = mapped->bytes().data() + 99999;
        (void)*last;
        ::_exit(98);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == static_cast<int>(repl::exit_code::model));
    return scratch::read(said);
}

}  // namespace

TEST_CASE("a mapped file that shrinks ends the program with a sentence and an exit code") {
    const auto text = said_of_crash(false);
    CHECK(text.find("colibri: a mapped file became shorter") == 0);
    CHECK(text.find('\n') == text.size() - 1);
    CHECK(said_of_crash(true) == "\n" + text);  // behind a piece of an answer
}
