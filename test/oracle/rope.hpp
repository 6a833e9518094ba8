// Rotary position embedding, as its papers define it.
#pragma once

#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>
#include <vector>

#include "oracle/config.hpp"

namespace oracle {

/// Angles per position of each rotated pair, and a factor of the rotated values.
struct rotation {
    std::vector<double> frequencies;
    double magnitude = 1;
    bool halves = false;
};

/// Number of the pair that turns `turns` times within the original context (YaRN: Peng et al. 2023, section 3.2).
[[nodiscard]] inline double yarn_pair(const config& c, double turns) {
    return static_cast<double>(c.rope_size) * std::log(c.yarn_original / (turns * 2 * std::numbers::pi)) /
           (2 * std::log(c.rope_base));
}

/// The rotation of a layer with the local base (unscaled) or the global one. `factors` divide the frequencies one by
/// one (llama3's scaling, computed by the conversion); empty: none.
template <class Real>
[[nodiscard]] rotation make_rotation(const config& c, bool local, const row<Real>& factors) {
    rotation out;
    out.halves = c.rope_halves;
    const bool linear = !local && c.rope_scaling == "linear";
    const bool yarn = !local && c.rope_scaling == "yarn";
    if (!local && !linear && !yarn && c.rope_scaling != "none") {
        throw std::runtime_error("oracle: unknown RoPE scaling " + c.rope_scaling);
    }
    const auto last = static_cast<double>(c.rope_size - 1);
    const double low = std::max(std::floor(yarn_pair(c, c.yarn_fast)), 0.0);
    double high = std::min(std::ceil(yarn_pair(c, c.yarn_slow)), last);
    if (low == high) high += 0.001;
    for (Index i = 0; i < c.rope_size / 2; ++i) {
        const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(c.rope_size);
        double frequency = std::pow(local ? c.rope_base_local : c.rope_base, exponent);
        if (!local && factors.size() > 0) frequency /= static_cast<double>(factors(i));
        if (linear) frequency /= c.rope_factor;
        if (yarn) {
            // Pairs that turn often keep their frequency, those that turn less than once are stretched.
            const double stretched = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
            frequency = frequency / c.rope_factor * stretched + frequency * (1 - stretched);
        }
        out.frequencies.push_back(frequency);
    }
    if (yarn) out.magnitude = c.yarn_magnitude;
    return out;
}

/// Turns the leading elements of one head at `position`.
template <class Head>
void rotate(Head&& head, Index position, const rotation& r) {
    const auto pairs = static_cast<Index>(r.frequencies.size());
    for (Index i = 0; i < pairs; ++i) {
        const double angle = static_cast<double>(position) * r.frequencies[static_cast<std::size_t>(i)];
        using real = typename std::remove_reference_t<Head>::Scalar;
        const auto cosine = static_cast<real>(std::cos(angle) * r.magnitude);
        const auto sine = static_cast<real>(std::sin(angle) * r.magnitude);
        real& a = head(r.halves ? i : 2 * i);
        real& b = head(r.halves ? i + pairs : 2 * i + 1);
        const real turned = a * cosine - b * sine;
        b = a * sine + b * cosine;
        a = turned;
    }
}

}  // namespace oracle
