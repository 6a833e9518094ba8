// Rotary position embedding: frequencies with scaling, and the table of cosines and sines of a batch.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <span>
#include <vector>

#include "colibri/core/math.hpp"
#include "colibri/model/hparams.hpp"

namespace colibri {

/// Frequencies of one kind of layer: pair i of a head is rotated by position * frequency[i], and the result scaled by
/// `magnitude`. RoPE: Su et al. 2021, arXiv:2104.09864; YaRN: Peng et al. 2023, arXiv:2309.00071.
struct rope_frequencies {
    std::vector<float> frequency;  ///< rope_dimensions / 2 values
    float magnitude = 1.0f;
};

/// Frequencies base^(-2i/d) with the model's scaling. `factors` (from the tensor rope_freqs, one per pair, or empty) divide
/// them; that is how files store the llama3 scaling.
[[nodiscard]] inline rope_frequencies make_rope_frequencies(const hparams& h, float base, bool scaled,
                                                            std::span<const float> factors) {
    const std::size_t pairs = h.rope_dimensions / 2;
    rope_frequencies out;
    out.frequency.resize(pairs);
    const double width = h.rope_dimensions;
    const double factor = h.scaling_factor;

    // YaRN mixes unscaled (fast) and stretched (slow) pairs by a ramp between two pair numbers, rounded outwards.
    double ramp_low = 0.0;
    double ramp_high = 0.0;
    const bool yarn = scaled && h.scaling == rope_scaling::yarn;
    if (yarn) {
        const auto pair_with_rotations = [&](double rotations) {
            return width * math::log(h.scaling_original_context / (rotations * 2.0 * std::numbers::pi)) /
                   (2.0 * math::log(static_cast<double>(base)));
        };
        ramp_low = std::max(0.0, std::floor(pair_with_rotations(h.yarn_beta_fast)));
        ramp_high = std::min(width - 1.0, std::ceil(pair_with_rotations(h.yarn_beta_slow)));
        if (ramp_high <= ramp_low) ramp_high = ramp_low + 0.001;
        out.magnitude = h.yarn_attention_factor > 0.0f ? h.yarn_attention_factor
                                                       : static_cast<float>(std::fma(0.1, math::log(factor), 1.0));
        if (factor <= 1.0 && h.yarn_attention_factor <= 0.0f) out.magnitude = 1.0f;
    }
    for (std::size_t i = 0; i < pairs; ++i) {
        double f = 1.0 / math::pow(static_cast<double>(base), 2.0 * static_cast<double>(i) / width);
        if (!factors.empty()) f /= static_cast<double>(factors[i]);
        if (scaled && h.scaling == rope_scaling::linear) f /= factor;
        if (yarn) {
            const double ramp = std::clamp((static_cast<double>(i) - ramp_low) / (ramp_high - ramp_low), 0.0, 1.0);
            const double slow = f / factor * ramp;
            f = std::fma(f, 1.0 - ramp, slow);
        }
        out.frequency[i] = static_cast<float>(f);
    }
    return out;
}

/// Writes cos and sin (times magnitude) of one position: `pairs` values each. The angle is rounded to float before the
/// functions are taken, as the models were trained with.
inline void fill_rope_row(const rope_frequencies& rope, std::uint32_t position, float* cosine, float* sine) noexcept {
    for (std::size_t i = 0; i < rope.frequency.size(); ++i) {
        const float angle = static_cast<float>(position) * rope.frequency[i];
        const auto sc = math::sincos(static_cast<double>(angle));
        cosine[i] = static_cast<float>(sc.cosine) * rope.magnitude;
        sine[i] = static_cast<float>(sc.sine) * rope.magnitude;
    }
}

}  // namespace colibri
