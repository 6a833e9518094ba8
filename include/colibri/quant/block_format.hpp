// What a block format is: the concepts that kernels, rows and views are written against.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <type_traits>

#include "colibri/gguf/tensor_type.hpp"

namespace colibri::quant {

static_assert(std::endian::native == std::endian::little, "blocks are read in place: little-endian hosts only");

/// Whether `F`'s size and block size are those that the file format's table gives for `F::type`.
template <class F>
[[nodiscard]] consteval bool layout_matches_table() {
    const auto row = find_dtype(static_cast<std::uint32_t>(F::type));
    return row && row->block_size == F::block_size && row->block_bytes == sizeof(F);
}

// Version 14 would break requirements that have noexcept and a type over two lines.
// clang-format off

/// One block as it lies in a file: packed fields, its type, its number of weights, and what they mean.
/// `decode(out)` writes `block_size` floats, the same bits on every machine.
template <class F>
concept block_format =
    std::is_trivially_copyable_v<F> && std::is_standard_layout_v<F> && requires(const F block, float* out) {
        { F::type } -> std::convertible_to<dtype>;
        { F::block_size } -> std::convertible_to<std::size_t>;
        { block.decode(out) } noexcept -> std::same_as<void>;
    } && layout_matches_table<F>();

/// A format that can also be made from `block_size` floats without further knowledge.
template <class F>
concept encodable_format = block_format<F> && requires(const float* in) {
    { F::encode(in) } noexcept -> std::same_as<F>;
};

/// A format whose weights are floats themselves (one per block): products take F32 activations.
template <class F>
concept float_format = block_format<F> && F::block_size == 1 && requires(const F block) {
    { block.value() } noexcept -> std::same_as<float>;
};

/// A format of integer codes and a float scale. Weight i is `scale() * code(i)`, refined by the concepts below.
template <class F>
concept code_format = block_format<F> && requires(const F block, std::size_t i) {
    { block.scale() } noexcept -> std::same_as<float>;
    { block.code(i) } noexcept -> std::same_as<int>;
};

/// Weight i is `scale() * code(i) + minimum()`.
template <class F>
concept minimum_format = code_format<F> && requires(const F block) {
    { block.minimum() } noexcept -> std::same_as<float>;
};

/// A super-block of 256 whose runs of `sub_size` weights have integer scales: weight i of run j is
/// `(scale() * sub_scale(j)) * code(i)`.
template <class F>
concept super_format = code_format<F> && requires(const F block, std::size_t j) {
    { F::sub_size } -> std::convertible_to<std::size_t>;
    { block.sub_scale(j) } noexcept -> std::same_as<int>;
};

/// A super-block whose runs also have integer minimums: weight i of run j is
/// `(scale() * sub_scale(j)) * code(i) - minimum_scale() * sub_minimum(j)`.
template <class F>
concept super_minimum_format = super_format<F> && requires(const F block, std::size_t j) {
    { block.minimum_scale() } noexcept -> std::same_as<float>;
    { block.sub_minimum(j) } noexcept -> std::same_as<int>;
};

// clang-format on

}  // namespace colibri::quant
