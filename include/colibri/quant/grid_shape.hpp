// What the encoders of grid formats need to know about each: its grid, its runs, and where the numbers go.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "colibri/quant/grid_search.hpp"
#include "colibri/quant/iq1.hpp"
#include "colibri/quant/iq2.hpp"
#include "colibri/quant/iq3.hpp"
#include "colibri/quant/iq_grids.hpp"

namespace colibri::quant::detail {

inline constexpr searchable_grid<3, 2048> iq1_search{iq1_points};
inline constexpr searchable_grid<3, 256> iq2_xxs_search{iq2_xxs_points};
inline constexpr searchable_grid<3, 512> iq2_xs_search{iq2_xs_points};
inline constexpr searchable_grid<3, 1024> iq2_s_search{iq2_s_points};
inline constexpr searchable_grid<8, 256> iq3_xxs_search{iq3_xxs_points};
inline constexpr searchable_grid<8, 512> iq3_s_search{iq3_s_points};

/// How the eight weights of a group get their signs.
enum class grid_signs {
    any,      ///< a bit each
    even,     ///< an even number of them is minus
    shifted,  ///< none: IQ1's points are signed, and moved up or down by an eighth
};

/// For a grid format F: `search` and `grid`, its grid; `values` of the digits; `signs`; `shift_run`, the weights that
/// share a shift; `scale_count` of the odd scales; `unit` = d over the scale of integer codes; `spread`, the part of the
/// mean square that counts in a weight's importance; `most_stretch`, see `stretched_step`; `store_d`, `store_scale`
/// (index s of scale 2s+1 of run j) and `store_group` (point numbers of group g of eight weights, its signs or its
/// shift), into zero bytes.
template <class F>
struct grid_shape {};

template <>
struct grid_shape<iq2_xxs> {
    static constexpr const auto& search = iq2_xxs_search;
    static constexpr const auto& grid = iq2_xxs_grid;
    static constexpr const auto& values = iq2_values;
    static constexpr grid_signs signs = grid_signs::even;
    static constexpr int scale_count = 16;
    static constexpr float unit = 8.0f;
    static constexpr float spread = 1.0f;
    static constexpr float most_stretch = 1.08f;

    static constexpr void store_d(iq2_xxs& out, std::uint16_t d) noexcept { out.d = d; }
    static constexpr void store_scale(iq2_xxs& out, std::size_t j, std::uint32_t s) noexcept {
        out.qs[j * 8 + 7] = static_cast<std::uint8_t>(out.qs[j * 8 + 7] | s << 4);
    }
    static constexpr void store_group(iq2_xxs& out, std::size_t g, const std::uint16_t* point,
                                      std::uint32_t sign) noexcept {
        out.qs[g / 4 * 8 + g % 4] = static_cast<std::uint8_t>(point[0]);
        store_even_signs(out.qs + g / 4 * 8 + 4, g % 4, sign);
    }
    /// Puts seven signs into place n of the 28 bits at `at`.
    static constexpr void store_even_signs(std::uint8_t* at, std::size_t n, std::uint32_t sign) noexcept {
        const std::uint32_t bits = (sign & 127u) << (n * 7);
        for (std::size_t b = 0; b < 4; ++b) at[b] = static_cast<std::uint8_t>(at[b] | (bits >> (b * 8) & 255u));
    }
};

template <>
struct grid_shape<iq2_xs> {
    static constexpr const auto& search = iq2_xs_search;
    static constexpr const auto& grid = iq2_xs_grid;
    static constexpr const auto& values = iq2_values;
    static constexpr grid_signs signs = grid_signs::even;
    static constexpr int scale_count = 16;
    static constexpr float unit = 8.0f;
    static constexpr float spread = 1.0f;
    static constexpr float most_stretch = 1.05f;

    static constexpr void store_d(iq2_xs& out, std::uint16_t d) noexcept { out.d = d; }
    static constexpr void store_scale(iq2_xs& out, std::size_t j, std::uint32_t s) noexcept {
        out.scales[j / 2] = static_cast<std::uint8_t>(out.scales[j / 2] | s << (j % 2 * 4));
    }
    static constexpr void store_group(iq2_xs& out, std::size_t g, const std::uint16_t* point,
                                      std::uint32_t sign) noexcept {
        out.qs[g] = static_cast<std::uint16_t>(point[0] | (sign & 127u) << 9);
    }
};

template <>
struct grid_shape<iq2_s> {
    static constexpr const auto& search = iq2_s_search;
    static constexpr const auto& grid = iq2_s_grid;
    static constexpr const auto& values = iq2_values;
    static constexpr grid_signs signs = grid_signs::any;
    static constexpr int scale_count = 16;
    static constexpr float unit = 8.0f;
    static constexpr float spread = 2.0f;
    static constexpr float most_stretch = 1.04f;

    static constexpr void store_d(iq2_s& out, std::uint16_t d) noexcept { out.d = d; }
    static constexpr void store_scale(iq2_s& out, std::size_t j, std::uint32_t s) noexcept {
        out.scales[j / 2] = static_cast<std::uint8_t>(out.scales[j / 2] | s << (j % 2 * 4));
    }
    static constexpr void store_group(iq2_s& out, std::size_t g, const std::uint16_t* point,
                                      std::uint32_t sign) noexcept {
        out.qs[g] = static_cast<std::uint8_t>(point[0]);
        out.qh[g / 4] = static_cast<std::uint8_t>(out.qh[g / 4] | point[0] >> 8 << (g % 4 * 2));
        out.sign_bits[g] = static_cast<std::uint8_t>(sign);
    }
};

template <>
struct grid_shape<iq3_xxs> {
    static constexpr const auto& search = iq3_xxs_search;
    static constexpr const auto& grid = iq3_xxs_grid;
    static constexpr const auto& values = iq3_xxs_values;
    static constexpr grid_signs signs = grid_signs::even;
    static constexpr int scale_count = 16;
    static constexpr float unit = 4.0f;
    static constexpr float spread = 2.0f;
    static constexpr float most_stretch = 1.02f;

    static constexpr void store_d(iq3_xxs& out, std::uint16_t d) noexcept { out.d = d; }
    static constexpr void store_scale(iq3_xxs& out, std::size_t j, std::uint32_t s) noexcept {
        out.signs_scales[j * 4 + 3] = static_cast<std::uint8_t>(out.signs_scales[j * 4 + 3] | s << 4);
    }
    static constexpr void store_group(iq3_xxs& out, std::size_t g, const std::uint16_t* point,
                                      std::uint32_t sign) noexcept {
        out.points[g * 2] = static_cast<std::uint8_t>(point[0]);
        out.points[g * 2 + 1] = static_cast<std::uint8_t>(point[1]);
        grid_shape<iq2_xxs>::store_even_signs(out.signs_scales + g / 4 * 4, g % 4, sign);
    }
};

template <>
struct grid_shape<iq3_s> {
    static constexpr const auto& search = iq3_s_search;
    static constexpr const auto& grid = iq3_s_grid;
    static constexpr const auto& values = iq3_s_values;
    static constexpr grid_signs signs = grid_signs::any;
    static constexpr int scale_count = 16;
    static constexpr float unit = 1.0f;
    static constexpr float spread = 2.0f;
    static constexpr float most_stretch = 1.02f;

    static constexpr void store_d(iq3_s& out, std::uint16_t d) noexcept { out.d = d; }
    static constexpr void store_scale(iq3_s& out, std::size_t j, std::uint32_t s) noexcept {
        out.scales[j / 2] = static_cast<std::uint8_t>(out.scales[j / 2] | s << (j % 2 * 4));
    }
    static constexpr void store_group(iq3_s& out, std::size_t g, const std::uint16_t* point,
                                      std::uint32_t sign) noexcept {
        for (std::size_t h = 0; h < 2; ++h) {
            const std::size_t q = g * 2 + h;
            out.qs[q] = static_cast<std::uint8_t>(point[h]);
            out.qh[q / 8] = static_cast<std::uint8_t>(out.qh[q / 8] | point[h] >> 8 << (q % 8));
        }
        out.sign_bits[g] = static_cast<std::uint8_t>(sign);
    }
};

template <>
struct grid_shape<iq1_s> {
    static constexpr const auto& search = iq1_search;
    static constexpr const auto& grid = iq1_grid;
    static constexpr const auto& values = iq1_values;
    static constexpr grid_signs signs = grid_signs::shifted;
    static constexpr std::size_t shift_run = 32;
    static constexpr int scale_count = 8;
    static constexpr float unit = 8.0f;
    static constexpr float spread = 2.0f;
    static constexpr float most_stretch = 1.15f;

    static constexpr void store_d(iq1_s& out, std::uint16_t d) noexcept { out.d = d; }
    static constexpr void store_scale(iq1_s& out, std::size_t j, std::uint32_t s) noexcept {
        out.qh[j] = static_cast<std::uint16_t>(out.qh[j] | s << 12);
    }
    static constexpr void store_group(iq1_s& out, std::size_t g, const std::uint16_t* point,
                                      std::uint32_t down) noexcept {
        out.qs[g] = static_cast<std::uint8_t>(point[0]);
        const std::uint32_t upper = static_cast<std::uint32_t>(point[0] >> 8) << (g % 4 * 3);
        out.qh[g / 4] = static_cast<std::uint16_t>(out.qh[g / 4] | upper | down << 15);
    }
};

template <>
struct grid_shape<iq1_m> {
    static constexpr const auto& search = iq1_search;
    static constexpr const auto& grid = iq1_grid;
    static constexpr const auto& values = iq1_values;
    static constexpr grid_signs signs = grid_signs::shifted;
    static constexpr std::size_t shift_run = 8;
    static constexpr int scale_count = 8;
    static constexpr float unit = 8.0f;
    static constexpr float spread = 2.0f;
    static constexpr float most_stretch = 1.13f;

    static constexpr void store_d(iq1_m& out, std::uint16_t d) noexcept {
        for (std::size_t n = 0; n < 4; ++n) {
            out.scales[n] = static_cast<std::uint16_t>(out.scales[n] | (d >> (n * 4) & 15) << 12);
        }
    }
    static constexpr void store_scale(iq1_m& out, std::size_t j, std::uint32_t s) noexcept {
        out.scales[j / 4] = static_cast<std::uint16_t>(out.scales[j / 4] | s << (j % 4 * 3));
    }
    static constexpr void store_group(iq1_m& out, std::size_t g, const std::uint16_t* point,
                                      std::uint32_t down) noexcept {
        out.qs[g] = static_cast<std::uint8_t>(point[0]);
        out.qh[g / 2] = static_cast<std::uint8_t>(out.qh[g / 2] | (point[0] >> 8 | static_cast<int>(down) << 3) << (g % 2 * 4));
    }
};

}  // namespace colibri::quant::detail
