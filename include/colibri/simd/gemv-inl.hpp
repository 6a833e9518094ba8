// One column: rows in the file's layout, four at a time. Part of kernels-inl.hpp.

// Sums of four rows don't fit the registers of 128 bits anyway.
#if HWY_MAX_BYTES >= 64
#define COLIBRI_UNROLL_ROWS COLIBRI_UNROLL
#else
#define COLIBRI_UNROLL_ROWS
#endif

using quant::activation_plane;

/// Column j of the product.
COLIBRI_KERNEL activation_plane PlaneAt(const quant::activation_planes& planes, const product_arguments& a, std::size_t j) {
    const std::size_t c = ColumnOf(a, j);
    const auto& stride = a.activations.stride;
    return {planes.codes + c * stride.codes, planes.scales + c * stride.scales, planes.weighted + c * stride.scales,
            planes.sums + c * stride.sums};
}

/// Asks for `bytes` bytes of each of the next four rows: hardware prefetchers lose track of four short rows at a time.
template <class Format>
COLIBRI_KERNEL void PrefetchNext(const Format* const (&rows)[4], std::size_t b, std::size_t bytes, std::size_t ahead) {
    for (std::size_t r = 0; r < 4; ++r) {
        // As a number: behind the last rows there is nothing to point to, and nothing is read.
        const auto next = reinterpret_cast<std::uintptr_t>(rows[r] + b) + ahead;
        for (std::size_t i = 0; i < bytes; i += 64) __builtin_prefetch(reinterpret_cast<const void*>(next + i), 0, 2);
    }
}

/// Adds a run of four rows, whose integer sums with unsigned codes are given: `sum_y` is the sum of the activation codes, `y` the
/// activation scale, `weighted` its product with the sum.
template <class Format>
COLIBRI_KERNEL Floats4 AddRun(Floats4 acc, Words4 sum, Floats4 scale, Floats4 minimum, int sum_y, float y, float weighted) {
    using C = Codes<Format>;
    if constexpr (C::zero != 0) sum = hn::Sub(sum, hn::Set(Words4Tag(), C::zero * sum_y));
    acc = Fma4(hn::ConvertTo(Floats4Tag(), sum), MulRounded(scale, hn::Set(Floats4Tag(), y)), acc);
    if constexpr (C::minimums) acc = Fma4(minimum, hn::Set(Floats4Tag(), weighted), acc);
    return acc;
}

/// Adds group b of 32, whose sums of the first and second 16 are given.
template <class Format>
COLIBRI_KERNEL Floats4 AddBlock(Floats4 acc, Words4 first, Words4 second, const Format* const (&rows)[4], std::size_t b,
                                const activation_plane& y) {
    using C = Codes<Format>;
    if constexpr (quant::scale_run<Format> == 16) {
        acc = AddRun<Format>(acc, first, C::Scale4(rows, 2 * b), C::Minimum4(rows, 2 * b), y.sums[2 * b], y.scales[b], 0.0f);
        return AddRun<Format>(acc, second, C::Scale4(rows, 2 * b + 1), C::Minimum4(rows, 2 * b + 1), y.sums[2 * b + 1], y.scales[b],
                              0.0f);
    } else {
        return AddRun<Format>(acc, hn::Add(first, second), C::Scale4(rows, b), C::Minimum4(rows, b),
                              y.sums[2 * b] + y.sums[2 * b + 1], y.scales[b], y.weighted[b]);
    }
}

/// Codes of the b-th 32 weights of a row of blocks shorter than 256.
template <class Format>
COLIBRI_KERNEL Bytes32 GroupCodes(const Format* row, std::size_t b) {
    constexpr std::size_t groups = Format::block_size / 32;
    if constexpr (groups == 1) return Codes<Format>::template Get<0>(row[b]);
    else return Codes<Format>::GetGroup(row[b / groups], b % groups);
}

/// Blocks shorter than 256, two groups of 32 at a time: of every chunk of eight all of the codes' plane, then those that have a residual of the residuals'.
template <class Format>
COLIBRI_KERNEL Floats4 RowsOfBlocks(const Format* const (&rows)[4], const activation_plane (&planes)[2], const std::uint8_t* flags,
                                    std::size_t groups, std::size_t ahead) {
    using C = Codes<Format>;
    constexpr bool is_signed = C::max_code == 255 && kSignedDot;
    Floats4 acc = hn::Zero(Floats4Tag());
    for (std::size_t chunk = 0; chunk < groups; chunk += 8) {
        const std::size_t count = groups - chunk < 8 ? groups - chunk : 8;
        PrefetchNext(rows, chunk * 32 / Format::block_size, 256 / Format::block_size * sizeof(Format), ahead);
        for (std::size_t p = 0; p < 2; ++p) {
            const activation_plane& y = planes[p];
            unsigned wanted = p == 0 ? (1u << count) - 1 : flags[chunk / 8];
            while (wanted != 0) {
                const std::size_t b = chunk + static_cast<std::size_t>(__builtin_ctz(wanted));
                wanted &= wanted - 1;
                const bool two = wanted != 0;
                const std::size_t next = two ? chunk + static_cast<std::size_t>(__builtin_ctz(wanted)) : b;
                wanted &= wanted - (two ? 1u : 0u);
                const Bytes64 codes = Join(Load32(y.codes + b * 32), Load32(y.codes + next * 32));
                Words64 sums[4];
                COLIBRI_UNROLL_ROWS for (std::size_t r = 0; r < 4; ++r) {
                    const Bytes64 w = Join(GroupCodes(rows[r], b), GroupCodes(rows[r], next));
                    COLIBRI_UNROLL for (std::size_t i = 0; i < kByteParts; ++i) {
                        sums[r].v[i] = Dot<is_signed>(ZeroWords(), w.v[i], codes.v[i]);
                    }
                }
                Words4 runs[4];
                SumRuns(sums, runs);
                acc = AddBlock(acc, runs[0], runs[1], rows, b, y);
                if (two) acc = AddBlock(acc, runs[2], runs[3], rows, next, y);
            }
        }
    }
    return acc;
}

/// Scales and minimums of a super-block of four rows, for each run of 16: exact.
struct RunFactors {
    alignas(64) float scale[16][4];
    alignas(64) float minimum[16][4];
};

/// out[run][row] = d of the row * factor `run` of the row.
template <bool kNegative>
COLIBRI_KERNEL void SpreadRuns(const hn::Vec<Tag16> (&factors)[4], Floats4 d, float (*out)[4]) {
    const hn::Repartition<std::uint16_t, Tag16> d16;
    const auto low_ab = hn::BitCast(d16, hn::InterleaveLower(Tag16(), factors[0], factors[1]));
    const auto low_cd = hn::BitCast(d16, hn::InterleaveLower(Tag16(), factors[2], factors[3]));
    const auto high_ab = hn::BitCast(d16, hn::InterleaveUpper(Tag16(), factors[0], factors[1]));
    const auto high_cd = hn::BitCast(d16, hn::InterleaveUpper(Tag16(), factors[2], factors[3]));
    alignas(16) std::int8_t bytes[64];
    auto* to = reinterpret_cast<std::uint8_t*>(bytes);
    hn::Store(hn::BitCast(Tag16(), hn::InterleaveLower(d16, low_ab, low_cd)), Tag16(), to);
    hn::Store(hn::BitCast(Tag16(), hn::InterleaveUpper(d16, low_ab, low_cd)), Tag16(), to + 16);
    hn::Store(hn::BitCast(Tag16(), hn::InterleaveLower(d16, high_ab, high_cd)), Tag16(), to + 32);
    hn::Store(hn::BitCast(Tag16(), hn::InterleaveUpper(d16, high_ab, high_cd)), Tag16(), to + 48);
    alignas(64) float tiled[16];
    if constexpr (kNegative) d = hn::Neg(d);
    COLIBRI_UNROLL for (std::size_t i = 0; i < 4; ++i) hn::Store(d, Floats4Tag(), tiled + 4 * i);
    const Floats factor = Load(tiled);
    COLIBRI_UNROLL for (std::size_t i = 0; i < 4; ++i) Store(Mul(LoadI8(bytes + 16 * i), factor), out[4 * i]);
}

template <class Format>
COLIBRI_KERNEL void LoadFactors(const Format* const (&rows)[4], std::size_t b, RunFactors& out) {
    using C = Codes<Format>;
    hn::Vec<Tag16> factors[4];
    COLIBRI_UNROLL for (std::size_t r = 0; r < 4; ++r) factors[r] = C::Scales(rows[r][b]);
    SpreadRuns<false>(factors, C::Scale4(rows, b), out.scale);
    if constexpr (C::minimums) {
        COLIBRI_UNROLL for (std::size_t r = 0; r < 4; ++r) factors[r] = C::Minimums(rows[r][b]);
        SpreadRuns<true>(factors, C::Minimum4(rows, b), out.minimum);
    }
}

/// Adds groups 2*kPair and 2*kPair+1 (of 32) of a super-block, each if its bit in `wanted` is set.
template <class Format, std::size_t kPair>
COLIBRI_KERNEL Floats4 AddPair(Floats4 acc, const Format* const (&rows)[4], std::size_t b, const RunFactors& f,
                               const activation_plane& y, unsigned wanted) {
    using C = Codes<Format>;
    if ((wanted >> (2 * kPair) & 3u) == 0) return acc;
    const Bytes64 codes = Load64(y.codes + b * 256 + kPair * 64);
    Words64 sums[4];
    COLIBRI_UNROLL_ROWS for (std::size_t r = 0; r < 4; ++r) {
        const Bytes64 w = Join(C::template Get<2 * kPair>(rows[r][b]), C::template Get<2 * kPair + 1>(rows[r][b]));
        COLIBRI_UNROLL for (std::size_t i = 0; i < kByteParts; ++i) {
            sums[r].v[i] = Dot<C::max_code == 255 && kSignedDot>(ZeroWords(), w.v[i], codes.v[i]);
        }
    }
    Words4 runs[4];
    SumRuns(sums, runs);
    COLIBRI_UNROLL for (std::size_t half = 0; half < 2; ++half) {
        const std::size_t g = 2 * kPair + half;
        if ((wanted >> g & 1u) == 0) continue;
        const std::int16_t* s = y.sums + b * 16 + g * 2;
        const float scale = y.scales[b * 8 + g];
        if constexpr (quant::scale_run<Format> == 32) {
            acc = AddRun<Format>(acc, hn::Add(runs[2 * half], runs[2 * half + 1]), hn::Load(Floats4Tag(), f.scale[2 * g]),
                                 hn::Load(Floats4Tag(), f.minimum[2 * g]), s[0] + s[1], scale, y.weighted[b * 8 + g]);
        } else {
            COLIBRI_UNROLL for (std::size_t i = 0; i < 2; ++i) {
                acc = AddRun<Format>(acc, runs[2 * half + i], hn::Load(Floats4Tag(), f.scale[2 * g + i]),
                                     hn::Load(Floats4Tag(), f.minimum[2 * g + i]), s[i], scale,
                                     scale * static_cast<float>(s[i]));
            }
        }
    }
    return acc;
}

/// Adds super-block b of four rows: its groups of 32 in order, then those that have a residual.
template <class Format>
COLIBRI_KERNEL Floats4 AddSuperBlock(Floats4 acc, const Format* const (&rows)[4], std::size_t b, const activation_plane (&planes)[2],
                                     unsigned flags) {
    RunFactors f;
    LoadFactors(rows, b, f);
    unsigned wanted = 0xff;
    for (std::size_t p = 0; p < 2 && wanted != 0; ++p) {
        acc = AddPair<Format, 0>(acc, rows, b, f, planes[p], wanted);
        acc = AddPair<Format, 1>(acc, rows, b, f, planes[p], wanted);
        acc = AddPair<Format, 2>(acc, rows, b, f, planes[p], wanted);
        acc = AddPair<Format, 3>(acc, rows, b, f, planes[p], wanted);
        wanted = flags;
    }
    return acc;
}

template <class Format>
COLIBRI_KERNEL Floats4 RowsOfSuperBlocks(const Format* const (&rows)[4], const activation_plane (&planes)[2],
                                         const std::uint8_t* flags, std::size_t blocks, std::size_t ahead) {
    Floats4 acc = hn::Zero(Floats4Tag());
    for (std::size_t b = 0; b < blocks; ++b) {
        PrefetchNext(rows, b, sizeof(Format), ahead);
        acc = AddSuperBlock(acc, rows, b, planes, flags[b]);
    }
    return acc;
}

/// Rows [row_begin, row_end) times the j-th column.
template <class Format>
COLIBRI_KERNEL void GemvRows(const product_arguments& a, std::size_t row_begin, std::size_t row_end, std::size_t j) {
    const activation_plane planes[2] = {PlaneAt(a.activations.plane, a, j), PlaneAt(a.activations.residual, a, j)};
    const std::uint8_t* flags = a.activations.flags + ColumnOf(a, j) * a.activations.stride.flags;
    float* out = a.out + j * a.out_stride;
    for (std::size_t r = row_begin; r < row_end; r += 4) {
        const std::size_t count = row_end - r < 4 ? row_end - r : 4;
        const Format* rows[4];
        COLIBRI_UNROLL for (std::size_t i = 0; i < 4; ++i) {
            rows[i] = reinterpret_cast<const Format*>(a.weights + (r + (i < count ? i : 0)) * a.row_bytes);
        }
        Floats4 acc;
        if constexpr (Codes<Format>::super) acc = RowsOfSuperBlocks<Format>(rows, planes, flags, a.k / 256, 4 * a.row_bytes);
        else acc = RowsOfBlocks<Format>(rows, planes, flags, a.k / 32, 4 * a.row_bytes);
        if (count == 4) {
            hn::StoreU(acc, Floats4Tag(), out + r);
        } else {
            alignas(16) float lanes[4];
            hn::Store(acc, Floats4Tag(), lanes);
            for (std::size_t i = 0; i < count; ++i) out[r + i] = lanes[i];
        }
    }
}

#undef COLIBRI_UNROLL_ROWS
