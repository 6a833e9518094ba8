// The kernels of this target by name. Part of kernels-inl.hpp.

template <class Format>
constexpr kernel_table::product_fn ProductOf() {
    if constexpr (Format::type == dtype::f32) return &FloatProduct<KvF32>;
    else if constexpr (Format::type == dtype::f16) return &FloatProduct<KvF16>;
    else if constexpr (Format::type == dtype::bf16) return &FloatProduct<KvBf16>;
    else return &CodeProduct<Format>;
}

template <class Format>
constexpr void SetKvKernels(kernel_table& t, std::size_t slot) {
    t.scores[slot] = &Scores<Format>;
    t.accumulate[slot] = &Accumulate<Format>;
    t.unpack_keys[slot] = &UnpackKeys<Format>;
    t.unpack_values[slot] = &UnpackValues<Format>;
    if constexpr (Format::run == 1) {
        t.store[slot] = &StoreRow<Format>;
        t.store_key[slot] = &StoreKey<Format>;
    } else {
        t.store[slot] = &detail::store_blocks<typename Format::Block>;
        t.store_key[slot] = &detail::store_key_blocks<typename Format::Block>;
    }
}

template <class Format>
constexpr kernel_table::product_fn PanelProductOf() {
    if constexpr (Format::block_size == 1) return nullptr;
    else if constexpr (Format::type == dtype::tq1_0) return &PanelProduct<quant::tq2_0>;  // the same in panels
    else return &PanelProduct<Format>;
}

template <class... Formats>
constexpr kernel_table MakeTable(quant::format_list<Formats...>) {
    kernel_table t{};
    std::size_t slot = 0;
    ((t.product[slot++] = ProductOf<Formats>()), ...);
    slot = 0;
    ((t.panel_product[slot++] = PanelProductOf<Formats>()), ...);
    t.quantise = &Quantise;
    t.residuals = &Residuals;
#if COLIBRI_PLAIN_TARGET
    t.pack = nullptr;
#else
    t.pack = &PackChunk;
#endif
    t.rms_norm = &RmsNorm;
    t.softmax = &Softmax;
    t.rope_interleaved = &RopeInterleaved;
    t.rope_halves = &RopeHalves;
    t.swiglu = &Swiglu;
    t.geglu = &Geglu;
    t.add = &VectorAdd;
    t.multiply_add = &MultiplyAdd;
    t.scale = &Scale;
    t.softcap = &Softcap;
    t.exp = &VectorExp;
    t.tanh = &VectorTanh;
    t.max = &VectorMax;
    t.argmax = &Argmax;
    SetKvKernels<KvF32>(t, 0);
    SetKvKernels<KvF16>(t, 1);
    SetKvKernels<KvBf16>(t, 2);
    SetKvKernels<KvQ8_0>(t, 3);
    SetKvKernels<KvQ4_0>(t, 4);
    t.scores[kv_slots] = &Scores<KvUnpacked>;
    t.accumulate[kv_slots] = &Accumulate<KvUnpacked>;
    t.span_weights = &SpanWeights;
    t.merge_spans = &MergeSpans;
    t.weigh = &Weigh;
    t.integer_peak = &IntegerPeak;
    t.float_peak = &FloatPeak;
    return t;
}

inline constexpr kernel_table kTable = MakeTable(quant::weight_formats{});
