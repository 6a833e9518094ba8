// .safetensors files for the tests of convert/.
#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace folders {

using json = nlohmann::json;

/// One tensor of `safetensors_file`.
struct tensor {
    std::string name, dtype;
    std::vector<std::uint64_t> shape;
    std::string bytes;
};

/// A file's bytes: length, header, data.
inline std::string safetensors_file(const std::string& header, const std::string& data) {
    std::string out(8, '\0');
    const std::uint64_t size = header.size();
    std::memcpy(out.data(), &size, sizeof size);
    return out + header + data;
}
inline std::string safetensors_file(const std::vector<tensor>& tensors) {
    json header = json::object();
    std::string data;
    for (const auto& one : tensors) {
        header[one.name] = {
            {"dtype", one.dtype}, {"shape", one.shape}, {"data_offsets", {data.size(), data.size() + one.bytes.size()}}};
        data += one.bytes;
    }
    return safetensors_file(header.dump(), data);
}

}  // namespace folders
