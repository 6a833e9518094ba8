// Probabilities as integers (core/fixed_weight.hpp), several at once and to the last bit the same. Part of kernels-inl.hpp.

#if COLIBRI_PLAIN_TARGET
COLIBRI_ENTRY void Weigh(const float* x, std::size_t n, float best, std::uint64_t* distances, std::uint64_t* weights) {
    for (std::size_t i = 0; i < n; ++i) {
        distances[i] = fixed_weight::distance(best, x[i]);
        weights[i] = fixed_weight::weight_at(distances[i]);
    }
}
#else
using WideTag = hn::CappedTag<std::uint64_t, 8>;
using WideVec = hn::Vec<WideTag>;

/// Products of the lower halves.
COLIBRI_KERNEL WideVec MulLow(WideVec a, WideVec b) {
    const hn::Repartition<std::uint32_t, WideTag> d32;
    return hn::MulEven(hn::BitCast(d32, a), hn::BitCast(d32, b));
}

COLIBRI_ENTRY void Weigh(const float* x, std::size_t n, float best, std::uint64_t* distances, std::uint64_t* weights) {
    const WideTag d;
    const hn::RebindToSigned<WideTag> di;
    const hn::Rebind<double, WideTag> dd;
    const hn::Rebind<float, WideTag> df;
    const auto top = hn::Set(dd, static_cast<double>(best));
    const auto scale = hn::Set(dd, fixed_weight::distance_scale);
    const auto far = hn::Set(dd, static_cast<double>(fixed_weight::far_away));
    for (std::size_t i = 0; i < n; i += HWY_LANES(std::uint64_t) < 8 ? HWY_LANES(std::uint64_t) : 8) {
        const auto scaled = hn::Mul(hn::Sub(top, hn::PromoteTo(dd, hn::LoadU(df, x + i))), scale);
        const auto held = hn::IfThenElse(hn::Lt(scaled, far), scaled, far);  // NaN counts as far away
        const WideVec distance = hn::BitCast(d, hn::ConvertTo(di, held));
        hn::StoreU(distance, d, distances + i);
        const WideVec y = hn::ShiftRight<32>(MulLow(distance, hn::Set(d, fixed_weight::ln2)));
        const WideVec y2 = hn::ShiftRight<40>(MulLow(y, y));
        const WideVec y3 = hn::ShiftRight<40>(MulLow(y2, y));
        const WideVec sixth = hn::ShiftRight<18>(MulLow(y3, hn::Set(d, 43691)));  // exact for numbers below 2^17; these are below 2^15
        const WideVec rest = hn::Sub(hn::Add(hn::Sub(hn::Set(d, fixed_weight::full_weight), y), hn::ShiftRight<1>(y2)), sixth);
        const WideVec step = hn::And(hn::ShiftRight<32>(distance), hn::Set(d, 0xff));
        const WideVec power = hn::GatherIndex(d, &fixed_weight::powers_of_half.at[0], hn::BitCast(di, step));
        // power * rest >> 62 from products of halves: power is at most 2^62, rest at most 2^40, so the middle fits.
        const WideVec power_high = hn::ShiftRight<32>(power);
        const WideVec rest_high = hn::ShiftRight<32>(rest);
        const WideVec middle = hn::Add(hn::Add(MulLow(power_high, rest), MulLow(power, rest_high)), hn::ShiftRight<32>(MulLow(power, rest)));
        const WideVec product = hn::Add(hn::ShiftLeft<2>(MulLow(power_high, rest_high)), hn::ShiftRight<30>(middle));
        const WideVec whole = hn::ShiftRight<40>(distance);  // below 2^21, so comparing the halves of lanes is enough
        const hn::Repartition<std::uint32_t, WideTag> d32;
        const WideVec halvings = hn::BitCast(d, hn::Min(hn::BitCast(d32, whole), hn::BitCast(d32, hn::Set(d, 63))));
        hn::StoreU(hn::Shr(product, halvings), d, weights + i);
    }
}
#endif
