// One column: rows in the file's layout, four at a time. Part of kernels-inl.hpp.

/// What a column's quantised activations are.
struct Column {
    const std::int8_t* codes;
    const float* scales;
    const std::int16_t* sums;
};
COLIBRI_KERNEL Column ColumnAt(const product_arguments& a, std::size_t j) {
    const std::size_t c = ColumnOf(a, j);
    return {a.codes + c * a.code_stride, a.scales + c * a.scale_stride, a.sums + c * a.sum_stride};
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

/// Blocks of 32: two at a time.
template <class Format>
COLIBRI_KERNEL Floats4 RowsOfBlocks(const Format* const (&rows)[4], const Column& y, std::size_t blocks) {
    using C = Codes<Format>;
    constexpr bool is_signed = C::max_code == 255 && kSignedDot;
    Floats4 acc = hn::Zero(Floats4Tag());
    std::size_t b = 0;
    for (; b + 2 <= blocks; b += 2) {
        const Bytes64 codes = Load64(y.codes + b * 32);
        Words64 sums[4];
        COLIBRI_UNROLL for (std::size_t r = 0; r < 4; ++r) {
            const Bytes64 w = Join(C::template Get<0>(rows[r][b]), C::template Get<0>(rows[r][b + 1]));
            COLIBRI_UNROLL for (std::size_t i = 0; i < kByteParts; ++i) sums[r].v[i] = Dot<is_signed>(ZeroWords(), w.v[i], codes.v[i]);
        }
        Words4 first;
        Words4 second;
        SumHalves(sums, first, second);
        acc = AddBlock(acc, first, rows, b, y);
        acc = AddBlock(acc, second, rows, b + 1, y);
    }
    if (b < blocks) {
        const Bytes64 codes = Load64(y.codes + b * 32);  // activations are padded to 64
        Words64 sums[4];
        COLIBRI_UNROLL for (std::size_t r = 0; r < 4; ++r) {
            const Bytes64 w = Join(C::template Get<0>(rows[r][b]), Set32(0));
            COLIBRI_UNROLL for (std::size_t i = 0; i < kByteParts; ++i) sums[r].v[i] = Dot<is_signed>(ZeroWords(), w.v[i], codes.v[i]);
        }
        acc = AddBlock(acc, SumAll(sums), rows, b, y);
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

template <class Format>
COLIBRI_KERNEL Floats4 RowsOfSuperBlocks(const Format* const (&rows)[4], const Column& y, std::size_t blocks) {
    using C = Codes<Format>;
    Floats4 acc = hn::Zero(Floats4Tag());
    for (std::size_t b = 0; b < blocks; ++b) {
        const std::int8_t* codes = y.codes + b * 256;
        const std::int16_t* run_sums = y.sums + b * 16;
        Words64 sums[4];
        Words4 zeros[4];
        Words4 minimums[4];
        COLIBRI_UNROLL for (std::size_t r = 0; r < 4; ++r) {
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
    }
    return acc;
}

/// Rows [row_begin, row_end) times the j-th column.
template <class Format>
COLIBRI_KERNEL void GemvRows(const product_arguments& a, std::size_t row_begin, std::size_t row_end, std::size_t j) {
    const Column y = ColumnAt(a, j);
    float* out = a.out + j * a.out_stride;
    for (std::size_t r = row_begin; r < row_end; r += 4) {
        const std::size_t count = row_end - r < 4 ? row_end - r : 4;
        const Format* rows[4];
        COLIBRI_UNROLL for (std::size_t i = 0; i < 4; ++i) {
            rows[i] = reinterpret_cast<const Format*>(a.weights + (r + (i < count ? i : 0)) * a.row_bytes);
        }
        Floats4 acc;
        if constexpr (Codes<Format>::super) acc = RowsOfSuperBlocks<Format>(rows, y, a.k / 256);
        else acc = RowsOfBlocks<Format>(rows, y, a.k / 32);
        if (count == 4) {
            hn::StoreU(acc, Floats4Tag(), out + r);
        } else {
            alignas(16) float lanes[4];
            hn::Store(acc, Floats4Tag(), lanes);
            for (std::size_t i = 0; i < count; ++i) out[r + i] = lanes[i];
        }
    }
}
