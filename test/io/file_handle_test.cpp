#include "colibri/io/file_handle.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "support/scratch.hpp"

using namespace colibri;

TEST_CASE("opening says what is in the way") {
    const scratch::folder folder;
    const auto file = folder.put("file", "12345");
    auto opened = open_for_reading(file);
    REQUIRE(opened);
    CHECK(opened->size == 5);
    CHECK(opened->handle.is_open());

    auto missing = open_for_reading(folder.path() / "miss\x1b[ing");
    REQUIRE(!missing);
    CHECK(missing.error().code == errc::not_found);
    CHECK(missing.error().message.find("there is no such file") != std::string::npos);
    CHECK(missing.error().message.find('\x1b') == std::string::npos);

    auto directory = open_for_reading(folder.path());
    REQUIRE(!directory);
    CHECK(directory.error().code == errc::not_a_file);
    CHECK(directory.error().message.find("is a directory") != std::string::npos);

    auto device = open_for_reading("/dev/null");
    REQUIRE(!device);
    CHECK(device.error().code == errc::not_a_file);
    CHECK(device.error().message.find("is a device") != std::string::npos);

    auto below_file = open_for_reading(file / "x");
    REQUIRE(!below_file);
    CHECK(below_file.error().code == errc::io);
    CHECK(below_file.error().message.find("not a folder") != std::string::npos);

    auto long_name = open_for_reading(folder.path() / std::string(300, 'x'));
    REQUIRE(!long_name);
    CHECK(long_name.error().message.find("too long") != std::string::npos);
}

TEST_CASE("a FIFO without a writer is refused at once") {
    const scratch::folder folder;
    const auto fifo = folder.path() / "fifo";
    REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
    auto opened = open_for_reading(fifo);  // for ever, if it waited for a writer
    REQUIRE(!opened);
    CHECK(opened.error().code == errc::not_a_file);
    CHECK(opened.error().message.find("pipe") != std::string::npos);
}

TEST_CASE("a file without permission is refused") {
    if (::geteuid() == 0) {
        MESSAGE("skipped: root may read everything");
        return;
    }
    const scratch::folder folder;
    const auto file = folder.put("secret", "x");
    REQUIRE(::chmod(file.c_str(), 0) == 0);
    auto opened = open_for_reading(file);
    REQUIRE(!opened);
    CHECK(opened.error().message.find("permission denied") != std::string::npos);
}

TEST_CASE("a handle closes its file once") {
    const scratch::folder folder;
    const auto file = folder.put("file", "x");
    auto opened = open_for_reading(file).value();
    const int number = opened.handle.get();
    unique_fd moved = std::move(opened.handle);
    CHECK(!opened.handle.is_open());
    CHECK(moved.get() == number);
    moved.close();
    moved.close();
    CHECK(!moved.is_open());
    struct stat status {};
    CHECK(::fstat(number, &status) != 0);
}
