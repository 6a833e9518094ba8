// The oracle's way to a model file: keys as numbers, tensors as Eigen matrices of decoded weights.
#pragma once

#include <Eigen/Core>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "colibri/gguf/file.hpp"
#include "colibri/io/file_reader.hpp"
#include "colibri/quant/rows.hpp"

namespace oracle {

// The oracle is a transformer written to be read: dense Eigen matrices, one line per formula, nothing cached, nothing
// fused. It shares with the engine only the GGUF reader and the scalar decoders of block formats, which have golden
// data of their own. It throws on anything it doesn't understand.

template <class Real>
using matrix = Eigen::Matrix<Real, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <class Real>
using row = Eigen::Matrix<Real, 1, Eigen::Dynamic>;

/// An open GGUF file.
class file {
public:
    explicit file(const std::filesystem::path& path) : contents_(colibri::gguf::file::open(path).value()) {
        for (const auto& part : contents_.parts()) readers_.push_back(colibri::file_reader::open(part.path).value());
    }

    [[nodiscard]] bool has_key(const std::string& key) const { return contents_.meta().contains(key); }
    [[nodiscard]] bool has_tensor(const std::string& name) const { return contents_.find(name) != nullptr; }
    [[nodiscard]] std::string text(const std::string& key, const std::string& fallback) const {
        return contents_.meta().get_or<std::string>(key, fallback).value();
    }
    [[nodiscard]] double number(const std::string& key) const { return contents_.meta().get<double>(key).value(); }
    [[nodiscard]] double number(const std::string& key, double fallback) const {
        return contents_.meta().get_or<double>(key, fallback).value();
    }
    [[nodiscard]] Eigen::Index count(const std::string& key) const {
        return static_cast<Eigen::Index>(contents_.meta().get<std::uint64_t>(key).value());
    }
    [[nodiscard]] Eigen::Index count(const std::string& key, Eigen::Index fallback) const {
        return has_key(key) ? count(key) : fallback;
    }

    /// The tensor as [rows of it in all, row length]: y = x W^T for a weight matrix W and rows x.
    template <class Real>
    [[nodiscard]] matrix<Real> read(const std::string& name) const {
        const auto* tensor = contents_.find(name);
        if (tensor == nullptr) throw std::runtime_error("oracle: no tensor " + name);
        matrix<Real> out(static_cast<Eigen::Index>(tensor->rows()), static_cast<Eigen::Index>(tensor->dims[0]));
        std::vector<std::byte> bytes(tensor->row_bytes());
        std::vector<float> values(tensor->dims[0]);
        for (Eigen::Index r = 0; r < out.rows(); ++r) {
            readers_[tensor->part]
                ->read_at(tensor->offset + static_cast<std::uint64_t>(r) * bytes.size(), bytes)
                .value();
            colibri::quant::decode_row(tensor->type, bytes, values).value();
            for (Eigen::Index c = 0; c < out.cols(); ++c) {
                out(r, c) = static_cast<Real>(values[static_cast<std::size_t>(c)]);
            }
        }
        return out;
    }
    /// A tensor of one row.
    template <class Real>
    [[nodiscard]] row<Real> read_row(const std::string& name) const {
        return read<Real>(name).row(0);
    }
    /// A tensor of one row, or a row of size 0 where the file has none.
    template <class Real>
    [[nodiscard]] row<Real> read_optional(const std::string& name) const {
        return has_tensor(name) ? read_row<Real>(name) : row<Real>();
    }

private:
    colibri::gguf::file contents_;
    std::vector<std::unique_ptr<colibri::file_reader>> readers_;
};

}  // namespace oracle
