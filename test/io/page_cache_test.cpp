#include "colibri/io/page_cache.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "support/scratch.hpp"

using namespace colibri;

namespace {

page_cache_state state_of(const std::filesystem::path& path) { return page_cache_state::of(mapped_file::open(path).value()); }

/// "0-40960 40960-81920+": the ranges, those in the cache with a plus.
std::string text(const std::vector<cache_range>& ranges) {
    std::string out;
    for (const auto& range : ranges) {
        out += concat(out.empty() ? "" : " ", range.begin, "-", range.end, range.cached ? "+" : "");
    }
    return out;
}

}  // namespace

TEST_CASE("page cache: what is in it is seen, split and kept; the rest is dropped") {
    const scratch::folder folder;
    const auto path = folder.put("file", std::string(64 * 4096 + 100, 'x'));
    const auto opened = open_for_reading(path).value();
    ::fsync(opened.handle.get());
    CHECK(text(state_of(path).ranges()) == "0-262244+");
    ::posix_fadvise(opened.handle.get(), 0, 0, POSIX_FADV_DONTNEED);
    const auto cold = state_of(path);
    if (text(cold.ranges()) != "0-262244" || ::sysconf(_SC_PAGESIZE) != 4096) {
        MESSAGE("skipped: files in the folder for temporary files can't leave the page cache, or pages are larger");
        return;
    }
    // Random access reads nothing ahead.
    ::posix_fadvise(opened.handle.get(), 0, 0, POSIX_FADV_RANDOM);
    std::vector<char> bytes(30 * 4096);
    REQUIRE(::pread(opened.handle.get(), bytes.data(), bytes.size(), 10 * 4096) == static_cast<::ssize_t>(bytes.size()));
    REQUIRE(::pread(opened.handle.get(), bytes.data(), 1, 50 * 4096) == 1);
    const auto state = state_of(path);
    CHECK(text(state.ranges()) == "0-40960 40960-163840+ 163840-204800 204800-208896+ 208896-262244");

    std::vector<cache_range> parts = {{1, 2, true}};
    const auto split = [&](std::uint64_t begin, std::uint64_t end, std::uint64_t least) {
        state.split(begin, end, least, parts);
        return text(parts);
    };
    CHECK(split(0, 262244, 0) == text(state.ranges()));
    CHECK(split(0, 262244, 8192) == "0-40960 40960-163840+ 163840-262244");
    CHECK(split(0, 262244, 1 << 20) == "0-262244");
    CHECK(split(50000, 60000, 1 << 20) == "50000-60000+");
    CHECK(split(40000, 50000, 1 << 20) == "40000-50000");
    CHECK(split(40960, 163840, 0) == "40960-163840+");
    CHECK(split(262243, 262244, 0) == "262243-262244");
    CHECK(split(5, 5, 0) == "");

    CHECK(::pread(opened.handle.get(), bytes.data(), bytes.size(), 30 * 4096) == static_cast<::ssize_t>(bytes.size()));
    CHECK(text(state_of(path).ranges()) != text(state.ranges()));
    state.drop_others(path);
    CHECK(text(state_of(path).ranges()) == text(state.ranges()));
}

TEST_CASE("page cache: an empty file has no ranges") {
    const scratch::folder folder;
    const auto state = state_of(folder.put("empty", ""));
    CHECK(state.ranges().empty());
    std::vector<cache_range> parts;
    state.split(0, 0, 0, parts);
    CHECK(parts.empty());
}
