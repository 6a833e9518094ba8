// A tensor whose type is known at run time: what a file's directory gives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "colibri/core/concat.hpp"
#include "colibri/core/error.hpp"
#include "colibri/gguf/tensor_type.hpp"
#include "colibri/quant/format_list.hpp"
#include "colibri/quant/rows.hpp"
#include "colibri/tensor/shape.hpp"

namespace colibri {

/// Type, shape and bytes of a tensor that somebody else holds. Rows are contiguous, each a whole number of blocks. It
/// may hold any type of `dtype_table`; whether it can be computed with is asked when it becomes a `tensor_view`.
class tensor_ref {
public:
    /// One F32 element without bytes; assign to it.
    tensor_ref() = default;

    /// A tensor over exactly the bytes that its type and shape need, which outlive it.
    /// Errors: unsupported (no such type), bad_shape (a row that isn't whole blocks), overflow, truncated (too few
    /// bytes), bad_count (too many), bad_alignment (the address is no multiple of the format's alignment, at most 4).
    [[nodiscard]] static result<tensor_ref> make(dtype type, const shape& dims, std::span<const std::byte> bytes);

    [[nodiscard]] dtype type() const noexcept { return type_; }
    [[nodiscard]] const colibri::shape& dims() const noexcept { return dims_; }
    [[nodiscard]] const std::byte* data() const noexcept { return data_; }

    [[nodiscard]] std::size_t columns() const noexcept { return static_cast<std::size_t>(dims_.columns()); }
    [[nodiscard]] std::size_t rows() const noexcept { return static_cast<std::size_t>(dims_.rows()); }
    [[nodiscard]] std::size_t slices() const noexcept { return static_cast<std::size_t>(dims_.slices()); }
    [[nodiscard]] std::size_t row_bytes() const noexcept { return row_bytes_; }
    [[nodiscard]] std::size_t bytes() const noexcept { return row_bytes_ * rows(); }
    [[nodiscard]] std::span<const std::byte> row(std::size_t r) const noexcept {
        return {data_ + r * row_bytes_, row_bytes_};
    }

    /// Matrix i of a stack (expert i), 0 <= i < slices().
    [[nodiscard]] tensor_ref slice(std::size_t i) const noexcept {
        tensor_ref out = *this;
        out.dims_ = dims_.slice();
        out.data_ = data_ + i * out.bytes();
        return out;
    }

    /// The same tensor with its bytes elsewhere: `data` has bytes() bytes with the format's alignment.
    [[nodiscard]] tensor_ref at(const std::byte* data) const noexcept {
        tensor_ref out = *this;
        out.data_ = data;
        return out;
    }

private:
    dtype type_ = dtype::f32;
    colibri::shape dims_;
    std::size_t row_bytes_ = sizeof(float);
    const std::byte* data_ = nullptr;
};

inline result<tensor_ref> tensor_ref::make(dtype type, const colibri::shape& dims, std::span<const std::byte> bytes) {
    auto row = quant::row_bytes(type, dims.columns());
    if (!row) return std::move(row).error();
    const auto what = [&] { return concat("a tensor of ", dims.text(), " ", name(type)); };
    const auto total = checked_mul<std::uint64_t>(*row, dims.rows());
    if (!total) return error{errc::overflow, concat(what(), " is larger than any memory")};
    if (bytes.size() != *total) {
        return error{bytes.size() < *total ? errc::truncated : errc::bad_count,
                     concat(what(), " takes ", *total, " bytes, not ", bytes.size())};
    }
    const std::size_t alignment = quant::block_alignment(type);
    if (reinterpret_cast<std::uintptr_t>(bytes.data()) % alignment != 0) {
        return error{errc::bad_alignment, concat(what(), " must start at a multiple of ", alignment, " bytes")};
    }
    tensor_ref out;
    out.type_ = type;
    out.dims_ = dims;
    out.row_bytes_ = *row;
    out.data_ = bytes.data();
    return out;
}

}  // namespace colibri
