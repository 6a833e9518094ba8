// Small GGUF files made with the library's writer.
#pragma once

#include <doctest/doctest.h>

#include <filesystem>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "colibri/gguf/writer.hpp"

namespace made {

/// A tensor and its bytes (random if there are none).
struct tensor {
    std::string name;
    colibri::dtype type = colibri::dtype::f32;
    std::vector<std::uint64_t> dims;
    std::string bytes = {};
};

/// Writes a file; random bytes depend on the tensor's name only.
inline std::filesystem::path gguf(const std::filesystem::path& path, const colibri::gguf::metadata& meta, const std::vector<tensor>& tensors) {
    std::vector<colibri::gguf::tensor_info> infos;
    for (const auto& each : tensors) {
        colibri::gguf::tensor_info info;
        info.name = each.name;
        info.type = each.type;
        info.n_dims = static_cast<unsigned>(each.dims.size());
        for (std::size_t i = 0; i < each.dims.size(); ++i) info.dims[i] = each.dims[i];
        infos.push_back(std::move(info));
    }
    auto out = colibri::gguf::writer::create(path, meta, infos).value();
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        std::string bytes = tensors[i].bytes;
        if (bytes.empty()) {
            std::mt19937 random(static_cast<unsigned>(std::hash<std::string>{}(tensors[i].name)));
            bytes.resize(static_cast<std::size_t>(out.tensors()[i].bytes));
            for (char& c : bytes) c = static_cast<char>(random());
        }
        REQUIRE(out.write(std::as_bytes(std::span(bytes.data(), bytes.size()))));
    }
    REQUIRE(out.finish());
    return path;
}

/// The bytes of numbers.
template <class T>
std::string bytes_of(const std::vector<T>& numbers) {
    return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(T)};
}

}  // namespace made
