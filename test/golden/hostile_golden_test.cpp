// Corrupt and odd GGUF files, the container: refused or opened as expected, with a message that names the fault,
// quickly and in little memory.
#include <doctest/doctest.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
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

/// Whether a manifest's detail is a key's or tensor's name, which a message must have in these very letters.
bool is_name(const std::string& detail) {
    return detail.find('.') != std::string::npos && detail.find_first_of(" ,(:") == std::string::npos;
}

}  // namespace

TEST_CASE("hostile and odd GGUF files, the container") {
    const auto root = golden::folder("hostile");
    if (!root || !std::filesystem::exists(*root / "gguf" / "manifest.jsonl")) return;
    const auto folder = *root / "gguf";
    golden::tally tally("hostile/gguf container");
    double slowest = 0;
    std::size_t largest = 0;
    std::size_t refused = 0;
    std::size_t same_code = 0;
    std::size_t same_words = 0;
    std::size_t same_place = 0;
    std::size_t placed = 0;
    for (const auto& one : read_manifest(folder)) {
        INFO(one.file);
        REQUIRE(std::filesystem::exists(folder / one.file));
        // Of split models the container is the one file; the whole set is tried below.
        counting::restart();
        const std::size_t before = counting::now;
        const std::clock_t start = std::clock();  // processor time: others may use the machine
        auto got = gguf::file::open(folder / one.file, {.whole = false});
        const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
        const std::size_t taken = counting::peak - before;
        slowest = std::max(slowest, seconds);
        largest = std::max(largest, taken);
        CHECK(seconds < 1.0);
        CHECK(taken < std::size_t{4} << 20);

        const std::string expect = one.level == "file" ? one.expect : "load";
        if (!got) {
            const error& e = got.error();
            CHECK_MESSAGE(expect != "load", e.text());
            const std::string missing = unnamed(one.detail, e.text());
            if (is_name(one.detail)) CHECK_MESSAGE(missing.empty(), e.text() << " doesn't say " << missing);
            ++refused;
            same_words += missing.empty();
            same_code += name(e.code) == one.code;
            CHECK(is_safe(e.text()));
            CHECK(e.text().find(std::filesystem::path(one.file).filename().string()) != std::string::npos);
            if (one.offset != error::no_offset) {
                ++placed;
                same_place += e.offset == one.offset;
                CHECK_MESSAGE(e.offset != error::no_offset, e.text());
            }
        } else {
            CHECK_MESSAGE(expect != "refuse", "was taken, though: " << one.code << ' ' << one.detail);
            CHECK(is_safe(gguf::listing_text(*got)));
            CHECK(nlohmann::json::accept(gguf::listing_json(*got)));
        }
        tally.ran(one.level == "file" ? "file/" + one.expect : "model");
    }
    // The manifest's code and words are its own choice, so a few may differ; that most don't shows that ours mean the
    // same.
    CHECK(same_code * 20 >= refused * 19);
    CHECK(same_words * 20 >= refused * 19);
    std::cout << "golden: hostile/gguf container: refused " << refused << ", of these with the manifest's code "
              << same_code << ", words " << same_words << ", offset " << same_place << " of " << placed << "; slowest "
              << slowest * 1e3 << " ms, most memory " << largest << " bytes" << std::endl;
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
            if (one.detail.find('.') != std::string::npos) {
                CHECK_MESSAGE(unnamed(one.detail, got.error().text()).empty(), got.error().text());
            }
            CHECK(is_safe(got.error().text()));
        }
        tally.ran(one.expect);
    }
}
