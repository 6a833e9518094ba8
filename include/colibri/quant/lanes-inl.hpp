// Sixteen floats side by side, as vectors of the compiler's own kind: what the searches of the encoders work on. A part of
// encode_levels.hpp.

#ifdef COLIBRI_LEVEL
namespace colibri::quant::detail::COLIBRI_LEVEL {

/// Sixteen floats. No operation on them crosses lanes, and each is rounded by itself: the same bits on every machine.
struct lanes {
    static constexpr std::size_t count = 16;
    typedef float part __attribute__((vector_size(COLIBRI_LEVEL_BYTES)));
    typedef float loose __attribute__((vector_size(COLIBRI_LEVEL_BYTES), aligned(4), may_alias));  ///< a part in memory
    static constexpr std::size_t width = sizeof(part) / sizeof(float), parts = count / width;
    part v[parts];
};

/// Sixteen truth values.
struct lane_mask {
    typedef std::int32_t part __attribute__((vector_size(COLIBRI_LEVEL_BYTES)));
    part v[lanes::parts];
};

/// Calls fn for all parts; written out because loops this short aren't unrolled at -O2.
template <class Fn>
[[gnu::always_inline]] inline void each_part(Fn fn) noexcept {
    fn(0);
    if constexpr (lanes::parts > 1) fn(1);
    if constexpr (lanes::parts > 2) {
        fn(2);
        fn(3);
    }
}

// What a product passes through on its way to a sum: a register of vectors.
#if defined(__x86_64__)
#define COLIBRI_VECTOR_REGISTER "+v"
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
    each_part([&](int i) __attribute__((always_inline)) { r.v[i] = x - lanes::part{}; });
    return r;
}
[[gnu::always_inline]] inline lanes load(const float* p) noexcept {
    // By parts: a copy of the whole struct is made of 16 bytes at a time, which the wider loads behind it would wait for.
    lanes r;
    each_part([&](int i) __attribute__((always_inline)) {
        r.v[i] = *reinterpret_cast<const lanes::loose*>(p + static_cast<std::size_t>(i) * lanes::width);
    });
    return r;
}
[[gnu::always_inline]] inline void store(lanes a, float* p) noexcept {
    each_part([&](int i) __attribute__((always_inline)) {
        *reinterpret_cast<lanes::loose*>(p + static_cast<std::size_t>(i) * lanes::width) = a.v[i];
    });
}

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

}  // namespace colibri::quant::detail::COLIBRI_LEVEL
#endif
