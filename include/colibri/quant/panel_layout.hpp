// Where everything lies in a panel: 16 rows of a quantised matrix, side by side.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "colibri/core/checked.hpp"
#include "colibri/quant/block_format.hpp"
#include "colibri/quant/format_list.hpp"

namespace colibri::quant {

/// Rows of a panel; byte r*4 + i of each vector of 64 bytes belongs to row r.
inline constexpr std::size_t panel_rows = 16;

/// Columns of a chunk, the unit in which codes and scales alternate.
inline constexpr std::size_t panel_columns = 256;

/// How 16 rows of k weights in format F lie in a panel. Missing rows of a matrix's last panel are zeros.
///
/// A panel is a sequence of chunks of 256 columns; with blocks shorter than that the last one may have fewer. A chunk of n
/// runs of 32 columns has the codes of its runs, run after run, and then its scales. The codes of a run are unsigned (Q8_0:
/// signed) as the file stores them, or, where that is no number of bits for each weight, the places of what they stand for
/// in `panel_values` (`recoded`: a panel is larger than its rows then). They lie in planes of vectors; byte r*4 + i of
/// vector v belongs to row r and has
///   8 bits (8 vectors): column 4v + i
///   4 bits (4 vectors): column 4v + i in the low, 4(v+4) + i in the high half
///   2 bits (2 vectors): columns 4(v+2j) + i in bits 2j and 2j+1
///   1 bit  (1 vector):  columns 4j + i in bit j
/// The first plane has the low bits of the codes, the second what is above them. The scales, each for 16 rows:
///   scale          f16 (MXFP4: the exponent byte, NVFP4: nothing), one for each block
///   minimum        f16, one for each block: `m`, or `dmin` of super-blocks
///   sub_scale      formats with integer scales: a byte for each of their runs, signed as decoded; Q2_K: the file's byte,
///                  minimum in the high half; NVFP4: the file's byte
///   sub_minimum    Q4_K, Q5_K: a byte for each run
/// Offsets are in bytes from the chunk's start, n runs long. A panel's size is a multiple of 64.
template <code_format F>
struct panel_layout {
    static constexpr bool has_minimum = minimum_format<F> || super_minimum_format<F>;
    static constexpr bool has_sub_minimum = F::type == dtype::q4_k || F::type == dtype::q5_k;
    /// Eight weights together are the point of a grid.
    static constexpr bool has_grid = requires(const F& block) { block.point(0); };
    static constexpr bool recoded = has_grid || F::type == dtype::tq1_0;

    static constexpr std::size_t low_bits = [] {
        switch (F::type) {
            case dtype::q8_0: return 8;
            case dtype::q1_0: return 1;
            case dtype::q2_k: case dtype::q3_k: case dtype::q2_0: case dtype::tq1_0: case dtype::tq2_0: case dtype::iq1_s:
            case dtype::iq1_m: case dtype::iq2_xxs: case dtype::iq2_xs: case dtype::iq2_s: return 2;
            default: return 4;
        }
    }();
    static constexpr std::size_t high_bits = [] {
        switch (F::type) {
            case dtype::q5_0: case dtype::q5_1: case dtype::q5_k: case dtype::q3_k: case dtype::iq1_s: case dtype::iq1_m:
            case dtype::iq2_xxs: case dtype::iq2_xs: case dtype::iq2_s: return 1;
            case dtype::q6_k: return 2;
            default: return 0;
        }
    }();

    /// Vectors of 64 bytes in a run's planes.
    static constexpr std::size_t low_vectors = low_bits;
    static constexpr std::size_t high_vectors = high_bits;
    /// Bytes of the codes of a run of 32 columns.
    static constexpr std::size_t run_codes = (low_bits + high_bits) * 64;

    /// Bytes of one row's scale.
    static constexpr std::size_t scale_size = F::type == dtype::mxfp4 ? 1 : F::type == dtype::nvfp4 ? 0 : 2;
    /// Runs with a scale of their own in a block.
    static constexpr std::size_t sub_runs = [] {
        if constexpr (super_format<F>) return F::block_size / F::sub_size;
        else return std::size_t{0};
    }();

    [[nodiscard]] static constexpr std::size_t blocks(std::size_t n) noexcept { return n * 32 / F::block_size; }
    [[nodiscard]] static constexpr std::size_t scale_offset(std::size_t n) noexcept { return n * run_codes; }
    [[nodiscard]] static constexpr std::size_t minimum_offset(std::size_t n) noexcept {
        return scale_offset(n) + blocks(n) * panel_rows * scale_size;
    }
    [[nodiscard]] static constexpr std::size_t sub_scale_offset(std::size_t n) noexcept {
        return minimum_offset(n) + (has_minimum ? blocks(n) * panel_rows * 2 : 0);
    }
    [[nodiscard]] static constexpr std::size_t sub_minimum_offset(std::size_t n) noexcept {
        return sub_scale_offset(n) + blocks(n) * sub_runs * panel_rows;
    }
    /// Bytes of a chunk of n runs, 1..8, whole blocks.
    [[nodiscard]] static constexpr std::size_t chunk_bytes(std::size_t n) noexcept {
        return sub_minimum_offset(n) + (has_sub_minimum ? sub_runs * panel_rows : 0);
    }
    /// Bytes of a panel of k columns, a multiple of F::block_size.
    [[nodiscard]] static constexpr std::size_t bytes(std::size_t k) noexcept {
        const std::size_t rest = k % panel_columns / 32;
        return round_up(k / panel_columns * chunk_bytes(8) + (rest != 0 ? chunk_bytes(rest) : 0), std::size_t{64});
    }
};

static_assert(panel_layout<q4_0>::chunk_bytes(8) == 8 * 256 + 8 * 32 && panel_layout<q4_0>::bytes(32) == 256 + 64);
static_assert(panel_layout<q4_k>::chunk_bytes(8) == 8 * 256 + 64 + 2 * 128);
static_assert(panel_layout<q6_k>::chunk_bytes(8) == 8 * 384 + 32 + 256);

/// What the codes of recoded panels stand for: weights in units of `run_scale`. Codes that don't occur mean 0.
template <code_format F>
    requires(panel_layout<F>::recoded)
inline constexpr auto panel_values = [] {
    std::array<std::int8_t, 16> out{};
    const auto set = [&](std::size_t code, int value) { out[code] = static_cast<std::int8_t>(value); };
    if constexpr (!panel_layout<F>::has_grid) {
        for (std::size_t i = 0; i < 3; ++i) set(i, static_cast<int>(i) - 1);
    } else if constexpr (F::type == dtype::iq1_s || F::type == dtype::iq1_m) {
        for (std::size_t i = 0; i < 3; ++i) {
            set(i, iq1_values[i] * 8 + 1);
            set(i + 4, iq1_values[i] * 8 - 1);
        }
    } else if constexpr (panel_layout<F>::low_bits == 2) {
        for (std::size_t i = 0; i < 3; ++i) {
            set(i, iq2_values[i]);
            set(i + 4, -iq2_values[i]);
        }
    } else {
        for (std::size_t i = 0; i < 8; ++i) {
            const int value = F::type == dtype::iq3_s ? iq3_s_values[i] : iq3_xxs_values[i];
            set(i, value);
            set(i + 8, -value);
        }
    }
    return out;
}();

/// Whether matrices of this type can be panels: all types of `weight_formats` but floats.
[[nodiscard]] constexpr bool has_panels(dtype type) noexcept {
    bool out = false;
    for_each_format(weight_formats{}, [&]<class F>(std::type_identity<F>) {
        if constexpr (code_format<F>) out = out || F::type == type;
    });
    return out;
}

/// Whether panels of this type are larger than its rows: codes are wider there than in the file.
[[nodiscard]] constexpr bool has_wide_panels(dtype type) noexcept {
    bool out = false;
    for_each_format(weight_formats{}, [&]<class F>(std::type_identity<F>) {
        if constexpr (code_format<F>) out = out || (F::type == type && panel_layout<F>::recoded);
    });
    return out;
}

/// Bytes of a panel of k columns, whole blocks; 0 for types that have no panels.
[[nodiscard]] constexpr std::size_t panel_bytes(dtype type, std::size_t k) noexcept {
    std::size_t out = 0;
    for_each_format(weight_formats{}, [&]<class F>(std::type_identity<F>) {
        if constexpr (code_format<F>) {
            if (F::type == type) out = panel_layout<F>::bytes(k);
        }
    });
    return out;
}

}  // namespace colibri::quant
