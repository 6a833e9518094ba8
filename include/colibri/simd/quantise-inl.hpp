// Activations to 8-bit codes, as quant/activation.hpp does it. Part of kernels-inl.hpp.

/// See quant::quantise_group; also writes both sums of 16 codes and the weighted sum of all.
COLIBRI_KERNEL float QuantiseGroup(const float* x, std::int8_t* codes, std::int16_t* sums, float* weighted) {
    const Ints no_sign = SetInt(0x7fffffff);
    const Floats low = Load(x);
    const Floats high = Load(x + 16);
    const std::int32_t top = MaxLane(Max(And(Bits(low), no_sign), And(Bits(high), no_sign)));
    float largest;
    __builtin_memcpy(&largest, &top, 4);
    const bool finite = top < 0x7f800000;
    const float d = finite ? largest / 127.0f : 0.0f;
    if (!(d >= 0x1p-126f)) {
        __builtin_memset(codes, 0, 32);
        sums[0] = sums[1] = 0;
        const float scale = finite ? 0.0f : __builtin_nanf("");
        *weighted = scale;  // times zero
        return scale;
    }
    const Floats inverse = Set(1.0f / d);
    const Floats magic = Set(0x1.8p23f);  // see SplitExp
    const Floats first = Rounded(Add(Mul(low, inverse), magic));
    const Floats second = Rounded(Add(Mul(high, inverse), magic));
    StoreI8(Sub(Bits(first), Bits(magic)), codes);
    StoreI8(Sub(Bits(second), Bits(magic)), codes + 16);
    // Sums of small whole numbers are exact as floats.
    const float first_sum = Sum(Sub(first, magic));
    const float second_sum = Sum(Sub(second, magic));
    sums[0] = static_cast<std::int16_t>(first_sum);
    sums[1] = static_cast<std::int16_t>(second_sum);
    *weighted = d * (first_sum + second_sum);
    return d;
}

/// See quant::quantise_activations.
COLIBRI_ENTRY void Quantise(const float* x, std::size_t k, const quant::activation_planes& out) {
    for (std::size_t g = 0; g < k / 32; ++g) {
        out.scales[g] = QuantiseGroup(x + g * 32, out.codes + g * 32, out.sums + g * 2, out.weighted + g);
    }
}

/// See quant::add_residuals.
COLIBRI_ENTRY void Residuals(const float* x, std::size_t k, const quant::activation_planes& plane,
                             const quant::activation_planes& residual, std::uint8_t* flags) {
    const std::size_t groups = k / 32;
    __builtin_memset(flags, 0, (groups + 7) / 8);
    float sum = 0.0f;
    float top = 0.0f;
    for (std::size_t g = 0; g < groups; ++g) {
        sum += plane.scales[g];
        top = plane.scales[g] > top ? plane.scales[g] : top;
    }
    if (!(top * static_cast<float>(groups) > quant::residual_peak * sum)) return;
    const float limit = quant::residual_threshold * sum;
    for (std::size_t g = 0; g < groups; ++g) {
        if (!(plane.scales[g] * static_cast<float>(groups) > limit)) continue;
        const Floats scale = Set(plane.scales[g]);
        float rest[32];
        for (std::size_t i = 0; i < 32; i += 16) {
            Store(Sub(Load(x + g * 32 + i), Mul(scale, LoadI8(plane.codes + g * 32 + i))), rest + i);
        }
        const float d = QuantiseGroup(rest, residual.codes + g * 32, residual.sums + g * 2, residual.weighted + g);
        residual.scales[g] = d;
        if (d > 0.0f) flags[g / 8] = static_cast<std::uint8_t>(flags[g / 8] | 1u << (g % 8));
    }
}
