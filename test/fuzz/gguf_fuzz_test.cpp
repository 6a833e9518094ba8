// A short fixed run of the fuzz target: every hostile file, and random changes of each.
#include <doctest/doctest.h>

#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "fuzz/gguf_target.hpp"
#include "support/golden.hpp"
#include "support/scratch.hpp"

TEST_CASE("hostile GGUF files and random changes of them") {
    const auto root = golden::folder("hostile");
    if (!root) return;
    std::vector<std::string> seeds;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(*root / "gguf")) {
        if (entry.is_regular_file() && entry.path().extension() == ".gguf" && entry.file_size() < 20000)
            seeds.push_back(scratch::read(entry.path()));
    }
    REQUIRE(seeds.size() > 100);
    std::mt19937 random(11);
    std::size_t opened = 0;
    std::size_t runs = 0;
    const auto run = [&](const std::string& bytes) {
        // Exactly as long as the bytes, so that a sanitizer sees a read past the end.
        const std::vector<char> exact(bytes.begin(), bytes.end());
        opened += fuzz::gguf_target(std::as_bytes(std::span(exact)));
        ++runs;
    };
    for (const auto& seed : seeds) {
        run(seed);
        for (int round = 0; round < 60; ++round) {
            std::string bytes = seed;
            for (auto changes = 1 + random() % 4; changes != 0 && !bytes.empty(); --changes) {
                const std::size_t at = random() % bytes.size();
                switch (random() % 6) {
                    case 0: bytes[at] = static_cast<char>(random()); break;
                    case 1: bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8)); break;
                    case 2: bytes.resize(at); break;
                    case 3: bytes.insert(at, 1 + random() % 16, static_cast<char>(random())); break;
                    case 4: bytes.erase(at, 1 + random() % 16); break;
                    default: {
                        const auto& other = seeds[random() % seeds.size()];
                        if (!other.empty()) bytes.replace(at, 64, other.substr(random() % other.size(), 64));
                    }
                }
            }
            run(bytes);
        }
    }
    std::cout << "fuzz: " << runs << " files, " << opened << " of them could be opened" << std::endl;
    CHECK(opened > 0);
}
