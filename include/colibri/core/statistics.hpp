// What several measurements of one thing say together.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

namespace colibri {

/// The value below which the fraction `q` (0 to 1) of `values` lies, between two of them in proportion; 0 of none.
[[nodiscard]] inline double quantile(std::span<const double> values, double q) {
    if (values.empty()) return 0.0;
    std::vector<double> sorted(values.begin(), values.end());
    std::sort(sorted.begin(), sorted.end());
    const double place = std::clamp(q, 0.0, 1.0) * static_cast<double>(sorted.size() - 1);
    const auto below = static_cast<std::size_t>(place);
    const std::size_t above = std::min(below + 1, sorted.size() - 1);
    return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

/// The middle one; the mean of the middle two of an even number; 0 of none.
[[nodiscard]] inline double median(std::span<const double> values) { return quantile(values, 0.5); }

/// 0 of none.
[[nodiscard]] inline double mean(std::span<const double> values) {
    double sum = 0.0;
    for (const double value : values) sum += value;
    return values.empty() ? 0.0 : sum / static_cast<double>(values.size());
}

/// Standard deviation of a sample (divided by n - 1); 0 of fewer than two.
[[nodiscard]] inline double standard_deviation(std::span<const double> values) {
    if (values.size() < 2) return 0.0;
    const double middle = mean(values);
    double sum = 0.0;
    for (const double value : values) sum += (value - middle) * (value - middle);
    return std::sqrt(sum / static_cast<double>(values.size() - 1));
}

}  // namespace colibri
