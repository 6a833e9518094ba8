// The points of a run of weights at a given scale: nearest ones, with an even number of minus signs where that is asked.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

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
    encode_level level;            ///< that searches use
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
[[nodiscard]] inline float nearest_of_group(const float* costs, std::uint16_t* point, encode_level level) noexcept {
    using shape = grid_shape<F>;
    constexpr float none = std::numeric_limits<float>::infinity();
    float out = nearest_point(shape::search, costs, point[0], none, level);
    if constexpr (shape::search.digits == 4) {
        out += nearest_point(shape::search, costs + 4 * shape::search.columns, point[1], none, level);
    }
    return out;
}

/// Nearest points of a group in which the sign of one weight must be turned: which one is part of the search. Turned
/// weights cost `push[i] * value` more than others, push = 4 * scale * w * x. Without `exact` only the weight that is cheapest
/// to turn on its own is tried. Returns the bit of the weight.
template <class F>
[[nodiscard]] inline std::uint8_t nearest_with_turn(float* costs, const float* push, bool exact, std::uint16_t* point,
                                                    encode_level level) noexcept {
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
                                     std::numeric_limits<float>::infinity(), level);
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
            for (std::size_t v = 0; v < columns; ++v) {
                const float over = (kept[v] + more[v]) - penalty[i];
                row[v] = over > 0.0f ? over : 0.0f;  // rounding can leave less, on which searches mustn't rely
            }
            std::uint16_t here = straight[h];
            const float limit = best - lowest;
            const float cost = nearest_point(shape::search, costs + h * digits * columns, here, limit, level);
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
                cost[down][g] = costs.least[g] + nearest_of_group<F>(costs.of_group(g), &points[down][g], block.level);
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
                    run.mark[g] = nearest_with_turn<F>(costs.of_group(g), push + g * 8, exact, point, block.level);
                    continue;
                }
            }
            (void)nearest_of_group<F>(costs.of_group(g), point, block.level);
        }
    }
    sum_run(block, j, run);
}

}  // namespace colibri::quant::detail
