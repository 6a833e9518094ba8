// One column, weights in panels of 16 rows (quant/panel_layout.hpp): every lane is a row. Part of kernels-inl.hpp.

using quant::panel_layout;

/// Each byte shifted, what comes from its neighbour not removed.
template <int kBits>
COLIBRI_KERNEL ByteVec ShiftBytesRight(ByteVec a) {
    const hn::Repartition<std::uint16_t, ByteTag> d16;
    if constexpr (kBits == 0) return a;
    else return hn::BitCast(ByteTag(), hn::ShiftRight<kBits>(hn::BitCast(d16, a)));
}
template <int kBits>
COLIBRI_KERNEL ByteVec ShiftBytesLeft(ByteVec a) {
    const hn::Repartition<std::uint16_t, ByteTag> d16;
    if constexpr (kBits == 0) return a;
    else return hn::BitCast(ByteTag(), hn::ShiftLeft<kBits>(hn::BitCast(d16, a)));
}
/// Bits from `kFrom` on of each byte moved to `kTo`, then those in kMask kept.
template <int kFrom, int kTo, int kMask>
COLIBRI_KERNEL ByteVec MoveBits(ByteVec a) {
    const auto mask = hn::Set(ByteTag(), std::uint8_t{kMask});
    if constexpr (kFrom >= kTo) return hn::And(ShiftBytesRight<kFrom - kTo>(a), mask);
    else return hn::And(ShiftBytesLeft<kTo - kFrom>(a), mask);
}

/// Values of the sixteen table codes of IQ4_NL and IQ4_XS as this target's dot wants them: signed, or with a zero point of 128.
struct Iq4Table {
    alignas(16) std::uint8_t value[16];
};
constexpr Iq4Table MakeIq4Table() {
    Iq4Table t{};
    for (std::size_t i = 0; i < 16; ++i) t.value[i] = static_cast<std::uint8_t>(quant::iq4_values[i] + kSignedZero);
    return t;
}
inline constexpr Iq4Table kIq4Table = MakeIq4Table();

/// Values of the codes of recoded panels, with the format's zero point.
template <class Format>
struct RecodedTable {
    alignas(16) std::uint8_t value[16];
};
template <class Format>
constexpr RecodedTable<Format> MakeRecodedTable() {
    RecodedTable<Format> t{};
    for (std::size_t i = 0; i < 16; ++i) t.value[i] = static_cast<std::uint8_t>(quant::panel_values<Format>[i] + Codes<Format>::zero);
    return t;
}
template <class Format>
inline constexpr RecodedTable<Format> kRecoded = MakeRecodedTable<Format>();

COLIBRI_KERNEL ByteVec LookUpBytes(const std::uint8_t* table, ByteVec index) {
    return hn::TableLookupBytes(hn::LoadDup128(ByteTag(), table), index);
}

/// Codes of columns 4*kQuad..4*kQuad+3 of a run of 32 as the panel has them; `run` points to part i of the run's first vector
/// (i * kBytes bytes in).
template <class Format, int kQuad>
COLIBRI_KERNEL ByteVec StoredCode(const std::uint8_t* run) {
    constexpr int bits = static_cast<int>(panel_layout<Format>::low_bits + panel_layout<Format>::high_bits);
    const auto load = [run](int vector) HWY_ATTR { return hn::LoadU(ByteTag(), run + vector * 64); };
    if constexpr (bits == 8) {
        return load(kQuad);
    } else if constexpr (bits == 1) {
        return MoveBits<kQuad, 0, 1>(load(0));
    } else if constexpr (bits == 2 || bits == 3) {
        const ByteVec low = MoveBits<kQuad / 2 * 2, 0, 3>(load(kQuad % 2));
        if constexpr (bits == 2) return low;
        else return hn::Or(low, MoveBits<kQuad, 2, 4>(load(2)));
    } else {
        const ByteVec low = MoveBits<kQuad / 4 * 4, 0, 15>(load(kQuad % 4));
        if constexpr (bits == 5) return hn::Or(low, MoveBits<kQuad, 4, 16>(load(4)));
        else if constexpr (bits == 6) return hn::Or(low, MoveBits<kQuad / 2 * 2, 4, 48>(load(4 + kQuad % 2)));
        else return low;
    }
}

/// The same as Codes<Format>::Get has them: unsigned, or signed where the dot takes that.
template <class Format, int kQuad>
COLIBRI_KERNEL ByteVec PanelCode(const std::uint8_t* run) {
    if constexpr (Format::type == dtype::q1_0) {  // 0 and 2
        return MoveBits<kQuad, 1, 2>(hn::LoadU(ByteTag(), run));
    } else {
        const ByteVec code = StoredCode<Format, kQuad>(run);
        if constexpr (Format::type == dtype::q8_0) {
            if constexpr (kSignedDot) return code;
            else return hn::Xor(code, hn::Set(ByteTag(), std::uint8_t{0x80}));
        } else if constexpr (panel_layout<Format>::has_grid) {
            return LookUpBytes(kRecoded<Format>.value, code);
        } else if constexpr (Format::type == dtype::mxfp4 || Format::type == dtype::nvfp4) {
            return LookUpBytes(Codes<Format>::values, code);
        } else if constexpr (Codes<Format>::max_code == 255) {
            return LookUpBytes(kIq4Table.value, code);
        } else {
            return code;
        }
    }
}

COLIBRI_KERNEL ByteVec SpreadQuad(const std::int8_t* codes) {
    std::int32_t quad;
    __builtin_memcpy(&quad, codes, 4);
    return hn::BitCast(ByteTag(), hn::Set(WordTag(), quad));
}

/// Pair sums of a format's codes that fit 16 bits: adds * 2 * code * 127 < 2^15 (1 where it doesn't matter).
template <class Format>
constexpr int AddsOf() {
#if COLIBRI_DOT || !HWY_ARCH_X86
    return 1;
#else
    return Codes<Format>::max_code <= 31 ? 4 : Codes<Format>::max_code <= 63 ? 2 : 1;
#endif
}

/// t + the dots of quads kFrom..kEnd-1 of part i of a run.
template <class Format, int kFrom, int kEnd>
COLIBRI_KERNEL WordVec DotQuads(WordVec t, const std::uint8_t* run, const std::int8_t* y) {
    constexpr bool is_signed = Codes<Format>::max_code == 255 && kSignedDot;
    constexpr int adds = AddsOf<Format>();
    if constexpr (kFrom < kEnd) {
        if constexpr (adds == 4) {
            const ByteVec w[4] = {PanelCode<Format, kFrom>(run), PanelCode<Format, kFrom + 1>(run),
                                  PanelCode<Format, kFrom + 2>(run), PanelCode<Format, kFrom + 3>(run)};
            const ByteVec q[4] = {SpreadQuad(y + kFrom * 4), SpreadQuad(y + kFrom * 4 + 4), SpreadQuad(y + kFrom * 4 + 8),
                                  SpreadQuad(y + kFrom * 4 + 12)};
            t = DotSeveral<is_signed, 4>(t, w, q);
        } else if constexpr (adds == 2) {
            const ByteVec w[2] = {PanelCode<Format, kFrom>(run), PanelCode<Format, kFrom + 1>(run)};
            const ByteVec q[2] = {SpreadQuad(y + kFrom * 4), SpreadQuad(y + kFrom * 4 + 4)};
            t = DotSeveral<is_signed, 2>(t, w, q);
        } else {
            t = Dot<is_signed>(t, PanelCode<Format, kFrom>(run), SpreadQuad(y + kFrom * 4));
        }
        return DotQuads<Format, kFrom + adds, kEnd>(t, run, y);
    } else {
        return t;
    }
}

/// 16 scales of NVFP4 as floats, halved.
COLIBRI_KERNEL Floats LoadE4m3(const std::uint8_t* p) {
    const hn::Rebind<std::uint8_t, IntTag> d8;
    Floats r;
    COLIBRI_UNROLL for (std::size_t i = 0; i < kParts; ++i) {
        r.v[i] = HalfE4m3(IntTag(), hn::PromoteTo(IntTag(), hn::LoadU(d8, p + i * kLanes)));
    }
    return r;
}

/// Scales and minimums of a chunk of a panel.
template <class Format>
struct PanelScales {
    using Layout = panel_layout<Format>;
    const std::uint8_t* chunk;
    std::size_t runs;  ///< of 32 columns
    Floats d;          ///< super-blocks: of each row
    Floats dmin;       ///< negated

    COLIBRI_KERNEL PanelScales(const std::uint8_t* begin, std::size_t n) : chunk(begin), runs(n) {
        if constexpr (Codes<Format>::super) {
            d = LoadF16(Halves(Layout::scale_offset(8)));
            if constexpr (quant::scale_unit<Format> != 1.0f) d = Mul(d, Set(quant::scale_unit<Format>));
            if constexpr (Codes<Format>::minimums) dmin = Neg(LoadF16(Halves(Layout::minimum_offset(8))));
        }
    }

    /// Of run j of the chunk, a run having scale_run<Format> columns.
    COLIBRI_KERNEL Floats Scale(std::size_t j) const {
        if constexpr (Format::type == dtype::q2_k) return Mul(LoadSmall<0>(chunk + Layout::sub_scale_offset(8) + j * 16), d);
        else if constexpr (Codes<Format>::super && Layout::sub_runs == 0) return d;
        else if constexpr (Codes<Format>::super) return Mul(LoadI8(Signed(Layout::sub_scale_offset(8) + j * 16)), d);
        else if constexpr (Format::type == dtype::mxfp4) return Powers(chunk + Layout::scale_offset(runs) + j * 16);
        else if constexpr (Format::type == dtype::nvfp4) return LoadE4m3(chunk + Layout::sub_scale_offset(runs) + j * 16);
        else return LoadF16(Halves(Layout::scale_offset(runs) + j / (Format::block_size / 32) * 32));
    }
    COLIBRI_KERNEL Floats Minimum(std::size_t j) const {
        if constexpr (Format::type == dtype::q2_k) return Mul(LoadSmall<4>(chunk + Layout::sub_scale_offset(8) + j * 16), dmin);
        else if constexpr (Codes<Format>::super) return Mul(LoadI8(Signed(Layout::sub_minimum_offset(8) + j * 16)), dmin);
        else return LoadF16(Halves(Layout::minimum_offset(runs) + j * 32));
    }

private:
    COLIBRI_KERNEL const std::uint16_t* Halves(std::size_t at) const { return reinterpret_cast<const std::uint16_t*>(chunk + at); }
    COLIBRI_KERNEL const std::int8_t* Signed(std::size_t at) const { return reinterpret_cast<const std::int8_t*>(chunk + at); }
    /// Half a byte of each of 16 as a float.
    template <int kShift>
    COLIBRI_KERNEL static Floats LoadSmall(const std::uint8_t* p) {
        const hn::Repartition<std::uint16_t, Tag16> d16;
        const auto shifted = hn::BitCast(Tag16(), hn::ShiftRight<kShift>(hn::BitCast(d16, hn::LoadU(Tag16(), p))));
        alignas(16) std::uint8_t small[16];
        hn::Store(hn::And(shifted, hn::Set(Tag16(), std::uint8_t{15})), Tag16(), small);
        return LoadI8(reinterpret_cast<const std::int8_t*>(small));
    }
    /// 2^(e-128) of 16 exponents: an exponent field of e-1, and a subnormal below e = 2.
    COLIBRI_KERNEL static Floats Powers(const std::uint8_t* p) {
        const hn::Rebind<std::uint8_t, IntTag> d8;
        Floats r;
        COLIBRI_UNROLL for (std::size_t i = 0; i < kParts; ++i) {
            const auto e = hn::PromoteTo(IntTag(), hn::LoadU(d8, p + i * kLanes));
            const auto normal = hn::ShiftLeft<23>(hn::Sub(e, hn::Set(IntTag(), 1)));
            const auto subnormal = hn::ShiftLeft<21>(hn::Add(e, hn::Set(IntTag(), 1)));
            r.v[i] = hn::BitCast(FloatTag(), hn::IfThenElse(hn::Lt(e, hn::Set(IntTag(), 2)), subnormal, normal));
        }
        return r;
    }
};

/// Adds group g of a chunk (32 columns) of 16 rows; `y` begins at the chunk. In the targets with COLIBRI_DOT an argument's type belongs
/// to the target they are based on, which has a function of the same name: parentheses around the name keep that one out.
template <class Format>
COLIBRI_KERNEL Floats AddPanelGroup(Floats acc, const std::uint8_t* chunk, const PanelScales<Format>& s, const activation_plane& y,
                                    std::size_t g) {
    constexpr int run = static_cast<int>(quant::scale_run<Format>);
    constexpr int zero = Codes<Format>::zero;
    const std::uint8_t* codes = chunk + g * panel_layout<Format>::run_codes;
    const float scale = y.scales[g];
    COLIBRI_UNROLL for (int half = 0; half < 32 / run; ++half) {
        const int sum = run == 32 ? y.sums[2 * g] + y.sums[2 * g + 1] : y.sums[2 * g + static_cast<std::size_t>(half)];
        const WordVec start = hn::Set(WordTag(), -zero * sum);
        Floats t;
        COLIBRI_UNROLL for (std::size_t i = 0; i < kParts; ++i) {
            WordVec dot;
            if constexpr (run == 32) dot = DotQuads<Format, 0, 8>(start, codes + i * kBytes, y.codes + g * 32);
            else if (half == 0) dot = DotQuads<Format, 0, 4>(start, codes + i * kBytes, y.codes + g * 32);
            else dot = DotQuads<Format, 4, 8>(start, codes + i * kBytes, y.codes + g * 32);
            t.v[i] = hn::ConvertTo(FloatTag(), dot);
        }
        const std::size_t j = g * (32 / run) + static_cast<std::size_t>(half);
        acc = Fma(t, Mul(s.Scale(j), Set(scale)), acc);
        if constexpr (Codes<Format>::minimums) {
            const float weighted = run == 32 ? y.weighted[g] : scale * static_cast<float>(sum);
            acc = Fma(s.Minimum(j), Set(weighted), acc);
        }
    }
    return acc;
}

COLIBRI_KERNEL activation_plane From(const activation_plane& y, std::size_t value) {
    return {y.codes + value, y.scales + value / 32, y.weighted + value / 32, y.sums + value / 16};
}

/// Bytes that are asked for ahead: prefetchers of CPUs stop at each 4096 bytes, and a run's work is too long for the out-of-order
/// window to reach the next misses. One thread of a Zen 5 reads Q4_K at 16 GB/s without, 29 with 2048, 34 with 4096, 37 with 8192.
inline constexpr std::size_t kPanelAhead = 8192;

/// Asks for an eighth of a chunk, kPanelAhead bytes behind run g.
template <class Format>
COLIBRI_KERNEL void PrefetchRun(const std::uint8_t* chunk, std::size_t g) {
    // As a number: behind the last panel there is nothing to point to, and nothing is read.
    constexpr std::size_t bytes = panel_layout<Format>::chunk_bytes(8) / 8;
    const auto ahead = reinterpret_cast<std::uintptr_t>(chunk) + g * bytes + kPanelAhead;
    COLIBRI_UNROLL for (std::size_t i = 0; i < bytes + 63; i += 64) __builtin_prefetch(reinterpret_cast<const void*>(ahead + i), 0, 3);
}

/// One panel times the j-th column.
template <class Format>
COLIBRI_KERNEL Floats PanelTimesColumn(const product_arguments& a, std::size_t panel, std::size_t j) {
    const activation_plane planes[2] = {PlaneAt(a.activations.plane, a, j), PlaneAt(a.activations.residual, a, j)};
    const std::uint8_t* flags = a.activations.flags + ColumnOf(a, j) * a.activations.stride.flags;
    const auto* chunk = reinterpret_cast<const std::uint8_t*>(a.weights) + panel * a.row_bytes;
    Floats acc = Zero();
    for (std::size_t k = 0; k < a.k; k += 256) {
        const std::size_t n = a.k - k < 256 ? (a.k - k) / 32 : 8;
        const PanelScales<Format> scales(chunk, n);
        unsigned wanted = (1u << n) - 1;
        for (std::size_t p = 0; p < 2; ++p) {
            const activation_plane y = From(planes[p], k);
            for (; wanted != 0; wanted &= wanted - 1) {
                const auto g = static_cast<std::size_t>(__builtin_ctz(wanted));
                if (p == 0) PrefetchRun<Format>(chunk, g);
                acc = (AddPanelGroup<Format>)(acc, chunk, scales, y, g);
            }
            wanted = flags[k / 256];
        }
        chunk += panel_layout<Format>::chunk_bytes(n);
    }
    return acc;
}

/// Rows [row_begin, row_end) times all columns, column after column while the panel is in the cache; row_begin is a multiple of 16.
template <class Format>
COLIBRI_ENTRY void PanelColumns(const product_arguments& a, std::size_t row_begin, std::size_t row_end) {
    for (std::size_t r = row_begin; r < row_end; r += 16) {
        for (std::size_t j = 0; j < a.column_count; ++j) {
            const Floats acc = PanelTimesColumn<Format>(a, r / 16, j);
            float* out = a.out + j * a.out_stride + r;
            if (row_end - r >= 16) Store(acc, out);
            else StoreSome(acc, out, row_end - r);
        }
    }
}
