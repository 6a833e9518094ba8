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
#include "colibri/quant/grid_search.hpp"
#include "colibri/quant/grid_shape.hpp"

namespace colibri::quant::detail {

/// A block on its way: weights over a power of two, so that the largest magnitude is 1 to 2.
template <class F>
struct grid_block {
    using shape = grid_shape<F>;
    static constexpr std::size_t size = F::block_size;
    static constexpr bool is_signed = shape::signs == grid_signs::shifted;

    float x[size];            ///< magnitudes; values where points are signed
    float w[size];            ///< what an error counts
    float wx[size];           ///< w * x
    std::uint8_t minus[size / 8];  ///< bit k of byte g: weight 8g+k is below zero
};

/// The points of a run and what they add up to.
template <class F>
struct grid_run {
    using shape = grid_shape<F>;
    static constexpr std::size_t size = F::sub_size;
    static constexpr std::size_t points_in_group = 8 / shape::search.digits;

    std::uint16_t point[size / 8 * points_in_group] = {};
    std::uint8_t mark[size / 8] = {};  ///< of a group: the weights whose sign is turned; 1 if the points are moved down
    float product = 0.0f;              ///< sum of w * x * code
    float square = 0.0f;               ///< sum of w * code * code
};

[[nodiscard]] inline float settled(float v) noexcept {
    float out[1] = {v};
    settle(out);
    return out[0];
}

/// Sum of N settled values, by eight lanes and a tree.
template <std::size_t N>
[[nodiscard]] inline float lane_sum(const float* v) noexcept {
    float lanes[8] = {};
    for (std::size_t i = 0; i < N; i += 8) {
        for (std::size_t k = 0; k < 8; ++k) lanes[k] += v[i + k];
    }
    return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

/// Costs of the values of every digit of a run at one scale, less the least one of each, and the sum of those by groups.
template <class F>
struct run_costs {
    using shape = grid_shape<F>;
    static constexpr std::size_t size = F::sub_size;
    static constexpr std::size_t columns = shape::search.columns;
    static constexpr std::size_t base = shape::search.base;

    float cost[size * columns];
    float least[size / 8];

    /// `x` and `w` of the run; `levels` are what the digits' values stand for, settled.
    void fill(const float* x, const float* w, const float (&levels)[columns]) noexcept {
        for (std::size_t i = 0; i < size; ++i) {
            for (std::size_t v = 0; v < columns; ++v) {
                const float rest = x[i] - levels[v];
                cost[i * columns + v] = w[i] * (rest * rest);
            }
        }
        settle(cost);
        float low[size];
        for (std::size_t i = 0; i < size; ++i) {
            float m = cost[i * columns];
            for (std::size_t v = 1; v < base; ++v) m = cost[i * columns + v] < m ? cost[i * columns + v] : m;
            low[i] = m;
            for (std::size_t v = 0; v < columns; ++v) cost[i * columns + v] -= m;
        }
        for (std::size_t g = 0; g < size / 8; ++g) least[g] = lane_sum<8>(low + g * 8);
    }
    [[nodiscard]] float* of_group(std::size_t g) noexcept { return cost + g * 8 * columns; }
};

/// Nearest points of a group without conditions on signs; returns what they cost more than `least`.
template <class F>
[[nodiscard]] inline float nearest_of_group(const float* costs, std::uint16_t* point) noexcept {
    using shape = grid_shape<F>;
    constexpr float none = std::numeric_limits<float>::infinity();
    float out = nearest_point(shape::search, costs, point[0], none);
    if constexpr (shape::search.digits == 4) {
        out += nearest_point(shape::search, costs + 4 * shape::search.columns, point[1], none);
    }
    return out;
}

/// Nearest points of a group in which the sign of one weight must be turned: which one is part of the search. Turned
/// weights cost `push[i] * value` more than others, push = 4 * scale * w * x. Without `exact` only the weight that is cheapest
/// to turn on its own is tried. Returns the bit of the weight.
template <class F>
[[nodiscard]] inline std::uint8_t nearest_with_turn(float* costs, const float* push, bool exact,
                                                    std::uint16_t* point) noexcept {
    using shape = grid_shape<F>;
    constexpr std::size_t columns = shape::search.columns;
    constexpr std::size_t digits = shape::search.digits;
    constexpr std::size_t halves = 8 / digits;
    float penalty[8];  // of turning each weight, when its digit is the lowest: the least that it costs
    for (std::size_t i = 0; i < 8; ++i) penalty[i] = push[i] * static_cast<float>(shape::values[0]);
    settle(penalty);
    for (std::size_t i = 0; i < 8; ++i) penalty[i] += costs[i * columns];

    std::uint16_t straight[halves];
    float plain[2] = {};
    for (std::size_t h = 0; h < halves; ++h) straight[h] = point[h];
    std::size_t cheapest = 0;
    for (std::size_t k = 1; k < 8; ++k) cheapest = penalty[k] < penalty[cheapest] ? k : cheapest;
    if constexpr (halves == 2) {
        for (std::size_t h = 0; h < 2; ++h) {
            if (!exact && h == cheapest / digits) continue;
            plain[h] = nearest_point(shape::search, costs + h * digits * columns, straight[h],
                                     std::numeric_limits<float>::infinity());
        }
    }
    float best = std::numeric_limits<float>::infinity();
    std::size_t turned = 0;
    std::uint16_t found = point[0];
    for (std::size_t tries = exact ? 8 : 1; tries > 0; --tries) {
        const std::size_t i = cheapest;
        const std::size_t h = i / digits;
        const float lowest = halves == 2 ? penalty[i] + plain[1 - h] : penalty[i];
        if (!(penalty[i] < best)) break;  // so do all others
        if (lowest < best) {
            float kept[columns];
            float more[columns];
            float* const row = costs + i * columns;
            for (std::size_t v = 0; v < columns; ++v) {
                kept[v] = row[v];
                more[v] = push[i] * static_cast<float>(shape::values[v % shape::search.base]);
            }
            settle(more);
            for (std::size_t v = 0; v < columns; ++v) row[v] = (kept[v] + more[v]) - penalty[i];
            std::uint16_t here = straight[h];
            const float limit = best - lowest;
            const float cost = nearest_point(shape::search, costs + h * digits * columns, here, limit);
            if (cost < limit) {
                best = lowest + cost;
                turned = i;
                found = here;
            }
            for (std::size_t v = 0; v < columns; ++v) row[v] = kept[v];
        }
        penalty[i] = std::numeric_limits<float>::infinity();
        for (std::size_t k = 0; k < 8; ++k) cheapest = penalty[k] < penalty[cheapest] ? k : cheapest;
    }
    for (std::size_t h = 0; h < halves; ++h) point[h] = h == turned / digits ? found : straight[h];
    return static_cast<std::uint8_t>(1u << turned);
}

/// Sums of a run's points.
template <class F>
inline void sum_run(const grid_block<F>& block, std::size_t j, grid_run<F>& run) noexcept {
    using shape = grid_shape<F>;
    constexpr std::size_t size = F::sub_size;
    constexpr std::size_t digits = shape::search.digits;
    float code[size];
    for (std::size_t g = 0; g < size / 8; ++g) {
        for (std::size_t k = 0; k < 8; ++k) {
            const int value = grid_value(shape::grid[run.point[(g * 8 + k) / digits]], k % digits);
            if constexpr (grid_block<F>::is_signed) {
                code[g * 8 + k] = static_cast<float>(value * 8 + (run.mark[g] != 0 ? -1 : 1));
            } else {
                code[g * 8 + k] = static_cast<float>((run.mark[g] >> k & 1) != 0 ? -value : value);
            }
        }
    }
    const float* const w = block.w + j * size;
    const float* const wx = block.wx + j * size;
    float product[size];
    float square[size];
    for (std::size_t i = 0; i < size; ++i) {
        product[i] = wx[i] * code[i];
        square[i] = w[i] * (code[i] * code[i]);
    }
    settle(product);
    settle(square);
    run.product = lane_sum<size>(product);
    run.square = lane_sum<size>(square);
}

/// Finds the nearest points of run j at `scale` > 0 and their sums; what `run` held is the first guess. Without `exact`
/// not all ways to get an even number of minus signs are tried.
template <class F>
inline void assign_run(const grid_block<F>& block, std::size_t j, float scale, [[maybe_unused]] bool exact,
                       grid_run<F>& run) noexcept {
    using shape = grid_shape<F>;
    constexpr std::size_t size = F::sub_size;
    constexpr std::size_t columns = shape::search.columns;
    constexpr std::size_t in_group = grid_run<F>::points_in_group;
    const float* const x = block.x + j * size;
    const float* const w = block.w + j * size;

    const auto fill = [&](run_costs<F>& costs, int factor, int shift) {
        float levels[columns];
        for (std::size_t v = 0; v < columns; ++v) {
            levels[v] = scale * static_cast<float>(shape::values[v % shape::search.base] * factor + shift);
        }
        settle(levels);
        costs.fill(x, w, levels);
    };
    if constexpr (shape::signs == grid_signs::shifted) {
        run_costs<F> costs;
        std::uint16_t points[2][size / 8];
        float cost[2][size / 8];
        for (std::size_t down = 0; down < 2; ++down) {
            fill(costs, 8, down != 0 ? -1 : 1);
            for (std::size_t g = 0; g < size / 8; ++g) {
                points[down][g] = run.point[g];
                cost[down][g] = costs.least[g] + nearest_of_group<F>(costs.of_group(g), &points[down][g]);
            }
        }
        constexpr std::size_t step = shape::shift_run / 8;
        for (std::size_t g = 0; g < size / 8; g += step) {
            float up = 0.0f;
            float down = 0.0f;
            for (std::size_t k = g; k < g + step; ++k) {
                up += cost[0][k];
                down += cost[1][k];
            }
            for (std::size_t k = g; k < g + step; ++k) {
                run.mark[k] = down < up ? 1 : 0;
                run.point[k] = points[run.mark[k]][k];
            }
        }
    } else {
        run_costs<F> costs;
        fill(costs, 1, 0);
        float push[size];
        if constexpr (shape::signs == grid_signs::even) {
            const float four = 4.0f * scale;
            const float* const wx = block.wx + j * size;
            for (std::size_t i = 0; i < size; ++i) push[i] = four * wx[i];
            settle(push);
        }
        for (std::size_t g = 0; g < size / 8; ++g) {
            std::uint16_t* const point = run.point + g * in_group;
            run.mark[g] = 0;
            if constexpr (shape::signs == grid_signs::even) {
                if (std::popcount(block.minus[j * size / 8 + g]) % 2 != 0) {
                    run.mark[g] = nearest_with_turn<F>(costs.of_group(g), push + g * 8, exact, point);
                    continue;
                }
            }
            (void)nearest_of_group<F>(costs.of_group(g), point);
        }
    }
    sum_run(block, j, run);
}

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

/// The step that fits the runs' sums and odd scales best.
template <class F>
[[nodiscard]] inline float fit_step(const grid_run<F> (&runs)[grid_scales<F>::runs], const grid_scales<F>& scales) noexcept {
    float product[grid_scales<F>::runs];
    float square[grid_scales<F>::runs];
    for (std::size_t j = 0; j < grid_scales<F>::runs; ++j) {
        const float odd = static_cast<float>(2 * scales.s[j] + 1);
        product[j] = runs[j].product * odd;
        square[j] = runs[j].square * (odd * odd);
    }
    settle(product);
    settle(square);
    const float below = lane_sum<grid_scales<F>::runs>(square);
    const float above = lane_sum<grid_scales<F>::runs>(product);
    return above > 0.0f ? above / below : scales.step;
}

/// Encodes 256 weights; see `block_encoder`.
template <class F>
[[nodiscard]] inline F encode_grid(const float* x, const float* importance) noexcept {
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
            if (pass == 0) trial.step = fit_step(runs, trial);
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
    for (std::size_t j = 0; j < count; ++j) {
        scales.s[j] = nearest_odd<F>(scale[j], scales.step);
        assign_run(block, j, scales.step * static_cast<float>(2 * scales.s[j] + 1), true, runs[j]);
    }
    round_step(fit_step(runs, scales), exponent, scales);
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

/// IQ1, IQ2 and IQ3: errors count importance * sqrt(x^2 + a part of the block's mean square).
template <block_format F>
    requires requires { detail::grid_shape<F>::search; }
struct block_encoder<F> {
    [[nodiscard]] static F encode(const float* x, const float* importance) noexcept {
        return detail::encode_grid<F>(x, importance);
    }
};

}  // namespace colibri::quant
