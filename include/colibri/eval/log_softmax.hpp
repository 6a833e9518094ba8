// Log probabilities of a row of logits.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>

#include "colibri/simd/ops.hpp"

namespace colibri::eval {

/// Sum of exp(x[i] - shift), in double precision; the order doesn't depend on threads. Allocates nothing.
[[nodiscard]] inline double sum_exp(std::span<const float> x, float shift) noexcept {
    constexpr std::size_t chunk = 1024;
    float part[chunk];
    double sum = 0.0;
    for (std::size_t begin = 0; begin < x.size(); begin += chunk) {
        const std::size_t n = std::min(chunk, x.size() - begin);
        for (std::size_t i = 0; i < n; ++i) part[i] = x[begin + i] - shift;
        simd::exp(part, part, n);
        for (std::size_t i = 0; i < n; ++i) sum += static_cast<double>(part[i]);
    }
    return sum;
}

/// What makes a log probability of a logit: x - norm. NaN if a logit is NaN or infinite upwards.
[[nodiscard]] inline double log_norm(std::span<const float> logits) noexcept {
    const float most = simd::max(logits.data(), logits.size());
    const double sum = sum_exp(logits, most);
    return static_cast<double>(most) + std::log(sum);
}

}  // namespace colibri::eval
