// What killed processes left is removed, and nothing else.
#include "colibri/io/stale_temporaries.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "colibri/io/atomic_writer.hpp"
#include "support/scratch.hpp"

using namespace colibri;

TEST_CASE("names of temporary files") {
    using colibri::detail::is_temporary_of;
    CHECK(is_temporary_of(".m.gguf.12-345-6.part", "m.gguf"));
    for (const char* other : {".m.gguf.12-345-6.part2", ".m.gguf.12-345.part", ".m.gguf.12-345-6-7.part", ".m.gguf.12-x-6.part", ".m.gguf.+1-2-3.part",
                              "m.gguf.12-345-6.part", ".m.gguf..part", ".m2.gguf.1-2-3.part", ".m.gguf.part", ".m.gguf.--.part"}) {
        CHECK_FALSE(is_temporary_of(other, "m.gguf"));
    }
}

TEST_CASE("a killed writer's file goes, a living one's stays") {
    const scratch::folder folder;
    const auto path = folder.path() / "file";
    const auto kill_writer = [&] {
        const ::pid_t child = ::fork();
        REQUIRE(child >= 0);
        if (child == 0) {
            auto out = atomic_writer::create(path);
            const std::string bytes(300 * 1024, 'x');
            if (!out || !out->write(bytes)) ::_exit(1);
            ::_exit(0);  // without its destructor, as if killed
        }
        int status = 0;
        REQUIRE(::waitpid(child, &status, 0) == child);
        REQUIRE(status == 0);
    };
    kill_writer();
    REQUIRE(scratch::count(folder.path()) == 1);
    auto living = atomic_writer::create(path);  // removes it
    REQUIRE(living);
    REQUIRE(scratch::count(folder.path()) == 1);
    kill_writer();
    REQUIRE(scratch::count(folder.path()) == 2);
    folder.put(".file.1-2-x.part", "no temporary file");
    std::filesystem::create_directory(folder.path() / ".file.1-2-3.part");
    const auto done = remove_stale_temporaries(path);
    CHECK(done.removed == 1);
    CHECK(done.bytes >= 300 * 1024);
    CHECK(scratch::count(folder.path()) == 3);
    // Through a link the folder of the file that it points to is looked at.
    REQUIRE(living->write("text"));
    REQUIRE(living->commit());
    folder.put(".file.7-7-7.part", "");
    std::filesystem::create_directory(folder.path() / "other");
    std::filesystem::create_symlink(path, folder.path() / "other" / "link");
    CHECK(remove_stale_temporaries(folder.path() / "other" / "link").removed == 1);
    CHECK(scratch::read(path) == "text");
    CHECK(remove_stale_temporaries(folder.path() / "none" / "file").removed == 0);
}
