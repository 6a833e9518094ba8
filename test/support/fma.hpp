// Runs code as it comes out of the compiler for a target with fused multiply-add, whatever this build's flags are.
#pragma once

#include <utility>

namespace test_support {

#if defined(__x86_64__)

/// Whether `with_fma` can run on this machine.
inline bool has_fma() { return __builtin_cpu_supports("fma") && __builtin_cpu_supports("avx2"); }

/// Calls fn with everything below it inlined and compiled for AVX2 and FMA: g++ then fuses every a*b+c that it may.
template <class Fn>
[[gnu::target("avx2,fma"), gnu::flatten]] void with_fma(Fn&& fn) {
    fn();
}

#else

// On ARM, FMA is part of every target.
inline bool has_fma() { return true; }

template <class Fn>
void with_fma(Fn&& fn) {
    fn();
}

#endif

}  // namespace test_support
