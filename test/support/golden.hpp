// Where the golden data is, and how golden tests report what they ran.
#pragma once

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#ifndef COLIBRI_SOURCE_DIR
#define COLIBRI_SOURCE_DIR "."
#endif

namespace golden {

/// The folder that COLIBRI_GOLDEN names (it must exist); else ../shared/golden beside the source; else test/golden.
inline std::filesystem::path root() {
    namespace fs = std::filesystem;
    if (const char* named = std::getenv("COLIBRI_GOLDEN"); named != nullptr && *named != '\0') {
        if (!fs::is_directory(named)) {
            FAIL("COLIBRI_GOLDEN names a folder that does not exist: " << named);
        }
        return named;
    }
    const fs::path source = COLIBRI_SOURCE_DIR;
    for (const auto& candidate : {source / ".." / "shared" / "golden", source / "test" / "golden"}) {
        if (fs::is_directory(candidate)) return candidate;
    }
    FAIL("no golden data: neither COLIBRI_GOLDEN, nor ../shared/golden, nor test/golden");
    return {};
}

/// root()/name, or nothing (reported as absent) if this golden folder doesn't have it.
inline std::optional<std::filesystem::path> folder(const std::string& name) {
    auto path = root() / name;
    if (std::filesystem::exists(path)) return path;
    std::cout << "golden: " << name << ": absent\n";
    return std::nullopt;
}

/// Counts the cases of one golden folder and prints the sums at its end; no case at all is a failure.
class tally {
public:
    explicit tally(std::string name) : name_(std::move(name)) {}
    tally(const tally&) = delete;
    tally& operator=(const tally&) = delete;
    ~tally() {
        std::size_t total = 0;
        std::cout << "golden: " << name_ << ":";
        for (const auto& [kind, count] : ran_) {
            std::cout << ' ' << kind << ' ' << count;
            total += count;
        }
        if (!not_yet_.empty()) {
            std::cout << "; not yet " << not_yet_.size() << ":";
            for (const auto& name : not_yet_) std::cout << ' ' << name;
        }
        std::cout << std::endl;
        CHECK_MESSAGE(total + not_yet_.size() > 0, "golden folder without cases: " << name_);
    }
    void ran(const std::string& kind, std::size_t count = 1) { ran_[kind] += count; }
    void not_yet(const std::string& what) { not_yet_.push_back(what); }

private:
    std::string name_;
    std::map<std::string, std::size_t> ran_;
    std::vector<std::string> not_yet_;
};

}  // namespace golden
