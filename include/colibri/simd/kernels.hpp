// The kernels themselves, for every target; empty where they are only declared (see config.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "colibri/core/fixed_weight.hpp"
#include "colibri/core/half.hpp"
#include "colibri/quant/activation.hpp"
#include "colibri/quant/format_list.hpp"
#include "colibri/quant/panel.hpp"
#include "colibri/quant/run.hpp"
#include "colibri/simd/config.hpp"
#include "colibri/simd/kernel_table.hpp"

#if !defined(COLIBRI_EXTERN_KERNELS) || defined(COLIBRI_IMPLEMENT_KERNELS)

namespace colibri::simd {
inline namespace COLIBRI_SIMD_ABI {
namespace detail {

/// Encodes a row of values.
template <class Format>
void store_blocks(const float* in, std::byte* out, std::size_t n) {
    auto* blocks = reinterpret_cast<Format*>(out);
    for (std::size_t b = 0; b < n / Format::block_size; ++b) blocks[b] = Format::encode(in + b * Format::block_size);
}

/// Encodes a key and puts it in one of the 16 lanes of a panel of key_block<Format>.
template <class Format>
void store_key_blocks(const float* in, std::byte* panel, std::size_t lane, std::size_t n) {
    auto* blocks = reinterpret_cast<key_block<Format>*>(panel);
    for (std::size_t b = 0; b < n / Format::block_size; ++b) {
        const Format block = Format::encode(in + b * Format::block_size);
        blocks[b].d[lane] = block.d;
        for (std::size_t i = 0; i < sizeof block.qs; ++i) blocks[b].qs[i][lane] = block.qs[i];
    }
}

}  // namespace detail
}  // namespace COLIBRI_SIMD_ABI
}  // namespace colibri::simd

#include "colibri/simd/foreach_target-inl.hpp"

namespace colibri::simd {
inline namespace COLIBRI_SIMD_ABI {
namespace detail {

// A name of this architecture that has no kernels here stays in the list, so that messages can tell it from an unknown one.
#if defined(__x86_64__)
inline constexpr target_entry target_list[] = {
#if defined(COLIBRI_WITH_TARGET_AVX512) || defined(COLIBRI_STATIC_TARGET_AVX512)
    {"avx512vnni", &avx512vnni::kTable, [](const cpu_features& cpu) noexcept { return cpu.avx512vnni; }},
    {"avx512", &avx512::kTable, [](const cpu_features& cpu) noexcept { return cpu.avx512; }},
#else
    {"avx512vnni", nullptr, [](const cpu_features& cpu) noexcept { return cpu.avx512vnni; }},
    {"avx512", nullptr, [](const cpu_features& cpu) noexcept { return cpu.avx512; }},
#endif
#if defined(COLIBRI_WITH_TARGET_AVX2) || defined(COLIBRI_STATIC_TARGET_AVX2)
    {"avx2vnni", &avx2vnni::kTable, [](const cpu_features& cpu) noexcept { return cpu.avx2vnni; }},
    {"avx2", &avx2::kTable, [](const cpu_features& cpu) noexcept { return cpu.avx2; }},
#else
    {"avx2vnni", nullptr, [](const cpu_features& cpu) noexcept { return cpu.avx2vnni; }},
    {"avx2", nullptr, [](const cpu_features& cpu) noexcept { return cpu.avx2; }},
#endif
#if defined(COLIBRI_WITH_TARGET_SSE4) || defined(COLIBRI_STATIC_TARGET_SSE4)
    {"sse4", &sse4::kTable, [](const cpu_features& cpu) noexcept { return cpu.sse4; }},
#else
    {"sse4", nullptr, [](const cpu_features& cpu) noexcept { return cpu.sse4; }},
#endif
#if defined(COLIBRI_STATIC_TARGET_BASELINE)
    {"baseline", &baseline::kTable, [](const cpu_features&) noexcept { return true; }},
#else
    {"baseline", nullptr, [](const cpu_features&) noexcept { return true; }},
#endif
};
#elif defined(COLIBRI_STATIC_TARGET_NEON)
// Highway's NEON also means AES, which the compiler never uses on its own: any AArch64 CPU runs these.
inline constexpr target_entry target_list[] = {
    {"neondot", &neondot::kTable, [](const cpu_features& cpu) noexcept { return cpu.neondot; }},
    {"neon", &neon::kTable, [](const cpu_features&) noexcept { return true; }},
};
#else
inline constexpr target_entry target_list[] = {{"baseline", &baseline::kTable, [](const cpu_features&) noexcept { return true; }}};
#endif

#if !defined(COLIBRI_EXTERN_KERNELS)
inline
#endif
    std::span<const target_entry>
    all_targets() noexcept {
    return target_list;
}

}  // namespace detail
}  // namespace COLIBRI_SIMD_ABI
}  // namespace colibri::simd

#endif
