// Activations as 8-bit codes: what quantised weights are multiplied with.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "colibri/core/checked.hpp"
#include "colibri/quant/block_format.hpp"
#include "colibri/quant/encode.hpp"

namespace colibri::quant {

/// Values that share one activation scale, whatever the weights' format.
inline constexpr std::size_t activation_group = 32;

/// Codes whose sum is kept: the shortest runs of weights with a scale, zero point or minimum of their own.
inline constexpr std::size_t activation_run = 16;

/// Values whose groups share one byte of flags, and whose residuals follow them in the order of sums.
inline constexpr std::size_t activation_chunk = 256;

/// A group has a residual if its scale is over this fraction of the mean of its column's scales. The noise of 8-bit codes is
/// the engine's only distance to the exact product, and it is amplified from layer to layer; the groups with the larger scales
/// make nearly all of it.
inline constexpr float residual_threshold = 0.8f;

/// No group has a residual in a column whose largest scale is at most this multiple of the mean: its noise is spread evenly, and
/// no few groups make much of it. Columns of normally distributed values reach 1.4 (576 of them) to 1.65 (5,632) in the median; of
/// the columns of SmolLM2-135M and Gemma 3 270M nine in ten reach 2 to 7.
inline constexpr float residual_peak = 1.75f;

/// One column of k quantised activations, k a multiple of 32: value i is `scales[i / 32] * codes[i]`, plus
/// `residual_scales[i / 32] * residual_codes[i]` in groups that have a residual.
struct activation_plane {
    const std::int8_t* codes = nullptr;  ///< k codes, -127..127
    const float* scales = nullptr;       ///< k / 32, never negative; NaN where the group had a NaN or an infinity
    const float* weighted = nullptr;     ///< k / 32: scale times the sum of the group's codes, rounded
    const std::int16_t* sums = nullptr;  ///< k / 16 sums of 16 codes
};

/// Both planes of a column.
struct activation_view {
    activation_plane plane;
    activation_plane residual;            ///< defined only in groups that have a residual
    const std::uint8_t* flags = nullptr;  ///< a byte per chunk of 256 values: bit i set if its group i has a residual

    /// Whether group g has a residual.
    [[nodiscard]] constexpr bool has_residual(std::size_t g) const noexcept {
        constexpr std::size_t groups = activation_chunk / activation_group;
        return flags != nullptr && (flags[g / groups] >> (g % groups) & 1) != 0;
    }
};

/// Distances between columns of quantised activations of k values.
struct activation_strides {
    std::size_t codes = 0;   ///< bytes; whole multiples of 64, the codes behind k are zero
    std::size_t scales = 0;  ///< floats, of `weighted` too
    std::size_t sums = 0;    ///< numbers; whole multiples of 16
    std::size_t flags = 0;   ///< bytes

    [[nodiscard]] static constexpr activation_strides of(std::size_t k) noexcept {
        return {round_up<std::size_t>(k, 64), round_up<std::size_t>(k / activation_group, 8),
                round_up<std::size_t>(k / activation_run, 16), (k + activation_chunk - 1) / activation_chunk};
    }
};

/// One plane of n columns, writable.
struct activation_planes {
    std::int8_t* codes = nullptr;
    float* scales = nullptr;
    float* weighted = nullptr;
    std::int16_t* sums = nullptr;

    [[nodiscard]] constexpr activation_planes column(const activation_strides& stride, std::size_t c) const noexcept {
        return {codes + c * stride.codes, scales + c * stride.scales, weighted + c * stride.scales, sums + c * stride.sums};
    }
    [[nodiscard]] constexpr activation_planes from(std::size_t value) const noexcept {
        return {codes + value, scales + value / activation_group, weighted + value / activation_group,
                sums + value / activation_run};
    }
    [[nodiscard]] constexpr activation_plane view() const noexcept { return {codes, scales, weighted, sums}; }
};

/// n columns of k quantised activations in memory that the caller holds.
struct activation_matrix {
    activation_planes plane;
    activation_planes residual;
    std::uint8_t* flags = nullptr;
    activation_strides stride;
    std::size_t k = 0;
    std::size_t columns = 0;

    /// Bytes of memory for n columns of k values; a multiple of 64.
    [[nodiscard]] static constexpr std::size_t bytes(std::size_t k, std::size_t n) noexcept {
        return 2 * plane_bytes(activation_strides::of(k), n) + round_up(n * activation_strides::of(k).flags, std::size_t{64});
    }
    /// A matrix over `bytes(k, n)` bytes at `memory`, which is aligned to 64 and outlives it. Writes nothing.
    [[nodiscard]] static activation_matrix over(std::byte* memory, std::size_t k, std::size_t n) noexcept {
        activation_matrix out;
        out.stride = activation_strides::of(k);
        out.plane = lay_plane(memory, out.stride, n);
        out.residual = lay_plane(memory + plane_bytes(out.stride, n), out.stride, n);
        out.flags = reinterpret_cast<std::uint8_t*>(memory + 2 * plane_bytes(out.stride, n));
        out.k = k;
        out.columns = n;
        return out;
    }

    [[nodiscard]] std::uint8_t* column_flags(std::size_t c) const noexcept { return flags + c * stride.flags; }
    [[nodiscard]] activation_view column(std::size_t c) const noexcept {
        return {plane.column(stride, c).view(), residual.column(stride, c).view(), column_flags(c)};
    }

private:
    [[nodiscard]] static constexpr std::size_t plane_bytes(const activation_strides& stride, std::size_t n) noexcept {
        return n * stride.codes + 2 * round_up(n * stride.scales * sizeof(float), std::size_t{64}) +
               round_up(n * stride.sums * sizeof(std::int16_t), std::size_t{64});
    }
    [[nodiscard]] static activation_planes lay_plane(std::byte* memory, const activation_strides& stride, std::size_t n) noexcept {
        const std::size_t scale_bytes = round_up(n * stride.scales * sizeof(float), std::size_t{64});
        std::byte* scales = memory + n * stride.codes;
        return {reinterpret_cast<std::int8_t*>(memory), reinterpret_cast<float*>(scales),
                reinterpret_cast<float*>(scales + scale_bytes), reinterpret_cast<std::int16_t*>(scales + 2 * scale_bytes)};
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

/// Quantises k values (a multiple of `Group`): k codes, k / Group scales, k / 16 sums of codes.
template <std::size_t Group>
constexpr void quantise_values(const float* x, std::size_t k, std::int8_t* codes, float* scales, std::int16_t* sums) noexcept {
    for (std::size_t g = 0; g < k / Group; ++g) scales[g] = quantise_group<Group>(x + g * Group, codes + g * Group);
    for (std::size_t r = 0; r < k / activation_run; ++r) {
        int sum = 0;
        for (std::size_t i = 0; i < activation_run; ++i) sum += codes[r * activation_run + i];
        sums[r] = static_cast<std::int16_t>(sum);
    }
}

/// Quantises k values (a multiple of 32) into one plane of a column. The scalar reference of the kernels, which write the same bytes.
constexpr void quantise_activations(const float* x, std::size_t k, const activation_planes& out) noexcept {
    quantise_values<activation_group>(x, k, out.codes, out.scales, out.sums);
    for (std::size_t g = 0; g < k / activation_group; ++g) {
        out.weighted[g] = out.scales[g] * static_cast<float>(out.sums[2 * g] + out.sums[2 * g + 1]);
    }
}

/// Largest scale of a group without residual, for `count` scales of a column: infinity where no group gets one. With s the sum of
/// all scales, added in order: none if the largest scale times `count` is at most residual_peak * s, or with a NaN among them;
/// else a group gets one if its scale times `count` is over the result, residual_threshold * s. All operations are rounded.
[[nodiscard]] constexpr float residual_limit(const float* scales, std::size_t count) noexcept {
    float sum = 0.0f;
    float top = 0.0f;
    for (std::size_t g = 0; g < count; ++g) {
        sum += scales[g];
        top = scales[g] > top ? scales[g] : top;
    }
    const float peak = residual_peak * sum;
    return top * static_cast<float>(count) > peak ? residual_threshold * sum : std::numeric_limits<float>::infinity();
}

/// Finds the groups of column c that get a residual (see residual_limit) and writes flags and residuals. Codes and scales are
/// there already. The residual is what the codes leave of x, x - (d * code), each operation rounded, quantised in turn; a residual
/// of zero is none.
inline void add_residuals(const float* x, const activation_matrix& m, std::size_t c) noexcept {
    constexpr std::size_t groups = activation_chunk / activation_group;
    const std::size_t count = m.k / activation_group;
    const auto plane = m.plane.column(m.stride, c);
    const auto residual = m.residual.column(m.stride, c);
    std::uint8_t* flags = m.column_flags(c);
    for (std::size_t i = 0; i < m.stride.flags; ++i) flags[i] = 0;
    const float limit = residual_limit(plane.scales, count);
    for (std::size_t g = 0; g < count; ++g) {
        if (!(plane.scales[g] * static_cast<float>(count) > limit)) continue;
        float rest[activation_group] = {};
        for (std::size_t i = 0; i < activation_group; ++i) {
            rest[i] = plane.scales[g] * static_cast<float>(plane.codes[g * activation_group + i]);
        }
        detail::settle(rest);
        for (std::size_t i = 0; i < activation_group; ++i) rest[i] = x[g * activation_group + i] - rest[i];
        quantise_activations(rest, activation_group, residual.from(g * activation_group));
        if (residual.scales[g] > 0.0f) flags[g / groups] |= static_cast<std::uint8_t>(1u << (g % groups));
    }
}

/// Quantises column c of `out` from out.k values, padding and residuals included.
inline void quantise_column(const float* x, const activation_matrix& out, std::size_t c) noexcept {
    const auto plane = out.plane.column(out.stride, c);
    quantise_activations(x, out.k, plane);
    for (std::size_t i = out.k; i < out.stride.codes; ++i) plane.codes[i] = 0;
    add_residuals(x, out, c);
}

}  // namespace colibri::quant
