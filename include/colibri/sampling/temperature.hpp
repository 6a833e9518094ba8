// Steps that flatten or sharpen the distribution.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>

#include "colibri/core/math.hpp"
#include "colibri/sampling/candidates.hpp"

namespace colibri::sampling {

/// Divides all logits by t; t <= 0 keeps the best candidate only.
struct temperature {
    float t = 0.8f;

    void operator()(candidates& c) const {
        if (!(t > 0.0f)) return c.keep_best(1);
        c.divide(t);
    }
};

/// Temperature between t - range and t + range, higher where the model is less sure: the entropy as a fraction of the
/// possible one, raised to `exponent`. range <= 0 is plain temperature.
struct dynamic_temperature {
    float t = 0.8f;
    float range = 0.0f;
    float exponent = 1.0f;

    void operator()(candidates& c) const;
};

namespace detail {

/// Entropy of the candidates in bits.
[[nodiscard]] inline double entropy(candidates& c) {
    const uint128 sum = c.moment();
    const std::uint64_t total = c.total_weight();
    constexpr double unit = static_cast<double>(full_weight);
    const double mean = static_cast<double>(static_cast<std::uint64_t>(sum / total)) / unit;
    const double spread = math::log(static_cast<double>(total) / unit) / std::numbers::ln2;
    return mean + spread;
}

}  // namespace detail

inline void dynamic_temperature::operator()(candidates& c) const {
    if (!(range > 0.0f)) return temperature{t}(c);
    if (c.size() <= 1) return;
    const double possible = math::log(static_cast<double>(c.size())) / std::numbers::ln2;
    const double fraction = std::max(detail::entropy(c), 0.0) / possible;
    const float low = std::max(0.0f, t - range);
    const float high = t + range;
    const double power =
        fraction > 0.0 ? math::pow(fraction, static_cast<double>(exponent)) : (exponent == 0.0f ? 1.0 : 0.0);
    const auto above =
        static_cast<float>(static_cast<double>(high - low) * power);  // rounded, so that it can't be fused
    temperature{low + above}(c);
}

}  // namespace colibri::sampling
