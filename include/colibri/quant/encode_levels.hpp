// The encoders' work compiled for each level of CPUs where that pays, and which of them this CPU has.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "colibri/core/half.hpp"
#include "colibri/quant/encode.hpp"
#include "colibri/quant/iq4.hpp"
#include "colibri/quant/mxfp4.hpp"
#include "colibri/quant/pack.hpp"

// The results of all levels have the same bits: no operation crosses lanes, and each is rounded by itself. A search is 1.6 to 2.4
// times as fast with AVX2 and 2 to 3 times with AVX-512 as with the SSE2 that every x86-64 has (Zen 5).
// COLIBRI_NO_AVX2 and COLIBRI_NO_AVX512 leave levels out, as they do with kernels: the same for all files of a program, or some of
// them use a lower level than they could.

// A level: its namespace, and the bytes of its vectors. Functions and lambdas take their target from the pragma. The file is always
// included, and empty if there is no level.
#define COLIBRI_LEVEL baseline
#define COLIBRI_LEVEL_BYTES 16
#include "colibri/quant/encode_level-inl.hpp"
#undef COLIBRI_LEVEL_BYTES
#undef COLIBRI_LEVEL

#if defined(__x86_64__) && !defined(COLIBRI_NO_AVX2)
#define COLIBRI_WITH_LEVEL_AVX2 1
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2")
#endif
#define COLIBRI_LEVEL avx2
#define COLIBRI_LEVEL_BYTES 32
#endif
#include "colibri/quant/encode_level-inl.hpp"
#ifdef COLIBRI_WITH_LEVEL_AVX2
#undef COLIBRI_LEVEL_BYTES
#undef COLIBRI_LEVEL
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif

#if defined(__x86_64__) && !defined(COLIBRI_NO_AVX512)
#define COLIBRI_WITH_LEVEL_AVX512 1
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl")
#endif
#define COLIBRI_LEVEL avx512
#define COLIBRI_LEVEL_BYTES 64
#endif
#include "colibri/quant/encode_level-inl.hpp"
#ifdef COLIBRI_WITH_LEVEL_AVX512
#undef COLIBRI_LEVEL_BYTES
#undef COLIBRI_LEVEL
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif

namespace colibri::quant::detail {

/// Levels in ascending order.
enum class encode_level { baseline, avx2, avx512 };

/// The highest level that was compiled and that this CPU and its operating system support.
[[nodiscard]] inline encode_level highest_level() noexcept {
    static const encode_level found = [] {
#ifdef COLIBRI_WITH_LEVEL_AVX512
        if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
            __builtin_cpu_supports("avx512vl")) {
            return encode_level::avx512;
        }
#endif
#ifdef COLIBRI_WITH_LEVEL_AVX2
        if (__builtin_cpu_supports("avx2")) return encode_level::avx2;
#endif
        return encode_level::baseline;
    }();
    return found;
}

/// Calls fn with the `functions` of a level. Precondition: this CPU has it.
template <class Fn>
[[gnu::always_inline]] inline auto at_level(encode_level level, Fn fn) noexcept {
#ifdef COLIBRI_WITH_LEVEL_AVX512
    if (level == encode_level::avx512) return fn(avx512::functions{});
#endif
#ifdef COLIBRI_WITH_LEVEL_AVX2
    if (level == encode_level::avx2) return fn(avx2::functions{});
#endif
    static_cast<void>(level);
    return fn(baseline::functions{});
}

/// Blocks of F by its search; `importance` as in `block_encoder`. Precondition: this CPU has the level.
template <class F>
inline void search_blocks(const float* x, const float* importance, std::size_t blocks, F* out,
                          encode_level level = highest_level()) noexcept {
    at_level(level, [&](auto use) { use.search_blocks(x, importance, blocks, out); });
}

/// Blocks of F as `F::encode` has them. Precondition: this CPU has the level.
template <class F>
inline void encode_each(const float* x, std::size_t blocks, F* out, encode_level level = highest_level()) noexcept {
    at_level(level, [&](auto use) { use.encode_each(x, blocks, out); });
}

/// n half floats (two bytes each, at any address) to floats. Precondition: this CPU has the level.
inline void widen_halves(const std::byte* in, std::size_t n, float* out, encode_level level = highest_level()) noexcept {
    at_level(level, [&](auto use) { use.widen_halves(in, n, out); });
}

/// Largest magnitude of n floats as a bit pattern; at least `infinity_bits` if there is an infinity or a NaN. Precondition: this CPU
/// has the level.
[[nodiscard]] inline std::uint32_t largest_bits(const float* x, std::size_t n, encode_level level = highest_level()) noexcept {
    return at_level(level, [&](auto use) { return use.largest_bits(x, n); });
}

}  // namespace colibri::quant::detail
