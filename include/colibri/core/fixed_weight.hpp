// Unnormalised probabilities as integers: the same on every machine, and their sum is exact in any order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <numbers>

namespace colibri::fixed_weight {

// A choice among tokens must not depend on compiler, flags or CPU. Floating-point sums do (fused multiply-add, order),
// so probabilities stand as 40-bit fixed-point weights 2^40 e^(logit - best) while something is decided; a token whose
// probability is below 2^-40 of the best one's has weight 0. 2^22 weights add up without overflow.

__extension__ using uint128 = unsigned __int128;

inline constexpr int weight_bits = 40;
inline constexpr std::uint64_t full_weight = std::uint64_t{1} << weight_bits;

/// Largest number r with r * r <= value < 2^126.
[[nodiscard]] constexpr std::uint64_t floor_sqrt(uint128 value) noexcept {
    std::uint64_t root = 0;
    for (int bit = 62; bit >= 0; --bit) {
        const std::uint64_t next = root | (std::uint64_t{1} << bit);
        if (static_cast<uint128>(next) * next <= value) root = next;
    }
    return root;
}

/// 2^(-j/256) in units of 2^-62 for j = 0..255, from square roots of 1/2 alone.
struct power_table {
    std::uint64_t at[256];
};
[[nodiscard]] constexpr power_table make_powers() noexcept {
    std::uint64_t root[8] = {};  // 2^(-1/2), 2^(-1/4), ...
    std::uint64_t value = std::uint64_t{1} << 61;
    for (auto& r : root) {
        value = floor_sqrt(static_cast<uint128>(value) << 62);
        r = value;
    }
    power_table out{};
    for (std::size_t j = 0; j < 256; ++j) {
        uint128 product = std::uint64_t{1} << 62;
        for (std::size_t bit = 0; bit < 8; ++bit) {
            if ((j >> (7 - bit)) & 1u) product = (product * root[bit]) >> 62;
        }
        out.at[j] = static_cast<std::uint64_t>(product);
    }
    return out;
}

inline constexpr power_table powers_of_half = make_powers();

/// Largest value of `distance`: as good as infinite.
inline constexpr std::uint64_t far_away = std::uint64_t{1} << 60;

/// Base-2 logarithm's units per unit of a logit.
inline constexpr double distance_scale = std::numbers::log2e * static_cast<double>(full_weight);

/// How far `logit` is below `best` in bits (base-2 logarithm of the probabilities' ratio), in units of 2^-40. Both
/// finite, logit <= best. One subtraction, one multiplication, one conversion: nothing that could be fused.
[[nodiscard]] constexpr std::uint64_t distance(float best, float logit) noexcept {
    const double scaled = (static_cast<double>(best) - static_cast<double>(logit)) * distance_scale;
    constexpr auto most = static_cast<double>(far_away);
    // Through a signed number, as most CPUs have no instruction for the other conversion; NaN counts as far away.
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(scaled < most ? scaled : most));
}

inline constexpr std::uint64_t ln2 = 0xb17217f7u;  ///< units of 2^-32

/// 2^40 * 2^(-distance / 2^40), error below 2^-36 of the result before the last bit is cut.
[[nodiscard]] constexpr std::uint64_t weight_at(std::uint64_t distance) noexcept {
    const std::uint64_t far = distance >> 40;
    const std::uint64_t halvings = far < 63 ? far : 63;  // from weight_bits + 1 on nothing is left
    const std::uint64_t step = (distance >> 32) & 0xffu;
    // 2^-g for the remaining g < 1/256: 1 - y + y^2/2 - y^3/6 with y = g ln 2; the next term is below 2.3e-12.
    const std::uint64_t y = ((distance & 0xffffffffu) * ln2) >> 32;
    const std::uint64_t y2 = (y * y) >> 40;
    const std::uint64_t y3 = (y2 * y) >> 40;
    const std::uint64_t rest = full_weight - y + y2 / 2 - y3 / 6;
    return static_cast<std::uint64_t>((static_cast<uint128>(powers_of_half.at[step]) * rest) >> 62) >> halvings;
}

/// Weight of `logit` if the best logit is `best`.
[[nodiscard]] constexpr std::uint64_t weight(float best, float logit) noexcept {
    return weight_at(distance(best, logit));
}

}  // namespace colibri::fixed_weight
