// All kernels of one target. Included once per target by foreach_target-inl.hpp, which sets
//   COLIBRI_KERNEL_NAMESPACE   the namespace to put them in
//   COLIBRI_PLAIN_TARGET       1: plain C++, 0: Highway for the current HWY_TARGET
//   COLIBRI_BASE_TARGET        if defined: the namespace to take everything but the products of 8-bit codes from
//   COLIBRI_DOT                1: besides what HWY_TARGET says, the CPU has AVX-VNNI, AVX-512 VNNI, or the dot products of ARM
// No #pragma once. Functions here call no template from outside (std::min and the like): an out-of-line copy would be compiled for
// this target, and the linker could keep that one for the whole program.

#if COLIBRI_PLAIN_TARGET
#define COLIBRI_ENTRY inline
#else
#define COLIBRI_ENTRY inline HWY_ATTR
#endif
#define COLIBRI_OUTLINE COLIBRI_ENTRY __attribute__((noinline))

// Loops over registers are unrolled whatever the user's flags are: without it g++ -O2 halves the speed of a matrix product
// (163 against 307 Gop/s on Zen 4). Under AddressSanitizer nothing is unrolled or always inlined: compiling took minutes.
#ifdef __has_feature
#if __has_feature(address_sanitizer)
#define COLIBRI_SANITIZED
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(COLIBRI_SANITIZED)
#define COLIBRI_KERNEL COLIBRI_ENTRY
#define COLIBRI_UNROLL
#define COLIBRI_UNROLL_TWICE
#else
#define COLIBRI_KERNEL COLIBRI_ENTRY __attribute__((always_inline))
#if defined(__clang__)
#define COLIBRI_UNROLL _Pragma("clang loop unroll(full)")
#define COLIBRI_UNROLL_TWICE _Pragma("clang loop unroll_count(2)")
#else
#define COLIBRI_UNROLL _Pragma("GCC unroll 16")
#define COLIBRI_UNROLL_TWICE _Pragma("GCC unroll 2")
#endif
#endif
#undef COLIBRI_SANITIZED
// The dots of a run: all of them where they are one instruction each, because g++ copies sums between registers in a loop of two.
#if COLIBRI_DOT && HWY_MAX_BYTES >= 64
#define COLIBRI_UNROLL_RUN COLIBRI_UNROLL
#else
#define COLIBRI_UNROLL_RUN COLIBRI_UNROLL_TWICE
#endif

#if !COLIBRI_PLAIN_TARGET
HWY_BEFORE_NAMESPACE();
#endif
namespace colibri::simd {
inline namespace COLIBRI_SIMD_ABI {
namespace COLIBRI_KERNEL_NAMESPACE {

#ifdef COLIBRI_BASE_TARGET
using namespace COLIBRI_BASE_TARGET;
#else
#if COLIBRI_PLAIN_TARGET
#include "colibri/simd/vec_plain-inl.hpp"
#else
#include "colibri/simd/vec_highway-inl.hpp"
#endif
#include "colibri/simd/math-inl.hpp"
#include "colibri/simd/ops-inl.hpp"
#include "colibri/simd/kv_formats-inl.hpp"
#include "colibri/simd/attention-inl.hpp"
#include "colibri/simd/float_product-inl.hpp"
#include "colibri/simd/quantise-inl.hpp"
#include "colibri/simd/weigh-inl.hpp"
#endif

#if COLIBRI_PLAIN_TARGET
#include "colibri/simd/code_product_plain-inl.hpp"
#else
#include "colibri/simd/integers-inl.hpp"
#include "colibri/simd/codes-inl.hpp"
#include "colibri/simd/codes_grid-inl.hpp"
#include "colibri/simd/gemv-inl.hpp"
#include "colibri/simd/panels-inl.hpp"
#include "colibri/simd/pack-inl.hpp"
#include "colibri/simd/gemm-inl.hpp"
#endif
#include "colibri/simd/peak-inl.hpp"
#include "colibri/simd/table-inl.hpp"

}  // namespace COLIBRI_KERNEL_NAMESPACE
}  // namespace COLIBRI_SIMD_ABI
}  // namespace colibri::simd
#if !COLIBRI_PLAIN_TARGET
HWY_AFTER_NAMESPACE();
#endif

#undef COLIBRI_KERNEL
#undef COLIBRI_ENTRY
#undef COLIBRI_OUTLINE
#undef COLIBRI_UNROLL
#undef COLIBRI_UNROLL_TWICE
#undef COLIBRI_UNROLL_RUN
