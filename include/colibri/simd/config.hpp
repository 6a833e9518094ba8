// Which kernels this translation unit compiles, and the namespace that keeps unlike choices apart.
#pragma once

// Two ways to build (the same for all translation units of a program):
//
// Header-only (default): every translation unit compiles all kernels. Costs seconds each.
// Declare-only: define COLIBRI_EXTERN_KERNELS everywhere, and in exactly one translation unit also COLIBRI_IMPLEMENT_KERNELS
// before "colibri/simd/kernels.hpp" (or the single header) is included. Highway is needed there only.
//
// COLIBRI_NO_AVX2 and COLIBRI_NO_AVX512 leave targets out. A target that the whole program is compiled for (-march=...) always
// stays; targets below it are left out, since the program can't run on their CPUs anyway.

#if defined(COLIBRI_IMPLEMENT_KERNELS) && !defined(COLIBRI_EXTERN_KERNELS)
#error "COLIBRI_IMPLEMENT_KERNELS without COLIBRI_EXTERN_KERNELS: define COLIBRI_EXTERN_KERNELS for the whole program (-D), this file included"
#endif

#if !defined(COLIBRI_EXTERN_KERNELS) || defined(COLIBRI_IMPLEMENT_KERNELS)

// Highway 1.0.3 can't be compiled for a CPU with everything that its AVX3_DL means unless it is asked for that target.
#if defined(__AVX512VBMI2__) && !defined(HWY_WANT_AVX3_DL)
#define HWY_WANT_AVX3_DL
#endif
#include <hwy/detect_targets.h>

#if defined(HIGHWAY_HWY_FOREACH_TARGET_H_) && defined(HWY_ONCE) && !HWY_ONCE
#error "Colibri is included inside a pass of hwy/foreach_target.h: include it under #if HWY_ONCE"
#endif

// The target that the whole program is compiled for, by what it can do. Highway's names differ from version to version (and
// with g++ before 12.3 plain x86-64 is its scalar one), so everything below SSSE3 is "baseline": plain C++.
#if HWY_ARCH_X86_64 && HWY_STATIC_TARGET <= HWY_AVX3
#define COLIBRI_STATIC_TARGET_AVX512 1
#elif HWY_ARCH_X86_64 && HWY_STATIC_TARGET == HWY_AVX2
#define COLIBRI_STATIC_TARGET_AVX2 1
#elif HWY_ARCH_X86_64 && HWY_STATIC_TARGET == HWY_SSE4
#define COLIBRI_STATIC_TARGET_SSE4 1
#elif HWY_ARCH_ARM_A64
#define COLIBRI_STATIC_TARGET_NEON 1
#else
#define COLIBRI_STATIC_TARGET_BASELINE 1
#endif

// Targets above it that are compiled besides.
#if HWY_ARCH_X86_64 && !defined(COLIBRI_NO_AVX512) && !defined(COLIBRI_STATIC_TARGET_AVX512) && (HWY_ENABLED(HWY_AVX3) != 0)
#define COLIBRI_WITH_TARGET_AVX512 1
#endif
#if HWY_ARCH_X86_64 && !defined(COLIBRI_NO_AVX2) && (HWY_ENABLED(HWY_AVX2) & (HWY_STATIC_TARGET - 1)) != 0
#define COLIBRI_WITH_TARGET_AVX2 1
#endif
#if HWY_ARCH_X86_64 && (HWY_ENABLED(HWY_SSE4) & (HWY_STATIC_TARGET - 1)) != 0
#define COLIBRI_WITH_TARGET_SSE4 1
#endif

#endif

// One program may hold translation units with different settings (other -m flags, other HWY_ macros). Their inline functions
// must not be merged by the linker, or the whole program could end up with the slowest table: the set is part of every name.
#define COLIBRI_JOIN_EXPANDED(a, b, c, d) a##b##c##d
#define COLIBRI_JOIN(a, b, c, d) COLIBRI_JOIN_EXPANDED(a, b, c, d)
#if defined(COLIBRI_EXTERN_KERNELS)
#define COLIBRI_SIMD_ABI extern_kernels
#else
#if defined(COLIBRI_STATIC_TARGET_AVX512)
#define COLIBRI_ABI_STATIC on_avx512
#elif defined(COLIBRI_STATIC_TARGET_AVX2)
#define COLIBRI_ABI_STATIC on_avx2
#elif defined(COLIBRI_STATIC_TARGET_SSE4)
#define COLIBRI_ABI_STATIC on_sse4
#elif defined(COLIBRI_STATIC_TARGET_NEON)
#define COLIBRI_ABI_STATIC on_neon
#else
#define COLIBRI_ABI_STATIC on_baseline
#endif
#if defined(COLIBRI_WITH_TARGET_SSE4)
#define COLIBRI_ABI_SSE4 _sse4
#else
#define COLIBRI_ABI_SSE4
#endif
#if defined(COLIBRI_WITH_TARGET_AVX2)
#define COLIBRI_ABI_AVX2 _avx2
#else
#define COLIBRI_ABI_AVX2
#endif
#if defined(COLIBRI_WITH_TARGET_AVX512)
#define COLIBRI_ABI_AVX512 _avx512
#else
#define COLIBRI_ABI_AVX512
#endif
#define COLIBRI_SIMD_ABI COLIBRI_JOIN(COLIBRI_ABI_STATIC, COLIBRI_ABI_SSE4, COLIBRI_ABI_AVX2, COLIBRI_ABI_AVX512)
#endif

namespace colibri::simd {
inline namespace COLIBRI_SIMD_ABI {}
}  // namespace colibri::simd
