// One column: rows in the file's layout, four at a time. Part of kernels-inl.hpp.

// Sums of four rows don't fit the registers of 128 bits anyway.
#if HWY_MAX_BYTES >= 64
#define COLIBRI_UNROLL_ROWS COLIBRI_UNROLL
#else
#define COLIBRI_UNROLL_ROWS
#endif

/// A column's quantised activations: the codes' plane or the residuals'.
struct Column {
    const std::int8_t* codes;
    const float* scales;
    const std::int16_t* sums;
};
COLIBRI_KERNEL Column ColumnAt(const product_arguments& a, std::size_t j) {
    const std::size_t c = ColumnOf(a, j);
    return {a.codes + c * a.code_stride, a.scales + c * a.scale_stride, a.sums + c * a.sum_stride};
}
COLIBRI_KERNEL Column ResidualAt(const product_arguments& a, std::size_t j) {
    const std::size_t c = ColumnOf(a, j);
    return {a.residual_codes + c * a.code_stride, a.residual_scales + c * a.scale_stride, a.residual_sums + c * a.sum_stride};
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

/// Adds one block of 32 of four rows, whose integer sums are given.
template <class Format>
COLIBRI_KERNEL Floats4 AddBlock(Floats4 acc, Words4 sum, const Format* const (&rows)[4], std::size_t b, const Column& y) {
    using C = Codes<Format>;
    const Floats4 scale = hn::Set(Floats4Tag(), y.scales[b]);
    if constexpr (C::zero != 0) sum = hn::Sub(sum, hn::Set(Words4Tag(), C::zero * y.sums[b]));
    acc = Fma4(hn::ConvertTo(Floats4Tag(), sum), MulRounded(C::Scale4(rows, b), scale), acc);
    if constexpr (C::minimums) {
        acc = Fma4(hn::Set(Floats4Tag(), static_cast<float>(y.sums[b])), MulRounded(C::Minimum4(rows, b), scale), acc);
    }
    return acc;
}

/// Blocks of 32, two at a time: of every chunk of eight all of the codes' plane, then those that have a residual of the residuals'.
template <class Format>
COLIBRI_KERNEL Floats4 RowsOfBlocks(const Format* const (&rows)[4], const Column (&planes)[2], const std::uint8_t* flags,
                                    std::size_t blocks, std::size_t ahead) {
    using C = Codes<Format>;
    constexpr bool is_signed = C::max_code == 255 && kSignedDot;
    Floats4 acc = hn::Zero(Floats4Tag());
    for (std::size_t chunk = 0; chunk < blocks; chunk += 8) {
        const std::size_t count = blocks - chunk < 8 ? blocks - chunk : 8;
        PrefetchNext(rows, chunk, 8 * sizeof(Format), ahead);
        for (std::size_t p = 0; p < 2; ++p) {
            const Column& y = planes[p];
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
                    const Bytes64 w = Join(C::template Get<0>(rows[r][b]), C::template Get<0>(rows[r][next]));
                    COLIBRI_UNROLL for (std::size_t i = 0; i < kByteParts; ++i) {
                        sums[r].v[i] = Dot<is_signed>(ZeroWords(), w.v[i], codes.v[i]);
                    }
                }
                Words4 first;
                Words4 second;
                SumHalves(sums, first, second);
                acc = AddBlock(acc, first, rows, b, y);
                if (two) acc = AddBlock(acc, second, rows, next, y);
            }
        }
    }
    return acc;
}

/// Chunk kChunk of 64 weights of a super-block, times its scales.
template <class Format, std::size_t kChunk>
COLIBRI_KERNEL Words64 AddChunk(Words64 acc, const Format& block, hn::Vec<Tag16> scales, const std::int8_t* codes) {
    using C = Codes<Format>;
    const Bytes64 w = Join(C::template Get<2 * kChunk>(block), C::template Get<2 * kChunk + 1>(block));
    return ScaledDot<C::max_code == 255 && kSignedDot>(acc, w, Load64(codes + kChunk * 64), SpreadFactors<kChunk>(scales));
}

/// Adds super-block b of four rows.
template <class Format>
COLIBRI_KERNEL Floats4 AddSuperBlock(Floats4 acc, const Format* const (&rows)[4], std::size_t b, const Column& y) {
    using C = Codes<Format>;
    const std::int8_t* codes = y.codes + b * 256;
    const std::int16_t* run_sums = y.sums + b * 16;
    Words64 sums[4];
    Words4 zeros[4];
    Words4 minimums[4];
    COLIBRI_UNROLL_ROWS for (std::size_t r = 0; r < 4; ++r) {
        const Format& block = rows[r][b];
        const auto scales = C::Scales(block);
        COLIBRI_UNROLL for (std::size_t i = 0; i < kByteParts; ++i) sums[r].v[i] = ZeroWords();
        sums[r] = AddChunk<Format, 0>(sums[r], block, scales, codes);
        sums[r] = AddChunk<Format, 1>(sums[r], block, scales, codes);
        sums[r] = AddChunk<Format, 2>(sums[r], block, scales, codes);
        sums[r] = AddChunk<Format, 3>(sums[r], block, scales, codes);
        if constexpr (C::zero != 0) zeros[r] = DotSums(scales, run_sums);
        if constexpr (C::minimums) minimums[r] = DotSums(C::Minimums(block), run_sums);
    }
    Words4 sum = SumAll(sums);
    if constexpr (C::zero != 0) {
        const auto zero = SumOfFour(Words4Tag(), zeros[0], zeros[1], zeros[2], zeros[3]);
        sum = hn::Sub(sum, hn::Mul(zero, hn::Set(Words4Tag(), C::zero)));
    }
    const Floats4 scale = hn::Set(Floats4Tag(), y.scales[b]);
    acc = Fma4(hn::ConvertTo(Floats4Tag(), sum), MulRounded(C::Scale4(rows, b), scale), acc);
    if constexpr (C::minimums) {
        const auto minimum = SumOfFour(Words4Tag(), minimums[0], minimums[1], minimums[2], minimums[3]);
        acc = Fma4(hn::Neg(hn::ConvertTo(Floats4Tag(), minimum)), MulRounded(C::Minimum4(rows, b), scale), acc);
    }
    return acc;
}

template <class Format>
COLIBRI_KERNEL Floats4 RowsOfSuperBlocks(const Format* const (&rows)[4], const Column (&planes)[2], const std::uint8_t* flags,
                                         std::size_t blocks, std::size_t ahead) {
    Floats4 acc = hn::Zero(Floats4Tag());
    for (std::size_t b = 0; b < blocks; ++b) {
        PrefetchNext(rows, b, sizeof(Format), ahead);
        const std::size_t count = flags[b] != 0 ? 2 : 1;
        for (std::size_t p = 0; p < count; ++p) acc = AddSuperBlock(acc, rows, b, planes[p]);
    }
    return acc;
}

/// Rows [row_begin, row_end) times the j-th column.
template <class Format>
COLIBRI_KERNEL void GemvRows(const product_arguments& a, std::size_t row_begin, std::size_t row_end, std::size_t j) {
    const Column planes[2] = {ColumnAt(a, j), ResidualAt(a, j)};
    const std::uint8_t* flags = a.flags + ColumnOf(a, j) * a.flag_stride;
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
