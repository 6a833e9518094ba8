// How tensors are cut into pieces that are read, turned and written on their own.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "colibri/quant/rows.hpp"
#include "colibri/quantize/plan.hpp"

namespace colibri::quantize {

/// Most values of one piece. Small enough to stay in cache between its steps, large enough to make system calls cheap.
inline constexpr std::uint64_t piece_values = std::uint64_t{1} << 18;
/// Most bytes of one piece: no type takes more than 8 for a value.
inline constexpr std::uint64_t piece_bytes = 8 * piece_values;

/// Some whole blocks of one tensor, in one slice of it, and in one row or in whole rows.
struct piece {
    std::size_t tensor = 0;         ///< in the plan
    std::uint64_t first = 0;        ///< value of the target that it begins with
    std::uint64_t source_first = 0; ///< value of the source that this is
    std::uint64_t values = 0;
    std::uint64_t column = 0;       ///< of its first value
    bool ends_tensor = false;
};

/// The shape that a tensor is cut by: slices (experts) of rows of columns.
struct piece_shape {
    std::uint64_t columns = 1;
    std::uint64_t rows = 1;  ///< of a slice
    std::uint64_t slices = 1;

    /// A tensor whose slices change places is cut along its last dimension, whatever that is.
    [[nodiscard]] static piece_shape of(const planned_tensor& tensor) noexcept {
        const auto& dims = tensor.source.dims;
        piece_shape out{dims[0], dims[1], dims[2] * dims[3]};
        if (tensor.slices.empty()) return out;
        out.slices = tensor.slices.size();
        const std::uint64_t each = tensor.source.elements() / out.slices;
        out.columns = std::min(dims[0], each);
        out.rows = each / out.columns;
        return out;
    }

    /// Rows of a piece; 0: a row is cut.
    [[nodiscard]] std::uint64_t piece_rows() const noexcept { return std::min(rows, piece_values / columns); }
    [[nodiscard]] std::uint64_t pieces_of_slice() const noexcept {
        const std::uint64_t most = piece_rows();
        return most == 0 ? rows * ((columns + piece_values - 1) / piece_values) : (rows + most - 1) / most;
    }
};

/// All pieces of a plan by number, in the order of writing.
class piece_list {
public:
    explicit piece_list(std::span<const planned_tensor> tensors) : tensors_(tensors) {
        for (const auto& tensor : tensors) {
            shapes_.push_back(piece_shape::of(tensor));
            begins_.push_back(count_);
            count_ += shapes_.back().pieces_of_slice() * shapes_.back().slices;
        }
    }

    [[nodiscard]] std::uint64_t size() const noexcept { return count_; }
    [[nodiscard]] const piece_shape& shape(std::size_t tensor) const noexcept { return shapes_[tensor]; }

    /// Piece number `i`, below size(). O(log of tensors).
    [[nodiscard]] piece operator[](std::uint64_t i) const noexcept {
        piece out;
        out.tensor = static_cast<std::size_t>(std::ranges::upper_bound(begins_, i) - begins_.begin()) - 1;
        const auto& shape = shapes_[out.tensor];
        const std::uint64_t each = shape.pieces_of_slice();
        const std::uint64_t local = i - begins_[out.tensor];
        const std::uint64_t slice = local / each;
        const std::uint64_t in_slice = local % each;
        const std::uint64_t slice_values = shape.rows * shape.columns;
        std::uint64_t at = 0;
        if (const std::uint64_t most = shape.piece_rows(); most != 0) {
            at = in_slice * most * shape.columns;
            out.values = std::min(most * shape.columns, slice_values - at);
        } else {
            const std::uint64_t of_row = (shape.columns + piece_values - 1) / piece_values;
            out.column = in_slice % of_row * piece_values;
            at = in_slice / of_row * shape.columns + out.column;
            out.values = std::min(piece_values, shape.columns - out.column);
        }
        const auto& slices = tensors_[out.tensor].slices;
        out.first = slice * slice_values + at;
        out.source_first = (slices.empty() ? slice : slices[slice]) * slice_values + at;
        out.ends_tensor = local + 1 == each * shape.slices;
        return out;
    }

private:
    std::span<const planned_tensor> tensors_;
    std::vector<piece_shape> shapes_;
    std::vector<std::uint64_t> begins_;
    std::uint64_t count_ = 0;
};

/// Bytes of `values` values (whole blocks) of a type.
[[nodiscard]] constexpr std::uint64_t bytes_of(dtype type, std::uint64_t values) noexcept {
    const auto row = find_dtype(static_cast<std::uint32_t>(type));
    return values / row->block_size * row->block_bytes;
}

}  // namespace colibri::quantize
