// What this CPU and operating system can run.
#pragma once

#include <cstdint>
#include <initializer_list>

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

namespace colibri::simd {

/// Groups of instruction sets, each with everything that Highway lets the compiler use in functions of that target.
struct cpu_features {
    bool sse4 = false;        ///< SSE2 to SSE4.2, PCLMUL, AES
    bool avx2 = false;        ///< and AVX, AVX2, BMI, BMI2, FMA, F16C, with register state saved by the system
    bool avx2vnni = false;    ///< and AVX-VNNI
    bool avx512 = false;      ///< AVX2's and AVX-512 F, CD, VL, DQ, BW, with register state saved by the system
    bool avx512vnni = false;  ///< and AVX-512 VNNI
    bool neondot = false;     ///< ARM: NEON and the dot products of bytes (FEAT_DotProd)
};

/// Asks the CPU; no state, no allocation, a few hundred cycles (in virtual machines microseconds: cpuid traps there).
[[nodiscard]] inline cpu_features detect_cpu() noexcept {
    cpu_features out;
#if defined(__x86_64__)
    // Bits as in Intel's Software Developer's Manual, volume 2, CPUID; XCR0 in volume 1, chapter 13.
    const auto all = [](std::uint32_t word, std::initializer_list<int> bits) {
        for (const int bit : bits) {
            if (((word >> bit) & 1u) == 0) return false;
        }
        return true;
    };
    unsigned a = 0;
    unsigned b = 0;
    unsigned c = 0;
    unsigned d = 0;
    if (__get_cpuid(1, &a, &b, &c, &d) == 0) return out;
    const unsigned leaf1_c = c;
    const bool sse2 = all(d, {25, 26});
    //                               sse3 pclmul ssse3 4.1 4.2 popcnt aes
    out.sse4 = sse2 && all(leaf1_c, {0, 1, 9, 19, 20, 23, 25});
    if (!out.sse4 || !all(leaf1_c, {27})) return out;  // osxsave: xgetbv may be used
    unsigned state = 0;
    unsigned state_high = 0;
    asm volatile("xgetbv" : "=a"(state), "=d"(state_high) : "c"(0u));
    unsigned leaf7_b = 0;
    unsigned leaf7_c = 0;
    if (__get_cpuid_count(7, 0, &a, &leaf7_b, &leaf7_c, &d) == 0) return out;
    //                                                fma avx f16c                bmi avx2 bmi2
    out.avx2 = all(state, {1, 2}) && all(leaf1_c, {12, 28, 29}) && all(leaf7_b, {3, 5, 8});
    //                                                                f   dq  cd  bw  vl
    out.avx512 = out.avx2 && all(state, {5, 6, 7}) && all(leaf7_b, {16, 17, 28, 30, 31});
    out.avx512vnni = out.avx512 && all(leaf7_c, {11});
    if (__get_cpuid_count(7, 1, &a, &b, &c, &d) != 0) out.avx2vnni = out.avx2 && all(a, {4});
#elif defined(__aarch64__) && defined(__linux__)
    constexpr unsigned long dot_products = 1ul << 20;  // HWCAP_ASIMDDP of the kernel's arch/arm64 documentation
    out.neondot = (::getauxval(AT_HWCAP) & dot_products) != 0;
#endif
    return out;
}

}  // namespace colibri::simd
