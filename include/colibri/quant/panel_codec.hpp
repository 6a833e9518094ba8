// One row's part of a panel: codes as words of four columns, scales as bytes; and back to the file's block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "colibri/quant/format_list.hpp"
#include "colibri/quant/panel_layout.hpp"

namespace colibri::quant::detail {

// A row's four bytes in a vector are one word. Where formats pack bits differently from the planes, the difference is a
// transposition of small matrices of bits, which is its own inverse: the same code goes both ways.

[[nodiscard]] constexpr std::uint32_t repeat(std::uint32_t byte) noexcept { return byte * 0x01010101u; }

/// In each byte, exchanges the upper bits of each 2*Shift in a with the lower ones in b; `Mask` is the lower ones.
template <unsigned Shift, std::uint32_t Mask>
constexpr void exchange(std::uint32_t& a, std::uint32_t& b) noexcept {
    const std::uint32_t t = ((a >> Shift) ^ b) & Mask;
    b ^= t;
    a ^= t << Shift;
}

/// Half bytes of 64 bytes, which hold two runs: words v and v+4 of each 8, runs in the halves. `Apart`: the runs that
/// share bytes are 64 columns apart (Q6_K), not 32.
template <bool Apart>
[[nodiscard]] constexpr std::size_t nibble_run(std::size_t pair, std::size_t half) noexcept {
    return Apart ? pair / 2 * 4 + pair % 2 + half * 2 : pair * 2 + half;
}
template <bool Apart>
constexpr void pack_nibbles(const std::uint32_t* file, std::uint32_t* plane) noexcept {
    for (std::size_t pair = 0; pair < 4; ++pair) {
        for (std::size_t v = 0; v < 4; ++v) {
            std::uint32_t a = file[pair * 8 + v];
            std::uint32_t b = file[pair * 8 + 4 + v];
            exchange<4, repeat(0x0f)>(a, b);
            plane[nibble_run<Apart>(pair, 0) * 4 + v] = a;
            plane[nibble_run<Apart>(pair, 1) * 4 + v] = b;
        }
    }
}
template <bool Apart>
constexpr void unpack_nibbles(const std::uint32_t* plane, std::uint32_t* file) noexcept {
    for (std::size_t pair = 0; pair < 4; ++pair) {
        for (std::size_t v = 0; v < 4; ++v) {
            std::uint32_t a = plane[nibble_run<Apart>(pair, 0) * 4 + v];
            std::uint32_t b = plane[nibble_run<Apart>(pair, 1) * 4 + v];
            exchange<4, repeat(0x0f)>(a, b);
            file[pair * 8 + v] = a;
            file[pair * 8 + 4 + v] = b;
        }
    }
}

/// Bit pairs: four words (columns) times four runs of each half of 128.
constexpr void transpose_pairs(std::uint32_t (&q)[4]) noexcept {
    exchange<2, repeat(0x33)>(q[0], q[1]);
    exchange<2, repeat(0x33)>(q[2], q[3]);
    exchange<4, repeat(0x0f)>(q[0], q[2]);
    exchange<4, repeat(0x0f)>(q[1], q[3]);
}
constexpr void pack_pairs(const std::uint32_t* file, std::uint32_t* plane) noexcept {
    for (std::size_t half = 0; half < 2; ++half) {
        for (std::size_t v = 0; v < 2; ++v) {
            std::uint32_t q[4] = {};
            for (std::size_t j = 0; j < 4; ++j) q[j] = file[half * 8 + v + 2 * j];
            transpose_pairs(q);
            for (std::size_t j = 0; j < 4; ++j) plane[(half * 4 + j) * 2 + v] = q[j];
        }
    }
}
constexpr void unpack_pairs(const std::uint32_t* plane, std::uint32_t* file) noexcept {
    for (std::size_t half = 0; half < 2; ++half) {
        for (std::size_t v = 0; v < 2; ++v) {
            std::uint32_t q[4] = {};
            for (std::size_t j = 0; j < 4; ++j) q[j] = plane[(half * 4 + j) * 2 + v];
            transpose_pairs(q);
            for (std::size_t j = 0; j < 4; ++j) file[half * 8 + v + 2 * j] = q[j];
        }
    }
}

/// Bits of a super-block: eight words (columns) times eight runs.
constexpr void transpose_bits(std::uint32_t* h) noexcept {
    for (std::size_t j = 0; j < 8; j += 2) exchange<1, repeat(0x55)>(h[j], h[j + 1]);
    for (const std::size_t j : {0u, 1u, 4u, 5u}) exchange<2, repeat(0x33)>(h[j], h[j + 2]);
    for (std::size_t j = 0; j < 4; ++j) exchange<4, repeat(0x0f)>(h[j], h[j + 4]);
}

/// Exchanges the bits whose positions differ by having 1 in A and 0 in B, or 0 and 1 (A below B).
template <unsigned A, unsigned B>
[[nodiscard]] constexpr std::uint32_t swap_positions(std::uint32_t x) noexcept {
    constexpr unsigned shift = (1u << B) - (1u << A);
    constexpr std::uint32_t mask = [] {
        std::uint32_t out = 0;
        for (unsigned i = 0; i < 32; ++i) out |= (i >> A & 1u) != 0 && (i >> B & 1u) == 0 ? 1u << i : 0u;
        return out;
    }();
    const std::uint32_t t = ((x >> shift) ^ x) & mask;
    return x ^ t ^ (t << shift);
}

/// Bits of a block of 32: bit 4j + i becomes bit 8i + j.
[[nodiscard]] constexpr std::uint32_t pack_bits(std::uint32_t x) noexcept {
    return swap_positions<0, 1>(swap_positions<1, 2>(swap_positions<0, 3>(swap_positions<1, 4>(x))));
}
[[nodiscard]] constexpr std::uint32_t unpack_bits(std::uint32_t x) noexcept {
    return swap_positions<1, 4>(swap_positions<0, 3>(swap_positions<1, 2>(swap_positions<0, 1>(x))));
}

static_assert(pack_bits(1u << 4) == 1u << 1 && pack_bits(1u << 31) == 1u << 31 && pack_bits(1u << 2) == 1u << 16);
static_assert(unpack_bits(pack_bits(0x12345678u)) == 0x12345678u);

/// Six-bit numbers 0..63, four in a word, minus 32 as signed bytes; and back.
[[nodiscard]] constexpr std::uint32_t centre(std::uint32_t x) noexcept {
    const std::uint32_t y = x ^ repeat(0x20);
    return y | (y & repeat(0x20)) << 1 | (y & repeat(0x20)) << 2;
}
[[nodiscard]] constexpr std::uint32_t uncentre(std::uint32_t x) noexcept { return (x & repeat(0x3f)) ^ repeat(0x20); }

template <class Field>
void load_words(const Field& field, std::uint32_t* out) noexcept {
    std::memcpy(out, &field, sizeof(field));
}
template <class Field>
void store_words(const std::uint32_t* in, Field& field) noexcept {
    std::memcpy(&field, in, sizeof(field));
}

/// Low plane of a block: `low_vectors` words for each run.
template <class F>
void pack_low(const F& block, std::uint32_t* plane) noexcept {
    constexpr std::size_t words = sizeof(block.qs) / 4;
    std::uint32_t file[words];
    load_words(block.qs, file);
    if constexpr (panel_layout<F>::low_bits == 2) pack_pairs(file, plane);
    else if constexpr (panel_layout<F>::super && F::type != dtype::iq4_xs) pack_nibbles<false>(file, plane);
    else std::memcpy(plane, file, sizeof(file));
}
inline void pack_low(const q6_k& block, std::uint32_t* plane) noexcept {
    std::uint32_t file[32];
    load_words(block.ql, file);
    pack_nibbles<true>(file, plane);
}
template <class F>
void unpack_low(const std::uint32_t* plane, F& block) noexcept {
    constexpr std::size_t words = sizeof(block.qs) / 4;
    std::uint32_t file[words];
    if constexpr (panel_layout<F>::low_bits == 2) unpack_pairs(plane, file);
    else if constexpr (panel_layout<F>::super && F::type != dtype::iq4_xs) unpack_nibbles<false>(plane, file);
    else std::memcpy(file, plane, sizeof(file));
    store_words(file, block.qs);
}
inline void unpack_low(const std::uint32_t* plane, q6_k& block) noexcept {
    std::uint32_t file[32];
    unpack_nibbles<true>(plane, file);
    store_words(file, block.ql);
}

/// High plane of a block: `high_vectors` words for each run.
template <class F>
void pack_high(const F& block, std::uint32_t* plane) noexcept {
    load_words(block.qh, plane);
    if constexpr (panel_layout<F>::super) transpose_bits(plane);
    else plane[0] = pack_bits(plane[0]);
}
inline void pack_high(const q3_k& block, std::uint32_t* plane) noexcept {
    load_words(block.hmask, plane);
    transpose_bits(plane);
}
inline void pack_high(const q6_k& block, std::uint32_t* plane) noexcept {
    std::uint32_t file[16];
    load_words(block.qh, file);
    pack_pairs(file, plane);
}
template <class F>
void unpack_high(std::uint32_t* plane, F& block) noexcept {
    if constexpr (panel_layout<F>::super) transpose_bits(plane);
    else plane[0] = unpack_bits(plane[0]);
    store_words(plane, block.qh);
}
inline void unpack_high(std::uint32_t* plane, q3_k& block) noexcept {
    transpose_bits(plane);
    store_words(plane, block.hmask);
}
inline void unpack_high(std::uint32_t* plane, q6_k& block) noexcept {
    std::uint32_t file[16];
    unpack_pairs(plane, file);
    store_words(file, block.qh);
}

/// The field that is a block's scale, and the one that is its minimum.
template <class F>
[[nodiscard]] constexpr auto& scale_field(F& block) noexcept {
    if constexpr (requires { block.e; }) return block.e;
    else return block.d;
}
template <class F>
[[nodiscard]] constexpr auto& minimum_field(F& block) noexcept {
    if constexpr (requires { block.m; }) return block.m;
    else return block.dmin;
}

/// Scales of the runs as a panel has them, four in a word; Q4_K and Q5_K: eight scales, then eight minimums.
template <class F>
void pack_scales(const F& block, std::uint32_t* out) noexcept {
    if constexpr (panel_layout<F>::has_sub_minimum) {
        std::uint32_t f[3];
        load_words(block.scales, f);
        out[0] = f[0] & repeat(0x3f);
        out[1] = (f[2] & repeat(0x0f)) | (f[0] >> 2 & repeat(0x30));
        out[2] = f[1] & repeat(0x3f);
        out[3] = (f[2] >> 4 & repeat(0x0f)) | (f[1] >> 2 & repeat(0x30));
    } else if constexpr (F::type == dtype::q3_k) {
        std::uint32_t f[3];
        load_words(block.scales, f);
        out[0] = centre((f[0] & repeat(0x0f)) | (f[2] << 4 & repeat(0x30)));
        out[1] = centre((f[1] & repeat(0x0f)) | (f[2] << 2 & repeat(0x30)));
        out[2] = centre((f[0] >> 4 & repeat(0x0f)) | (f[2] & repeat(0x30)));
        out[3] = centre((f[1] >> 4 & repeat(0x0f)) | (f[2] >> 2 & repeat(0x30)));
    } else if constexpr (F::type == dtype::iq4_xs) {
        std::int8_t scales[8];
        for (std::size_t j = 0; j < 8; ++j) scales[j] = static_cast<std::int8_t>(block.sub_scale(j));
        std::memcpy(out, scales, sizeof(scales));
    } else {
        load_words(block.scales, out);
    }
}
template <class F>
void unpack_scales(const std::uint32_t* in, F& block) noexcept {
    if constexpr (panel_layout<F>::has_sub_minimum) {
        const std::uint32_t f[3] = {in[0] | (in[1] & repeat(0x30)) << 2, in[2] | (in[3] & repeat(0x30)) << 2,
                                    (in[1] & repeat(0x0f)) | (in[3] & repeat(0x0f)) << 4};
        store_words(f, block.scales);
    } else if constexpr (F::type == dtype::q3_k) {
        const std::uint32_t s[4] = {uncentre(in[0]), uncentre(in[1]), uncentre(in[2]), uncentre(in[3])};
        const std::uint32_t f[3] = {
            (s[0] & repeat(0x0f)) | (s[2] & repeat(0x0f)) << 4, (s[1] & repeat(0x0f)) | (s[3] & repeat(0x0f)) << 4,
            (s[0] & repeat(0x30)) >> 4 | (s[1] & repeat(0x30)) >> 2 | (s[2] & repeat(0x30)) | (s[3] & repeat(0x30)) << 2};
        store_words(f, block.scales);
    } else if constexpr (F::type == dtype::iq4_xs) {
        std::uint8_t s[8];
        const std::uint32_t plain[2] = {uncentre(in[0]), uncentre(in[1])};
        std::memcpy(s, plain, sizeof(s));
        std::uint32_t high = 0;
        for (std::size_t j = 0; j < 8; ++j) high |= static_cast<std::uint32_t>(s[j] >> 4) << (2 * j);
        block.scales_h = static_cast<std::uint16_t>(high);
        for (std::size_t j = 0; j < 4; ++j) {
            block.scales_l[j] = static_cast<std::uint8_t>((s[2 * j] & 15) | (s[2 * j + 1] & 15) << 4);
        }
    } else {
        store_words(in, block.scales);
    }
}

}  // namespace colibri::quant::detail
