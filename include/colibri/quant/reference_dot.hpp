// Products of a row of weights and a column of activations in the canonical order of operations.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "colibri/quant/activation.hpp"
#include "colibri/quant/block_format.hpp"
#include "colibri/quant/run.hpp"

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

/// Adds group g (32 weights) of a row times one plane of the activations. For each run of weights with a scale of its own: the exact
/// integer sum as a float times the rounded product of both scales in one fused multiply-add; then the minimum times the rounded
/// product of activation scale and sum of codes in a second one.
template <code_format F>
[[nodiscard]] float add_group(float acc, const F* row, const activation_plane& y, std::size_t g) noexcept {
    constexpr std::size_t run = scale_run<F>;
    const F& block = row[g * activation_group / F::block_size];
    for (std::size_t i = g * activation_group; i < (g + 1) * activation_group; i += run) {
        const std::size_t within = i % F::block_size;
        std::int32_t sum = 0;
        for (std::size_t n = 0; n < run; ++n) sum += block.code(within + n) * y.codes[i + n];
        acc = std::fma(static_cast<float>(sum), run_scale(block, within / run) * y.scales[g], acc);
        if constexpr (has_minimums<F>) {
            const float weighted = run == activation_group ? y.weighted[g] : y.scales[g] * static_cast<float>(y.sums[i / run]);
            acc = std::fma(run_minimum(block, within / run), weighted, acc);
        }
    }
    return acc;
}

}  // namespace detail

/// Dot product of k weights (whole blocks) and k quantised activations. For each chunk of 256 values, in order: its groups of 32 in
/// order (see add_group), then, in order, those again that have a residual, with the residual.
/// Kernels on targets with FMA equal it bit for bit.
template <code_format F>
[[nodiscard]] float dot_reference(const F* row, const activation_view& y, std::size_t k) noexcept {
    constexpr std::size_t per_chunk = activation_chunk / activation_group;
    const std::size_t groups = k / activation_group;
    float acc = 0.0f;
    for (std::size_t first = 0; first < groups; first += per_chunk) {
        const std::size_t end = first + per_chunk < groups ? first + per_chunk : groups;
        for (std::size_t g = first; g < end; ++g) acc = detail::add_group(acc, row, y.plane, g);
        for (std::size_t g = first; g < end; ++g) {
            if (y.has_residual(g)) acc = detail::add_group(acc, row, y.residual, g);
        }
    }
    return acc;
}

}  // namespace colibri::quant
