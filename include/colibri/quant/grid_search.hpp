// The point of a grid that is nearest to 8 (4) weights, exactly, by pruning.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "colibri/quant/encode_levels.hpp"
#include "colibri/quant/grid_search_avx512.hpp"
#include "colibri/quant/iq_grids.hpp"

namespace colibri::quant::detail {

/// A grid laid out for searching: its points are in order of their upper half of digits, so those that share an upper
/// half are neighbours. A half is two places of `side` values each: two digits of base 3, or one of base 8.
template <std::size_t Base, std::size_t Count>
struct searchable_grid {
    static constexpr std::size_t base = Base;
    static constexpr std::size_t side = Base == 3 ? 9 : 8;
    static constexpr std::size_t stride = Base == 3 ? 12 : 8;   ///< of sums of lower halves: whole vectors of four
    static constexpr std::size_t digits = Base == 3 ? 8 : 4;    ///< of a point
    static constexpr std::size_t columns = Base == 3 ? 4 : 8;   ///< of a digit's costs, padded

    std::array<std::uint16_t, side * side + 1> first;  ///< points of upper half u: first[u] .. first[u + 1] - 1
    std::array<std::uint8_t, Count> lower;             ///< place of a point's lower half among the sums
    std::array<std::uint8_t, Count> upper;             ///< upper half of a point
    std::array<std::uint8_t, Count> half;              ///< lower half of a point
    std::array<std::array<std::uint64_t, 2>, side * side> lowers;  ///< by upper half, a bit for each lower half with which it is a point

    template <std::size_t Words>
    explicit consteval searchable_grid(const std::array<std::uint64_t, Words>& set) : first{}, lower{}, upper{}, half{}, lowers{} {
        std::size_t count = 0;
        for (std::size_t word = 0; word < Words; ++word) {
            for (std::uint64_t rest = set[word]; rest != 0; rest &= rest - 1) {
                const std::size_t point = word * 64 + static_cast<std::size_t>(std::countr_zero(rest));
                const std::size_t low = point % (side * side);
                lower[count] = static_cast<std::uint8_t>(low % side + low / side * stride);
                upper[count] = static_cast<std::uint8_t>(point / (side * side));
                half[count] = static_cast<std::uint8_t>(low);
                lowers[upper[count]][low / 64] |= std::uint64_t{1} << low % 64;
                ++count;
                first[point / (side * side) + 1] = static_cast<std::uint16_t>(count);
            }
        }
        for (std::size_t u = 1; u < first.size(); ++u) {
            if (first[u] == 0) first[u] = first[u - 1];  // an upper half without points
        }
    }
};

/// Costs of the pairs of values of two digits of base 3, or of the values of one of base 8.
template <class Grid>
inline void place_costs(const float* costs, float (&out)[Grid::stride]) noexcept {
    if constexpr (Grid::base == 3) {
        for (std::size_t j = 0; j < 3; ++j) {
            for (std::size_t i = 0; i < 3; ++i) out[i + 3 * j] = costs[i] + costs[Grid::columns + j];
        }
    } else {
        for (std::size_t i = 0; i < 8; ++i) out[i] = costs[i];
    }
}

/// Finds the point of least cost. `costs` has for each digit `columns` numbers, what each of its values costs: settled,
/// none below 0, and 0 for one value of every digit. `point` is any point at first: the better a guess, the faster.
/// Returns the cost; if it isn't below `limit`, `point` is unspecified among those that cost no less. Allocates nothing.
template <class Grid>
[[nodiscard]] inline float nearest_point(const Grid& grid, const float* costs, std::uint16_t& point, float limit,
                                         [[maybe_unused]] encode_level level = highest_level()) noexcept {
#ifdef COLIBRI_WITH_LEVEL_AVX512
    if (level == encode_level::avx512) return avx512::nearest_point(grid, costs, point, limit);
#endif
    constexpr std::size_t per_place = Grid::digits / 4 * Grid::columns;
    float low[Grid::stride] = {};
    float high[Grid::stride] = {};
    float sums[Grid::side * Grid::stride];
    place_costs<Grid>(costs, low);
    place_costs<Grid>(costs + per_place, high);
    for (std::size_t j = 0; j < Grid::side; ++j) {
        for (std::size_t i = 0; i < Grid::stride; ++i) sums[j * Grid::stride + i] = low[i] + high[j];
    }
    place_costs<Grid>(costs + 2 * per_place, low);
    place_costs<Grid>(costs + 3 * per_place, high);

    std::size_t best = point;
    const std::size_t guess = grid.upper[best];
    float bound = (low[guess % Grid::side] + high[guess / Grid::side]) + sums[grid.lower[best]];
    if (limit < bound) bound = limit;
    // Which upper halves can be part of a better point, a bit each: one loop without branches, then one over the few.
    for (std::size_t j = 0; j < Grid::side; ++j) {
        if (!(high[j] < bound)) continue;
        unsigned hopeful = 0;
        for (std::size_t i = 0; i < Grid::side; ++i) hopeful |= static_cast<unsigned>(low[i] + high[j] < bound) << i;
        for (; hopeful != 0; hopeful &= hopeful - 1) {
            const std::size_t i = static_cast<std::size_t>(std::countr_zero(hopeful));
            const float upper = low[i] + high[j];
            const std::size_t end = grid.first[j * Grid::side + i + 1];
            for (std::size_t p = grid.first[j * Grid::side + i]; p < end; ++p) {
                const float cost = upper + sums[grid.lower[p]];
                best = cost < bound ? p : best;
                bound = cost < bound ? cost : bound;
            }
        }
    }
    point = static_cast<std::uint16_t>(best);
    return bound;
}

}  // namespace colibri::quant::detail
