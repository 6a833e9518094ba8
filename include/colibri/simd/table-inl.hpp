// The kernels of this target by name. Part of kernels-inl.hpp.

template <class Format>
constexpr kernel_table::product_fn ProductOf() {
    if constexpr (Format::type == dtype::f32) return &FloatProduct<KvF32>;
    else if constexpr (Format::type == dtype::f16) return &FloatProduct<KvF16>;
    else if constexpr (Format::type == dtype::bf16) return &FloatProduct<KvBf16>;
    else return &CodeProduct<Format>;
}

template <class... Formats>
constexpr kernel_table MakeTable(quant::format_list<Formats...>) {
    kernel_table t{};
    std::size_t slot = 0;
    ((t.product[slot++] = ProductOf<Formats>()), ...);
    t.quantise_32 = &Quantise<32>;
    t.quantise_256 = &Quantise<256>;
    t.residuals_32 = &Residuals<32>;
    t.residuals_256 = &Residuals<256>;
    t.rms_norm = &RmsNorm;
    t.softmax = &Softmax;
    t.rope_interleaved = &RopeInterleaved;
    t.rope_halves = &RopeHalves;
    t.swiglu = &Swiglu;
    t.geglu = &Geglu;
    t.add = &VectorAdd;
    t.multiply_add = &MultiplyAdd;
    t.blend = &Blend;
    t.scale = &Scale;
    t.softcap = &Softcap;
    t.exp = &VectorExp;
    t.tanh = &VectorTanh;
    t.max = &VectorMax;
    t.argmax = &Argmax;
    t.scores[0] = &Scores<KvF32>;
    t.scores[1] = &Scores<KvF16>;
    t.scores[2] = &Scores<KvBf16>;
    t.scores[3] = &Scores<KvQ8_0>;
    t.scores[4] = &Scores<KvQ4_0>;
    t.accumulate[0] = &Accumulate<KvF32>;
    t.accumulate[1] = &Accumulate<KvF16>;
    t.accumulate[2] = &Accumulate<KvBf16>;
    t.accumulate[3] = &Accumulate<KvQ8_0>;
    t.accumulate[4] = &Accumulate<KvQ4_0>;
    t.store[0] = &StoreF32Row;
    t.store[1] = &StoreF16Row;
    t.store[2] = &StoreBf16Row;
    t.store[3] = &detail::store_blocks<quant::q8_0>;
    t.store[4] = &detail::store_blocks<quant::q4_0>;
    t.span_weights = &SpanWeights;
    t.weigh = &Weigh;
    t.integer_peak = &IntegerPeak;
    t.float_peak = &FloatPeak;
    return t;
}

inline constexpr kernel_table kTable = MakeTable(quant::weight_formats{});
