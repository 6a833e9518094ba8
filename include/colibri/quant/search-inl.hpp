// The search for scales and codes with the least weighted squared error: batches of sixteen runs, one in each lane.
// A part of encode_levels.hpp.

#ifdef COLIBRI_LEVEL
namespace colibri::quant::detail::COLIBRI_LEVEL {

/// Sixteen runs of finite values, one behind the other, and null or a weight >= 0 for each value.
struct search_input {
    const float* x;
    const float* importance;
};

/// What was found: scales (and minimums) by block, integers by run, codes by weight, run after run.
template <std::size_t Size>
struct search_output {
    float d[lanes::count];
    float dmin[lanes::count];
    std::int8_t scales[lanes::count];
    std::int8_t minimums[lanes::count];
    std::int8_t codes[lanes::count * Size];  ///< the integers that the scale multiplies
};

/// Values and weights of sixteen runs: value i of run j at 16 i + j.
template <std::size_t Size>
struct search_batch {
    float x[Size * lanes::count];     ///< divided by `unit`, so that no square overflows or vanishes
    float w[Size * lanes::count];
    float unit[lanes::count];         ///< by run: a power of two, its block's
};

template <std::size_t Size, class Fn>
[[gnu::always_inline]] inline void each_step(const search_batch<Size>& in, Fn fn) noexcept {
    for (std::size_t i = 0; i < Size * lanes::count; i += lanes::count) fn(load(in.x + i), load(in.w + i));
}

/// The largest of each block of Runs runs, for each of its runs.
template <std::size_t Runs>
inline void spread_largest(float (&of_run)[lanes::count]) noexcept {
    for (std::size_t b = 0; b < lanes::count; b += Runs) {
        float top = of_run[b];
        for (std::size_t j = b + 1; j < b + Runs; ++j) top = of_run[j] > top ? of_run[j] : top;
        for (std::size_t j = b; j < b + Runs; ++j) of_run[j] = top;
    }
}

/// Fills a batch of blocks of Runs runs. The error of x weighs importance * (level * (the run's root mean square) + |x|): large
/// weights count for more, because the errors of small ones cancel out; with level < 0 it weighs importance alone.
template <std::size_t Size, std::size_t Runs>
inline void fill(const search_input& from, float level, search_batch<Size>& out) noexcept {
    constexpr std::size_t count = lanes::count;
    for (std::size_t j = 0; j < count; ++j) {
        for (std::size_t i = 0; i < Size; ++i) out.x[i * count + j] = from.x[j * Size + i];
    }
    lanes top = all(0.0f);
    for (std::size_t i = 0; i < Size * count; i += count) top = larger(magnitude(load(out.x + i)), top);
    float tops[count];
    store(top, tops);
    spread_largest<Runs>(tops);
    float inverse[count];
    for (std::size_t j = 0; j < count; ++j) {
        // Held to where a unit and its reciprocal are normal numbers, and a scale of a few units less is one as well.
        std::uint32_t exponent = std::bit_cast<std::uint32_t>(tops[j]) >> 23;
        exponent = exponent < 10 ? 10 : exponent > 244 ? 244 : exponent;
        out.unit[j] = std::bit_cast<float>(exponent << 23);
        inverse[j] = std::bit_cast<float>((254 - exponent) << 23);
    }
    const lanes per_unit = load(inverse);
    lanes squares = all(0.0f);
    for (std::size_t i = 0; i < Size * count; i += count) {
        const lanes x = load(out.x + i) * per_unit;
        store(x, out.x + i);
        squares = squares + x * x;
    }

    float base[count];
    store(squares * all(1.0f / static_cast<float>(Size)), base);
    for (auto& v : base) v = rounded(level * std::sqrt(v));
    const lanes ground = load(base);
    lanes per_weight = all(1.0f);
    if (from.importance != nullptr) {
        for (std::size_t j = 0; j < count; ++j) {
            for (std::size_t i = 0; i < Size; ++i) out.w[i * count + j] = from.importance[j * Size + i];
        }
        lanes most = all(0.0f);
        for (std::size_t i = 0; i < Size * count; i += count) most = larger(load(out.w + i), most);
        float mosts[count];
        store(most, mosts);
        spread_largest<Runs>(mosts);
        per_weight = inverse_or_zero(load(mosts));
    }
    const lanes least = all(1e-6f);  // what nothing depends on still gets the nearest codes
    for (std::size_t i = 0; i < Size * count; i += count) {
        const lanes own = from.importance != nullptr ? load(out.w + i) * per_weight : all(1.0f);
        const lanes size = level < 0.0f ? all(1.0f) : magnitude(load(out.x + i)) + ground;
        store((own + least) * size, out.w + i);
    }
}

/// What codes q of a run add up to: w q, w q^2, w q x.
struct code_sums {
    lanes q;
    lanes qq;
    lanes qx;
};

/// Sums of the codes nearest to x * inverse, without that of w q.
template <class Codes, std::size_t Size>
inline code_sums sums_of(const search_batch<Size>& in, lanes inverse) noexcept {
    code_sums s = {all(0.0f), all(0.0f), all(0.0f)};
    each_step(in, [&](lanes x, lanes w) __attribute__((always_inline)) {
        const lanes q = Codes::nearest(x * inverse);
        const lanes wq = w * q;
        s.qq = s.qq + wq * q;
        s.qx = s.qx + wq * x;
    });
    return s;
}

/// Sums of the codes nearest to (x - offset) * inverse.
template <class Codes, std::size_t Size>
inline code_sums sums_of(const search_batch<Size>& in, lanes offset, lanes inverse) noexcept {
    code_sums s = {all(0.0f), all(0.0f), all(0.0f)};
    each_step(in, [&](lanes x, lanes w) __attribute__((always_inline)) {
        const lanes q = Codes::nearest((x - offset) * inverse);
        const lanes wq = w * q;
        s.q = s.q + wq;
        s.qq = s.qq + wq * q;
        s.qx = s.qx + wq * x;
    });
    return s;
}

template <class Codes, std::size_t Size>
inline void store_codes(const search_batch<Size>& in, lanes offset, lanes inverse, std::int8_t* codes) noexcept {
    float values[lanes::count];
    for (std::size_t i = 0; i < Size; ++i) {
        store(Codes::nearest((load(in.x + i * lanes::count) - offset) * inverse), values);
        for (std::size_t j = 0; j < lanes::count; ++j) codes[j * Size + i] = static_cast<std::int8_t>(values[j]);
    }
}

/// The value of largest magnitude of each run.
template <std::size_t Size>
[[nodiscard]] inline lanes extremes(const search_batch<Size>& in) noexcept {
    lanes least = load(in.x);
    lanes greatest = least;
    each_step(in, [&](lanes x, lanes) __attribute__((always_inline)) {
        least = smaller(x, least);
        greatest = larger(x, greatest);
    });
    return select(magnitude(greatest) < magnitude(least), least, greatest);
}

/// A scale in units as a half float will hold it; the largest of these for what is larger.
[[nodiscard]] inline float stored_scale(float d, float unit) noexcept {
    constexpr float largest = 65504.0f;
    const float whole = rounded(d * unit);
    return f16_to_f32(f32_to_f16(whole > largest ? largest : whole < -largest ? -largest : whole)) / unit;
}

/// The scale of least error of each run by itself. Shape::tops are the codes to which the extreme is scaled for a start; the best
/// scale of these is fitted to its codes, and the codes to that, Shape::refits times.
template <class Shape, std::size_t Size>
[[nodiscard]] inline lanes best_scale(const search_batch<Size>& in) noexcept {
    using codes = typename Shape::codes;
    const lanes extreme = extremes(in);
    const lanes per_top = inverse_or_zero(codes::symmetric ? magnitude(extreme) : extreme);
    lanes best_gain = all(-1.0f);
    lanes best = all(0.0f);
    const auto consider = [&](lanes inverse) {
        const code_sums s = sums_of<codes>(in, inverse);
        const lanes scale = s.qx * inverse_or_zero(s.qq);
        const lanes gain = scale * s.qx;
        const lane_mask better = best_gain < gain;
        best_gain = select(better, gain, best_gain);
        best = select(better, scale, best);
    };
    for (const float top : Shape::tops) consider(all(top) * per_top);
    for (int i = 0; i < Shape::refits; ++i) consider(inverse_or_zero(best));
    return best;
}

/// Sums that don't depend on codes: w, w x, w x^2.
struct value_sums {
    lanes w;
    lanes x;
    lanes xx;
};

template <std::size_t Size>
[[nodiscard]] inline value_sums sums_of(const search_batch<Size>& in) noexcept {
    value_sums s = {all(0.0f), all(0.0f), all(0.0f)};
    each_step(in, [&](lanes x, lanes w) __attribute__((always_inline)) {
        const lanes wx = w * x;
        s.w = s.w + w;
        s.x = s.x + wx;
        s.xx = s.xx + wx * x;
    });
    return s;
}

/// Weighted squared error of `scale * q`.
[[nodiscard, gnu::always_inline]] inline lanes error_of(const value_sums& v, const code_sums& s, lanes scale) noexcept {
    return v.xx + scale * (scale * s.qq - (s.qx + s.qx));
}

/// Scale and offset of runs: x is about scale * q + offset.
struct line {
    lanes scale, offset;
};

/// Weighted squared error of `scale * q + offset`.
[[nodiscard, gnu::always_inline]] inline lanes error_of(const value_sums& v, const code_sums& s, line l) noexcept {
    const lanes scaled = l.scale * (l.scale * s.qq + (l.offset + l.offset) * s.q - (s.qx + s.qx));
    return v.xx + scaled + l.offset * (l.offset * v.w - (v.x + v.x));
}

/// Moves each run's values so that their weighted mean is 0, or nearly; returns by how much. Sums lose fewer digits then.
template <std::size_t Size>
[[nodiscard]] inline lanes centre(search_batch<Size>& in) noexcept {
    const value_sums v = sums_of(in);
    const lanes mean = v.x * inverse_or_zero(v.w);
    for (std::size_t i = 0; i < Size * lanes::count; i += lanes::count) store(load(in.x + i) - mean, in.x + i);
    return mean;
}

/// The line of least error of each run by itself, with an offset of at most `limit`. Shape::tops and refits as in
/// `best_scale`, from the least value as offset.
template <class Shape, std::size_t Size>
[[nodiscard]] inline line best_line(const search_batch<Size>& in, const value_sums& v, lanes limit) noexcept {
    using codes = typename Shape::codes;
    lanes least = load(in.x);
    lanes greatest = least;
    each_step(in, [&](lanes x, lanes) __attribute__((always_inline)) {
        least = smaller(x, least);
        greatest = larger(x, greatest);
    });
    least = smaller(least, limit);
    const lanes per_range = inverse_or_zero(greatest - least);
    const lanes per_weight = inverse_or_zero(v.w);
    lanes best_error = all(0x1p100f);
    line best{all(0.0f), least};
    const auto consider = [&](lanes offset, lanes inverse) {
        const code_sums s = sums_of<codes>(in, offset, inverse);
        const lanes mean = s.q * per_weight;
        const lanes slope = (s.qx - mean * v.x) * inverse_or_zero(s.qq - mean * s.q);
        const lanes level = (v.x - slope * s.q) * per_weight;
        const lane_mask over = limit < level;
        const line l{select(over, (s.qx - limit * s.q) * inverse_or_zero(s.qq), slope), select(over, limit, level)};
        const lanes error = error_of(v, s, l);
        const lane_mask better = error < best_error;
        best_error = select(better, error, best_error);
        best.scale = select(better, l.scale, best.scale);
        best.offset = select(better, l.offset, best.offset);
    };
    for (const float top : Shape::tops) consider(least, all(top) * per_range);
    for (int i = 0; i < Shape::refits; ++i) consider(best.offset, inverse_or_zero(best.scale));
    return best;
}

/// Blocks of one run with one scale.
template <class Shape>
inline void search_scale(const search_input& from, search_output<Shape::size>& out) noexcept {
    search_batch<Shape::size> in;
    fill<Shape::size, 1>(from, Shape::level, in);
    float d[lanes::count];
    store(best_scale<Shape>(in), d);
    for (std::size_t j = 0; j < lanes::count; ++j) {
        d[j] = stored_scale(d[j], in.unit[j]);
        out.d[j] = rounded(d[j] * in.unit[j]);
    }
    store_codes<typename Shape::codes>(in, all(0.0f), inverse_or_zero(load(d)), out.codes);
}

/// Blocks of one run with a scale and an offset (`dmin`).
template <class Shape>
inline void search_line(const search_input& from, search_output<Shape::size>& out) noexcept {
    search_batch<Shape::size> in;
    fill<Shape::size, 1>(from, Shape::level, in);
    const lanes mean = centre(in);
    const value_sums v = sums_of(in);
    const line best = best_line<Shape>(in, v, all(0x1p100f));
    float d[lanes::count];
    float low[lanes::count];
    store(best.scale, d);
    store(best.offset + mean, low);
    for (std::size_t j = 0; j < lanes::count; ++j) {
        d[j] = stored_scale(d[j], in.unit[j]);
        low[j] = stored_scale(low[j], in.unit[j]);
        out.d[j] = rounded(d[j] * in.unit[j]);
        out.dmin[j] = rounded(low[j] * in.unit[j]);
    }
    store_codes<typename Shape::codes>(in, load(low) - mean, inverse_or_zero(load(d)), out.codes);
}

/// Blocks of one run whose scale is a power of two.
template <class Shape>
inline void search_exponent(const search_input& from, search_output<Shape::size>& out) noexcept {
    using codes = typename Shape::codes;
    search_batch<Shape::size> in;
    fill<Shape::size, 1>(from, Shape::level, in);
    const value_sums v = sums_of(in);
    lanes best_error = all(0x1p100f);
    lanes best = all(0.0f);
    for (const float scale : Shape::scales) {
        const lanes error = error_of(v, sums_of<codes>(in, all(1.0f / scale)), all(scale));
        const lane_mask better = error < best_error;
        best_error = select(better, error, best_error);
        best = select(better, all(scale), best);
    }
    float d[lanes::count];
    store(best, d);
    for (std::size_t j = 0; j < lanes::count; ++j) out.d[j] = rounded(d[j] * in.unit[j]);
    store_codes<codes>(in, all(0.0f), inverse_or_zero(best), out.codes);
}

}  // namespace colibri::quant::detail::COLIBRI_LEVEL
#endif
