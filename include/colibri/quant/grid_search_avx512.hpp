// The search of grid_search.hpp with AVX-512: all halves of a point at once.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "colibri/quant/encode_levels.hpp"

#ifdef COLIBRI_WITH_LEVEL_AVX512
#include <immintrin.h>

// g++ 12 warns of values that its own AVX-512 intrinsics leave undefined on purpose.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

namespace colibri::quant::detail::avx512 {

// A half of a point is one of side * side, in whole vectors of sixteen; a set of halves is a bit each. The points of an upper
// half are the set of their lower halves, so that the cheapest of them is a minimum under a mask.

/// Which entry of its first and of its second place each half takes, and for base 3, which digits each entry of a place takes.
template <std::size_t Side, std::size_t Columns>
struct half_order {
    static constexpr std::size_t vectors = (Side * Side + 15) / 16;
    std::int32_t low[vectors * 16] = {};
    std::int32_t high[vectors * 16] = {};
    std::int32_t first_digit[16] = {};
    std::int32_t second_digit[16] = {};

    consteval half_order() {
        for (std::size_t u = 0; u < Side * Side; ++u) {
            low[u] = static_cast<std::int32_t>(u % Side);
            high[u] = static_cast<std::int32_t>(u / Side);
        }
        for (std::size_t v = 0; v < 9; ++v) {
            first_digit[v] = static_cast<std::int32_t>(v % 3);
            second_digit[v] = static_cast<std::int32_t>(Columns + v / 3);
        }
    }
};

template <class Grid>
inline constexpr half_order<Grid::side, Grid::columns> order_of{};

/// Costs of a place's entries.
template <class Grid>
[[nodiscard, gnu::target("avx512f,avx512bw,avx512dq,avx512vl"), gnu::always_inline]] inline __m512 place_of(const float* costs) noexcept {
    const __m512 digits = _mm512_zextps256_ps512(_mm256_loadu_ps(costs));
    if constexpr (Grid::base == 8) {
        return digits;
    } else {
        return _mm512_add_ps(_mm512_permutexvar_ps(_mm512_loadu_si512(order_of<Grid>.first_digit), digits),
                             _mm512_permutexvar_ps(_mm512_loadu_si512(order_of<Grid>.second_digit), digits));
    }
}

/// Costs of all halves with these places.
template <class Grid>
[[gnu::target("avx512f,avx512bw,avx512dq,avx512vl"), gnu::always_inline]] inline void half_costs(const float* costs, __m512* out) noexcept {
    constexpr std::size_t per_place = Grid::digits / 4 * Grid::columns;
    const __m512 low = place_of<Grid>(costs);
    const __m512 high = place_of<Grid>(costs + per_place);
#pragma GCC unroll 8
    for (std::size_t k = 0; k < order_of<Grid>.vectors; ++k) {
        out[k] = _mm512_add_ps(_mm512_permutexvar_ps(_mm512_loadu_si512(order_of<Grid>.low + k * 16), low),
                               _mm512_permutexvar_ps(_mm512_loadu_si512(order_of<Grid>.high + k * 16), high));
    }
}

/// As `quant::detail::nearest_point`, with the same result.
template <class Grid>
[[nodiscard, gnu::target("avx512f,avx512bw,avx512dq,avx512vl")]] inline float nearest_point(const Grid& grid, const float* costs,
                                                                                           std::uint16_t& point, float limit) noexcept {
    constexpr std::size_t halves = Grid::side * Grid::side;
    constexpr std::size_t vectors = order_of<Grid>.vectors;
    __m512 sums[vectors];
    __m512 uppers[vectors];
    half_costs<Grid>(costs, sums);
    half_costs<Grid>(costs + Grid::digits / 2 * Grid::columns, uppers);
    alignas(64) float upper_cost[vectors * 16];
    alignas(64) float lower_cost[vectors * 16];
#pragma GCC unroll 8
    for (std::size_t k = 0; k < vectors; ++k) {
        _mm512_store_ps(upper_cost + k * 16, uppers[k]);
        _mm512_store_ps(lower_cost + k * 16, sums[k]);
    }

    std::size_t best = point;
    float bound = upper_cost[grid.upper[best]] + lower_cost[grid.half[best]];
    if (limit < bound) bound = limit;
    std::uint64_t hopeful[2] = {};
#pragma GCC unroll 8
    for (std::size_t k = 0; k < vectors; ++k) {
        const std::uint64_t below = _mm512_cmp_ps_mask(uppers[k], _mm512_set1_ps(bound), _CMP_LT_OQ);
        hopeful[k / 4] |= below << (k % 4 * 16);
    }
    if constexpr (halves > 64) hopeful[1] &= (std::uint64_t{1} << (halves - 64)) - 1;
    // The cheapest point of each hopeful upper half, without a branch on what was found before: those would be guessed wrong.
    float found[halves];
    std::uint8_t found_upper[halves];
    std::size_t count = 0;
    for (std::size_t word = 0; word < (halves + 63) / 64; ++word) {
        for (std::uint64_t rest = hopeful[word]; rest != 0; rest &= rest - 1) {
            const std::size_t u = word * 64 + static_cast<std::size_t>(std::countr_zero(rest));
            const auto& lowers = grid.lowers[u];
            __m512 least = _mm512_set1_ps(std::numeric_limits<float>::infinity());
#pragma GCC unroll 8
            for (std::size_t k = 0; k < vectors; ++k) {
                const auto mask = static_cast<__mmask16>(lowers[k / 4] >> (k % 4 * 16));
                least = _mm512_mask_min_ps(least, mask, least, sums[k]);
            }
            found[count] = upper_cost[u] + _mm512_reduce_min_ps(least);
            found_upper[count] = static_cast<std::uint8_t>(u);
            ++count;
        }
    }
    std::size_t winner = count;
    for (std::size_t i = 0; i < count; ++i) {
        const bool better = found[i] < bound;
        bound = better ? found[i] : bound;
        winner = better ? i : winner;
    }
    if (winner != count) {
        const std::size_t u = found_upper[winner];
        // The first of equal ones, as the search one by one has it: how many of the upper half's points come before it.
        std::uint64_t equal[2] = {};
#pragma GCC unroll 8
        for (std::size_t k = 0; k < vectors; ++k) {
            const __m512 costs_here = _mm512_add_ps(_mm512_set1_ps(upper_cost[u]), sums[k]);
            const std::uint64_t mask = _mm512_cmp_ps_mask(costs_here, _mm512_set1_ps(bound), _CMP_EQ_OQ);
            equal[k / 4] |= mask << (k % 4 * 16);
        }
        const auto& lowers = grid.lowers[u];
        const std::uint64_t here = equal[0] & lowers[0];
        best = grid.first[u];
        if (halves <= 64 || here != 0) {
            best += static_cast<std::size_t>(std::popcount(lowers[0] & ((here & -here) - 1)));
        } else {
            const std::uint64_t beyond = equal[1] & lowers[1];
            best += static_cast<std::size_t>(std::popcount(lowers[0]) + std::popcount(lowers[1] & ((beyond & -beyond) - 1)));
        }
    }
    point = static_cast<std::uint16_t>(best);
    return bound;
}

}  // namespace colibri::quant::detail::avx512

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
#endif
