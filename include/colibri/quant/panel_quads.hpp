// Codes of a run as words of four columns, for the formats whose panels are not a transposition of the file's bits.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "colibri/core/half.hpp"
#include "colibri/quant/iq1.hpp"
#include "colibri/quant/iq2.hpp"
#include "colibri/quant/iq3.hpp"
#include "colibri/quant/nvfp4.hpp"
#include "colibri/quant/panel_layout.hpp"
#include "colibri/quant/q1_q2.hpp"
#include "colibri/quant/tq.hpp"

namespace colibri::quant {

/// The eight bytes 0xff or 0 for eight sign bits.
inline constexpr auto sign_masks = [] {
    std::array<std::uint64_t, 256> out{};
    for (std::size_t signs = 0; signs < 256; ++signs) {
        for (std::size_t k = 0; k < 8; ++k) out[signs] |= (signs >> k & 1) != 0 ? std::uint64_t{0xff} << (8 * k) : 0;
    }
    return out;
}();

/// The same for seven of them, the eighth making their number even.
inline constexpr auto even_sign_masks = [] {
    std::array<std::uint64_t, 128> out{};
    for (std::size_t seven = 0; seven < 128; ++seven) out[seven] = sign_masks[even_signs(static_cast<std::uint32_t>(seven))];
    return out;
}();

namespace detail {

/// Quads of the columns 32j and on as panel codes: the plainest word of the file's bits that has one byte for each column.
inline void run_quads(const q1_0& block, std::size_t j, std::uint32_t (&quads)[8]) noexcept {
    for (std::size_t q = 0; q < 8; ++q) {
        const std::uint32_t bits = block.qs[j * 4 + q / 2] >> (q % 2 * 4) & 15u;
        quads[q] = (bits * 0x00204081u) & 0x01010101u;  // bit i to bit 8i
    }
}
inline void set_run_quads(const std::uint32_t (&quads)[8], std::size_t j, q1_0& block) noexcept {
    for (std::size_t q = 0; q < 8; q += 2) {
        const auto nibble = [&](std::size_t i) { return (quads[i] * 0x10204080u) >> 28; };  // bit 8i to bit 28+i
        block.qs[j * 4 + q / 2] = static_cast<std::uint8_t>(nibble(q) | nibble(q + 1) << 4);
    }
}

inline void run_quads(const q2_0& block, std::size_t j, std::uint32_t (&quads)[8]) noexcept {
    for (std::size_t q = 0; q < 8; ++q) {
        std::uint32_t x = block.qs[j * 8 + q];
        x = (x | x << 12) & 0x000f000fu;
        quads[q] = (x | x << 6) & 0x03030303u;
    }
}
inline void set_run_quads(const std::uint32_t (&quads)[8], std::size_t j, q2_0& block) noexcept {
    for (std::size_t q = 0; q < 8; ++q) {
        const std::uint32_t x = quads[q] | quads[q] >> 6;
        block.qs[j * 8 + q] = static_cast<std::uint8_t>((x & 15u) | x >> 12);
    }
}

inline void run_quads(const nvfp4& block, std::size_t j, std::uint32_t (&quads)[8]) noexcept {
    for (std::size_t half = 0; half < 2; ++half) {
        std::uint32_t file[2];
        std::memcpy(file, block.qs + j * 16 + half * 8, sizeof(file));
        for (std::size_t i = 0; i < 4; ++i) quads[half * 4 + i] = file[i % 2] >> (i / 2 * 4) & 0x0f0f0f0fu;
    }
}
inline void set_run_quads(const std::uint32_t (&quads)[8], std::size_t j, nvfp4& block) noexcept {
    for (std::size_t half = 0; half < 2; ++half) {
        const std::uint32_t* const q = quads + half * 4;
        const std::uint32_t file[2] = {q[0] | q[2] << 4, q[1] | q[3] << 4};
        std::memcpy(block.qs + j * 16 + half * 8, file, sizeof(file));
    }
}

/// Digit n of eight bytes of TQ1_0, two times four lanes of 16 bits.
[[nodiscard]] inline std::uint64_t ternary_digits(const std::uint8_t* bytes, std::size_t n) noexcept {
    constexpr std::uint64_t lanes = 0x00ff00ff00ff00ffu;
    constexpr std::uint64_t powers[] = {1, 3, 9, 27, 81};
    std::uint64_t x;
    std::memcpy(&x, bytes, 8);
    const auto digit = [&](std::uint64_t v) { return (((v & lanes) * powers[n] & lanes) * 3 >> 8) & lanes; };
    return digit(x) | digit(x >> 8) << 8;
}
inline void run_quads(const tq1_0& block, std::size_t j, std::uint32_t (&quads)[8]) noexcept {
    for (std::size_t i = 0; i < 4; ++i) {
        const std::size_t column = j * 32 + i * 8;
        std::uint64_t codes;
        if (column < 160) {
            codes = ternary_digits(block.qs + column % 32, column / 32);
        } else if (column < 240) {
            codes = ternary_digits(block.qs + 32 + (column - 160) % 16, (column - 160) / 16);
        } else {  // twice four bytes
            std::uint8_t last[8] = {};
            std::memcpy(last, block.qh, 4);
            const std::size_t n = (column - 240) / 4;
            codes = (ternary_digits(last, n) & 0xffffffffu) | ternary_digits(last, n + 1) << 32;
        }
        std::memcpy(quads + 2 * i, &codes, 8);
    }
}

/// Grid formats: the number of the magnitude (IQ1: t plus 1), and above it the sign (IQ1: set for 8t-1).
template <class F>
    requires requires(const F& block, std::size_t g) { block.point(g); }
void run_quads(const F& block, std::size_t j, std::uint32_t (&quads)[8]) noexcept {
    for (std::size_t i = 0; i < 4; ++i) {
        const std::size_t g = j * 4 + i;
        std::uint64_t codes;
        if constexpr (F::type == dtype::iq1_s || F::type == dtype::iq1_m) {
            const std::uint64_t t = block.point(g);
            codes = (t & 0x0101010101010101u) ^ 0x0101010101010101u;            // 0 is 1
            codes |= (t & ~(t >> 7) & 0x0101010101010101u) << 1;                // 1 is 2
            if (block.shift(g) < 0) codes |= 0x0404040404040404u;
        } else if constexpr (panel_layout<F>::low_bits == 2) {
            codes = block.point(g) >> 4 & 0x0303030303030303u;                  // 8, 25, 43 are 0, 1, 2
            codes |= sign_masks[block.signs(g)] & 0x0404040404040404u;
        } else {
            const std::uint64_t point = block.point(2 * g) | static_cast<std::uint64_t>(block.point(2 * g + 1)) << 32;
            codes = point >> (F::type == dtype::iq3_s ? 1 : 3) & 0x0707070707070707u;
            codes |= sign_masks[block.signs(g)] & 0x0808080808080808u;
        }
        std::memcpy(quads + 2 * i, &codes, 8);
    }
}

/// The planes of a run from its quads: words of the low plane, then those of the high one.
template <class F>
void pack_quads(const std::uint32_t (&quads)[8], std::uint32_t* planes) noexcept {
    constexpr std::size_t low = panel_layout<F>::low_bits;
    constexpr std::size_t high = panel_layout<F>::high_bits;
    constexpr std::uint32_t low_mask = ((1u << low) - 1) * 0x01010101u;
    for (std::size_t v = 0; v < low + high; ++v) planes[v] = 0;
    for (std::size_t q = 0; q < 8; ++q) planes[q % low] |= (quads[q] & low_mask) << (q / low * low);
    if constexpr (high != 0) {
        for (std::size_t q = 0; q < 8; ++q) planes[low + q % high] |= (quads[q] >> low & 0x01010101u) << (q / high * high);
    }
}
template <class F>
void unpack_quads(const std::uint32_t* planes, std::uint32_t (&quads)[8]) noexcept {
    constexpr std::size_t low = panel_layout<F>::low_bits;
    constexpr std::size_t high = panel_layout<F>::high_bits;
    constexpr std::uint32_t low_mask = ((1u << low) - 1) * 0x01010101u;
    for (std::size_t q = 0; q < 8; ++q) quads[q] = planes[q % low] >> (q / low * low) & low_mask;
    if constexpr (high != 0) {
        for (std::size_t q = 0; q < 8; ++q) quads[q] |= (planes[low + q % high] >> (q / high * high) & 0x01010101u) << low;
    }
}

}  // namespace detail
}  // namespace colibri::quant
