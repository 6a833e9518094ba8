// Elementary functions in double precision that give the same bits on every machine.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace colibri::math {

// The C library's exp, log, sin and cos may differ in the last bit from one version or CPU to the next; rounded to float that
// is rarely visible, but rarely is not never, and answers shall not depend on it. These use only +, *, / and std::fma, which
// IEEE 754 defines exactly. They are for tables and samplers, not for kernels. Errors are below 2 units in the last place.

struct sine_cosine {
    double sine;
    double cosine;
};

/// e^x; 0 below -745, infinity above 709.78. Series in the reduced argument (|r| <= ln 2 / 2).
[[nodiscard]] inline double exp(double x) noexcept {
    if (!(x > -745.2)) return x != x ? x : 0.0;
    if (x > 709.79) return std::bit_cast<double>(std::uint64_t{0x7ff0000000000000u});
    constexpr double ln2_high = 0x1.62e42fefa0000p-1;
    constexpr double ln2_low = 0x1.cf79abc9e3b3ap-40;
    const double k = std::nearbyint(x * (1.0 / std::numbers::ln2));
    const double r = std::fma(-k, ln2_low, std::fma(-k, ln2_high, x));
    double sum = 1.0;
    for (int n = 14; n >= 1; --n) sum = std::fma(sum, r / n, 1.0);
    return std::scalbn(sum, static_cast<int>(k));
}

/// Natural logarithm of x > 0; -infinity for 0, NaN below. Series of atanh((m - 1) / (m + 1)).
[[nodiscard]] inline double log(double x) noexcept {
    if (x == 0.0) return -std::bit_cast<double>(std::uint64_t{0x7ff0000000000000u});
    if (!(x > 0.0)) return std::bit_cast<double>(std::uint64_t{0x7ff8000000000000u});
    if (x > 1.7976931348623157e308) return x;
    int exponent = 0;
    double m = std::frexp(x, &exponent);
    if (m < std::numbers::sqrt2 / 2) {
        m *= 2;
        --exponent;
    }
    const double s = (m - 1.0) / (m + 1.0);
    const double z = s * s;
    double sum = 0.0;
    for (int n = 23; n >= 1; n -= 2) sum = std::fma(sum, z, 1.0 / n);
    return std::fma(static_cast<double>(exponent), std::numbers::ln2, 2.0 * s * sum);
}

/// base^exponent for base > 0.
[[nodiscard]] inline double pow(double base, double exponent) noexcept { return exp(exponent * log(base)); }

/// Sine and cosine of x in radians, |x| < 2^30.
[[nodiscard]] inline sine_cosine sincos(double x) noexcept {
    constexpr double half_pi_high = 0x1.921fb54442d18p+0;
    constexpr double half_pi_low = 0x1.1a62633145c07p-54;
    const double n = std::nearbyint(x * (2.0 / std::numbers::pi));
    const double r = std::fma(-n, half_pi_low, std::fma(-n, half_pi_high, x));
    const double z = r * r;
    double sine = 1.0;
    double cosine = 1.0;
    for (int k = 19; k >= 3; k -= 2) sine = std::fma(sine, -z / (k * (k - 1)), 1.0);
    for (int k = 20; k >= 2; k -= 2) cosine = std::fma(cosine, -z / (k * (k - 1)), 1.0);
    sine *= r;
    switch (static_cast<std::int64_t>(n) & 3) {
        case 0: return {sine, cosine};
        case 1: return {cosine, -sine};
        case 2: return {-sine, -cosine};
        default: return {-cosine, sine};
    }
}

}  // namespace colibri::math
