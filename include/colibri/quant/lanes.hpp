// Sixteen floats side by side, as four vectors of the compiler's own kind: what the searches of the encoders work on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace colibri::quant::detail {

/// Sixteen floats. No operation on them crosses lanes, and each is rounded by itself: the same bits on every machine.
struct lanes {
    static constexpr std::size_t count = 16;
    typedef float part __attribute__((vector_size(16)));  // what every 64-bit target has
    part v[4];
};

/// Sixteen truth values.
struct lane_mask {
    typedef std::int32_t part __attribute__((vector_size(16)));
    part v[4];
};

/// Calls fn for the four parts; written out because loops this short aren't unrolled at -O2.
template <class Fn>
[[gnu::always_inline]] inline void each_part(Fn fn) noexcept {
    fn(0);
    fn(1);
    fn(2);
    fn(3);
}

// What a product passes through on its way to a sum: a register of vectors.
#if defined(__x86_64__)
#define COLIBRI_VECTOR_REGISTER "+x"
#elif defined(__aarch64__)
#define COLIBRI_VECTOR_REGISTER "+w"
#else
#define COLIBRI_VECTOR_REGISTER "+m"
#endif

/// Keeps the compiler from fusing a product into a later sum (docs/numerics.md, "Fusing").
[[gnu::always_inline]] inline float rounded(float a) noexcept {
    asm("" : COLIBRI_VECTOR_REGISTER(a));
    return a;
}
[[gnu::always_inline]] inline lanes rounded(lanes a) noexcept {
    each_part([&](int i) __attribute__((always_inline)) { asm("" : COLIBRI_VECTOR_REGISTER(a.v[i])); });
    return a;
}
#undef COLIBRI_VECTOR_REGISTER

[[gnu::always_inline]] inline lanes all(float x) noexcept {
    lanes r;
    each_part([&](int i) __attribute__((always_inline)) { r.v[i] = lanes::part{x, x, x, x}; });
    return r;
}
[[gnu::always_inline]] inline lanes load(const float* p) noexcept {
    lanes r;
    std::memcpy(&r, p, sizeof r);
    return r;
}
[[gnu::always_inline]] inline void store(lanes a, float* p) noexcept { std::memcpy(p, &a, sizeof a); }

[[gnu::always_inline]] inline lanes operator+(lanes a, lanes b) noexcept {
    each_part([&](int i) __attribute__((always_inline)) { a.v[i] += b.v[i]; });
    return a;
}
[[gnu::always_inline]] inline lanes operator-(lanes a, lanes b) noexcept {
    each_part([&](int i) __attribute__((always_inline)) { a.v[i] -= b.v[i]; });
    return a;
}
[[gnu::always_inline]] inline lanes operator*(lanes a, lanes b) noexcept {
    each_part([&](int i) __attribute__((always_inline)) { a.v[i] *= b.v[i]; });
    return rounded(a);
}
[[gnu::always_inline]] inline lanes operator/(lanes a, lanes b) noexcept {
    each_part([&](int i) __attribute__((always_inline)) { a.v[i] /= b.v[i]; });
    return a;
}
[[gnu::always_inline]] inline lane_mask operator<(lanes a, lanes b) noexcept {
    lane_mask r;
    each_part([&](int i) __attribute__((always_inline)) { r.v[i] = a.v[i] < b.v[i]; });
    return r;
}
[[gnu::always_inline]] inline lanes select(lane_mask mask, lanes yes, lanes no) noexcept {
    each_part([&](int i) __attribute__((always_inline)) { no.v[i] = mask.v[i] ? yes.v[i] : no.v[i]; });
    return no;
}
/// The larger of two numbers.
[[gnu::always_inline]] inline lanes larger(lanes a, lanes b) noexcept {
    each_part([&](int i) __attribute__((always_inline)) { a.v[i] = a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
    return a;
}
/// The smaller of two numbers.
[[gnu::always_inline]] inline lanes smaller(lanes a, lanes b) noexcept {
    each_part([&](int i) __attribute__((always_inline)) { a.v[i] = a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
    return a;
}
[[gnu::always_inline]] inline lanes held(lanes a, float low, float high) noexcept {
    return smaller(larger(a, all(low)), all(high));
}
[[gnu::always_inline]] inline lanes magnitude(lanes a) noexcept {
    each_part([&](int i) __attribute__((always_inline)) {
        a.v[i] = reinterpret_cast<lanes::part>(reinterpret_cast<lane_mask::part>(a.v[i]) & 0x7fffffff);
    });
    return a;
}
/// `a` >= 0 with the sign of b.
[[gnu::always_inline]] inline lanes with_sign(lanes a, lanes b) noexcept {
    constexpr std::int32_t sign = -0x7fffffff - 1;
    each_part([&](int i) __attribute__((always_inline)) {
        a.v[i] = reinterpret_cast<lanes::part>(reinterpret_cast<lane_mask::part>(a.v[i]) |
                                               (reinterpret_cast<lane_mask::part>(b.v[i]) & sign));
    });
    return a;
}
/// The nearest whole number, ties to even, for |a| < 2^22.
[[gnu::always_inline]] inline lanes nearest_whole(lanes a) noexcept {
    const lanes magic = all(0x1.8p23f);  // adding it leaves no bits below 1
    return rounded(a + magic) - magic;
}
/// 1 / a, or 0 where a is nearly 0.
[[gnu::always_inline]] inline lanes inverse_or_zero(lanes a) noexcept {
    const lane_mask usable = all(0x1p-100f) < magnitude(a);
    return select(usable, all(1.0f) / select(usable, a, all(1.0f)), all(0.0f));
}

}  // namespace colibri::quant::detail
