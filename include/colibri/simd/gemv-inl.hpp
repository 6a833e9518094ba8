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

/// Dots of two blocks of four rows with 64 activation codes.
template <class Format>
COLIBRI_KERNEL void DotBlocks(const Format* const (&rows)[4], std::size_t first, std::size_t second, Bytes64 codes, Words64 (&sums)[4]) {
    using C = Codes<Format>;
    constexpr bool is_signed = C::max_code == 255 && kSignedDot;
    COLIBRI_UNROLL_ROWS for (std::size_t r = 0; r < 4; ++r) {
        const Bytes64 w = Join(C::template Get<0>(rows[r][first]), C::template Get<0>(rows[r][second]));
        COLIBRI_UNROLL for (std::size_t i = 0; i < kByteParts; ++i) sums[r].v[i] = Dot<is_signed>(ZeroWords(), w.v[i], codes.v[i]);
    }
}

/// Blocks of 32: two at a time, and after eight of them those whose activations have a residual.
template <class Format>
COLIBRI_KERNEL Floats4 RowsOfBlocks(const Format* const (&rows)[4], const Column& y, const Column& residual,
                                    const std::uint8_t* flags, std::size_t blocks) {
    Floats4 acc = hn::Zero(Floats4Tag());
    Words64 sums[4];
    for (std::size_t chunk = 0; chunk < blocks; chunk += 8) {
        const std::size_t end = blocks - chunk < 8 ? blocks : chunk + 8;
        for (std::size_t b = chunk; b < end; b += 2) {
            // Behind an odd number of blocks the activations are padded with zeros: any block will do as second.
            const std::size_t next = b + 1 < end ? b + 1 : b;
            DotBlocks<Format>(rows, b, next, Load64(y.codes + b * 32), sums);
            Words4 first;
            Words4 second;
            SumHalves(sums, first, second);
            acc = AddBlock(acc, first, rows, b, y);
            if (next != b) acc = AddBlock(acc, second, rows, next, y);
        }
        unsigned flagged = flags[chunk / 8];
        for (; flagged != 0; flagged &= flagged - 1) {
            const std::size_t b = chunk + static_cast<std::size_t>(__builtin_ctz(flagged));
            DotBlocks<Format>(rows, b, b, Join(Load32(residual.codes + b * 32), Set32(0)), sums);
            acc = AddBlock(acc, SumAll(sums), rows, b, residual);
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
COLIBRI_KERNEL Floats4 RowsOfSuperBlocks(const Format* const (&rows)[4], const Column& y, const Column& residual,
                                         const std::uint8_t* flags, std::size_t blocks) {
    Floats4 acc = hn::Zero(Floats4Tag());
    for (std::size_t b = 0; b < blocks; ++b) {
        acc = AddSuperBlock(acc, rows, b, y);
        if (flags[b] != 0) acc = AddSuperBlock(acc, rows, b, residual);
    }
    return acc;
}

/// Rows [row_begin, row_end) times the j-th column.
template <class Format>
COLIBRI_KERNEL void GemvRows(const product_arguments& a, std::size_t row_begin, std::size_t row_end, std::size_t j) {
    const Column y = ColumnAt(a, j);
    const Column residual = ResidualAt(a, j);
    const std::uint8_t* flags = a.flags + ColumnOf(a, j) * a.flag_stride;
    float* out = a.out + j * a.out_stride;
    for (std::size_t r = row_begin; r < row_end; r += 4) {
        const std::size_t count = row_end - r < 4 ? row_end - r : 4;
        const Format* rows[4];
        COLIBRI_UNROLL for (std::size_t i = 0; i < 4; ++i) {
            rows[i] = reinterpret_cast<const Format*>(a.weights + (r + (i < count ? i : 0)) * a.row_bytes);
        }
        Floats4 acc;
        if constexpr (Codes<Format>::super) acc = RowsOfSuperBlocks<Format>(rows, y, residual, flags, a.k / 256);
        else acc = RowsOfBlocks<Format>(rows, y, residual, flags, a.k / 32);
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
