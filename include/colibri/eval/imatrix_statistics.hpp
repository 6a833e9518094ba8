// What an importance matrix says of each tensor, in a few numbers.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "colibri/core/number.hpp"
#include "colibri/eval/importance.hpp"

namespace colibri::eval {

/// Figures over the means of squares of a tensor's columns (of all experts that were used).
struct importance_figures {
    std::string tensor;
    std::size_t columns = 0;         ///< of these experts together
    std::size_t unused = 0;          ///< experts that were never used
    double sum = 0.0, least = 0.0, most = 0.0, mean = 0.0, deviation = 0.0;
    double active = 0.0;             ///< share of columns above 1e-5
    double entropy = 0.0;            ///< of the columns' shares of the sum, in bits
    double outstanding = 0.0;        ///< share of columns above the mean by more than the standard deviation
    std::optional<double> likeness;  ///< cosine between this tensor's sums and those of the layer before, if there is one
};

namespace detail {

/// "blk.7.x" -> "blk.6.x"; empty where there is no layer before.
[[nodiscard]] inline std::string layer_before(std::string_view tensor) {
    constexpr std::string_view front = "blk.";
    if (!tensor.starts_with(front)) return {};
    const auto end = tensor.find('.', front.size());
    if (end == std::string_view::npos) return {};
    const auto layer = parse_number<std::uint32_t>(tensor.substr(front.size(), end - front.size()));
    return !layer || *layer == 0 ? std::string() : concat(front, *layer - 1, tensor.substr(end));
}

[[nodiscard]] inline double cosine(const std::vector<float>& a, const std::vector<float>& b) noexcept {
    double dot = 0.0, aa = 0.0, bb = 0.0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        dot += static_cast<double>(a[i]) * static_cast<double>(b[i]);
        aa += static_cast<double>(a[i]) * static_cast<double>(a[i]);
        bb += static_cast<double>(b[i]) * static_cast<double>(b[i]);
    }
    return aa > 0.0 && bb > 0.0 ? dot / std::sqrt(aa * bb) : 0.0;
}

}  // namespace detail

/// Figures of one entry.
[[nodiscard]] inline importance_figures figures_of(const importance_matrix& matrix, std::string_view tensor, const importance& entry) {
    importance_figures out;
    out.tensor = tensor;
    std::vector<double> means;
    for (std::size_t m = 0; m < entry.matrices(); ++m) {
        if (entry.count(m) <= 0.0) {
            ++out.unused;
            continue;
        }
        for (std::size_t c = 0; c < entry.columns(); ++c) {
            means.push_back(static_cast<double>(entry.sums[m * entry.columns() + c]) / entry.count(m));
        }
    }
    if (const auto before = detail::layer_before(tensor); !before.empty()) {
        const auto* other = matrix.find(before);
        if (other != nullptr && other->sums.size() == entry.sums.size()) out.likeness = detail::cosine(entry.sums, other->sums);
    }
    out.columns = means.size();
    if (means.empty()) return out;
    const auto n = static_cast<double>(means.size());
    const auto [least, most] = std::minmax_element(means.begin(), means.end());
    out.least = *least;
    out.most = *most;
    for (const double x : means) out.sum += x;
    out.mean = out.sum / n;
    for (const double x : means) out.deviation += (x - out.mean) * (x - out.mean);
    out.deviation = std::sqrt(out.deviation / n);
    for (const double x : means) {
        if (x > 1e-5) out.active += 1.0 / n;
        if (x > out.mean + out.deviation) out.outstanding += 1.0 / n;
        if (const double p = out.sum > 0.0 ? x / out.sum : 0.0; p > 0.0) out.entropy -= p * std::log2(p);
    }
    return out;
}

}  // namespace colibri::eval
