// file_reader and direct_reader give the same bytes; mapped_file too.
#include <doctest/doctest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "colibri/core/buffer.hpp"
#include "colibri/io/direct_reader.hpp"
#include "colibri/io/file_reader.hpp"
#include "colibri/io/mapped_file.hpp"
#include "support/scratch.hpp"

using namespace colibri;

namespace {

std::string noise(std::size_t size) {
    std::mt19937 random(5);
    std::string out(size, '\0');
    for (char& c : out) c = static_cast<char>(random());
    return out;
}

bool same(std::span<const std::byte> got, const std::string& data, std::uint64_t offset) {
    return std::memcmp(got.data(), data.data() + offset, got.size()) == 0;
}

/// Pages of the file that are in the page cache.
std::size_t cached_pages(const std::filesystem::path& path) {
    auto opened = open_for_reading(path).value();
    const auto size = static_cast<std::size_t>(opened.size);
    void* const map = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, opened.handle.get(), 0);
    REQUIRE(map != MAP_FAILED);
    std::vector<unsigned char> pages((size + 4095) / 4096);
    REQUIRE(::mincore(map, size, pages.data()) == 0);
    ::munmap(map, size);
    std::size_t out = 0;
    for (const unsigned char page : pages) out += page & 1u;
    return out;
}

void check_source(byte_source& source, const std::string& data) {
    REQUIRE(source.size() == data.size());
    std::mt19937 random(6);
    std::uint64_t expected = source.bytes_read();
    auto memory = aligned_buffer::allocate(data.size() + 8192).value();
    for (int round = 0; round < 300; ++round) {
        std::uint64_t offset = random() % (data.size() + 1);
        std::uint64_t size = random() % 3 == 0 ? random() % 100 : random() % (data.size() + 1);
        if (round % 4 == 0) offset = offset / 4096 * 4096;
        if (round % 8 == 0) size = size / 4096 * 4096;
        size = std::min(size, data.size() - offset);
        const std::size_t shift = round % 3 == 0 ? 1 + random() % 63 : 0;  // unaligned memory too
        const std::span<std::byte> out(memory.data() + shift, static_cast<std::size_t>(size));
        REQUIRE(source.read_at(offset, out));
        REQUIRE(same(out, data, offset));
        expected += size;
    }
    CHECK(source.bytes_read() == expected);
    std::byte one[2];
    auto past = source.read_at(data.size() - 1, one);
    REQUIRE(!past);
    CHECK(past.error().code == errc::truncated);
    REQUIRE(source.read_at(data.size() - 1, std::span(one, 1)));
    CHECK(same(std::span(one, 1), data, data.size() - 1));
}

void check_threads(byte_source& source, const std::string& data) {
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (unsigned id = 0; id < 4; ++id) {
        threads.emplace_back([&, id] {
            std::mt19937 random(id);
            std::vector<std::byte> out(20000);
            for (int round = 0; round < 200; ++round) {
                const std::uint64_t offset = random() % (data.size() - out.size());
                if (!source.read_at(offset, out) || !same(out, data, offset)) ++wrong;
            }
        });
    }
    for (auto& thread : threads) thread.join();
    CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("buffered, direct and mapped reads give the same bytes") {
    // Sizes around the alignment of direct reads and around the 1 MiB pieces of rounded ones.
    for (const std::size_t size : {std::size_t{1}, std::size_t{511}, std::size_t{4096}, std::size_t{4097},
                                   std::size_t{1} << 20, (std::size_t{3} << 20) + 123}) {
        const scratch::folder folder;
        const std::string data = noise(size);
        const auto path = folder.put("data", data);
        auto buffered = file_reader::open(path);
        REQUIRE(buffered);
        check_source(**buffered, data);
        auto direct = direct_reader::open(path);
        REQUIRE(direct);
        check_source(**direct, data);
        auto fallback = direct_reader::open(path, false);
        REQUIRE(fallback);
        CHECK(!(*fallback)->is_direct());
        check_source(**fallback, data);
        auto mapped = mapped_file::open(path);
        REQUIRE(mapped);
        REQUIRE(mapped->size() == size);
        CHECK(same(mapped->bytes(), data, 0));
        if (size > 100000) {
            check_threads(**buffered, data);
            check_threads(**direct, data);
        }
    }
}

TEST_CASE("direct reads leave nothing in the page cache") {
    const scratch::folder folder;
    const std::size_t size = std::size_t{8} << 20;
    const std::string data = noise(size);
    const auto path = folder.put("data", data);
    {
        const auto opened = open_for_reading(path).value();
        REQUIRE(::fsync(opened.handle.get()) == 0);
        REQUIRE(::posix_fadvise(opened.handle.get(), 0, 0, POSIX_FADV_DONTNEED) == 0);
    }
    if (cached_pages(path) != 0) {
        MESSAGE("skipped: the file system of the temporary folder keeps its pages (a tmpfs?)");
        return;
    }
    auto direct = direct_reader::open(path).value();
    auto memory = aligned_buffer::allocate(size).value();
    REQUIRE(direct->read_at(0, std::span(memory.data(), size)));
    CHECK(same(std::span(memory.data(), size), data, 0));
    MESSAGE(std::string("direct reads: ")
            << (direct->is_direct() ? std::string("yes") : std::string("no, buffered and dropped")));
    CHECK(cached_pages(path) == 0);
    auto fallback = direct_reader::open(path, false).value();
    REQUIRE(fallback->read_at(0, std::span(memory.data(), size)));
    CHECK(cached_pages(path) == 0);
    // The control: buffered reads do leave pages.
    auto buffered = file_reader::open(path).value();
    REQUIRE(buffered->read_at(0, std::span(memory.data(), size)));
    CHECK(cached_pages(path) > 0);
}

TEST_CASE("where the file system has no direct reads they are buffered") {
    const std::filesystem::path memory_disk = "/dev/shm";
    if (!std::filesystem::is_directory(memory_disk) || ::access(memory_disk.c_str(), W_OK) != 0) {
        MESSAGE("skipped: no /dev/shm");
        return;
    }
    const auto path = memory_disk / ("colibri-test-" + std::to_string(::getpid()));
    const std::string data = noise(300001);
    std::ofstream(path, std::ios::binary) << data;
    auto direct = direct_reader::open(path);
    REQUIRE(direct);
    check_source(**direct, data);
    MESSAGE(std::string("direct reads from /dev/shm: ")
            << ((*direct)->is_direct() ? std::string("yes") : std::string("no")));
    std::filesystem::remove(path);
}

TEST_CASE("a file that is shortened while it is read is an error") {
    const scratch::folder folder;
    const auto path = folder.put("data", noise(100000));
    auto buffered = file_reader::open(path).value();
    auto direct = direct_reader::open(path).value();
    REQUIRE(::truncate(path.c_str(), 50000) == 0);
    std::vector<std::byte> out(80000);
    for (byte_source* source : {static_cast<byte_source*>(buffered.get()), static_cast<byte_source*>(direct.get())}) {
        auto got = source->read_at(10, out);
        REQUIRE(!got);
        CHECK(got.error().code == errc::truncated);
        CHECK(got.error().message.find("became shorter") != std::string::npos);
    }
}

TEST_CASE("what can't be opened is refused by all three") {
    const scratch::folder folder;
    REQUIRE(::mkfifo((folder.path() / "fifo").c_str(), 0600) == 0);
    for (const auto& [name, code] :
         {std::pair{"none", errc::not_found}, {".", errc::not_a_file}, {"fifo", errc::not_a_file}}) {
        const auto path = folder.path() / name;
        CHECK(file_reader::open(path).error().code == code);
        CHECK(direct_reader::open(path).error().code == code);
        CHECK(mapped_file::open(path).error().code == code);
    }
}

TEST_CASE("an empty file has no bytes") {
    const scratch::folder folder;
    const auto path = folder.put("empty", "");
    auto mapped = mapped_file::open(path);
    REQUIRE(mapped);
    CHECK(mapped->bytes().empty());
    mapped->advise(access_hint::will_need);
    CHECK(file_reader::open(path).value()->size() == 0);
    CHECK(direct_reader::open(path).value()->size() == 0);
    CHECK(direct_reader::open(path).value()->read_at(0, {}));
}

TEST_CASE("mapped bytes stay where they are when the object moves, and under every advice") {
    const scratch::folder folder;
    const std::string data = noise(100000);
    auto first = mapped_file::open(folder.put("data", data)).value();
    const std::byte* const place = first.bytes().data();
    mapped_file second = std::move(first);
    CHECK(first.size() == 0);
    CHECK(first.bytes().empty());
    CHECK(second.bytes().data() == place);
    for (const auto hint : {access_hint::sequential, access_hint::random, access_hint::will_need,
                            access_hint::dont_need, access_hint::normal}) {
        second.advise(hint);
        second.advise(hint, 5000, 10);
        second.advise(hint, 99999);
        second.advise(hint, 200000, 5);
        CHECK(same(second.bytes(), data, 0));
    }
    second = mapped_file::open(folder.put("other", "abc")).value();
    CHECK(second.size() == 3);
    CHECK(second.path().filename() == "other");
}
