// The target loop: includes kernels-inl.hpp once for every target of config.hpp. Once per translation unit, from kernels.hpp.
//
// Highway's own dispatcher needs its library; this loop needs its headers only. For each target it sets HWY_TARGET, includes
// hwy/highway.h with its include guards open, includes our kernels, and lets the guards alternate as hwy/foreach_target.h does.
//
// For the single header: *-inl.hpp files are the parts that are included more than once. In the single header each of the two that
// this file and target_pass-inl.hpp include becomes a section of its own, and the include of it a re-inclusion of the single
// header itself by its base name, with a macro that selects the section:
//     #include "colibri/simd/x-inl.hpp"   ->   #define COLIBRI_SECTION_X
//                                              #include "colibri.hpp"
//                                              #undef COLIBRI_SECTION_X
// quant/encode_level-inl.hpp, which quant/encode_levels.hpp includes several times, is the third. All other *-inl.hpp files are included
// by one place only and can be pasted there as they are.

// g++ 12 warns of values that its own AVX-512 intrinsics leave undefined on purpose.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#if defined(HIGHWAY_HWY_FOREACH_TARGET_H_)
#define COLIBRI_OPS_PRESENT HWY_TARGETS  // after the user's own pass over the targets
#elif defined(HWY_HIGHWAY_INCLUDED)
#define COLIBRI_OPS_PRESENT HWY_STATIC_TARGET  // after the user's #include <hwy/highway.h>
#else
#define COLIBRI_OPS_PRESENT 0
#endif

#ifdef HWY_TARGET_TOGGLE
#define COLIBRI_SAVED_TOGGLE
#elif defined(HWY_HIGHWAY_INCLUDED)
#define HWY_TARGET_TOGGLE  // the guards are closed: the next pass is the other way round
#endif

#ifdef COLIBRI_WITH_TARGET_SSE4
#define COLIBRI_PASS_TARGET HWY_SSE4
#define COLIBRI_PASS_NAMESPACE sse4
#include "colibri/simd/target_pass-inl.hpp"
#undef COLIBRI_PASS_NAMESPACE
#undef COLIBRI_PASS_TARGET
#endif

#ifdef COLIBRI_WITH_TARGET_AVX2
#define COLIBRI_PASS_TARGET HWY_AVX2
#define COLIBRI_PASS_NAMESPACE avx2
#define COLIBRI_PASS_DOT_TARGET avx2vnni
#include "colibri/simd/target_pass-inl.hpp"
#undef COLIBRI_PASS_DOT_TARGET
#undef COLIBRI_PASS_NAMESPACE
#undef COLIBRI_PASS_TARGET
#endif

#ifdef COLIBRI_WITH_TARGET_AVX512
#define COLIBRI_PASS_TARGET HWY_AVX3
#define COLIBRI_PASS_NAMESPACE avx512
#define COLIBRI_PASS_DOT_TARGET avx512vnni
#include "colibri/simd/target_pass-inl.hpp"
#undef COLIBRI_PASS_DOT_TARGET
#undef COLIBRI_PASS_NAMESPACE
#undef COLIBRI_PASS_TARGET
#endif

// NEON kernels also in programs compiled for SVE: its vectors have no size and don't fit register tiles.
#if defined(COLIBRI_STATIC_TARGET_NEON) && (HWY_STATIC_TARGET & (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)) != 0
#define COLIBRI_PASS_TARGET HWY_NEON
#define COLIBRI_PASS_NAMESPACE neon
#define COLIBRI_PASS_DOT_TARGET neondot
#include "colibri/simd/target_pass-inl.hpp"
#undef COLIBRI_PASS_DOT_TARGET
#undef COLIBRI_PASS_NAMESPACE
#undef COLIBRI_PASS_TARGET
#define COLIBRI_STATIC_TARGET_DONE
#endif

// The program's own target last: Highway's macros end as a plain #include <hwy/highway.h> leaves them.
#define COLIBRI_PASS_TARGET HWY_STATIC_TARGET
#if defined(COLIBRI_STATIC_TARGET_AVX512)
#define COLIBRI_PASS_NAMESPACE avx512
#define COLIBRI_PASS_DOT_TARGET avx512vnni
#elif defined(COLIBRI_STATIC_TARGET_AVX2)
#define COLIBRI_PASS_NAMESPACE avx2
#define COLIBRI_PASS_DOT_TARGET avx2vnni
#elif defined(COLIBRI_STATIC_TARGET_SSE4)
#define COLIBRI_PASS_NAMESPACE sse4
#elif defined(COLIBRI_STATIC_TARGET_NEON)
#define COLIBRI_PASS_NAMESPACE neon
#define COLIBRI_PASS_DOT_TARGET neondot
#else
#define COLIBRI_PASS_NAMESPACE baseline
#define COLIBRI_PASS_PLAIN_TARGET
#endif
#include "colibri/simd/target_pass-inl.hpp"
#undef COLIBRI_PASS_DOT_TARGET
#undef COLIBRI_PASS_PLAIN_TARGET
#undef COLIBRI_PASS_NAMESPACE
#undef COLIBRI_STATIC_TARGET_DONE

#undef COLIBRI_PASS_TARGET
#undef HWY_TARGET
#define HWY_TARGET HWY_STATIC_TARGET
#undef COLIBRI_OPS_PRESENT

// Guards closed again, as they were for the user (or as if highway.h had been included).
#undef HWY_TARGET_TOGGLE
#undef HWY_HIGHWAY_PER_TARGET
#undef HWY_SET_MACROS_PER_TARGET
#ifdef COLIBRI_SAVED_TOGGLE
#undef COLIBRI_SAVED_TOGGLE
#define HWY_TARGET_TOGGLE
#else
#define HWY_HIGHWAY_PER_TARGET
#define HWY_SET_MACROS_PER_TARGET
#endif

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
