// The search for super-blocks: runs whose scales (and minimums) are whole numbers under the scales of the block.
// A part of encode_levels.hpp.

#ifdef COLIBRI_LEVEL
namespace colibri::quant::detail::COLIBRI_LEVEL {

/// Sum over the runs of one block.
template <std::size_t Runs>
[[nodiscard]] inline float sum_of_runs(const float* of_run) noexcept {
    float sum = of_run[0];
    for (std::size_t j = 1; j < Runs; ++j) sum += of_run[j];
    return sum;
}

template <std::size_t Runs>
inline void set_runs(float* of_run, float value) noexcept {
    for (std::size_t j = 0; j < Runs; ++j) of_run[j] = value;
}
template <std::size_t Runs>
inline void copy_runs(const float* from, float* to) noexcept {
    for (std::size_t j = 0; j < Runs; ++j) to[j] = from[j];
}

/// Blocks whose runs have a whole scale each, Shape::scale_low..scale_high, under the block's scale. For each of
/// Shape::divisors the block's scale starts as the largest run's scale divided by it. Then, Shape::rounds times: each run
/// takes the best of the whole scales within Shape::reach of the nearest, with new codes, and the block's scale is fitted
/// to all of them.
template <class Shape>
inline void search_scaled_runs(const search_input& from, search_output<Shape::size>& out) noexcept {
    using codes = typename Shape::codes;
    constexpr std::size_t count = lanes::count;
    constexpr std::size_t runs = Shape::runs;
    search_batch<Shape::size> in;
    fill<Shape::size, runs>(from, Shape::level, in);
    const value_sums v = sums_of(in);
    const lanes ideal = best_scale<Shape>(in);
    float ideals[count];
    store(ideal, ideals);

    float best_error[count];
    float best_d[count] = {};
    float best_scales[count] = {};
    set_runs<count>(best_error, 0x1p100f);
    for (const float divisor : Shape::divisors) {
        float d[count];
        for (std::size_t b = 0; b < count; b += runs) {
            float top = ideals[b];
            for (std::size_t j = b; j < b + runs; ++j) {
                const float here = ideals[j] < 0.0f ? -ideals[j] : ideals[j];
                if (here > (top < 0.0f ? -top : top)) top = ideals[j];
            }
            set_runs<runs>(d + b, stored_scale(top / divisor, in.unit[b]));
        }
        for (int round = 0; round < Shape::rounds; ++round) {
            const lanes block_scale = load(d);
            const lanes middle =
                nearest_whole(held(ideal * inverse_or_zero(block_scale), Shape::scale_low, Shape::scale_high));
            lanes least = all(0x1p100f);
            lanes chosen = middle;
            code_sums chosen_sums = {all(0.0f), all(0.0f), all(0.0f)};
            for (int step = -Shape::reach; step <= Shape::reach; ++step) {
                const lanes whole = held(middle + all(static_cast<float>(step)), Shape::scale_low, Shape::scale_high);
                const lanes scale = block_scale * whole;
                const code_sums s = sums_of<codes>(in, inverse_or_zero(scale));
                const lanes error = error_of(v, s, scale);
                const lane_mask better = error < least;
                least = select(better, error, least);
                chosen = select(better, whole, chosen);
                chosen_sums.qx = select(better, s.qx, chosen_sums.qx);
                chosen_sums.qq = select(better, s.qq, chosen_sums.qq);
            }
            float error[count];
            float whole[count];
            float qx[count];
            float qq[count];
            store(least, error);
            store(chosen, whole);
            store(chosen * chosen_sums.qx, qx);
            store(chosen * chosen * chosen_sums.qq, qq);
            for (std::size_t b = 0; b < count; b += runs) {
                if (const float total = sum_of_runs<runs>(error + b); total < best_error[b]) {
                    best_error[b] = total;
                    copy_runs<runs>(d + b, best_d + b);
                    copy_runs<runs>(whole + b, best_scales + b);
                }
                const float squares = sum_of_runs<runs>(qq + b);
                if (squares > 0.0f) set_runs<runs>(d + b, stored_scale(sum_of_runs<runs>(qx + b) / squares, in.unit[b]));
            }
        }
    }
    store_codes<codes>(in, all(0.0f), inverse_or_zero(load(best_d) * load(best_scales)), out.codes);
    for (std::size_t j = 0; j < count; ++j) out.scales[j] = static_cast<std::int8_t>(best_scales[j]);
    for (std::size_t b = 0; b < count; b += runs) out.d[b / runs] = rounded(best_d[b] * in.unit[b]);
}

/// The two scales of a block.
struct scale_pair {
    float d, dmin;
};
/// Weighted sums over a block, a being the products of whole scale and code, b the whole minimums.
struct pair_sums {
    float aa, ab, bb, ax, bx;
};
/// Finds the scales with the least error of d * a - dmin * b; leaves `out` and returns false if one would be negative.
[[nodiscard]] inline bool fit(const pair_sums& s, scale_pair& out) noexcept {
    const float both = rounded(s.aa * s.bb);
    const float determinant = both - rounded(s.ab * s.ab);
    scale_pair found = out;
    if (determinant > both * 1e-4f) {
        found.d = (rounded(s.ax * s.bb) - rounded(s.ab * s.bx)) / determinant;
        found.dmin = (rounded(s.ax * s.ab) - rounded(s.aa * s.bx)) / determinant;
    } else if (s.aa > 0.0f) {
        found.d = (s.ax + rounded(out.dmin * s.ab)) / s.aa;
    }
    if (!(found.d > 0.0f && found.dmin >= 0.0f)) return false;
    out = found;
    return true;
}

/// Blocks whose runs have a whole scale and a whole minimum each, 0..Shape::scale_high, under two scales of the block;
/// otherwise as `search_scaled_runs`, with pairs of divisors. Each whole scale that is tried gets the minimum that fits its
/// codes.
template <class Shape>
inline void search_line_runs(const search_input& from, search_output<Shape::size>& out) noexcept {
    using codes = typename Shape::codes;
    constexpr std::size_t count = lanes::count;
    constexpr std::size_t runs = Shape::runs;
    search_batch<Shape::size> in;
    fill<Shape::size, runs>(from, Shape::level, in);
    const lanes zero = all(0.0f);
    const lanes mean = centre(in);
    const value_sums v = sums_of(in);
    const lanes per_weight = inverse_or_zero(v.w);
    const line ideal = best_line<Shape>(in, v, zero - mean);
    float slopes[count];
    float lows[count];
    store(larger(ideal.scale, zero), slopes);
    store(larger(zero - (ideal.offset + mean), zero), lows);

    float best_error[count];
    float best_d[count] = {};
    float best_dmin[count] = {};
    float best_scales[count] = {};
    float best_minimums[count] = {};
    set_runs<count>(best_error, 0x1p100f);
    for (const auto& divisor : Shape::divisors) {
        float d[count];
        float dmin[count];
        for (std::size_t b = 0; b < count; b += runs) {
            float slope = 0.0f;
            float low = 0.0f;
            for (std::size_t j = b; j < b + runs; ++j) {
                slope = slopes[j] > slope ? slopes[j] : slope;
                low = lows[j] > low ? lows[j] : low;
            }
            set_runs<runs>(d + b, stored_scale(slope / divisor[0], in.unit[b]));
            set_runs<runs>(dmin + b, stored_scale(low / divisor[1], in.unit[b]));
        }
        lanes offset = ideal.offset;
        for (int round = 0; round < Shape::rounds; ++round) {
            const lanes block_scale = load(d);
            const lanes block_minimum = load(dmin);
            const lanes per_minimum = inverse_or_zero(block_minimum);
            const lanes middle =
                nearest_whole(held(ideal.scale * inverse_or_zero(block_scale), 0.0f, Shape::scale_high));
            lanes least = all(0x1p100f);
            lanes chosen = middle;
            lanes chosen_low = zero;
            lanes chosen_offset = offset;
            code_sums chosen_sums = {all(0.0f), all(0.0f), all(0.0f)};
            for (int step = -Shape::reach; step <= Shape::reach; ++step) {
                const lanes whole = held(middle + all(static_cast<float>(step)), 0.0f, Shape::scale_high);
                const lanes scale = block_scale * whole;
                const lanes inverse = inverse_or_zero(scale);
                const code_sums first = sums_of<codes>(in, offset, inverse);
                const lanes level = (v.x - scale * first.q) * per_weight;
                const lanes low = nearest_whole(held((zero - level - mean) * per_minimum, 0.0f, Shape::scale_high));
                const line l{scale, zero - block_minimum * low - mean};
                const code_sums s = sums_of<codes>(in, l.offset, inverse);
                const lanes error = error_of(v, s, l);
                const lane_mask better = error < least;
                least = select(better, error, least);
                chosen = select(better, whole, chosen);
                chosen_low = select(better, low, chosen_low);
                chosen_offset = select(better, l.offset, chosen_offset);
                chosen_sums.q = select(better, s.q, chosen_sums.q);
                chosen_sums.qq = select(better, s.qq, chosen_sums.qq);
                chosen_sums.qx = select(better, s.qx, chosen_sums.qx);
            }
            float error[count];
            float whole[count];
            float low[count];
            float aa[count];
            float ab[count];
            float bb[count];
            float ax[count];
            float bx[count];
            store(least, error);
            store(chosen, whole);
            store(chosen_low, low);
            store(chosen * chosen * chosen_sums.qq, aa);
            store(chosen * chosen_low * chosen_sums.q, ab);
            store(chosen_low * chosen_low * v.w, bb);
            store(chosen * (chosen_sums.qx + mean * chosen_sums.q), ax);
            store(chosen_low * (v.x + mean * v.w), bx);
            for (std::size_t b = 0; b < count; b += runs) {
                if (const float total = sum_of_runs<runs>(error + b); total < best_error[b]) {
                    best_error[b] = total;
                    copy_runs<runs>(d + b, best_d + b);
                    copy_runs<runs>(dmin + b, best_dmin + b);
                    copy_runs<runs>(whole + b, best_scales + b);
                    copy_runs<runs>(low + b, best_minimums + b);
                }
                const pair_sums sums{sum_of_runs<runs>(aa + b), sum_of_runs<runs>(ab + b), sum_of_runs<runs>(bb + b),
                                     sum_of_runs<runs>(ax + b), sum_of_runs<runs>(bx + b)};
                if (scale_pair fitted{d[b], dmin[b]}; fit(sums, fitted)) {
                    set_runs<runs>(d + b, stored_scale(fitted.d, in.unit[b]));
                    set_runs<runs>(dmin + b, stored_scale(fitted.dmin, in.unit[b]));
                }
            }
            offset = chosen_offset;
        }
    }
    const lanes scale = load(best_d) * load(best_scales);
    const lanes offset = zero - load(best_dmin) * load(best_minimums) - mean;
    store_codes<codes>(in, offset, inverse_or_zero(scale), out.codes);
    for (std::size_t j = 0; j < count; ++j) {
        out.scales[j] = static_cast<std::int8_t>(best_scales[j]);
        out.minimums[j] = static_cast<std::int8_t>(best_minimums[j]);
    }
    for (std::size_t b = 0; b < count; b += runs) {
        out.d[b / runs] = rounded(best_d[b] * in.unit[b]);
        out.dmin[b / runs] = rounded(best_dmin[b] * in.unit[b]);
    }
}

/// Runs with a scale from an ascending list each and nothing above them: Shape::scale_count of them, Shape::scale_of(place), of
/// which the one nearest to the best and its neighbours within Shape::reach are tried. `scales` become the places.
template <class Shape>
inline void search_listed_scales(const search_input& from, search_output<Shape::size>& out) noexcept {
    using codes = typename Shape::codes;
    constexpr std::size_t count = lanes::count;
    search_batch<Shape::size> in;
    fill<Shape::size, 1>(from, Shape::level, in);
    const value_sums v = sums_of(in);
    float ideals[count];
    store(best_scale<Shape>(in), ideals);
    int middle[count];
    for (std::size_t j = 0; j < count; ++j) {
        int low = 0;
        int high = Shape::scale_count - 1;
        const float wanted = rounded(ideals[j] * in.unit[j]);
        while (high - low > 1) {
            const int between = (low + high) / 2;
            (Shape::scale_of(between) <= wanted ? low : high) = between;
        }
        middle[j] = wanted - Shape::scale_of(low) < Shape::scale_of(high) - wanted ? low : high;
    }
    lanes least = all(0x1p100f);
    lanes best = all(0.0f);
    lanes best_scale = all(0.0f);
    for (int step = -Shape::reach; step <= Shape::reach; ++step) {
        float places[count];
        float scales[count];
        for (std::size_t j = 0; j < count; ++j) {
            int place = middle[j] + step;
            place = place < 0 ? 0 : place < Shape::scale_count ? place : Shape::scale_count - 1;
            places[j] = static_cast<float>(place);
            scales[j] = Shape::scale_of(place) / in.unit[j];
        }
        const lanes scale = load(scales);
        const lanes error = error_of(v, sums_of<codes>(in, inverse_or_zero(scale)), scale);
        const lane_mask better = error < least;
        least = select(better, error, least);
        best = select(better, load(places), best);
        best_scale = select(better, scale, best_scale);
    }
    float places[count];
    store(best, places);
    for (std::size_t j = 0; j < count; ++j) out.scales[j] = static_cast<std::int8_t>(places[j]);
    store_codes<codes>(in, all(0.0f), inverse_or_zero(best_scale), out.codes);
}

}  // namespace colibri::quant::detail::COLIBRI_LEVEL
#endif
