// The codes that weights are rounded to, sixteen at a time.
// A part of encode_levels.hpp.

#ifdef COLIBRI_LEVEL
namespace colibri::quant::detail::COLIBRI_LEVEL {

// Each has `nearest(v)`, the value of the code that is nearest to v, and `symmetric`: whether -v is a value for each value v.

/// The whole numbers Low..High.
template <int Low, int High>
struct whole_codes {
    static constexpr bool symmetric = Low == -High;
    [[gnu::always_inline]] static lanes nearest(lanes v) noexcept {
        return nearest_whole(held(v, static_cast<float>(Low), static_cast<float>(High)));
    }
};

/// -1 and 1.
struct sign_codes {
    static constexpr bool symmetric = true;
    [[gnu::always_inline]] static lanes nearest(lanes v) noexcept { return with_sign(all(1.0f), v); }
};

/// Adds up the gaps of ascending values that v is beyond the middle of; N * 3 operations, and no table to look up.
template <std::size_t N>
[[gnu::always_inline]] inline lanes nearest_of(const std::array<float, N>& values, lanes v) noexcept {
    lanes out = all(values[0]);
#pragma GCC unroll 16
    for (std::size_t i = 1; i < N; ++i) {
        const lane_mask beyond = all((values[i - 1] + values[i]) * 0.5f) < v;
        out = out + select(beyond, all(values[i] - values[i - 1]), all(0.0f));
    }
    return out;
}

/// `iq4_values`.
struct iq4_codes {
    static constexpr bool symmetric = false;
    static constexpr std::array<float, 16> values = [] {
        std::array<float, 16> out{};
        for (std::size_t i = 0; i < 16; ++i) out[i] = static_cast<float>(iq4_values[i]);
        return out;
    }();
    [[gnu::always_inline]] static lanes nearest(lanes v) noexcept { return nearest_of(values, v); }
};

/// `mxfp4_values`.
struct e2m1_codes {
    static constexpr bool symmetric = true;
    static constexpr std::array<float, 8> values = {0, 1, 2, 3, 4, 6, 8, 12};
    [[gnu::always_inline]] static lanes nearest(lanes v) noexcept {
        return with_sign(nearest_of(values, magnitude(v)), v);
    }
};

}  // namespace colibri::quant::detail::COLIBRI_LEVEL
#endif
