// Sizes of a tensor's dimensions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "colibri/core/checked.hpp"
#include "colibri/core/concat.hpp"
#include "colibri/core/error.hpp"

namespace colibri {

/// One to four dimensions, the fastest first: `dims()[0]` is the number of columns. Missing ones are 1, none is 0,
/// and the number of elements fits 64 bits: a shape that exists is sound.
class shape {
public:
    static constexpr std::size_t max_rank = 4;

    /// One element.
    constexpr shape() = default;

    /// A shape of 1..4 given dimensions. Errors: bad_shape (none, more than four, a zero), overflow (too many
    /// elements).
    [[nodiscard]] static result<shape> make(std::span<const std::uint64_t> dims);
    [[nodiscard]] static result<shape> make(std::initializer_list<std::uint64_t> dims) {
        return make(std::span<const std::uint64_t>(dims.begin(), dims.size()));
    }

    [[nodiscard]] constexpr const std::array<std::uint64_t, max_rank>& dims() const noexcept { return dims_; }
    /// Elements of one row, `dims()[0]`.
    [[nodiscard]] constexpr std::uint64_t columns() const noexcept { return dims_[0]; }
    /// Rows of all slices together.
    [[nodiscard]] constexpr std::uint64_t rows() const noexcept { return dims_[1] * dims_[2] * dims_[3]; }
    /// Matrices of `dims()[0]` x `dims()[1]`: the experts of a stack.
    [[nodiscard]] constexpr std::uint64_t slices() const noexcept { return dims_[2] * dims_[3]; }
    [[nodiscard]] constexpr std::uint64_t elements() const noexcept { return columns() * rows(); }
    /// The shape of one slice.
    [[nodiscard]] constexpr shape slice() const noexcept {
        shape out = *this;
        out.dims_[2] = out.dims_[3] = 1;
        return out;
    }

    /// A matrix of the same columns and `count` rows, at most as many as before and not none.
    [[nodiscard]] constexpr shape with_rows(std::uint64_t count) const noexcept {
        shape out = slice();
        out.dims_[1] = count;
        return out;
    }

    /// "576 x 1536", without the ones at the end.
    [[nodiscard]] std::string text() const;

    friend constexpr bool operator==(const shape&, const shape&) = default;

private:
    std::array<std::uint64_t, max_rank> dims_ = {1, 1, 1, 1};
};

inline result<shape> shape::make(std::span<const std::uint64_t> dims) {
    if (dims.empty() || dims.size() > max_rank) {
        return error{errc::bad_shape, concat("a tensor has 1 to 4 dimensions, not ", dims.size())};
    }
    shape out;
    std::uint64_t elements = 1;
    for (std::size_t i = 0; i < dims.size(); ++i) {
        if (dims[i] == 0) return error{errc::bad_shape, concat("dimension ", i, " of a tensor is zero")};
        const auto product = checked_mul(elements, dims[i]);
        if (!product) return error{errc::overflow, "the dimensions of a tensor have more elements than 64 bits count"};
        elements = *product;
        out.dims_[i] = dims[i];
    }
    return out;
}

inline std::string shape::text() const {
    std::size_t rank = max_rank;
    while (rank > 1 && dims_[rank - 1] == 1) --rank;
    std::string out = concat(dims_[0]);
    for (std::size_t i = 1; i < rank; ++i) out += concat(" x ", dims_[i]);
    return out;
}

}  // namespace colibri
