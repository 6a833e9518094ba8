// A file of tensors of all kinds, and what is in it, for tests of the stores.
#pragma once

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "colibri/gguf/writer.hpp"
#include "colibri/weights/store.hpp"

namespace colibri::weights {

inline std::vector<std::byte> random_bytes(std::size_t n, unsigned seed) {
    std::mt19937 bits(seed);
    std::vector<std::byte> out(n);
    for (auto& b : out) b = static_cast<std::byte>(bits() >> 24);
    return out;
}

struct sample {
    std::string name;
    dtype type;
    std::vector<std::uint64_t> dims;
};

/// Few of each kind; some larger than a piece, one with 16 rows larger than a piece, none a multiple of anything.
inline const std::vector<sample> samples = {
    {"table", dtype::q8_0, {96, 21}},     {"tied", dtype::q4_k, {512, 37}},       {"experts", dtype::q5_0, {64, 19, 3}},
    {"norm", dtype::f32, {40}},           {"halves", dtype::f16, {33, 5}},        {"long", dtype::q6_k, {2048, 2500}},
    {"wide", dtype::q4_0, {131072, 37}},  {"float table", dtype::bf16, {1000, 900}},
};

/// The samples as a file, each tensor's bytes beside it.
inline std::vector<std::vector<std::byte>> write_samples(const std::filesystem::path& path, const std::vector<sample>& all = samples) {
    std::vector<gguf::tensor_info> infos;
    for (const auto& each : all) {
        gguf::tensor_info info;
        info.name = each.name;
        info.type = each.type;
        info.n_dims = static_cast<unsigned>(each.dims.size());
        std::copy(each.dims.begin(), each.dims.end(), info.dims.begin());
        infos.push_back(info);
    }
    auto out = gguf::writer::create(path, {}, infos).value();
    std::vector<std::vector<std::byte>> bytes;
    for (const auto& info : std::vector<gguf::tensor_info>(out.tensors().begin(), out.tensors().end())) {
        bytes.push_back(random_bytes(static_cast<std::size_t>(info.bytes), static_cast<unsigned>(bytes.size())));
        out.write(bytes.back()).value();
    }
    out.finish().value();
    return bytes;
}

/// Every tensor in a group of its own; "tied" in two; "table" and "float table" for rows.
inline std::vector<group> sample_groups() {
    return {{access::rows, {0}},  {access::rows, {1}},  {access::experts, {2}}, {access::whole, {3, 4}},
            {access::whole, {5}}, {access::whole, {6}}, {access::rows, {7}},    {access::whole, {1}}};
}

/// The tensor's rows in the file's layout, whatever layout it has.
inline std::vector<std::byte> rows_of(const tensor_ref& t) {
    std::vector<std::byte> out(t.row_bytes() * t.rows());
    for (std::size_t s = 0; s < t.slices(); ++s) {
        const auto slice = t.slice(s);
        for (std::size_t r = 0; r < slice.rows(); ++r) {
            std::byte* to = out.data() + (s * slice.rows() + r) * t.row_bytes();
            if (t.layout() == layout::file) std::memcpy(to, slice.row(r).data(), t.row_bytes());
            else quant::unpack_panel_row(t.type(), slice.panel(r / 16), r % 16, t.columns(), to);
        }
    }
    return out;
}

}  // namespace colibri::weights
