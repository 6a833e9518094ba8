// Biases with which a random router uses its experts unevenly, by the law of Zipf.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

namespace synthetic {

/// x with P(a normal number of deviation 1 is below x) = p, to a millionth; 0 < p < 1.
[[nodiscard]] inline double normal_quantile(double p) noexcept {
    double low = -10.0, high = 10.0;
    while (high - low > 1e-6) {
        const double x = (low + high) / 2;
        (0.5 * std::erfc(-x / std::sqrt(2.0)) < p ? low : high) = x;
    }
    return (low + high) / 2;
}

/// What to add to the logits of the experts, most used first, when these are normal with deviation 1 and the largest `used` are chosen.
/// Drawing so many without putting back, each by its weight w = 1 / rank^skew, takes one with a probability of about 1 - e^(-c w),
/// where c makes the sum of all `used`; its bias lifts as large a part of its logits above 0, near which the least chosen one then is.
/// 1 <= used <= experts.
[[nodiscard]] inline std::vector<float> rank_biases(std::uint32_t experts, std::uint32_t used, float skew) {
    std::vector<float> out(experts, 0.0f);
    if (skew == 0.0f || used == experts) return out;
    const auto chance = [&](double c, std::uint32_t rank) { return -std::expm1(-c * std::pow(rank + 1.0, -static_cast<double>(skew))); };
    double low = 0.0, high = 1.0;
    for (bool narrowing = false; !narrowing || high - low > 1e-6 * high;) {
        const double c = narrowing ? (low + high) / 2 : high;
        double sum = 0.0;
        for (std::uint32_t rank = 0; rank < experts; ++rank) sum += chance(c, rank);
        // The upper end is found first. Where even the least weight would be near certain, it ends all the same.
        if (!narrowing && sum < used && high < 1e30) low = std::exchange(high, 2 * high);
        else if (!narrowing) narrowing = true;
        else (sum < used ? low : high) = c;
    }
    for (std::uint32_t rank = 0; rank < experts; ++rank) {
        out[rank] = static_cast<float>(normal_quantile(std::clamp(chance(high, rank), 1e-6, 1.0 - 1e-6)));
    }
    return out;
}

}  // namespace synthetic
