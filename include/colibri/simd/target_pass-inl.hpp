// One turn of the target loop in foreach_target-inl.hpp: COLIBRI_PASS_TARGET's operations from Highway, then our kernels in
// COLIBRI_PASS_NAMESPACE, and in COLIBRI_PASS_DOT_TARGET, if that is defined, those for CPUs with instructions for dots of bytes. Leans on three macros inside Highway (HWY_TARGET_TOGGLE, HWY_HIGHWAY_PER_TARGET,
// HWY_SET_MACROS_PER_TARGET), unchanged from 1.0.3 to 1.4.0.

#undef HWY_TARGET
#define HWY_TARGET COLIBRI_PASS_TARGET

#undef HWY_SET_MACROS_PER_TARGET
#ifdef HWY_TARGET_TOGGLE
#define HWY_SET_MACROS_PER_TARGET
#endif

#if (COLIBRI_OPS_PRESENT & HWY_TARGET) != 0
// The user's code brought the operations of this target: switch the macros only.
#include <hwy/ops/set_macros-inl.h>
#else
#undef HWY_HIGHWAY_PER_TARGET
#ifdef HWY_TARGET_TOGGLE
#define HWY_HIGHWAY_PER_TARGET
#endif
#include <hwy/highway.h>
#ifdef HWY_TARGET_TOGGLE
#undef HWY_TARGET_TOGGLE
#else
#define HWY_TARGET_TOGGLE
#endif
#endif

#ifndef COLIBRI_STATIC_TARGET_DONE
#ifdef COLIBRI_PASS_PLAIN_TARGET
#define COLIBRI_PLAIN_TARGET 1
#else
#define COLIBRI_PLAIN_TARGET 0
#endif
#define COLIBRI_KERNEL_NAMESPACE COLIBRI_PASS_NAMESPACE
#define COLIBRI_DOT 0
#include "colibri/simd/kernels-inl.hpp"
#undef COLIBRI_DOT
#undef COLIBRI_KERNEL_NAMESPACE

// Some CPUs of a kind have instructions for sums of four products of bytes, some don't; the products of 8-bit codes differ.
#ifdef COLIBRI_PASS_DOT_TARGET
#define COLIBRI_KERNEL_NAMESPACE COLIBRI_PASS_DOT_TARGET
#define COLIBRI_BASE_TARGET COLIBRI_PASS_NAMESPACE
#define COLIBRI_DOT 1
#include "colibri/simd/kernels-inl.hpp"
#undef COLIBRI_DOT
#undef COLIBRI_BASE_TARGET
#undef COLIBRI_KERNEL_NAMESPACE
#endif
#undef COLIBRI_PLAIN_TARGET
#endif
