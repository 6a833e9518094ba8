// Encoders of the grid formats IQ1, IQ2 and IQ3: a search over scales with the exactly nearest points at each.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "colibri/core/half.hpp"
#include "colibri/quant/block_encoder.hpp"
#include "colibri/quant/encode.hpp"
#include "colibri/quant/grid_assign.hpp"
#include "colibri/quant/grid_shape.hpp"

namespace colibri::quant::detail {

// What an error counts: the root of importance * sqrt(x^2 + a part of the block's mean square). A small trained model's
// weights made with the root were closer to it (mean divergence with IQ2_XXS 0.0227, IQ2_XS 0.0173, IQ3_XXS 0.0056,
// IQ1_S 0.0524) than with the product itself (0.0247, 0.0180, 0.0058, 0.0559).

/// Fills `block` from values over 2^exponent and importance weights (null: all the same).
template <class F>
inline void prepare(const float* x, const float* importance, int exponent, grid_block<F>& block) noexcept {
    using shape = grid_shape<F>;
    constexpr std::size_t size = F::block_size;
    const double factor = std::bit_cast<double>(static_cast<std::uint64_t>(1023 - exponent) << 52);
    for (std::size_t i = 0; i < size; ++i) block.x[i] = static_cast<float>(x[i] * factor);
    float square[size];
    for (std::size_t i = 0; i < size; ++i) square[i] = block.x[i] * block.x[i];
    settle(square);
    const float spread = settled(shape::spread * lane_sum<size>(square) * (1.0f / size));
    for (std::size_t i = 0; i < size; ++i) block.w[i] = std::sqrt(square[i] + spread);
    if (importance != nullptr) {
        float top = 0.0f;
        for (std::size_t i = 0; i < size; ++i) top = importance[i] > top ? importance[i] : top;
        if (top > 0.0f) {
            // A column that doesn't count at all still gets the nearest point.
            constexpr double least = 0x1p-30;
            const double share = 1.0 / static_cast<double>(top);
            for (std::size_t i = 0; i < size; ++i) {
                const double part = importance[i] * share;
                block.w[i] *= static_cast<float>(part > least ? part : least);
            }
        }
    }
    for (std::size_t i = 0; i < size; ++i) block.w[i] = std::sqrt(block.w[i]);
    settle(block.w);
    for (std::size_t i = 0; i < size; ++i) {
        block.minus[i / 8] = static_cast<std::uint8_t>((i % 8 == 0 ? 0 : block.minus[i / 8]) | (block.x[i] < 0.0f) << i % 8);
    }
    if constexpr (!grid_block<F>::is_signed) {
        for (std::size_t i = 0; i < size; ++i) block.x[i] = block.x[i] < 0.0f ? -block.x[i] : block.x[i];
    }
    for (std::size_t i = 0; i < size; ++i) block.wx[i] = block.w[i] * block.x[i];
    settle(block.wx);
}

/// Scales that are tried for a run, as parts of the one that lets the largest code reach the largest magnitude.
template <class F>
inline constexpr std::array scale_ladder = {1.05f, 0.88f, 0.74f, 0.6f};
template <class F>
    requires(grid_shape<F>::search.base == 8)
inline constexpr std::array scale_ladder<F> = {1.1f, 0.98f, 0.87f, 0.77f, 0.68f, 0.6f};
template <>
inline constexpr std::array scale_ladder<iq3_s> = {1.08f, 0.965f, 0.85f, 0.735f, 0.62f};
template <>
inline constexpr std::array scale_ladder<iq2_xxs> = {1.1f, 0.99f, 0.88f, 0.77f, 0.66f, 0.55f};
template <class F>
    requires(grid_block<F>::is_signed)
inline constexpr std::array scale_ladder<F> = {1.1f, 0.96f, 0.83f, 0.69f, 0.55f};

/// Looks for the best scale of run j, free of the block's; the result is `run` and its scale product / square.
template <class F>
inline void fit_run(const grid_block<F>& block, std::size_t j, grid_run<F>& run) noexcept {
    using shape = grid_shape<F>;
    constexpr std::size_t size = F::sub_size;
    float top = 0.0f;
    for (std::size_t i = j * size; i < (j + 1) * size; ++i) {
        const float magnitude = block.x[i] < 0.0f ? -block.x[i] : block.x[i];
        top = magnitude > top ? magnitude : top;
    }
    if (top == 0.0f) {
        sum_run(block, j, run);
        return;
    }
    constexpr float largest = grid_block<F>::is_signed ? 9.0f : static_cast<float>(shape::values.back());
    grid_run<F> best = run;
    float best_gain = 0.0f;
    const auto consider = [&] {
        if (!(run.product > 0.0f)) return;
        const float gain = run.product * (run.product / run.square);
        if (!(gain > best_gain)) return;
        best_gain = gain;
        best = run;
    };
    for (const float part : scale_ladder<F>) {
        assign_run(block, j, top / largest * part, false, run);
        consider();
    }
    if (best_gain > 0.0f) {
        run = best;
        assign_run(block, j, best.product / best.square, false, run);
        consider();
    }
    run = best;
}

/// The block's scale for integer codes, times an odd number a run.
template <class F>
struct grid_scales {
    static constexpr std::size_t runs = F::block_size / F::sub_size;
    std::uint16_t d = 0;   ///< the half float that the block stores
    float step = 0.0f;     ///< its value for integer codes, on the block's own scale of numbers
    std::uint8_t s[runs] = {};  ///< of the odd number 2s+1
};

/// s of the odd number 2s+1 nearest to scale / step.
template <class F>
[[nodiscard]] inline std::uint8_t nearest_odd(float scale, float step) noexcept {
    const float s = scale / (2.0f * step);
    constexpr float top = static_cast<float>(grid_shape<F>::scale_count - 1);
    return static_cast<std::uint8_t>(s < top ? static_cast<int>(s) : static_cast<int>(top));
}

/// Stores a step as a half float.
template <class F>
inline void round_step(float step, int exponent, grid_scales<F>& scales) noexcept {
    const double up = std::bit_cast<double>(static_cast<std::uint64_t>(1023 + exponent) << 52);
    const double down = std::bit_cast<double>(static_cast<std::uint64_t>(1023 - exponent) << 52);
    const double d = static_cast<double>(step) * static_cast<double>(grid_shape<F>::unit) * up;
    scales.d = f32_to_f16(static_cast<float>(d < 65504.0 ? d : 65504.0));
    scales.step = static_cast<float>(static_cast<double>(f16_to_f32(scales.d)) * down / static_cast<double>(grid_shape<F>::unit));
}

/// What all runs add up to, at a step of 1.
struct block_sums {
    float product = 0.0f;
    float square = 0.0f;

    /// The step of the least square error; `otherwise` if no step is better than 0.
    [[nodiscard]] float best_step(float otherwise) const noexcept {
        return product > 0.0f ? product / square : otherwise;
    }
};

template <class F>
[[nodiscard]] inline block_sums sum_runs(const grid_run<F> (&runs)[grid_scales<F>::runs],
                                         const grid_scales<F>& scales) noexcept {
    constexpr std::size_t count = grid_scales<F>::runs;
    float product[count];
    float square[count];
    for (std::size_t j = 0; j < count; ++j) {
        const float odd = static_cast<float>(2 * scales.s[j] + 1);
        product[j] = runs[j].product * odd;
        square[j] = runs[j].square * (odd * odd);
    }
    settle(product);
    settle(square);
    return {lane_sum<count>(product), lane_sum<count>(square)};
}

// The step of the least error makes a block's weights too small, by the part of them that is lost: 2 % in IQ3, 15 % in
// IQ1. That adds up over all weights, where other errors cancel. A step three quarters of the way to the one that keeps
// the weights' length along themselves was the best or nearly so for the mean divergence in all seven formats (IQ2_XXS
// 0.030 without and 0.025 with it, IQ1_S 0.076 and 0.056). Blocks that are mostly one outlier mustn't be stretched so far.

/// The step for a block's points as they are.
template <class F>
[[nodiscard]] inline float stretched_step(const grid_block<F>& block, const block_sums& sums, float otherwise) noexcept {
    if (!(sums.product > 0.0f)) return otherwise;
    float own[F::block_size];
    for (std::size_t i = 0; i < F::block_size; ++i) own[i] = block.wx[i] * block.x[i];
    settle(own);
    const float least = sums.best_step(otherwise);
    const float full = lane_sum<F::block_size>(own) / sums.product;
    const float stretched = settled(full * 0.75f) + settled(least * 0.25f);
    const float most = least * grid_shape<F>::most_stretch;
    return stretched < most ? stretched : most;
}

/// Assigns run j at the multiple of `step` that is nearest to `scale`, or at a neighbour of that which is better; where multiples are
/// close to each other neighbours of IQ3 aren't tried. Returns s of the odd number 2s+1.
template <class F>
[[nodiscard]] inline std::uint8_t assign_scale(const grid_block<F>& block, std::size_t j, float scale, float step,
                                               grid_run<F>& run) noexcept {
    // IQ3 has so many points that from 7 on, where the neighbours are within two sevenths, they bring little for their time.
    constexpr std::uint8_t coarse = grid_shape<F>::search.base == 8 ? 3 : grid_shape<F>::scale_count;
    constexpr std::uint8_t top = grid_shape<F>::scale_count - 1;
    const std::uint8_t nearest = nearest_odd<F>(scale, step);
    assign_run(block, j, step * static_cast<float>(2 * nearest + 1), true, run);
    if (nearest >= coarse) return nearest;
    const auto gain = [step](const grid_run<F>& of, std::uint8_t s) {
        const float at = step * static_cast<float>(2 * s + 1);
        return (settled(2.0f * of.product) - settled(at * of.square)) * at;
    };
    std::uint8_t best = nearest;
    grid_run<F> other = run;
    for (int side = -1; side <= 1; side += 2) {
        if (nearest + side < 0 || nearest + side > top) continue;
        const auto s = static_cast<std::uint8_t>(nearest + side);
        assign_run(block, j, step * static_cast<float>(2 * s + 1), true, other);
        if (gain(other, s) > gain(run, best)) {
            best = s;
            run = other;
        }
    }
    return best;
}

/// Encodes 256 weights; see `block_encoder`. Precondition: this CPU has the level.
template <class F>
[[nodiscard]] inline F encode_grid(const float* x, const float* importance, encode_level level = highest_level()) noexcept {
    using shape = grid_shape<F>;
    constexpr std::size_t count = grid_scales<F>::runs;
    F out{};
    const std::uint32_t top = largest_magnitude_bits<F::block_size>(x);
    if (top >= infinity_bits) {
        shape::store_d(out, f16_nan);
        return out;
    }
    const int exponent = static_cast<int>(top >> 23) - 127;
    if (exponent < -30) return out;  // below half of the smallest weight that isn't 0
    grid_block<F> block;
    block.level = level;
    prepare(x, importance, exponent, block);

    grid_run<F> runs[count];
    float scale[count];
    float largest = 0.0f;
    for (std::size_t j = 0; j < count; ++j) {
        fit_run(block, j, runs[j]);
        scale[j] = runs[j].product > 0.0f ? runs[j].product / runs[j].square : 0.0f;
        largest = scale[j] > largest ? scale[j] : largest;
    }
    if (largest == 0.0f) return out;

    // With their points as they are, runs lose square * (step * odd - scale)^2: a step is chosen by that.
    grid_scales<F> scales;
    float least = std::numeric_limits<float>::infinity();
    constexpr float most = static_cast<float>(2 * shape::scale_count - 1);
    for (int n = -4; n <= 24; ++n) {
        grid_scales<F> trial;
        trial.step = largest / (most - static_cast<float>(n) * (most / 64.0f));
        float loss[count];
        for (int pass = 0; pass < 2; ++pass) {
            for (std::size_t j = 0; j < count; ++j) trial.s[j] = nearest_odd<F>(scale[j], trial.step);
            if (pass == 0) trial.step = sum_runs(runs, trial).best_step(trial.step);
        }
        for (std::size_t j = 0; j < count; ++j) {
            const float rest = settled(trial.step * static_cast<float>(2 * trial.s[j] + 1)) - scale[j];
            loss[j] = runs[j].square * (rest * rest);
        }
        settle(loss);
        const float sum = lane_sum<count>(loss);
        if (sum < least) {
            least = sum;
            scales = trial;
        }
    }
    round_step(scales.step, exponent, scales);
    if (scales.d == 0) return out;
    for (std::size_t j = 0; j < count; ++j) scales.s[j] = assign_scale(block, j, scale[j], scales.step, runs[j]);
    round_step(stretched_step(block, sum_runs(runs, scales), scales.step), exponent, scales);
    if (scales.d == 0) return out;

    shape::store_d(out, scales.d);
    for (std::size_t j = 0; j < count; ++j) {
        shape::store_scale(out, j, scales.s[j]);
        for (std::size_t g = 0; g < F::sub_size / 8; ++g) {
            const std::size_t group = j * (F::sub_size / 8) + g;
            const std::uint32_t mark = runs[j].mark[g];
            const std::uint32_t sign = grid_block<F>::is_signed ? mark : mark ^ block.minus[group];
            shape::store_group(out, group, runs[j].point + g * grid_run<F>::points_in_group, sign);
        }
    }
    return out;
}

}  // namespace colibri::quant::detail

namespace colibri::quant {

/// IQ1, IQ2 and IQ3.
template <block_format F>
    requires requires { detail::grid_shape<F>::search; }
struct block_encoder<F> {
    [[nodiscard]] static F encode(const float* x, const float* importance) noexcept {
        return detail::encode_grid<F>(x, importance);
    }
};

}  // namespace colibri::quant
