// Tiny models that unit tests run; they are part of the golden data, which the repository has a copy of.
#pragma once

#include <doctest/doctest.h>

#include <string>

#include "colibri/model/model.hpp"
#include "support/golden.hpp"

namespace tiny {

/// Path of golden/models/<name>/model.gguf; without golden data of that name the test fails.
inline std::filesystem::path path(const std::string& name) {
    const auto file = golden::root() / "models" / name / "model.gguf";
    REQUIRE_MESSAGE(std::filesystem::exists(file), "no " << file.string());
    return file;
}

inline colibri::model open(const std::string& name, const colibri::model_options& options = {}) {
    auto opened = colibri::model::open(path(name), options);
    REQUIRE_MESSAGE(opened, (opened ? std::string() : opened.error().text()));
    return *std::move(opened);
}

/// `count` token ids that look like text: any ids, the same every time.
inline std::vector<colibri::text::token_id> tokens(std::size_t count, std::uint32_t vocabulary, std::uint32_t seed = 1) {
    std::vector<colibri::text::token_id> out;
    std::uint32_t state = seed * 2654435761u + 1;
    for (std::size_t i = 0; i < count; ++i) {
        state = state * 1664525u + 1013904223u;
        out.push_back(static_cast<colibri::text::token_id>((state >> 8) % vocabulary));
    }
    return out;
}

}  // namespace tiny
