// How a format says that it can be written.
#pragma once

#include <concepts>
#include <cstddef>

#include "colibri/quant/block_format.hpp"

namespace colibri::quant {

/// How blocks of F are made: specialised for each format that can be written, with one of
///   static F encode(const float* x, const float* importance) noexcept;
///   static void encode(const float* x, const float* importance, std::size_t blocks, F* out) noexcept;
/// `x` has block_size values a block, `importance` is null or has a weight for each, finite and not negative. The result is the
/// same on every machine, and that of a block doesn't depend on other blocks. A block with an infinity or a NaN decodes to
/// infinities or NaNs (NVFP4, which has neither: to its largest value). Allocates nothing. A format with neither this nor
/// `F::encode(x)` can't be written.
template <block_format F>
struct block_encoder {};

namespace detail {

template <class F>
concept block_searched = requires(const float* x) {
    { block_encoder<F>::encode(x, x) } noexcept -> std::same_as<F>;
};
template <class F>
concept row_searched = requires(const float* x, F* out) {
    { block_encoder<F>::encode(x, x, std::size_t{1}, out) } noexcept -> std::same_as<void>;
};

}  // namespace detail

/// A format that can be written, by itself or through its `block_encoder`.
template <class F>
concept writable_format = encodable_format<F> || detail::block_searched<F> || detail::row_searched<F>;

}  // namespace colibri::quant
