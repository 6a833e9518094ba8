// A model file with a header and a hole where the weights would be, from the description that the golden mixtures have.
#pragma once

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/gguf_bytes.hpp"

namespace header_only {

/// Writes it. `model` has arch, hparams, and tensors as [name, [dims], type number]; types are F32 (0) and F16 (1).
inline void write(const std::filesystem::path& path, const nlohmann::json& model) {
    const std::string arch = model["arch"];
    std::vector<std::string> keys = {gguf_bytes::key_text("general.architecture", arch)};
    for (const auto& [key, value] : model["hparams"].items()) {
        if (value.is_number_float()) keys.push_back(gguf_bytes::key(arch + "." + key, 6, gguf_bytes::le(value.get<float>())));
        else keys.push_back(gguf_bytes::key_u32(arch + "." + key, value.get<std::uint32_t>()));
    }
    std::vector<std::string> tensors;
    std::uint64_t offset = 0;
    for (const auto& tensor : model["tensors"]) {
        const auto dims = tensor[1].get<std::vector<std::uint64_t>>();
        const auto type = tensor[2].get<std::uint32_t>();
        REQUIRE(type <= 1);
        std::uint64_t bytes = type == 0 ? 4 : 2;
        for (const auto dim : dims) bytes *= dim;
        tensors.push_back(gguf_bytes::tensor(tensor[0].get<std::string>(), dims, type, offset));
        offset += (bytes + 31) / 32 * 32;
    }
    const std::string header = gguf_bytes::file(keys, tensors, "");
    std::ofstream(path, std::ios::binary | std::ios::trunc) << header;
    std::filesystem::resize_file(path, header.size() + offset);
}

}  // namespace header_only
