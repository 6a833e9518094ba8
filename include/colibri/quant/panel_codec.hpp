// One row's part of a panel: codes as words of four columns, scales as bytes; and back to the file's block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "colibri/quant/format_list.hpp"
#include "colibri/quant/panel_layout.hpp"
#include "colibri/quant/panel_quads.hpp"
#include "colibri/quant/run.hpp"

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
    else if constexpr (F::type == dtype::q4_k || F::type == dtype::q5_k) pack_nibbles<false>(file, plane);
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
    else if constexpr (F::type == dtype::q4_k || F::type == dtype::q5_k) unpack_nibbles<false>(plane, file);
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
    if constexpr (F::type == dtype::q5_k) transpose_bits(plane);
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
    if constexpr (F::type == dtype::q5_k) transpose_bits(plane);
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

/// Bits of a block's scale as a panel has them.
template <class F>
[[nodiscard]] constexpr auto scale_bits(const F& block) noexcept {
    if constexpr (requires { block.e; }) return block.e;
    else if constexpr (requires { block.half_scale(); }) return block.half_scale();
    else return block.d;
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
    } else if constexpr (F::type == dtype::nvfp4) {
        load_words(block.d, out);
    } else if constexpr (F::type == dtype::iq4_xs || panel_layout<F>::recoded) {
        std::int8_t scales[panel_layout<F>::sub_runs];
        for (std::size_t j = 0; j < sizeof(scales); ++j) scales[j] = static_cast<std::int8_t>(block.sub_scale(j));
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
    } else if constexpr (F::type == dtype::nvfp4) {
        store_words(in, block.d);
    } else {
        store_words(in, block.scales);
    }
}

/// Codes that go through quads.
template <class F>
inline constexpr bool by_quads = panel_layout<F>::recoded || F::type == dtype::q1_0 || F::type == dtype::q2_0 || F::type == dtype::nvfp4;

/// Codes of a block, its runs one after the other: the words of the low plane, then those of the high one.
template <class F>
void pack_codes(const F& block, std::uint32_t* words) noexcept {
    using layout = panel_layout<F>;
    constexpr std::size_t runs = F::block_size / 32;
    constexpr std::size_t vectors = layout::low_vectors + layout::high_vectors;
    if constexpr (by_quads<F>) {
        for (std::size_t j = 0; j < runs; ++j) {
            std::uint32_t quads[8];
            run_quads(block, j, quads);
            pack_quads<F>(quads, words + j * vectors);
        }
    } else {
        std::uint32_t low[runs * layout::low_vectors];
        pack_low(block, low);
        for (std::size_t j = 0; j < runs; ++j) {
            std::memcpy(words + j * vectors, low + j * layout::low_vectors, layout::low_vectors * 4);
        }
        if constexpr (layout::high_bits != 0) {
            std::uint32_t high[runs * layout::high_vectors];
            pack_high(block, high);
            for (std::size_t j = 0; j < runs; ++j) {
                std::memcpy(words + j * vectors + layout::low_vectors, high + j * layout::high_vectors, layout::high_vectors * 4);
            }
        }
    }
}
template <class F>
void unpack_codes(const std::uint32_t* words, F& block) noexcept {
    using layout = panel_layout<F>;
    constexpr std::size_t runs = F::block_size / 32;
    constexpr std::size_t vectors = layout::low_vectors + layout::high_vectors;
    if constexpr (by_quads<F>) {
        for (std::size_t j = 0; j < runs; ++j) {
            std::uint32_t quads[8];
            unpack_quads<F>(words + j * vectors, quads);
            set_run_quads(quads, j, block);
        }
    } else {
        std::uint32_t low[runs * layout::low_vectors];
        for (std::size_t j = 0; j < runs; ++j) {
            std::memcpy(low + j * layout::low_vectors, words + j * vectors, layout::low_vectors * 4);
        }
        unpack_low(low, block);
        if constexpr (layout::high_bits != 0) {
            std::uint32_t high[runs * layout::high_vectors];
            for (std::size_t j = 0; j < runs; ++j) {
                std::memcpy(high + j * layout::high_vectors, words + j * vectors + layout::low_vectors, layout::high_vectors * 4);
            }
            unpack_high(high, block);
        }
    }
}

/// A block of a recoded panel, with what products and decoding need of a block.
template <code_format F>
struct recoded_block {
    static constexpr std::size_t block_size = F::block_size;
    static constexpr std::size_t sub_size = scale_run<F>;

    std::uint16_t d;
    std::int8_t scales[block_size / sub_size];
    std::uint8_t codes[block_size];

    [[nodiscard]] constexpr float scale() const noexcept { return f16_to_f32(d) * scale_unit<F>; }
    [[nodiscard]] constexpr int sub_scale(std::size_t j) const noexcept { return scales[j]; }
    [[nodiscard]] constexpr int code(std::size_t i) const noexcept { return panel_values<F>[codes[i]]; }

    constexpr void decode(float* out) const noexcept { decode_super(*this, out); }
};
template <class F>
[[nodiscard]] constexpr float run_scale(const recoded_block<F>& block, std::size_t j) noexcept {
    return block.scale() * static_cast<float>(block.sub_scale(j));
}
template <class F>
void unpack_codes(const std::uint32_t* words, recoded_block<F>& block) noexcept {
    constexpr std::size_t vectors = panel_layout<F>::low_vectors + panel_layout<F>::high_vectors;
    for (std::size_t j = 0; j < F::block_size / 32; ++j) {
        std::uint32_t quads[8];
        unpack_quads<F>(words + j * vectors, quads);
        std::memcpy(block.codes + j * 32, quads, sizeof(quads));
    }
}

/// What a block of a panel is unpacked to.
template <class F>
struct panel_block_type {
    using type = F;
};
template <class F>
    requires(panel_layout<F>::recoded)
struct panel_block_type<F> {
    using type = recoded_block<F>;
};
template <class F>
using panel_block = typename panel_block_type<F>::type;

}  // namespace colibri::quant::detail
