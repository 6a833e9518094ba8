// A short fixed run of the fuzz target: built-in templates and language snippets, and random changes of each.
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "colibri/chat/builtin_templates.hpp"
#include "fuzz/jinja_target.hpp"
#include "support/golden.hpp"

TEST_CASE("chat templates and random changes of them") {
    std::vector<std::string> seeds;
    for (const auto& each : colibri::builtin_templates) seeds.emplace_back(each.source);
    if (const auto folder = golden::folder("templates")) {
        std::ifstream lines(*folder / "language.jsonl", std::ios::binary);
        for (std::string line; std::getline(lines, line);) {
            const auto row = colibri::jinja::parse_json(line);
            REQUIRE(row.has_value());
            const auto source = row->find("template")->text();
            if (source && source->size() < 2000) seeds.emplace_back(*source);
            if (line.size() < 2000) seeds.push_back(line);  // as JSON
        }
    }
    constexpr std::string_view pieces[] = {"{%", "%}", "{{", "}}", "{#", "-", "|", ".", "(", ")", "[", "]", "'", "is ", "not ", "if ",
                                           "for ", " in ", "end", "set ", "loop", "x", "messages", "\n", "~", "*", ":", ",", "=", "1"};
    std::mt19937 random(7);
    std::size_t runs = 0, templates = 0, json = 0;
    const auto run = [&](const std::string& bytes) {
        // Exactly as long as the bytes, so that a sanitizer sees a read past the end.
        const std::vector<char> exact(bytes.begin(), bytes.end());
        const std::string_view view(exact.data(), exact.size());
        templates += fuzz::jinja_target(view) ? 1 : 0;
        json += fuzz::json_target(view) ? 1 : 0;
        ++runs;
    };
    for (const std::string& seed : seeds) {
        run(seed);
        for (int round = 0; round < 20; ++round) {
            std::string bytes = seed;
            for (auto changes = 1 + random() % 4; changes != 0 && !bytes.empty(); --changes) {
                const std::size_t at = random() % bytes.size();
                switch (random() % 6) {
                    case 0: bytes[at] = static_cast<char>(random()); break;
                    case 1: bytes.resize(at); break;
                    case 2: bytes.insert(at, pieces[random() % std::size(pieces)]); break;
                    case 3: bytes.erase(at, 1 + random() % 8); break;
                    case 4: bytes.insert(at, bytes.substr(random() % bytes.size(), 1 + random() % 40)); break;
                    default: {
                        const std::string& other = seeds[random() % seeds.size()];
                        bytes.insert(at, other.substr(random() % (other.size() + 1), 40));
                    }
                }
            }
            run(bytes);
        }
    }
    std::cout << "fuzz: " << runs << " texts, " << templates << " of them templates, " << json << " JSON" << std::endl;
    CHECK(templates > 100);
    CHECK(json > 0);
}
