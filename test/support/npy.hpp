// Reads the .npy files of the golden data: little-endian float32, C order, two dimensions or one.
#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace golden {

/// A matrix of floats; a one-dimensional array has one row.
struct matrix {
    std::size_t rows = 0;
    std::size_t columns = 0;
    std::vector<float> values;

    [[nodiscard]] const float* row(std::size_t r) const { return values.data() + r * columns; }
};

inline matrix read_npy(const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(in)), {});
    REQUIRE_MESSAGE(bytes.size() > 10, "can't read " << path.string());
    REQUIRE(bytes.substr(0, 6) == std::string("\x93NUMPY"));
    const bool first_version = bytes[6] == 1;
    std::uint32_t header_size = 0;
    std::memcpy(&header_size, bytes.data() + 8, first_version ? 2 : 4);
    const std::size_t start = (first_version ? 10 : 12) + header_size;
    const std::string header = bytes.substr(0, start);
    REQUIRE(header.find("'<f4'") != std::string::npos);
    REQUIRE(header.find("'fortran_order': False") != std::string::npos);
    std::vector<std::size_t> dims;
    const std::size_t open = header.find('(', header.find("'shape'"));
    for (std::size_t i = open + 1; header[i] != ')';) {
        if (header[i] < '0' || header[i] > '9') {
            ++i;
            continue;
        }
        std::size_t n = 0;
        while (header[i] >= '0' && header[i] <= '9') n = n * 10 + static_cast<std::size_t>(header[i++] - '0');
        dims.push_back(n);
    }
    REQUIRE((dims.size() == 1 || dims.size() == 2));
    matrix out;
    out.rows = dims.size() == 2 ? dims[0] : 1;
    out.columns = dims.back();
    REQUIRE(bytes.size() - start == out.rows * out.columns * sizeof(float));
    out.values.resize(out.rows * out.columns);
    std::memcpy(out.values.data(), bytes.data() + start, bytes.size() - start);
    return out;
}

}  // namespace golden
