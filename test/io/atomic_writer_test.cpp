#include "colibri/io/atomic_writer.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "support/scratch.hpp"

using namespace colibri;

namespace {

unsigned mode_of(const std::filesystem::path& path) {
    struct stat status {};
    REQUIRE(::stat(path.c_str(), &status) == 0);
    return status.st_mode & 07777u;
}

/// Runs `body` in a process of its own; its return value is the exit code, 77 means that it couldn't be tried.
template <class Body>
int in_child(Body body) {
    const ::pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) ::_exit(body());
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(WIFEXITED(status));
    return WEXITSTATUS(status);
}

}  // namespace

TEST_CASE("a committed file has all bytes, an abandoned one leaves nothing") {
    const scratch::folder folder;
    const auto path = folder.path() / "file";
    std::string expected;
    {
        auto out = atomic_writer::create(path).value();
        for (int i = 0; i < 1000; ++i) {
            const std::string piece(static_cast<std::size_t>(i) * 7 % 3000, static_cast<char>('a' + i % 26));
            REQUIRE(out.write(piece));
            expected += piece;
        }
        const std::string large(std::size_t{1} << 20, 'L');
        REQUIRE(out.write(large));
        REQUIRE(out.write("end"));
        expected += large + "end";
        CHECK(out.written() == expected.size());
        CHECK(!std::filesystem::exists(path));
        REQUIRE(out.commit());
        CHECK(scratch::read(path) == expected);
    }
    CHECK(scratch::count(folder.path()) == 1);
    {
        auto out = atomic_writer::create(path).value();
        REQUIRE(out.write("half"));
        CHECK(scratch::count(folder.path()) == 2);
    }
    CHECK(scratch::count(folder.path()) == 1);
    CHECK(scratch::read(path) == expected);
    {
        auto out = atomic_writer::create(path).value();
        REQUIRE(out.write("half"));
        out.abandon();
        CHECK(scratch::count(folder.path()) == 1);
        auto late = out.commit();
        REQUIRE(!late);
        CHECK(late.error().code == errc::invalid_argument);
    }
    auto empty = atomic_writer::create(path).value();
    REQUIRE(empty.commit());
    CHECK(std::filesystem::file_size(path) == 0);
    auto twice = empty.commit();
    CHECK(!twice);
    CHECK(std::filesystem::exists(path));
}

TEST_CASE("a moved writer is one writer") {
    const scratch::folder folder;
    auto first = atomic_writer::create(folder.path() / "a").value();
    REQUIRE(first.write("1"));
    atomic_writer second = std::move(first);
    REQUIRE(second.write("2"));
    REQUIRE(second.commit());
    CHECK(scratch::read(folder.path() / "a") == "12");
    second = atomic_writer::create(folder.path() / "b").value();
    REQUIRE(second.commit());
    CHECK(scratch::count(folder.path()) == 2);
}

TEST_CASE("permissions are the ones asked for, or the old file's, or the usual ones") {
    const scratch::folder folder;
    const auto path = folder.path() / "file";
    const ::mode_t old = ::umask(027);
    auto usual = atomic_writer::create(path).value();
    REQUIRE(usual.commit());
    CHECK(mode_of(path) == 0640);
    REQUIRE(::chmod(path.c_str(), 0604) == 0);
    auto kept = atomic_writer::create(path).value();
    REQUIRE(kept.commit());
    CHECK(mode_of(path) == 0604);
    for (const unsigned wanted : {0600u, 0666u, 0444u}) {
        auto asked = atomic_writer::create(path, {.permissions = wanted}).value();
        REQUIRE(asked.write("x"));
        for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
            // Never more open than asked for, not even for a moment.
            if (entry.path() != path) CHECK((mode_of(entry.path()) & ~(wanted | 0200u)) == 0);
        }
        REQUIRE(asked.commit());
        CHECK(mode_of(path) == wanted);
    }
    ::umask(old);
}

TEST_CASE("a link is followed, and other kinds of targets are refused") {
    const scratch::folder folder;
    const auto real = folder.put("deep/real", "old");
    std::filesystem::create_symlink("deep/real", folder.path() / "link");
    auto out = atomic_writer::create(folder.path() / "link").value();
    REQUIRE(out.write("new"));
    REQUIRE(out.commit());
    CHECK(std::filesystem::is_symlink(folder.path() / "link"));
    CHECK(scratch::read(real) == "new");

    CHECK(atomic_writer::create(folder.path()).error().code == errc::not_a_file);
    CHECK(atomic_writer::create("/dev/null").error().code == errc::not_a_file);
    auto nowhere = atomic_writer::create(folder.path() / "none" / "file");
    REQUIRE(!nowhere);
    CHECK(nowhere.error().code == errc::not_found);
    CHECK(nowhere.error().message.find("folder does not exist") != std::string::npos);
    auto long_name = atomic_writer::create(folder.path() / std::string(250, 'n'));
    REQUIRE(long_name);  // the temporary name is shortened
    CHECK(long_name->commit());
    CHECK(!atomic_writer::create(folder.path() / std::string(300, 'n')).value().commit());
    CHECK(scratch::count(folder.path()) == 3);
}

TEST_CASE("space that was reserved and not used is given back") {
    const scratch::folder folder;
    const auto path = folder.path() / "file";
    auto out = atomic_writer::create(path, {.expected_size = 8 << 20}).value();
    REQUIRE(out.write("small"));
    REQUIRE(out.commit());
    struct stat status {};
    REQUIRE(::stat(path.c_str(), &status) == 0);
    CHECK(status.st_size == 5);
    CHECK(status.st_blocks * 512 < 1 << 20);
}

TEST_CASE("a file size limit is an error, the old file stays and the temporary one goes") {
    const scratch::folder folder;
    const auto path = folder.put("file", "old");
    const int code = in_child([&] {
        ::signal(SIGXFSZ, SIG_IGN);
        const struct ::rlimit limit { 1 << 20, 1 << 20 };
        if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 77;
        auto out = atomic_writer::create(path);
        if (!out) return 1;
        const std::string piece(100000, 'x');
        result<void> ok;
        for (int i = 0; i < 20 && ok; ++i) ok = out->write(piece);
        if (ok) return 2;
        if (ok.error().code != errc::io || ok.error().message.find("larger than allowed") == std::string::npos)
            return 3;
        if (out->commit()) return 4;
        if (out->write("more")) return 5;
        return 0;
    });
    if (code == 77) MESSAGE("skipped: no file size limits here");
    else CHECK(code == 0);
    CHECK(scratch::read(path) == "old");
    CHECK(scratch::count(folder.path()) == 1);
}

TEST_CASE("a full disk is said as such, the old file stays and the temporary one goes") {
    const scratch::folder folder;
    const int code = in_child([&] {
        // A small disk of our own; needs the right to mount.
        if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return 77;
        if (::mount("none", folder.path().c_str(), "tmpfs", 0, "size=1m") != 0) return 77;
        const auto path = folder.put("file", "old");
        for (const std::uint64_t expected : {std::uint64_t{0}, std::uint64_t{2} << 20}) {
            auto out = atomic_writer::create(path, {.expected_size = expected});
            result<void> ok;
            if (!out) ok = out.error();
            const std::string piece(100000, 'x');
            for (int i = 0; i < 20 && ok; ++i) ok = out->write(piece);
            if (ok) return 1;
            if (ok.error().message.find("the disk is full") == std::string::npos) return 2;
            if (expected != 0 && out) return 3;  // noticed before the work
            if (scratch::read(path) != "old" || scratch::count(folder.path()) != 1) return 4;
        }
        return 0;
    });
    if (code == 77) MESSAGE("skipped: no right to mount a small disk here");
    else CHECK(code == 0);
}

TEST_CASE("sealed files take no more bytes and appear at commit") {
    const scratch::folder folder;
    const auto path = folder.path() / "file";
    auto out = atomic_writer::create(path, {.expected_size = 100000}).value();
    REQUIRE(out.write("all of it"));
    REQUIRE(out.seal());
    REQUIRE(out.seal());
    CHECK(!std::filesystem::exists(path));
    CHECK(scratch::count(folder.path()) == 1);
    auto moved = std::move(out);
    REQUIRE(moved.commit());
    CHECK(scratch::read(path) == "all of it");
    CHECK(scratch::count(folder.path()) == 1);
    auto late = atomic_writer::create(path).value();
    REQUIRE(late.seal());
    CHECK(late.write("late").error().code == errc::invalid_argument);
    CHECK(late.commit().error().code == errc::invalid_argument);
    CHECK(scratch::count(folder.path()) == 1);
    {
        auto dropped = atomic_writer::create(path).value();
        REQUIRE(dropped.seal());
    }
    CHECK(scratch::count(folder.path()) == 1);
    CHECK(scratch::read(path) == "all of it");
}

TEST_CASE("bytes of another file are copied, between written ones") {
    const scratch::folder folder;
    std::string bytes(3'000'000, '\0');
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 7 / 3);
    const auto source = folder.put("source", bytes);
    const unique_fd handle(::open(source.c_str(), O_RDONLY));
    auto out = atomic_writer::create(folder.path() / "file").value();
    REQUIRE(out.write("front"));
    REQUIRE(out.copy(handle.get(), 10, bytes.size() - 20));
    REQUIRE(out.copy(handle.get(), 0, 0));
    REQUIRE(out.write("back"));
    CHECK(out.written() == bytes.size() - 20 + 9);
    REQUIRE(out.commit());
    CHECK(scratch::read(folder.path() / "file") == "front" + bytes.substr(10, bytes.size() - 20) + "back");
    auto beyond = atomic_writer::create(folder.path() / "other").value();
    CHECK(beyond.copy(handle.get(), bytes.size() - 5, 6).error().code == errc::truncated);
    CHECK(!beyond.commit());
    CHECK(scratch::count(folder.path()) == 2);
}
