// Activations as 8-bit codes: what quantised weights are multiplied with.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "colibri/core/checked.hpp"
#include "colibri/quant/block_format.hpp"
#include "colibri/quant/encode.hpp"

namespace colibri::quant {

/// Values that share one activation scale in products with weights of format F: 32 for blocks of 32, 256 for
/// super-blocks.
template <code_format F>
inline constexpr std::size_t activation_group = F::block_size;

/// Codes whose sum is kept: the runs for which some format with this group has its own minimum or zero point.
template <std::size_t Group>
inline constexpr std::size_t activation_run = Group == 32 ? 32 : 16;

/// Values whose groups share one byte of flags, and whose residuals follow them in the order of sums.
inline constexpr std::size_t activation_chunk = 256;

/// A group has a residual if its scale is over this fraction of the mean of its column's scales. The noise of 8-bit codes is
/// the engine's only distance to the exact product, and it is amplified from layer to layer; the groups with the larger scales
/// make nearly all of it. Measured with the golden texts of SmolLM2-135M and Gemma 3 270M and three cache formats, as the worst
/// figure relative to what a peer's distance allows (which is to stay below 1), and the prompt's speed (256 tokens, one thread,
/// AVX-512 VNNI, 2-core Zen 5) relative to none: 2: 2.1, -8 %; 1: 1.33, -23 %; 0.8: 0.70, -31 %; 0.5: 0.96, -43 %. The worst
/// figure is chaotic (one rounding more or less moves it), so what counts is to be well below 1.
inline constexpr float residual_threshold = 0.8f;

/// One column of k quantised activations, k a multiple of `Group` (32 or 256): value i is `scales[i / Group] *
/// codes[i]`, plus `residual_scales[i / Group] * residual_codes[i]` in groups that have a residual.
template <std::size_t Group>
struct activation_view {
    static_assert(Group == 32 || Group == 256);
    static constexpr std::size_t group = Group;
    static constexpr std::size_t run = activation_run<Group>;

    const std::int8_t* codes;  ///< k codes, -127..127
    const float* scales;       ///< k / group, never negative; NaN where the group had a NaN or an infinity
    const std::int16_t* sums;  ///< k / run sums of `run` codes

    // The second plane, laid out like the first; defined only in groups that have a residual.
    const std::int8_t* residual_codes = nullptr;
    const float* residual_scales = nullptr;
    const std::int16_t* residual_sums = nullptr;
    const std::uint8_t* flags = nullptr;  ///< a byte per chunk of 256 values: bit i set if its group i has a residual

    /// Whether group g has a residual.
    [[nodiscard]] constexpr bool has_residual(std::size_t g) const noexcept {
        constexpr std::size_t groups = activation_chunk / Group;
        return flags != nullptr && (flags[g / groups] >> (g % groups) & 1) != 0;
    }
};

/// n columns of k quantised activations in memory that the caller holds. Columns start at multiples of 64 bytes in
/// `codes`; the codes between k and the next multiple of 64 are zero.
template <std::size_t Group>
struct activation_matrix {
    static_assert(Group == 32 || Group == 256);
    static constexpr std::size_t group = Group;
    static constexpr std::size_t run = activation_run<Group>;

    std::int8_t* codes = nullptr;
    float* scales = nullptr;
    std::int16_t* sums = nullptr;
    std::int8_t* residual_codes = nullptr;
    float* residual_scales = nullptr;
    std::int16_t* residual_sums = nullptr;
    std::uint8_t* flags = nullptr;
    std::size_t k = 0;
    std::size_t columns = 0;

    [[nodiscard]] static constexpr std::size_t code_stride(std::size_t k) noexcept {
        return round_up<std::size_t>(k, 64);
    }
    /// Bytes of memory for n columns of k values; a multiple of 64.
    [[nodiscard]] static constexpr std::size_t bytes(std::size_t k, std::size_t n) noexcept {
        return 2 * plane_bytes(k, n) + round_up(n * flag_stride(k), std::size_t{64});
    }
    [[nodiscard]] static constexpr std::size_t flag_stride(std::size_t k) noexcept {
        return (k + activation_chunk - 1) / activation_chunk;
    }
    /// A matrix over `bytes(k, n)` bytes at `memory`, which is aligned to 64 and outlives it. Writes nothing.
    [[nodiscard]] static activation_matrix over(std::byte* memory, std::size_t k, std::size_t n) noexcept {
        activation_matrix out;
        out.lay_plane(memory, k, n, out.codes, out.scales, out.sums);
        out.lay_plane(memory + plane_bytes(k, n), k, n, out.residual_codes, out.residual_scales, out.residual_sums);
        out.flags = reinterpret_cast<std::uint8_t*>(memory + 2 * plane_bytes(k, n));
        out.k = k;
        out.columns = n;
        return out;
    }

    [[nodiscard]] std::int8_t* column_codes(std::size_t c) const noexcept { return codes + c * code_stride(k); }
    [[nodiscard]] float* column_scales(std::size_t c) const noexcept { return scales + c * (k / Group); }
    [[nodiscard]] std::int16_t* column_sums(std::size_t c) const noexcept { return sums + c * (k / run); }
    [[nodiscard]] std::uint8_t* column_flags(std::size_t c) const noexcept { return flags + c * flag_stride(k); }
    [[nodiscard]] activation_view<Group> column(std::size_t c) const noexcept {
        return {column_codes(c),
                column_scales(c),
                column_sums(c),
                residual_codes + c * code_stride(k),
                residual_scales + c * (k / Group),
                residual_sums + c * (k / run),
                column_flags(c)};
    }

private:
    [[nodiscard]] static constexpr std::size_t plane_bytes(std::size_t k, std::size_t n) noexcept {
        return n * code_stride(k) + round_up(n * (k / Group) * sizeof(float), std::size_t{64}) +
               round_up(n * (k / run) * sizeof(std::int16_t), std::size_t{64});
    }
    static void lay_plane(std::byte* memory, std::size_t k, std::size_t n, std::int8_t*& to_codes, float*& to_scales,
                          std::int16_t*& to_sums) noexcept {
        to_codes = reinterpret_cast<std::int8_t*>(memory);
        memory += n * code_stride(k);
        to_scales = reinterpret_cast<float*>(memory);
        memory += round_up(n * (k / Group) * sizeof(float), std::size_t{64});
        to_sums = reinterpret_cast<std::int16_t*>(memory);
    }
};

/// Writes the codes of `Group` values and returns their scale d = max|x| / 127; every code is x * (1 / d) to the
/// nearest integer, ties to even, each operation rounded to float. A group whose d would be below 2^-126 is all zero
/// with d = 0; one with an infinity or a NaN has codes 0 and d = NaN, so that products with it are NaN.
template <std::size_t Group>
constexpr float quantise_group(const float* x, std::int8_t* codes) noexcept {
    const std::uint32_t top = detail::largest_magnitude_bits<Group>(x);
    const bool finite = top < detail::infinity_bits;
    const float d = finite ? std::bit_cast<float>(top) / 127.0f : 0.0f;
    if (!(d >= 0x1p-126f)) {
        for (std::size_t i = 0; i < Group; ++i) codes[i] = 0;
        return finite ? 0.0f : std::bit_cast<float>(0x7fc00000u);
    }
    const float inverse = 1.0f / d;
    float scaled[Group] = {};
    for (std::size_t i = 0; i < Group; ++i) scaled[i] = x[i] * inverse;
    detail::settle(scaled);
    for (std::size_t i = 0; i < Group; ++i) codes[i] = static_cast<std::int8_t>(detail::nearest_even(scaled[i]));
    return d;
}

/// Quantises k values (a multiple of `Group`): k codes, k / Group scales, k / activation_run<Group> sums. The scalar
/// reference of the kernels, which write the same bytes.
template <std::size_t Group>
constexpr void quantise_activations(const float* x, std::size_t k, std::int8_t* codes, float* scales,
                                    std::int16_t* sums) noexcept {
    constexpr std::size_t run = activation_run<Group>;
    for (std::size_t g = 0; g < k / Group; ++g) {
        scales[g] = quantise_group<Group>(x + g * Group, codes + g * Group);
    }
    for (std::size_t r = 0; r < k / run; ++r) {
        int sum = 0;
        for (std::size_t i = 0; i < run; ++i) sum += codes[r * run + i];
        sums[r] = static_cast<std::int16_t>(sum);
    }
}

/// Finds the groups of column c that get a residual and writes flags and residuals. Codes and scales are there already. A group
/// gets one if its scale times the number of groups, rounded, is over residual_threshold times the sum of all scales, added in
/// order, rounded; never with a NaN among the scales. The residual is what the codes leave of x, x - (d * code), each operation rounded, quantised in turn.
template <std::size_t Group>
void add_residuals(const float* x, const activation_matrix<Group>& m, std::size_t c) noexcept {
    constexpr std::size_t run = activation_run<Group>;
    constexpr std::size_t groups = activation_chunk / Group;
    const std::size_t count = m.k / Group;
    const float* scales = m.column_scales(c);
    std::uint8_t* flags = m.column_flags(c);
    float sum = 0.0f;
    for (std::size_t g = 0; g < count; ++g) sum += scales[g];
    const float limit = residual_threshold * sum;
    for (std::size_t i = 0; i < activation_matrix<Group>::flag_stride(m.k); ++i) flags[i] = 0;
    for (std::size_t g = 0; g < count; ++g) {
        if (!(scales[g] * static_cast<float>(count) > limit)) continue;
        const std::int8_t* codes = m.column_codes(c) + g * Group;
        float rest[Group] = {};
        for (std::size_t i = 0; i < Group; ++i) rest[i] = scales[g] * static_cast<float>(codes[i]);
        detail::settle(rest);
        for (std::size_t i = 0; i < Group; ++i) rest[i] = x[g * Group + i] - rest[i];
        const std::size_t column_codes = c * activation_matrix<Group>::code_stride(m.k) + g * Group;
        const std::size_t column_sums = c * (m.k / run) + g * (Group / run);
        float* scale = m.residual_scales + c * count + g;
        quantise_activations<Group>(rest, Group, m.residual_codes + column_codes, scale, m.residual_sums + column_sums);
        if (*scale > 0.0f) flags[g / groups] |= static_cast<std::uint8_t>(1u << (g % groups));
    }
}

/// Quantises column c of `out` from out.k values, padding and residuals included.
template <std::size_t Group>
void quantise_column(const float* x, const activation_matrix<Group>& out, std::size_t c) noexcept {
    std::int8_t* codes = out.column_codes(c);
    quantise_activations<Group>(x, out.k, codes, out.column_scales(c), out.column_sums(c));
    for (std::size_t i = out.k; i < activation_matrix<Group>::code_stride(out.k); ++i) codes[i] = 0;
    add_residuals(x, out, c);
}

}  // namespace colibri::quant
