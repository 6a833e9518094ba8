#include "colibri/weights/heat.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "support/scratch.hpp"

using namespace colibri;
using namespace colibri::weights;

namespace {

struct recording {
    scratch::folder folder;
    std::filesystem::path path;

    explicit recording(std::string_view text) : path(folder.put("heat.txt", text)) {}

    std::string problem(std::uint32_t layers = 2, std::uint32_t experts = 8) const {
        const auto ok = read_heat(path, layers, experts, [](const heat_line&) {});
        return ok ? std::string() : ok.error().text();
    }
};

}  // namespace

TEST_CASE("heat: lines are read as they are written") {
    const recording file("1 0 3,5\n1 1 0,7\n2 0 4\n");
    std::vector<heat_line> lines;
    REQUIRE(read_heat(file.path, 2, 8, [&](const heat_line& line) { lines.push_back(line); }));
    REQUIRE(lines.size() == 3);
    CHECK(lines[0].step == 1);
    CHECK(lines[1].layer == 1);
    CHECK(lines[1].experts == std::vector<std::uint32_t>{0, 7});
    CHECK(lines[2].step == 2);
    CHECK(lines[2].experts == std::vector<std::uint32_t>{4});
    // The last line needs no end.
    CHECK(recording("1 0 3").problem().empty());
}

TEST_CASE("heat: what isn't a line is named with its number") {
    for (const char* bad : {"", " ", "1", "1 0", "1 0 ", "1 0 a", "1 0 1,", "1 0 1,,2", "1 0 2,1", "1 0 1,1", "1 0 1 2", "-1 0 1", "1  0 1", "1 0 1\r",
                            "99999999999999999999 0 1", "1 0 1,2x"}) {
        CAPTURE(bad);
        CHECK(recording(std::string("1 0 1\n") + bad + "\n1 1 1\n").problem().find("line 2 of") != std::string::npos);
    }
    CHECK(recording(std::string("1 0 1\n1 0 3\0 4\n", 15)).problem().find("line 2 of") != std::string::npos);
    CHECK(recording("1 2 1\n").problem().find("layer 2, expert 1; this model has 2 layers of 8 experts") != std::string::npos);
    CHECK(recording("1 1 8\n").problem().find("recorded with another") != std::string::npos);
    CHECK(recording("").problem().find("is empty") != std::string::npos);
    CHECK(recording("1 0 1\n1 1 " + std::string(70000, '1') + "\n").problem().find("line 2 of") != std::string::npos);
    CHECK(!read_heat(scratch::folder().path() / "none", 1, 1, [](const heat_line&) {}));
}

TEST_CASE("heat: only the newest lines are kept") {
    recent_heat newest(3);
    for (std::uint64_t step = 0; step < 10; ++step) newest({step, 0, {1}});
    REQUIRE(newest.lines().size() == 3);
    CHECK(newest.lines().front().step == 7);
    CHECK(newest.lines().back().step == 9);
}

TEST_CASE("heat: a replay counts single tokens of the second half, cache by cache") {
    // Layer 0 uses 0 and 1 by turns in a cache of one, layer 1 always the same expert; layer 2 isn't cached.
    std::deque<heat_line> lines;
    for (std::uint64_t step = 0; step < 20; ++step) {
        lines.push_back({step, 0, {static_cast<std::uint32_t>(step % 2)}});
        lines.push_back({step, 1, {3}});
        lines.push_back({step, 2, {3}});
        lines.push_back({step, 1, {0, 1, 2, 3}});  // a prompt's: not counted
    }
    const std::vector<cached_layer> layers = {{0, 0, 0}, {1, 1, 4}};
    const std::vector<cache_size> sizes = {{2, 2}, {8, 8}};
    auto found = replay_heat(lines, layers, sizes, 1);
    REQUIRE(found.size() == 2);
    CHECK(found[0].uses == 10);
    CHECK(found[0].misses == 0);
    CHECK(found[1].uses == 10);
    CHECK(found[1].miss_share() == 0.0);
    // Without room all miss.
    found = replay_heat(lines, layers, std::vector<cache_size>{{2, 0}, {8, 8}}, 1);
    CHECK(found[0].miss_share() == 1.0);
    CHECK(found[1].miss_share() == 0.0);
    CHECK(replay_heat({}, layers, sizes, 1)[0].miss_share() == 0.0);
}
