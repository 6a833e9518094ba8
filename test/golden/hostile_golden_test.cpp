// Corrupt and odd GGUF files, the container: refused or opened as expected, with a message that names the fault,
// quickly and in little memory.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "colibri/gguf/file.hpp"
#include "colibri/gguf/listing.hpp"
#include "support/counting_new.hpp"
#include "support/golden.hpp"

using namespace colibri;

namespace {

struct hostile_case {
    std::string file;
    std::string expect;
    std::string level;
    std::string code;
    std::string detail;
    std::uint64_t offset = error::no_offset;
};

std::vector<hostile_case> read_manifest(const std::filesystem::path& folder) {
    std::vector<hostile_case> out;
    std::ifstream in(folder / "manifest.jsonl");
    REQUIRE(in);
    for (std::string line; std::getline(in, line);) {
        const auto json = nlohmann::json::parse(line);
        hostile_case one{json["file"], json["expect"], json["level"], json["code"], {}, error::no_offset};
        if (json["detail"].is_string()) one.detail = json["detail"];
        if (json["offset"].is_number()) one.offset = json["offset"];
        out.push_back(one);
    }
    return out;
}

std::string lower(std::string text) {
    for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    return text;
}

/// What of `detail` the message doesn't say; details are lists of words like "x.v, type 13" or "x.v (depth)".
std::string unnamed(const std::string& detail, const std::string& message) {
    std::string out;
    std::string word;
    const auto check = [&] {
        while (!word.empty() && word.front() == ' ') word.erase(0, 1);
        while (!word.empty() && word.back() == ' ') word.pop_back();
        if (lower(message).find(lower(word)) == std::string::npos) out += "[" + word + "]";
        word.clear();
    };
    for (const char c : detail) {
        if (c == ':') break;  // what follows is advice to the writer of the message
        if (c == ',' || c == '(' || c == ')') check();
        else word += c;
    }
    check();
    return out;
}

/// No byte that a terminal would obey.
bool is_safe(const std::string& text) {
    return std::ranges::none_of(
        text, [](char c) { return (static_cast<unsigned char>(c) < 0x20 && c != '\n') || c == 0x7f; });
}

/// Cases in which we call the fault by another name, and why.
const std::map<std::string, std::string> other_codes = {
    {"array_depth_open.gguf", "the depth is over the limit before the file ends"},
    {"sum_wraps.gguf", "the first tensor alone is past the end of the file"},
};

}  // namespace

TEST_CASE("hostile and odd GGUF files, the container") {
    const auto root = golden::folder("hostile");
    if (!root || !std::filesystem::exists(*root / "gguf" / "manifest.jsonl")) return;
    const auto folder = *root / "gguf";
    golden::tally tally("hostile/gguf container");
    double slowest = 0;
    std::size_t largest = 0;
    std::size_t same_place = 0;
    std::size_t placed = 0;
    for (const auto& one : read_manifest(folder)) {
        INFO(one.file);
        REQUIRE(std::filesystem::exists(folder / one.file));
        // Of split models the container is the one file; the whole set is tried below.
        counting::restart();
        const std::size_t before = counting::now;
        const auto start = std::chrono::steady_clock::now();
        auto got = gguf::file::open(folder / one.file, {.whole = false});
        const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        const std::size_t taken = counting::peak - before;
        slowest = std::max(slowest, seconds);
        largest = std::max(largest, taken);
        CHECK(seconds < 1.0);
        CHECK(taken < std::size_t{4} << 20);

        const std::string expect = one.level == "file" ? one.expect : "load";
        if (!got) {
            const error& e = got.error();
            CHECK_MESSAGE(expect != "load", e.text());
            CHECK_MESSAGE(unnamed(one.detail, e.text()).empty(),
                          e.text() << " doesn't say " << unnamed(one.detail, e.text()));
            CHECK(is_safe(e.text()));
            CHECK(e.text().find(std::filesystem::path(one.file).filename().string()) != std::string::npos);
            if (!other_codes.contains(one.file)) CHECK_MESSAGE(std::string(name(e.code)) == one.code, e.text());
            if (one.offset != error::no_offset) {
                ++placed;
                same_place += e.offset == one.offset;
                CHECK_MESSAGE(e.offset != error::no_offset, e.text());
            }
            tally.ran("refused");
        } else {
            CHECK_MESSAGE(expect != "refuse", "was taken, though: " << one.code << ' ' << one.detail);
            CHECK(is_safe(gguf::listing_text(*got)));
            CHECK(nlohmann::json::accept(gguf::listing_json(*got)));
            tally.ran("opened");
        }
        if (one.level == "model") continue;
        tally.ran("expected to be " + std::string(expect == "refuse" ? "refused"
                                                  : expect == "load" ? "opened"
                                                                     : "either"));
    }
    std::cout << "golden: hostile/gguf container: slowest " << slowest * 1e3 << " ms, most memory " << largest
              << " bytes, offset of the error as in the manifest " << same_place << " of " << placed << std::endl;
}

TEST_CASE("hostile and odd GGUF files, split models") {
    const auto root = golden::folder("hostile");
    if (!root || !std::filesystem::exists(*root / "gguf" / "manifest.jsonl")) return;
    golden::tally tally("hostile/gguf split");
    for (const auto& one : read_manifest(*root / "gguf")) {
        if (!one.file.starts_with("split_")) continue;
        INFO(one.file);
        auto got = gguf::file::open(*root / "gguf" / one.file);
        if (one.expect == "load") CHECK_MESSAGE(got, (got ? "" : got.error().text()));
        if (one.expect == "refuse") {
            REQUIRE(!got);
            CHECK(std::string(name(got.error().code)) == one.code);
            CHECK_MESSAGE(unnamed(one.detail, got.error().text()).empty(), got.error().text());
            CHECK(is_safe(got.error().text()));
        }
        tally.ran(one.expect);
    }
}
