// A tensor whose type is known at run time: what a file's directory gives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "colibri/core/concat.hpp"
#include "colibri/core/error.hpp"
#include "colibri/gguf/tensor_type.hpp"
#include "colibri/quant/format_list.hpp"
#include "colibri/quant/panel_layout.hpp"
#include "colibri/quant/rows.hpp"
#include "colibri/tensor/shape.hpp"

namespace colibri {

/// How a tensor's rows lie in memory.
enum class layout : std::uint8_t {
    file,    ///< one after the other, each a whole number of blocks
    panels,  ///< 16 side by side (see quant::panel_layout); each slice has panels of its own
};

/// Type, shape and bytes of a tensor that somebody else holds. It may hold any type of `dtype_table`; whether it can be
/// computed with is asked when it becomes a `tensor_view`.
class tensor_ref {
public:
    /// One F32 element without bytes; assign to it.
    tensor_ref() = default;

    /// A tensor over exactly the bytes that its type and shape need, which outlive it.
    /// Errors: unsupported (no such type), bad_shape (a row that isn't whole blocks), overflow, truncated (too few
    /// bytes), bad_count (too many), bad_alignment (the address is no multiple of the format's alignment, at most 4).
    [[nodiscard]] static result<tensor_ref> make(dtype type, const shape& dims, std::span<const std::byte> bytes);

    /// A tensor of panels over exactly the bytes that `panels_bytes` says, which outlive it.
    /// Errors: unsupported (a type without panels), bad_shape, overflow, truncated, bad_count, bad_alignment (the address
    /// is no multiple of 64).
    [[nodiscard]] static result<tensor_ref> make_panels(dtype type, const shape& dims, std::span<const std::byte> bytes);

    /// Bytes that a tensor takes as panels. Errors: as `make_panels` for type and shape.
    [[nodiscard]] static result<std::size_t> panels_bytes(dtype type, const shape& dims);

    [[nodiscard]] dtype type() const noexcept { return type_; }
    [[nodiscard]] colibri::layout layout() const noexcept {
        return panel_bytes_ == 0 ? colibri::layout::file : colibri::layout::panels;
    }
    [[nodiscard]] const colibri::shape& dims() const noexcept { return dims_; }
    [[nodiscard]] const std::byte* data() const noexcept { return data_; }

    [[nodiscard]] std::size_t columns() const noexcept { return static_cast<std::size_t>(dims_.columns()); }
    [[nodiscard]] std::size_t rows() const noexcept { return static_cast<std::size_t>(dims_.rows()); }
    [[nodiscard]] std::size_t slices() const noexcept { return static_cast<std::size_t>(dims_.slices()); }
    /// Bytes of a row in the file's layout, whatever layout this is.
    [[nodiscard]] std::size_t row_bytes() const noexcept { return row_bytes_; }
    [[nodiscard]] std::size_t bytes() const noexcept {
        return panel_bytes_ == 0 ? row_bytes_ * rows() : panel_bytes_ * slice_panels() * slices();
    }
    /// Bytes of row r. Precondition: the file's layout.
    [[nodiscard]] std::span<const std::byte> row(std::size_t r) const noexcept {
        return {data_ + r * row_bytes_, row_bytes_};
    }

    /// Bytes of a panel; 0 in the file's layout.
    [[nodiscard]] std::size_t panel_bytes() const noexcept { return panel_bytes_; }
    /// Panel p, counted through all slices: rows 16p.. of a matrix. Precondition: a layout of panels.
    [[nodiscard]] const std::byte* panel(std::size_t p) const noexcept { return data_ + p * panel_bytes_; }
    /// Panels of one slice, the last of which may lack rows.
    [[nodiscard]] std::size_t slice_panels() const noexcept {
        return (static_cast<std::size_t>(dims_.dims()[1]) + quant::panel_rows - 1) / quant::panel_rows;
    }

    /// Matrix i of a stack (expert i), 0 <= i < slices().
    [[nodiscard]] tensor_ref slice(std::size_t i) const noexcept {
        tensor_ref out = *this;
        out.dims_ = dims_.slice();
        out.data_ = data_ + i * out.bytes();  // a whole number of panels
        return out;
    }

    /// `count` rows of a matrix from `first` on. Preconditions: slices() == 1, first + count <= rows(); with panels, `first` is a
    /// multiple of 16.
    [[nodiscard]] tensor_ref row_range(std::size_t first, std::size_t count) const noexcept {
        tensor_ref out = *this;
        out.dims_ = dims_.with_rows(count);
        out.data_ = data_ + (panel_bytes_ == 0 ? first * row_bytes_ : first / quant::panel_rows * panel_bytes_);
        return out;
    }

    /// The same tensor with its bytes elsewhere: `data` has bytes() bytes with the layout's alignment.
    [[nodiscard]] tensor_ref at(const std::byte* data) const noexcept {
        tensor_ref out = *this;
        out.data_ = data;
        return out;
    }

private:
    dtype type_ = dtype::f32;
    colibri::shape dims_;
    std::size_t row_bytes_ = sizeof(float);
    std::size_t panel_bytes_ = 0;
    const std::byte* data_ = nullptr;
};

namespace detail {

/// Whether a tensor of `total` bytes fits `bytes` and starts at a multiple of `alignment`.
[[nodiscard]] inline result<void> check_tensor_bytes(dtype type, const shape& dims, std::uint64_t total,
                                                     std::span<const std::byte> bytes, std::size_t alignment) {
    const auto what = [&] { return concat("a tensor of ", dims.text(), " ", name(type)); };
    if (bytes.size() != total) {
        return error{bytes.size() < total ? errc::truncated : errc::bad_count,
                     concat(what(), " takes ", total, " bytes, not ", bytes.size())};
    }
    if (reinterpret_cast<std::uintptr_t>(bytes.data()) % alignment != 0) {
        return error{errc::bad_alignment, concat(what(), " must start at a multiple of ", alignment, " bytes")};
    }
    return {};
}

}  // namespace detail

inline result<tensor_ref> tensor_ref::make(dtype type, const colibri::shape& dims, std::span<const std::byte> bytes) {
    auto row = quant::row_bytes(type, dims.columns());
    if (!row) return std::move(row).error();
    const auto total = checked_mul<std::uint64_t>(*row, dims.rows());
    if (!total) {
        return error{errc::overflow, concat("a tensor of ", dims.text(), " ", name(type), " is larger than any memory")};
    }
    if (auto ok = detail::check_tensor_bytes(type, dims, *total, bytes, quant::block_alignment(type)); !ok) {
        return std::move(ok).error();
    }
    tensor_ref out;
    out.type_ = type;
    out.dims_ = dims;
    out.row_bytes_ = *row;
    out.data_ = bytes.data();
    return out;
}

inline result<std::size_t> tensor_ref::panels_bytes(dtype type, const colibri::shape& dims) {
    auto row = quant::row_bytes(type, dims.columns());
    if (!row) return std::move(row).error();
    if (!quant::has_panels(type)) {
        return error{errc::unsupported, concat("weights of type ", name(type), " have no panels")};
    }
    tensor_ref out;
    out.dims_ = dims;
    // A panel is less than four times as large as its rows in the file, padding included.
    const auto count = checked_mul<std::uint64_t>(out.slice_panels(), dims.slices());
    const auto most = count ? checked_mul<std::uint64_t>(*count, *row) : std::nullopt;
    if (!most || !checked_mul<std::uint64_t>(*most, 4 * quant::panel_rows)) {
        return error{errc::overflow, concat("a tensor of ", dims.text(), " ", name(type), " is larger than any memory")};
    }
    return static_cast<std::size_t>(*count) * quant::panel_bytes(type, out.columns());
}

inline result<tensor_ref> tensor_ref::make_panels(dtype type, const colibri::shape& dims, std::span<const std::byte> bytes) {
    auto total = panels_bytes(type, dims);
    if (!total) return std::move(total).error();
    if (auto ok = detail::check_tensor_bytes(type, dims, *total, bytes, 64); !ok) return std::move(ok).error();
    tensor_ref out;
    out.type_ = type;
    out.dims_ = dims;
    out.row_bytes_ = quant::row_bytes(type, dims.columns()).value();
    out.panel_bytes_ = quant::panel_bytes(type, out.columns());
    out.data_ = bytes.data();
    return out;
}

}  // namespace colibri
