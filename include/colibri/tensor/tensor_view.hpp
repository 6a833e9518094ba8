// A tensor whose format is known to the compiler: what kernels see.
#pragma once

#include <cstddef>
#include <span>
#include <type_traits>

#include "colibri/core/concat.hpp"
#include "colibri/core/error.hpp"
#include "colibri/quant/block_format.hpp"
#include "colibri/quant/format_list.hpp"
#include "colibri/tensor/tensor_ref.hpp"

namespace colibri {

/// A matrix of `rows` rows of `columns` weights in format F; rows are contiguous and whole blocks. Holds no memory.
template <quant::block_format F>
struct tensor_view {
    using format = F;

    const F* data = nullptr;
    std::size_t rows = 0;
    std::size_t columns = 0;  ///< weights of a row, a multiple of F::block_size

    [[nodiscard]] constexpr std::size_t blocks_per_row() const noexcept { return columns / F::block_size; }
    [[nodiscard]] constexpr std::size_t row_bytes() const noexcept { return blocks_per_row() * sizeof(F); }
    [[nodiscard]] constexpr const F* row(std::size_t r) const noexcept { return data + r * blocks_per_row(); }
    /// Rows first..first+count-1 as a matrix of their own.
    [[nodiscard]] constexpr tensor_view row_range(std::size_t first, std::size_t count) const noexcept {
        return {row(first), count, columns};
    }
};

namespace detail {

[[nodiscard]] inline result<void> check_file_layout(const tensor_ref& tensor) {
    if (tensor.layout() == layout::file) return {};
    return error{errc::unsupported, concat("a tensor of panels of ", name(tensor.type()), " can't be seen as rows")};
}

}  // namespace detail

/// The tensor as a matrix in format F. Errors: bad_type if it has another type, unsupported if it is panels.
template <quant::block_format F>
[[nodiscard]] result<tensor_view<F>> view_as(const tensor_ref& tensor) {
    if (tensor.type() != F::type) {
        return error{errc::bad_type,
                     concat("a tensor of type ", name(tensor.type()), " is used where ", name(F::type), " is needed")};
    }
    if (auto ok = detail::check_file_layout(tensor); !ok) return std::move(ok).error();
    return tensor_view<F>{reinterpret_cast<const F*>(tensor.data()), tensor.rows(), tensor.columns()};
}

/// From the erased to the typed tensor: calls `fn(tensor_view<F>)` for the tensor's format and returns its result
/// (see `visit_format`). Meant to be called once per operation, outside of loops. Errors: unsupported (panels too), and
/// what fn returns.
template <class Fn>
[[nodiscard]] auto with_view(const tensor_ref& tensor, Fn&& fn) {
    auto visit = [&]<class F>(std::type_identity<F>) {
        return fn(tensor_view<F>{reinterpret_cast<const F*>(tensor.data()), tensor.rows(), tensor.columns()});
    };
    using outcome = decltype(quant::visit_format(tensor.type(), visit));
    if (auto ok = detail::check_file_layout(tensor); !ok) return outcome(std::move(ok).error());
    return quant::visit_format(tensor.type(), visit);
}

}  // namespace colibri
