// What a GGUF file says of one tensor: name, type, shape, place.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "colibri/core/checked.hpp"
#include "colibri/core/error.hpp"
#include "colibri/core/escape.hpp"
#include "colibri/gguf/tensor_type.hpp"

namespace colibri::gguf {

/// Most dimensions that a tensor may have.
inline constexpr unsigned max_dims = 4;
/// Most bytes that a tensor's name may have.
inline constexpr std::size_t max_tensor_name = 64;

/// One tensor of a file. `dims[0]` is the length of a row (contiguous); dimensions beyond `n_dims` are 1.
struct tensor_info {
    std::string name;
    dtype type = dtype::f32;
    unsigned n_dims = 1;
    std::array<std::uint64_t, max_dims> dims{1, 1, 1, 1};
    std::uint64_t offset = 0;  ///< of its first byte, from the start of its part's file
    std::uint64_t bytes = 0;   ///< size of its data, without padding
    unsigned part = 0;         ///< index into file::parts()

    /// Elements in all; doesn't overflow for a tensor that a reader or `tensor_bytes` accepted.
    [[nodiscard]] std::uint64_t elements() const noexcept { return dims[0] * dims[1] * dims[2] * dims[3]; }
    [[nodiscard]] std::uint64_t rows() const noexcept { return dims[1] * dims[2] * dims[3]; }
    [[nodiscard]] std::uint64_t row_bytes() const noexcept { return bytes / rows(); }
};

namespace detail {

/// "[576, 49152]": the dimensions that the file names.
[[nodiscard]] inline std::string shape_text(const std::array<std::uint64_t, max_dims>& dims, unsigned n_dims) {
    std::string out = "[";
    for (unsigned i = 0; i < n_dims; ++i) out += concat(i == 0 ? "" : ", ", dims[i]);
    out += ']';
    return out;
}

}  // namespace detail

/// "[576, 49152]": the shape as the file writes it, row length first.
[[nodiscard]] inline std::string shape_text(const tensor_info& tensor) {
    return detail::shape_text(tensor.dims, tensor.n_dims);
}

/// Why no tensor can have this type number, and what to do; for numbers without a row in `dtype_table`.
[[nodiscard]] inline std::string unknown_dtype_text(std::uint32_t number) {
    std::string out = concat("type ", number);
    switch (number) {
        case 4:
        case 5: return out + " (Q4_2, Q4_3) was removed from the format in 2023; convert the model again";
        case 31:
        case 32:
        case 33:
            return out +
                   " (Q4_0_4_4, Q4_0_4_8, Q4_0_8_8) was removed from the format; use the model's Q4_0 file instead";
        case 36:
        case 37:
        case 38: return out + " (IQ4_NL_4_4 and kin) was removed from the format; use the model's IQ4_NL file instead";
        default: break;
    }
    if (number >= 97 && number < 512) {
        return out +
               " is not of the common format, the file was probably made by ik_llama.cpp; use a file with standard "
               "types";
    }
    return out + " is unknown; the file is damaged or newer than this program";
}

/// Bytes of a tensor of this type and shape. Errors: bad_shape (a dimension of 0 or above 2^63 - 1, rows that are no
/// whole number of blocks), overflow (elements or bytes above 2^63 - 1), bad_type (no such type).
[[nodiscard]] inline result<std::uint64_t> tensor_bytes(dtype type, const std::array<std::uint64_t, max_dims>& dims,
                                                        unsigned n_dims) {
    constexpr std::uint64_t most = ~std::uint64_t{0} >> 1;
    const auto row = find_dtype(static_cast<std::uint32_t>(type));
    if (!row) return error{errc::bad_type, unknown_dtype_text(static_cast<std::uint32_t>(type))};
    const auto shape = [&] { return detail::shape_text(dims, n_dims); };
    std::uint64_t elements = 1;
    for (const std::uint64_t dim : dims) {
        if (dim == 0 || dim > most) {
            return error{errc::bad_shape, concat("the shape ", shape(), " has a dimension of 0 or below")};
        }
        const auto product = checked_mul(elements, dim);
        if (!product || *product > most) {
            return error{errc::overflow, concat("the shape ", shape(), " has more elements than 63 bits can count")};
        }
        elements = *product;
    }
    if (dims[0] % row->block_size != 0) {
        return error{errc::bad_shape, concat("the shape ", shape(), " has rows that are not a multiple of ",
                                             row->block_size, ", the block size of ", row->name)};
    }
    const auto bytes = checked_mul<std::uint64_t>(elements / row->block_size, row->block_bytes);
    if (!bytes || *bytes > most) {
        return error{errc::overflow, concat("the shape ", shape(), " has more bytes than 63 bits can count")};
    }
    return *bytes;
}

}  // namespace colibri::gguf
