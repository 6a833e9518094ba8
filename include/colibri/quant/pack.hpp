// Codes, scales and minimums to the bits of a block.
#pragma once

#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "colibri/core/half.hpp"
#include "colibri/quant/iq4.hpp"
#include "colibri/quant/mxfp4.hpp"
#include "colibri/quant/nvfp4.hpp"
#include "colibri/quant/q1_q2.hpp"
#include "colibri/quant/q2_k.hpp"
#include "colibri/quant/q3_k.hpp"
#include "colibri/quant/q4.hpp"
#include "colibri/quant/q4_k.hpp"
#include "colibri/quant/q5.hpp"
#include "colibri/quant/q6_k.hpp"
#include "colibri/quant/q8.hpp"
#include "colibri/quant/tq.hpp"

namespace colibri::quant::detail {

/// What a block is made of: `d` and `dmin` (or the offset) become half floats; the rest has the meaning that the format's
/// accessors of the same names give it.
struct block_parts {
    float d;
    float dmin;
    const std::int8_t* scales;
    const std::int8_t* minimums;
    const std::int8_t* codes;
};

[[nodiscard]] constexpr unsigned bits_of(int code) noexcept { return static_cast<unsigned>(code); }
constexpr void put(std::uint8_t& byte, unsigned bits, std::size_t shift) noexcept {
    byte = static_cast<std::uint8_t>(byte | bits << shift);
}

/// Half of `size` bytes each: the first codes plus `zero` in the low, the others in the high halves. Only 4 bits of each.
constexpr void pack_halves(const std::int8_t* codes, int zero, std::size_t size, std::uint8_t* qs) noexcept {
    for (std::size_t i = 0; i < size; ++i) {
        qs[i] = static_cast<std::uint8_t>((bits_of(codes[i] + zero) & 15u) | (bits_of(codes[i + size] + zero) & 15u) << 4);
    }
}
/// The same for values in a table of sixteen.
constexpr void pack_places(const std::int8_t* values, const std::array<std::uint8_t, 256>& places, std::size_t size,
                           std::uint8_t* qs) noexcept {
    const auto place = [&](std::int8_t value) -> unsigned { return places[static_cast<std::size_t>(value + 127)]; };
    for (std::size_t i = 0; i < size; ++i) qs[i] = static_cast<std::uint8_t>(place(values[i]) | place(values[i + size]) << 4);
}
/// Four codes plus `zero` of two bits in a byte, 32 apart, in each half of 128.
constexpr void pack_pairs(const std::int8_t* codes, int zero, std::uint8_t* qs) noexcept {
    for (std::size_t half = 0; half < 2; ++half) {
        const std::int8_t* c = codes + half * 128;
        for (std::size_t l = 0; l < 32; ++l) {
            const auto pair = [&](std::size_t i) { return bits_of(c[i] + zero) & 3u; };
            qs[half * 32 + l] = static_cast<std::uint8_t>(pair(l) | pair(l + 32) << 2 | pair(l + 64) << 4 | pair(l + 96) << 6);
        }
    }
}

/// For each value + 127 of `values` its place.
template <std::size_t N>
[[nodiscard]] consteval std::array<std::uint8_t, 256> places_of(const std::array<std::int8_t, N>& values) {
    std::array<std::uint8_t, 256> out{};
    for (std::size_t i = N; i-- > 0;) out[static_cast<std::size_t>(values[i] + 127)] = static_cast<std::uint8_t>(i);
    return out;
}

inline constexpr auto iq4_places = places_of(iq4_values);
inline constexpr auto mxfp4_places = places_of(mxfp4_values);

constexpr void pack(const block_parts& p, q4_0& out) noexcept {
    out.d = f32_to_f16(p.d);
    pack_halves(p.codes, 8, 16, out.qs);
}
constexpr void pack(const block_parts& p, q4_1& out) noexcept {
    out.d = f32_to_f16(p.d);
    out.m = f32_to_f16(p.dmin);
    pack_halves(p.codes, 0, 16, out.qs);
}
constexpr void pack(const block_parts& p, q5_0& out) noexcept {
    out = {f32_to_f16(p.d), {}, {}};
    pack_halves(p.codes, 16, 16, out.qs);
    for (std::size_t i = 0; i < 32; ++i) put(out.qh[i / 8], bits_of(p.codes[i] + 16) >> 4, i % 8);
}
constexpr void pack(const block_parts& p, q5_1& out) noexcept {
    out = {f32_to_f16(p.d), f32_to_f16(p.dmin), {}, {}};
    pack_halves(p.codes, 0, 16, out.qs);
    for (std::size_t i = 0; i < 32; ++i) put(out.qh[i / 8], bits_of(p.codes[i]) >> 4, i % 8);
}
constexpr void pack(const block_parts& p, q8_0& out) noexcept {
    out.d = f32_to_f16(p.d);
    for (std::size_t i = 0; i < 32; ++i) out.qs[i] = p.codes[i];
}
constexpr void pack(const block_parts& p, iq4_nl& out) noexcept {
    out.d = f32_to_f16(p.d);
    pack_places(p.codes, iq4_places, 16, out.qs);
}
/// `d` is a power of two, at least 2^-126.
constexpr void pack(const block_parts& p, mxfp4& out) noexcept {
    out.e = static_cast<std::uint8_t>((std::bit_cast<std::uint32_t>(p.d) >> 23) + 1);
    pack_places(p.codes, mxfp4_places, 16, out.qs);
}
constexpr void pack(const block_parts& p, nvfp4& out) noexcept {
    for (std::size_t j = 0; j < 4; ++j) {
        out.d[j] = static_cast<std::uint8_t>(p.scales[j]);
        pack_places(p.codes + j * 16, mxfp4_places, 8, out.qs + j * 8);
    }
}
constexpr void pack(const block_parts& p, q1_0& out) noexcept {
    out = {f32_to_f16(p.d), {}};
    for (std::size_t i = 0; i < 128; ++i) put(out.qs[i / 8], p.codes[i] > 0 ? 1u : 0u, i % 8);
}
constexpr void pack(const block_parts& p, q2_0& out) noexcept {
    out = {f32_to_f16(p.d), {}};
    for (std::size_t i = 0; i < 64; ++i) put(out.qs[i / 4], bits_of(p.codes[i] + 1), i % 4 * 2);
}
/// The digits of a byte are made whole 256ths of their fraction, rounded up.
constexpr void pack(const block_parts& p, tq1_0& out) noexcept {
    const auto digits = [&](std::size_t first, std::size_t apart, std::size_t n) {
        unsigned number = 0;
        for (std::size_t k = 0; k < 5; ++k) number = number * 3 + (k < n ? bits_of(p.codes[first + k * apart] + 1) : 0u);
        return static_cast<std::uint8_t>((number * 256 + 242) / 243);
    };
    for (std::size_t m = 0; m < 32; ++m) out.qs[m] = digits(m, 32, 5);
    for (std::size_t m = 0; m < 16; ++m) out.qs[32 + m] = digits(160 + m, 16, 5);
    for (std::size_t m = 0; m < 4; ++m) out.qh[m] = digits(240 + m, 4, 4);
    out.d = f32_to_f16(p.d);
}
constexpr void pack(const block_parts& p, tq2_0& out) noexcept {
    pack_pairs(p.codes, 1, out.qs);
    out.d = f32_to_f16(p.d);
}
constexpr void pack(const block_parts& p, q2_k& out) noexcept {
    for (std::size_t j = 0; j < 16; ++j) out.scales[j] = static_cast<std::uint8_t>(p.scales[j] | p.minimums[j] << 4);
    pack_pairs(p.codes, 0, out.qs);
    out.d = f32_to_f16(p.d);
    out.dmin = f32_to_f16(p.dmin);
}
constexpr void pack(const block_parts& p, q3_k& out) noexcept {
    out = {};
    pack_pairs(p.codes, 4, out.qs);
    for (std::size_t i = 0; i < 256; ++i) put(out.hmask[i % 32], bits_of(p.codes[i] + 4) >> 2, i / 32);
    for (std::size_t j = 0; j < 16; ++j) {
        const unsigned scale = bits_of(p.scales[j] + 32);
        put(out.scales[j % 8], scale & 15u, j / 8 * 4);
        put(out.scales[8 + j % 4], scale >> 4, j / 4 * 2);
    }
    out.d = f32_to_f16(p.d);
}
constexpr void pack(const block_parts& p, packed_scales& out) noexcept {
    out = {};
    for (std::size_t j = 0; j < 4; ++j) {
        put(out.bytes[j], bits_of(p.scales[j]), 0);
        put(out.bytes[j + 4], bits_of(p.minimums[j]), 0);
    }
    for (std::size_t j = 4; j < 8; ++j) {
        put(out.bytes[j + 4], bits_of(p.scales[j]) & 15u, 0);
        put(out.bytes[j + 4], bits_of(p.minimums[j]) & 15u, 4);
        put(out.bytes[j - 4], bits_of(p.scales[j]) >> 4, 6);
        put(out.bytes[j], bits_of(p.minimums[j]) >> 4, 6);
    }
}
constexpr void pack(const block_parts& p, q4_k& out) noexcept {
    out.d = f32_to_f16(p.d);
    out.dmin = f32_to_f16(p.dmin);
    pack(p, out.scales);
    for (std::size_t quarter = 0; quarter < 4; ++quarter) pack_halves(p.codes + quarter * 64, 0, 32, out.qs + quarter * 32);
}
constexpr void pack(const block_parts& p, q5_k& out) noexcept {
    out = {};
    out.d = f32_to_f16(p.d);
    out.dmin = f32_to_f16(p.dmin);
    pack(p, out.scales);
    for (std::size_t quarter = 0; quarter < 4; ++quarter) pack_halves(p.codes + quarter * 64, 0, 32, out.qs + quarter * 32);
    for (std::size_t i = 0; i < 256; ++i) put(out.qh[i % 32], bits_of(p.codes[i]) >> 4, i / 32);
}
constexpr void pack(const block_parts& p, q6_k& out) noexcept {
    for (std::size_t j = 0; j < 16; ++j) out.scales[j] = p.scales[j];
    for (std::size_t half = 0; half < 2; ++half) {
        const std::int8_t* c = p.codes + half * 128;
        pack_halves(c, 32, 64, out.ql + half * 64);
        const auto pair = [&](std::size_t i) { return bits_of(c[i] + 32) >> 4; };
        for (std::size_t l = 0; l < 32; ++l) {
            out.qh[half * 32 + l] =
                static_cast<std::uint8_t>(pair(l) | pair(l + 32) << 2 | pair(l + 64) << 4 | pair(l + 96) << 6);
        }
    }
    out.d = f32_to_f16(p.d);
}
constexpr void pack(const block_parts& p, iq4_xs& out) noexcept {
    out = {};
    out.d = f32_to_f16(p.d);
    for (std::size_t j = 0; j < 8; ++j) {
        const unsigned scale = bits_of(p.scales[j] + 32);
        put(out.scales_l[j / 2], scale & 15u, j % 2 * 4);
        out.scales_h = static_cast<std::uint16_t>(out.scales_h | (scale >> 4) << (j * 2));
        pack_places(p.codes + j * 32, iq4_places, 16, out.qs + j * 16);
    }
}

/// A block that decodes to nothing but NaNs; to infinities in MXFP4, to the largest value in NVFP4, which have no NaN.
template <class F>
[[nodiscard]] inline F unusable_block() noexcept {
    if constexpr (std::same_as<F, mxfp4>) {
        F out{255, {}};
        for (auto& byte : out.qs) byte = 0x77;
        return out;
    } else if constexpr (std::same_as<F, nvfp4>) {
        F out{};
        for (auto& byte : out.d) byte = 0x7e;
        for (auto& byte : out.qs) byte = 0x77;
        return out;
    } else {
        constexpr float nan = std::numeric_limits<float>::quiet_NaN();
        std::int8_t zeros[F::block_size] = {};
        F out;
        pack(block_parts{nan, nan, zeros, zeros, zeros}, out);
        return out;
    }
}

}  // namespace colibri::quant::detail
