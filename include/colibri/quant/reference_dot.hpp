// Products of a row of weights and a column of activations in the canonical order of operations.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "colibri/quant/activation.hpp"
#include "colibri/quant/block_format.hpp"

namespace colibri::quant {

/// Dot product of k weights and k F32 activations, any k: 16 partial sums by index mod 16, one fused multiply-add
/// each, added as a tree (i and i+8, then 4, 2, 1 apart). Kernels on targets with FMA equal it bit for bit.
template <float_format F>
[[nodiscard]] float dot_reference(const F* row, const float* x, std::size_t k) noexcept {
    float sums[16] = {};
    for (std::size_t i = 0; i < k; ++i) sums[i % 16] = std::fma(row[i].value(), x[i], sums[i % 16]);
    for (std::size_t apart = 8; apart > 0; apart /= 2) {
        for (std::size_t i = 0; i < apart; ++i) sums[i] += sums[i + apart];
    }
    return sums[0];
}

namespace detail {

/// Sum of code * activation code over n weights from `begin` of a block.
template <code_format F>
[[nodiscard]] constexpr std::int32_t code_sum(const F& block, const std::int8_t* codes, std::size_t begin,
                                              std::size_t n) noexcept {
    std::int32_t sum = 0;
    for (std::size_t i = begin; i < begin + n; ++i) sum += block.code(i) * codes[i];
    return sum;
}

}  // namespace detail

namespace detail {

/// Adds block b of the row times one plane of the activations: the exact integer sum as a float times the rounded product of both
/// scales in one fused multiply-add; the minimums in a second one.
template <code_format F>
[[nodiscard]] float add_block(float acc, const F& block, const std::int8_t* codes, float activation_scale,
                              const std::int16_t* sums) noexcept {
    const float scale = block.scale() * activation_scale;
    if constexpr (super_format<F>) {
        std::int32_t sum = 0;
        for (std::size_t j = 0; j < F::block_size / F::sub_size; ++j) {
            sum += block.sub_scale(j) * code_sum(block, codes, j * F::sub_size, F::sub_size);
        }
        acc = std::fma(static_cast<float>(sum), scale, acc);
        if constexpr (super_minimum_format<F>) {
            constexpr std::size_t run = activation_run<F::block_size>;
            std::int32_t minimums = 0;
            for (std::size_t r = 0; r < F::block_size / run; ++r) minimums += block.sub_minimum(r * run / F::sub_size) * sums[r];
            acc = std::fma(-static_cast<float>(minimums), block.minimum_scale() * activation_scale, acc);
        }
    } else {
        acc = std::fma(static_cast<float>(code_sum(block, codes, 0, F::block_size)), scale, acc);
        if constexpr (minimum_format<F>) {
            acc = std::fma(static_cast<float>(sums[0]), block.minimum() * activation_scale, acc);
        }
    }
    return acc;
}

}  // namespace detail

/// Dot product of k weights (whole blocks) and k quantised activations. For each chunk of 256 values, in order: its blocks in order
/// (see add_block), then, in order, those blocks again whose activations have a residual, with the residual.
/// Kernels on targets with FMA equal it bit for bit.
template <code_format F>
[[nodiscard]] float dot_reference(const F* row, activation_view<activation_group<F>> y, std::size_t k) noexcept {
    constexpr std::size_t size = F::block_size;
    constexpr std::size_t runs = size / activation_run<size>;
    constexpr std::size_t per_chunk = activation_chunk / size;
    const std::size_t blocks = k / size;
    float acc = 0.0f;
    for (std::size_t first = 0; first < blocks; first += per_chunk) {
        const std::size_t end = first + per_chunk < blocks ? first + per_chunk : blocks;
        for (std::size_t b = first; b < end; ++b) {
            acc = detail::add_block(acc, row[b], y.codes + b * size, y.scales[b], y.sums + b * runs);
        }
        for (std::size_t b = first; b < end; ++b) {
            if (!y.has_residual(b)) continue;
            acc = detail::add_block(acc, row[b], y.residual_codes + b * size, y.residual_scales[b], y.residual_sums + b * runs);
        }
    }
    return acc;
}

}  // namespace colibri::quant
