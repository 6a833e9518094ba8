// What is searched for each format whose codes are found one by one, and how hard. A part of encode_levels.hpp.

#ifdef COLIBRI_LEVEL
namespace colibri::quant::detail::COLIBRI_LEVEL {

// Members of a search: `size` of a run, `runs` of a block, its `codes`, `level` of the weighting (see `fill`), the rest as the
// function of its `kind` says. Levels were chosen by the divergence of a whole model's files, candidates by error and time.

enum class search_kind { scale, line, exponent, listed, scaled_runs, line_runs };

template <class F>
struct search_shape;

template <>
struct search_shape<q4_0> {
    using codes = whole_codes<-8, 7>;
    static constexpr std::size_t size = 32, runs = 1;
    static constexpr float level = 1.0f;
    static constexpr float tops[] = {-6.6f, -7.0f, -7.4f, -7.8f, -8.2f, -8.6f, 6.2f, 6.6f, 7.0f, 7.4f, 7.8f};
    static constexpr int refits = 2;
    static constexpr search_kind kind = search_kind::scale;
};
template <>
struct search_shape<q5_0> {
    using codes = whole_codes<-16, 15>;
    static constexpr std::size_t size = 32, runs = 1;
    static constexpr float level = 1.0f;
    static constexpr float tops[] = {-13.4f, -13.8f, -14.2f, -14.5f, -14.8f, -15.0f, -15.2f, -15.4f, -15.6f, -15.8f, -16.0f, -16.2f, -16.5f,
                                    13.0f,  13.4f,  13.8f,  14.1f,  14.4f,  14.6f,  14.8f,  15.0f,  15.2f,  15.4f};
    static constexpr int refits = 2;
    static constexpr search_kind kind = search_kind::scale;
};
template <>
struct search_shape<q8_0> {
    using codes = whole_codes<-127, 127>;
    static constexpr std::size_t size = 32, runs = 1;
    static constexpr float level = 1.0f;
    static constexpr float tops[] = {126.4f, 126.7f, 127.0f, 127.3f};
    static constexpr int refits = 1;
    static constexpr search_kind kind = search_kind::scale;
};
template <>
struct search_shape<q4_1> {
    using codes = whole_codes<0, 15>;
    static constexpr std::size_t size = 32, runs = 1;
    static constexpr float level = 1.0f;
    static constexpr float tops[] = {12.6f, 13.0f, 13.3f, 13.6f, 13.9f, 14.2f, 14.4f, 14.6f, 14.8f,
                                    15.0f, 15.2f, 15.4f, 15.6f, 15.8f, 16.0f, 16.2f, 16.5f, 16.8f};
    static constexpr int refits = 3;
    static constexpr search_kind kind = search_kind::line;
};
template <>
struct search_shape<q5_1> {
    using codes = whole_codes<0, 31>;
    static constexpr std::size_t size = 32, runs = 1;
    static constexpr float level = 3.0f;
    static constexpr float tops[] = {28.0f, 28.5f, 29.0f, 29.4f, 29.8f, 30.1f, 30.3f, 30.5f, 30.7f,
                                    30.9f, 31.1f, 31.3f, 31.5f, 31.7f, 31.9f, 32.2f, 32.6f};
    static constexpr int refits = 3;
    static constexpr search_kind kind = search_kind::line;
};
template <>
struct search_shape<iq4_nl> {
    using codes = iq4_codes;
    static constexpr std::size_t size = 32, runs = 1;
    static constexpr float level = 1.0f;
    static constexpr float tops[] = {-96.0f, -102.0f, -108.0f, -112.0f, -116.0f, -120.0f, -124.0f, -128.0f, -133.0f, -139.0f,
                                    88.0f,  94.0f,   99.0f,   103.0f,  107.0f,  111.0f,  115.0f,  120.0f};
    static constexpr int refits = 2;
    static constexpr search_kind kind = search_kind::scale;
};
template <>
struct search_shape<mxfp4> {
    using codes = e2m1_codes;
    static constexpr std::size_t size = 32, runs = 1;
    static constexpr float level = 1.0f;
    static constexpr float scales[] = {0x1p-4f, 0x1p-3f, 0x1p-2f};
    static constexpr search_kind kind = search_kind::exponent;
};
template <>
struct search_shape<nvfp4> {
    using codes = e2m1_codes;
    static constexpr std::size_t size = 16, runs = 4;
    static constexpr float level = 1.0f;
    static constexpr float tops[] = {9.0f, 10.0f, 11.0f, 11.6f, 12.2f, 12.8f, 13.6f};
    static constexpr int refits = 2;
    static constexpr int reach = 2;
    static constexpr int scale_count = 127;
    static constexpr float scale_of(int place) noexcept {
        nvfp4 block{};
        block.d[0] = static_cast<std::uint8_t>(place);
        return block.scale() * static_cast<float>(block.sub_scale(0));
    }
    static constexpr search_kind kind = search_kind::listed;
};
template <>
struct search_shape<q1_0> {
    using codes = sign_codes;
    static constexpr std::size_t size = 128, runs = 1;
    static constexpr float level = -1.0f;
    static constexpr float tops[] = {1.0f};
    static constexpr int refits = 0;
    static constexpr search_kind kind = search_kind::scale;
};
template <>
struct search_shape<q2_0> {
    using codes = whole_codes<-1, 2>;
    static constexpr std::size_t size = 64, runs = 1;
    static constexpr float level = 1.0f;
    static constexpr float tops[] = {1.6f, 2.0f, 2.4f, 2.8f, 3.2f, -1.6f, -2.0f, -2.4f, -2.8f, -3.2f};
    static constexpr int refits = 2;
    static constexpr search_kind kind = search_kind::scale;
};
struct ternary_shape {
    using codes = whole_codes<-1, 1>;
    static constexpr std::size_t size = 256, runs = 1;
    static constexpr float level = 1.0f;
    static constexpr float tops[] = {1.0f, 1.4f, 1.8f, 2.2f, 2.6f, 3.2f, 4.0f};
    static constexpr int refits = 2;
    static constexpr search_kind kind = search_kind::scale;
};
template <>
struct search_shape<tq1_0> : ternary_shape {};
template <>
struct search_shape<tq2_0> : ternary_shape {};
template <>
struct search_shape<q2_k> {
    using codes = whole_codes<0, 3>;
    static constexpr std::size_t size = 16, runs = 16;
    static constexpr float level = 0.5f;
    static constexpr float tops[] = {2.2f, 2.4f, 2.6f, 2.8f, 3.0f, 3.2f, 3.4f, 3.6f, 3.8f};
    static constexpr int refits = 2;
    static constexpr float scale_high = 15.0f;
    static constexpr float divisors[][2] = {{15.0f, 15.0f}};
    static constexpr int reach = 1, rounds = 3;
    static constexpr search_kind kind = search_kind::line_runs;
};
template <>
struct search_shape<q3_k> {
    using codes = whole_codes<-4, 3>;
    static constexpr std::size_t size = 16, runs = 16;
    static constexpr float level = 1.0f;
    static constexpr float tops[] = {-2.6f, -3.0f, -3.4f, -3.8f, -4.2f, -4.6f, 2.2f, 2.6f, 3.0f, 3.4f, 3.8f};
    static constexpr int refits = 2;
    static constexpr float scale_low = -32.0f, scale_high = 31.0f;
    static constexpr float divisors[] = {-32.0f, 31.0f};
    static constexpr int reach = 1, rounds = 2;
    static constexpr search_kind kind = search_kind::scaled_runs;
};
template <>
struct search_shape<q4_k> {
    using codes = whole_codes<0, 15>;
    static constexpr std::size_t size = 32, runs = 8;
    static constexpr float level = 1.0f;
    static constexpr float tops[] = {12.6f, 13.0f, 13.3f, 13.6f, 13.9f, 14.2f, 14.4f, 14.6f, 14.8f,
                                    15.0f, 15.2f, 15.4f, 15.6f, 15.8f, 16.0f, 16.2f, 16.5f, 16.8f};
    static constexpr int refits = 2;
    static constexpr float scale_high = 63.0f;
    static constexpr float divisors[][2] = {{63.0f, 63.0f}};
    static constexpr int reach = 1, rounds = 3;
    static constexpr search_kind kind = search_kind::line_runs;
};
template <>
struct search_shape<q5_k> {
    using codes = whole_codes<0, 31>;
    static constexpr std::size_t size = 32, runs = 8;
    static constexpr float level = 1.0f;
    static constexpr float tops[] = {28.4f, 29.0f, 29.5f, 29.9f, 30.2f, 30.5f, 30.8f, 31.0f, 31.2f, 31.4f, 31.7f, 32.0f, 32.4f};
    static constexpr int refits = 2;
    static constexpr float scale_high = 63.0f;
    static constexpr float divisors[][2] = {{63.0f, 63.0f}};
    static constexpr int reach = 1, rounds = 2;
    static constexpr search_kind kind = search_kind::line_runs;
};
template <>
struct search_shape<q6_k> {
    using codes = whole_codes<-32, 31>;
    static constexpr std::size_t size = 16, runs = 16;
    static constexpr float level = 3.0f;
    static constexpr float tops[] = {-29.0f, -29.6f, -30.2f, -30.7f, -31.2f, -31.6f, -32.0f, -32.4f,
                                     28.8f,  29.4f,  30.0f,  30.5f,  31.0f,  31.4f};
    static constexpr int refits = 1;
    static constexpr float scale_low = -128.0f, scale_high = 127.0f;
    static constexpr float divisors[] = {-128.0f};
    static constexpr int reach = 1, rounds = 2;
    static constexpr search_kind kind = search_kind::scaled_runs;
};
template <>
struct search_shape<iq4_xs> {
    using codes = iq4_codes;
    static constexpr std::size_t size = 32, runs = 8;
    static constexpr float level = 1.0f;
    static constexpr float tops[] = {-96.0f, -102.0f, -108.0f, -112.0f, -116.0f, -120.0f, -124.0f, -128.0f, -133.0f, -139.0f,
                                    88.0f,  94.0f,   99.0f,   103.0f,  107.0f,  111.0f,  115.0f,  120.0f};
    static constexpr int refits = 2;
    static constexpr float scale_low = -32.0f, scale_high = 31.0f;
    static constexpr float divisors[] = {-32.0f};
    static constexpr int reach = 1, rounds = 3;
    static constexpr search_kind kind = search_kind::scaled_runs;
};

template <class Shape>
inline void run_search(const search_input& in, search_output<Shape::size>& out) noexcept {
    if constexpr (Shape::kind == search_kind::scale) search_scale<Shape>(in, out);
    else if constexpr (Shape::kind == search_kind::line) search_line<Shape>(in, out);
    else if constexpr (Shape::kind == search_kind::exponent) search_exponent<Shape>(in, out);
    else if constexpr (Shape::kind == search_kind::listed) search_listed_scales<Shape>(in, out);
    else if constexpr (Shape::kind == search_kind::scaled_runs) search_scaled_runs<Shape>(in, out);
    else search_line_runs<Shape>(in, out);
}

/// Blocks of F by its search, as many at a time as have sixteen runs together.
template <class F>
struct searching_encoder {
    using shape = search_shape<F>;
    static constexpr std::size_t batch = lanes::count / shape::runs;  ///< blocks

    static void encode(const float* x, const float* importance, std::size_t blocks, F* out) noexcept {
        constexpr std::size_t n = F::block_size;
        search_output<shape::size> found{};  // not every search has a minimum
        for (std::size_t first = 0; first < blocks; first += batch) {
            const std::size_t count = blocks - first < batch ? blocks - first : batch;
            search_input in{x + first * n, importance == nullptr ? nullptr : importance + first * n};
            bool usable[batch];
            bool all_usable = true;
            for (std::size_t b = 0; b < count; ++b) {
                usable[b] = all_finite<n>(in.x + b * n);
                all_usable = all_usable && usable[b];
            }
            float values[batch * n];
            float weights[batch * n];
            if (count < batch || !all_usable) {
                for (std::size_t b = 0; b < batch; ++b) {
                    const bool present = b < count && usable[b];
                    for (std::size_t i = b * n; i < (b + 1) * n; ++i) {
                        values[i] = present ? in.x[i] : 0.0f;
                        weights[i] = present && importance != nullptr ? in.importance[i] : 0.0f;
                    }
                }
                in = {values, importance == nullptr ? nullptr : weights};
            }
            run_search<shape>(in, found);
            for (std::size_t b = 0; b < count; ++b) {
                if (!usable[b]) {
                    out[first + b] = unusable_block<F>();
                    continue;
                }
                pack(block_parts{found.d[b], found.dmin[b], found.scales + b * shape::runs, found.minimums + b * shape::runs,
                                 found.codes + b * n},
                     out[first + b]);
            }
        }
    }
};

}  // namespace colibri::quant::detail::COLIBRI_LEVEL
#endif
