// Activations to 8-bit codes, as quant/activation.hpp does it. Part of kernels-inl.hpp.

/// See quant::quantise_group; also writes the sums of the codes, one for 32 or 16 of them.
template <std::size_t kGroup>
COLIBRI_KERNEL float QuantiseGroup(const float* x, std::int8_t* codes, std::int16_t* sums) {
    const Ints no_sign = SetInt(0x7fffffff);
    Ints tops = And(Bits(Load(x)), no_sign);
    for (std::size_t i = 16; i < kGroup; i += 16) tops = Max(tops, And(Bits(Load(x + i)), no_sign));
    const std::int32_t top = MaxLane(tops);
    float largest;
    __builtin_memcpy(&largest, &top, 4);
    const bool finite = top < 0x7f800000;
    const float d = finite ? largest / 127.0f : 0.0f;
    if (!(d >= 0x1p-126f)) {
        __builtin_memset(codes, 0, kGroup);
        __builtin_memset(sums, 0, kGroup / quant::activation_run<kGroup> * sizeof(std::int16_t));
        return finite ? 0.0f : __builtin_nanf("");
    }
    const Floats inverse = Set(1.0f / d);
    const Floats magic = Set(0x1.8p23f);  // see SplitExp
    for (std::size_t i = 0; i < kGroup; i += 32) {
        const Floats first = Rounded(Add(Mul(Load(x + i), inverse), magic));
        const Floats second = Rounded(Add(Mul(Load(x + i + 16), inverse), magic));
        StoreI8(Sub(Bits(first), Bits(magic)), codes + i);
        StoreI8(Sub(Bits(second), Bits(magic)), codes + i + 16);
        // Sums of small whole numbers are exact as floats.
        if constexpr (kGroup == 32) {
            sums[0] = static_cast<std::int16_t>(Sum(Add(Sub(first, magic), Sub(second, magic))));
        } else {
            sums[i / 16] = static_cast<std::int16_t>(Sum(Sub(first, magic)));
            sums[i / 16 + 1] = static_cast<std::int16_t>(Sum(Sub(second, magic)));
        }
    }
    return d;
}

/// See quant::quantise_activations.
template <std::size_t kGroup>
COLIBRI_ENTRY void Quantise(const float* x, std::size_t k, std::int8_t* codes, float* scales, std::int16_t* sums) {
    constexpr std::size_t runs = kGroup / quant::activation_run<kGroup>;
    for (std::size_t g = 0; g < k / kGroup; ++g) {
        scales[g] = QuantiseGroup<kGroup>(x + g * kGroup, codes + g * kGroup, sums + g * runs);
    }
}

/// See quant::add_residuals.
template <std::size_t kGroup>
COLIBRI_ENTRY void Residuals(const float* x, std::size_t k, const std::int8_t* codes, const float* scales,
                             std::int8_t* residual_codes, float* residual_scales, std::int16_t* residual_sums,
                             std::uint8_t* flags) {
    constexpr std::size_t runs = kGroup / quant::activation_run<kGroup>;
    constexpr std::size_t per_flag = quant::activation_chunk / kGroup;
    const std::size_t groups = k / kGroup;
    __builtin_memset(flags, 0, (k + quant::activation_chunk - 1) / quant::activation_chunk);
    float sum = 0.0f;
    for (std::size_t g = 0; g < groups; ++g) sum += scales[g];
    const float limit = quant::residual_threshold * sum;
    for (std::size_t g = 0; g < groups; ++g) {
        if (!(scales[g] * static_cast<float>(groups) > limit)) continue;
        const Floats scale = Set(scales[g]);
        float rest[kGroup];
        for (std::size_t i = 0; i < kGroup; i += 16) {
            Store(Sub(Load(x + g * kGroup + i), Mul(scale, LoadI8(codes + g * kGroup + i))), rest + i);
        }
        const float d = QuantiseGroup<kGroup>(rest, residual_codes + g * kGroup, residual_sums + g * runs);
        residual_scales[g] = d;
        if (d > 0.0f) flags[g / per_flag] = static_cast<std::uint8_t>(flags[g / per_flag] | 1u << (g % per_flag));
    }
}
