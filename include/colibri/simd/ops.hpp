// Operations on vectors of floats: norms, softmax, RoPE, activation functions, sums.
#pragma once

#include <cstddef>
#include <cstdint>

#include "colibri/simd/kernel_table.hpp"
#include "colibri/simd/targets.hpp"

namespace colibri::simd {
inline namespace COLIBRI_SIMD_ABI {

// All run in the calling thread, allocate nothing and take any n >= 0 (softmax, max, argmax: n >= 1). `out` may be the input
// itself, or not overlap it. Order of operations and accuracy: docs/numerics.md.

/// out = x / sqrt(mean(x^2) + epsilon) * weight; without weight if that is null. Zhang and Sennrich 2019, arXiv:1910.07467.
inline void rms_norm(const float* x, const float* weight, float* out, std::size_t n, float epsilon) noexcept {
    detail::kernels().rms_norm(x, weight, out, n, epsilon);
}

/// distances[i] and weights[i] are those of x[i] where the best logit is `best` (core/fixed_weight.hpp): the same integers on every
/// target. n is a multiple of 16.
inline void weigh(const float* x, std::size_t n, float best, std::uint64_t* distances, std::uint64_t* weights) noexcept {
    detail::kernels().weigh(x, n, best, distances, weights);
}

/// out = exp(x - max(x)) / sum(exp(x - max(x))).
inline void softmax(const float* x, float* out, std::size_t n) noexcept { detail::kernels().softmax(x, out, n); }

/// Rotates the pairs (x[2i], x[2i+1]), i < rotated / 2, of one head by the angles whose cosines and sines are given (rotated / 2
/// each); the rest of the head stays. `rotated` is even. Su et al. 2021, arXiv:2104.09864.
inline void rope_interleaved(float* x, const float* cosine, const float* sine, std::size_t rotated) noexcept {
    detail::kernels().rope_interleaved(x, cosine, sine, rotated);
}

/// The same for the pairs (x[i], x[i + rotated / 2]) ("neox").
inline void rope_halves(float* x, const float* cosine, const float* sine, std::size_t rotated) noexcept {
    detail::kernels().rope_halves(x, cosine, sine, rotated);
}

/// out = silu(gate) * up, silu(v) = v / (1 + exp(-v)).
inline void swiglu(const float* gate, const float* up, float* out, std::size_t n) noexcept {
    detail::kernels().swiglu(gate, up, out, n);
}

/// out = gelu(gate) * up, gelu(v) = v / 2 * (1 + tanh(sqrt(2 / pi) * (v + 0.044715 v^3))).
inline void geglu(const float* gate, const float* up, float* out, std::size_t n) noexcept {
    detail::kernels().geglu(gate, up, out, n);
}

/// out = a + b.
inline void add(const float* a, const float* b, float* out, std::size_t n) noexcept { detail::kernels().add(a, b, out, n); }

/// out = factor * x + out, one rounding on targets with FMA.
inline void multiply_add(float factor, const float* x, float* out, std::size_t n) noexcept {
    detail::kernels().multiply_add(factor, x, out, n);
}

/// x = x * factor.
inline void scale(float* x, float factor, std::size_t n) noexcept { detail::kernels().scale(x, factor, n); }

/// x = cap * tanh(x / cap), cap > 0.
inline void softcap(float* x, float cap, std::size_t n) noexcept { detail::kernels().softcap(x, cap, n); }

/// out = e^x.
inline void exp(const float* x, float* out, std::size_t n) noexcept { detail::kernels().exp(x, out, n); }

/// out = tanh(x).
inline void tanh(const float* x, float* out, std::size_t n) noexcept { detail::kernels().tanh(x, out, n); }

/// Largest value; NaNs are passed over (-infinity if there is nothing else).
[[nodiscard]] inline float max(const float* x, std::size_t n) noexcept { return detail::kernels().max(x, n); }

/// Index of the largest value, the first of equals; NaNs are passed over (0 if there is nothing else).
[[nodiscard]] inline std::size_t argmax(const float* x, std::size_t n) noexcept { return detail::kernels().argmax(x, n); }

}  // namespace COLIBRI_SIMD_ABI
}  // namespace colibri::simd
