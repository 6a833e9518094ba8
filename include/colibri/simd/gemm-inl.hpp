// Several columns: 256 weights of 16 or 32 rows at a time are unpacked to panels, which all columns then use. Part of
// kernels-inl.hpp.

/// Rows unpacked together, in panels of 16: one row for each word of 64 bytes.
inline constexpr std::size_t kGroupPanels = kByteParts == 1 ? 2 : 1;
/// Vectors of rows, and columns, whose sums are kept in registers together.
inline constexpr std::size_t kTileVectors = 2;
inline constexpr std::size_t kTileColumns = kByteParts == 1 ? 6 : HWY_ARCH_ARM ? 4 : kByteParts == 2 ? 3 : 2;

/// 256 weights of a group of rows.
struct PanelScratch {
    alignas(64) std::uint8_t codes[64][kGroupPanels * 64];   ///< [k / 4][row][k % 4]
    alignas(64) float scale[8][kGroupPanels * 16];           ///< of each block of 32; super-blocks: the first only
    alignas(64) float minimum[8][kGroupPanels * 16];
    alignas(64) std::int32_t factors[16][kGroupPanels * 16]; ///< super-blocks: the integer scale of each run of 16 or 32
    alignas(64) std::int16_t pairs[8][kGroupPanels * 32];    ///< super-blocks: minimums of two runs side by side
};

/// How a tile is computed: everything about a format that its inner loop depends on.
///   kRun    weights that share a scale: 16, 32
///   kSuper  whether eight or sixteen runs are added as integers
///   kAdds   pair sums that fit 16 bits (1 where it doesn't matter)
template <std::size_t kRunSize, bool kIsSuper, bool kIsSigned, std::size_t kAddCount>
struct TileKind {
    static constexpr std::size_t run = kRunSize;
    static constexpr bool super = kIsSuper, is_signed = kIsSigned;
    static constexpr std::size_t adds = kAddCount;
};

template <class Format>
constexpr std::size_t RunOf() {
    if constexpr (quant::super_format<Format>) return Format::sub_size;
    else return 32;
}
template <class Format>
constexpr std::size_t AddsOf() {
#if COLIBRI_VNNI || !HWY_ARCH_X86
    return 1;
#else
    return Codes<Format>::max_code <= 31 ? 4 : Codes<Format>::max_code <= 63 ? 2 : 1;  // adds * 2 * code * 127 < 2^15
#endif
}
template <class Format>
using TileKindOf = TileKind<RunOf<Format>(), Codes<Format>::super, Codes<Format>::max_code == 255 && kSignedDot, AddsOf<Format>()>;

/// What a tile needs besides the panels.
struct TileArguments {
    const product_arguments* product;
    std::size_t row;        ///< first row of the group
    std::size_t chunk;      ///< which 256 weights
    std::size_t first;      ///< blocks of 32 in this chunk, from first to before end
    std::size_t end;
    int zero;               ///< zero point of the unsigned codes
    bool minimums;
    bool residual;          ///< multiply the residuals
};

COLIBRI_KERNEL ByteVec SpreadQuad(const std::int8_t* codes) {
    std::int32_t quad;
    __builtin_memcpy(&quad, codes, 4);
    return hn::BitCast(ByteTag(), hn::Set(WordTag(), quad));
}

/// Integer sums of one run: t[v][c] = -zero * sum of codes + dot.
template <class Kind, std::size_t kVectors, std::size_t kColumns>
COLIBRI_KERNEL void DotRun(const std::uint8_t* panel, std::size_t panel_stride, const std::int8_t* const (&codes)[kColumns],
                           const std::int32_t (&start)[kColumns], WordVec (&t)[kVectors][kColumns]) {
    COLIBRI_UNROLL for (std::size_t c = 0; c < kColumns; ++c) {
        COLIBRI_UNROLL for (std::size_t v = 0; v < kVectors; ++v) t[v][c] = hn::Set(WordTag(), start[c]);
    }
    COLIBRI_UNROLL_TWICE for (std::size_t q = 0; q < Kind::run / 4; q += Kind::adds) {
        ByteVec w[kVectors][Kind::adds];
        COLIBRI_UNROLL for (std::size_t v = 0; v < kVectors; ++v) {
            COLIBRI_UNROLL for (std::size_t i = 0; i < Kind::adds; ++i) {
                w[v][i] = hn::Load(ByteTag(), panel + (q + i) * panel_stride + v * kBytes);
            }
        }
        COLIBRI_UNROLL for (std::size_t c = 0; c < kColumns; ++c) {
            ByteVec y[Kind::adds];
            COLIBRI_UNROLL for (std::size_t i = 0; i < Kind::adds; ++i) y[i] = SpreadQuad(codes[c] + (q + i) * 4);
            COLIBRI_UNROLL for (std::size_t v = 0; v < kVectors; ++v) {
                t[v][c] = DotSeveral<Kind::is_signed, Kind::adds>(t[v][c], w[v], y);
            }
        }
    }
}

/// Adds float(sum) * (scale * y) to a result.
COLIBRI_KERNEL hn::Vec<FloatTag> AddScaled(hn::Vec<FloatTag> acc, hn::Vec<FloatTag> sum, const float* scale, float y) {
    const auto factor = hn::Mul(hn::Load(FloatTag(), scale), hn::Set(FloatTag(), y));  // a factor of Fma: can't be fused
#if HWY_NATIVE_FMA
    return hn::MulAdd(sum, factor, acc);
#else
    return hn::Add(acc, hn::Mul(sum, factor));
#endif
}

/// Adds (blocks of) one chunk of kVectors vectors of rows, from vector `first`, times columns to the results. A chunk's residuals
/// come after all its codes, so they are a pass of their own.
template <class Kind, std::size_t kVectors, std::size_t kColumns>
COLIBRI_KERNEL void Tile(const PanelScratch& s, const TileArguments& a, std::size_t first, const std::uint32_t* js) {
    const std::size_t lane = first * kLanes;
    const std::int8_t* codes[kColumns];
    const float* scales[kColumns];
    const std::int16_t* sums[kColumns];
    float* out[kColumns];
    hn::Vec<FloatTag> acc[kVectors][kColumns];
    COLIBRI_UNROLL for (std::size_t c = 0; c < kColumns; ++c) {
        const Column y = a.residual ? ResidualAt(*a.product, js[c]) : ColumnAt(*a.product, js[c]);
        codes[c] = y.codes + a.chunk * 256 + a.first * 32;
        scales[c] = y.scales + a.chunk * (Kind::super ? 1 : 8);
        sums[c] = y.sums + a.chunk * (Kind::super ? 16 : 8);
        out[c] = a.product->out + js[c] * a.product->out_stride + a.row + lane;
        COLIBRI_UNROLL for (std::size_t v = 0; v < kVectors; ++v) {
            if (a.chunk == 0 && !a.residual) acc[v][c] = hn::Zero(FloatTag());
            else acc[v][c] = hn::LoadU(FloatTag(), out[c] + v * kLanes);
        }
    }
    const std::uint8_t* panel = s.codes[0] + first * kBytes;
    if constexpr (!Kind::super) {
        for (std::size_t b = a.first; b < a.end; ++b) {
            std::int32_t start[kColumns];
            COLIBRI_UNROLL for (std::size_t c = 0; c < kColumns; ++c) start[c] = -a.zero * sums[c][b];
            WordVec t[kVectors][kColumns];
            DotRun<Kind, kVectors, kColumns>(panel + b * 8 * kGroupPanels * 64, kGroupPanels * 64, codes, start, t);
            COLIBRI_UNROLL for (std::size_t c = 0; c < kColumns; ++c) {
                codes[c] += 32;
                COLIBRI_UNROLL for (std::size_t v = 0; v < kVectors; ++v) {
                    acc[v][c] = AddScaled(acc[v][c], hn::ConvertTo(FloatTag(), t[v][c]), s.scale[b] + lane + v * kLanes, scales[c][b]);
                }
            }
            if (a.minimums) {
                COLIBRI_UNROLL for (std::size_t c = 0; c < kColumns; ++c) {
                    const auto sum = hn::Set(FloatTag(), static_cast<float>(sums[c][b]));
                    COLIBRI_UNROLL for (std::size_t v = 0; v < kVectors; ++v) {
                        acc[v][c] = AddScaled(acc[v][c], sum, s.minimum[b] + lane + v * kLanes, scales[c][b]);
                    }
                }
            }
        }
    } else {
        constexpr std::size_t runs = 256 / Kind::run;
        // Sums of the activations of each run.
        alignas(64) std::int16_t run_sums[kColumns][runs];
        for (std::size_t c = 0; c < kColumns; ++c) {
            for (std::size_t i = 0; i < runs; ++i) {
                run_sums[c][i] = Kind::run == 16 ? sums[c][i] : static_cast<std::int16_t>(sums[c][2 * i] + sums[c][2 * i + 1]);
            }
        }
        WordVec total[kVectors][kColumns];
        COLIBRI_UNROLL for (std::size_t v = 0; v < kVectors; ++v) {
            COLIBRI_UNROLL for (std::size_t c = 0; c < kColumns; ++c) total[v][c] = ZeroWords();
        }
        for (std::size_t i = 0; i < runs; ++i) {
            std::int32_t start[kColumns];
            COLIBRI_UNROLL for (std::size_t c = 0; c < kColumns; ++c) start[c] = -a.zero * run_sums[c][i];
            WordVec t[kVectors][kColumns];
            DotRun<Kind, kVectors, kColumns>(panel + i * (Kind::run / 4) * kGroupPanels * 64, kGroupPanels * 64, codes, start, t);
            COLIBRI_UNROLL for (std::size_t v = 0; v < kVectors; ++v) {
                const auto factor = hn::Load(WordTag(), s.factors[i] + lane + v * kLanes);
                COLIBRI_UNROLL for (std::size_t c = 0; c < kColumns; ++c) {
                    total[v][c] = hn::Add(total[v][c], hn::Mul(t[v][c], factor));
                }
            }
            COLIBRI_UNROLL for (std::size_t c = 0; c < kColumns; ++c) codes[c] += Kind::run;
        }
        COLIBRI_UNROLL for (std::size_t c = 0; c < kColumns; ++c) {
            COLIBRI_UNROLL for (std::size_t v = 0; v < kVectors; ++v) {
                acc[v][c] = AddScaled(acc[v][c], hn::ConvertTo(FloatTag(), total[v][c]), s.scale[0] + lane + v * kLanes, scales[c][0]);
            }
        }
        if (a.minimums) {
            for (std::size_t c = 0; c < kColumns; ++c) {
                COLIBRI_UNROLL for (std::size_t v = 0; v < kVectors; ++v) {
                    WordVec sum = ZeroWords();
                    for (std::size_t i = 0; i < runs / 2; ++i) {
                        const auto pair = hn::BitCast(WordTag(), hn::Load(hn::Repartition<std::int16_t, WordTag>(), s.pairs[i] + 2 * (lane + v * kLanes)));
                        const auto y = hn::BitCast(WordTag(), SpreadQuad(reinterpret_cast<const std::int8_t*>(run_sums[c] + 2 * i)));
                        sum = PairProducts(sum, pair, y);
                    }
                    acc[v][c] = AddScaled(acc[v][c], hn::Neg(hn::ConvertTo(FloatTag(), sum)), s.minimum[0] + lane + v * kLanes, scales[c][0]);
                }
            }
        }
    }
    COLIBRI_UNROLL for (std::size_t c = 0; c < kColumns; ++c) {
        COLIBRI_UNROLL for (std::size_t v = 0; v < kVectors; ++v) hn::StoreU(acc[v][c], FloatTag(), out[c] + v * kLanes);
    }
}

/// The tiles of `count` columns of all rows of the group.
template <class Kind, std::size_t kColumns>
COLIBRI_KERNEL void Tiles(const PanelScratch& s, const TileArguments& a, const std::uint32_t* js) {
    for (std::size_t v = 0; v < kGroupPanels * kByteParts; v += kTileVectors) Tile<Kind, kTileVectors, kColumns>(s, a, v, js);
}

template <class Kind>
COLIBRI_KERNEL void ListedColumns(const PanelScratch& s, const TileArguments& a, const std::uint32_t* js, std::size_t count) {
    std::size_t done = 0;
    for (; done + kTileColumns <= count; done += kTileColumns) Tiles<Kind, kTileColumns>(s, a, js + done);
    if constexpr (kTileColumns > 3) {
        for (; done + 2 <= count; done += 2) Tiles<Kind, 2>(s, a, js + done);
    }
    for (; done < count; ++done) Tiles<Kind, 1>(s, a, js + done);
}

/// One chunk of a group of rows times all columns. Not inlined: formats of one kind share it.
template <class Kind>
__attribute__((noinline)) HWY_ATTR void AllColumns(const PanelScratch& s, TileArguments a) {
    constexpr std::size_t most = 256;
    const product_arguments& p = *a.product;
    const std::size_t passes = Kind::super ? 1 : a.end;
    for (std::size_t begin = 0; begin < p.column_count; begin += most) {
        const std::size_t count = p.column_count - begin < most ? p.column_count - begin : most;
        std::uint32_t js[most];
        std::uint8_t flags[most];
        for (std::size_t i = 0; i < count; ++i) {
            js[i] = static_cast<std::uint32_t>(begin + i);
            flags[i] = p.flags[ColumnOf(p, begin + i) * p.flag_stride + a.chunk];
        }
        TileArguments pass = a;
        // First all columns, then for each block (super-blocks: once) those that have a residual there: one instance of the tiles
        // serves both.
        std::size_t listed = count;
        for (std::size_t b = 0;; ++b) {
            if (listed != 0) ListedColumns<Kind>(s, pass, js, listed);
            if (b == passes) break;
            pass.residual = true;
            if constexpr (!Kind::super) {
                pass.first = b;
                pass.end = b + 1;
            }
            listed = 0;
            for (std::size_t i = 0; i < count; ++i) {
                js[listed] = static_cast<std::uint32_t>(begin + i);
                listed += flags[i] >> b & 1u;
            }
        }
    }
}

/// Four rows of `quads` words each, 16 bytes apart from one word to the next in the panel.
COLIBRI_KERNEL void TransposeFour(const std::uint8_t (*rows)[256], std::uint8_t* panel, std::size_t panel_stride) {
    const Words4Tag d;
    const hn::Repartition<std::int64_t, Words4Tag> d64;
    for (std::size_t q = 0; q < 64; q += 4) {
        const auto a = hn::BitCast(d, hn::Load(Tag16(), rows[0] + q * 4));
        const auto b = hn::BitCast(d, hn::Load(Tag16(), rows[1] + q * 4));
        const auto c = hn::BitCast(d, hn::Load(Tag16(), rows[2] + q * 4));
        const auto e = hn::BitCast(d, hn::Load(Tag16(), rows[3] + q * 4));
        const auto ab_low = hn::BitCast(d64, hn::InterleaveLower(d, a, b));
        const auto ab_high = hn::BitCast(d64, hn::InterleaveUpper(d, a, b));
        const auto ce_low = hn::BitCast(d64, hn::InterleaveLower(d, c, e));
        const auto ce_high = hn::BitCast(d64, hn::InterleaveUpper(d, c, e));
        std::uint8_t* out = panel + q * panel_stride;
        hn::Store(hn::BitCast(Tag16(), hn::InterleaveLower(d64, ab_low, ce_low)), Tag16(), out);
        hn::Store(hn::BitCast(Tag16(), hn::InterleaveUpper(d64, ab_low, ce_low)), Tag16(), out + panel_stride);
        hn::Store(hn::BitCast(Tag16(), hn::InterleaveLower(d64, ab_high, ce_high)), Tag16(), out + 2 * panel_stride);
        hn::Store(hn::BitCast(Tag16(), hn::InterleaveUpper(d64, ab_high, ce_high)), Tag16(), out + 3 * panel_stride);
    }
}

template <class Format, std::size_t kSub>
COLIBRI_KERNEL void UnpackSub(const Format* blocks, std::size_t count, std::uint8_t* out) {
    if constexpr (Codes<Format>::super) {
        Store32(Codes<Format>::template Get<kSub>(blocks[0]), out + kSub * 32);
    } else {
        if (kSub < count) Store32(Codes<Format>::template Get<0>(blocks[kSub]), out + kSub * 32);
    }
}

/// Half floats of 16 rows as floats.
template <class Format>
COLIBRI_KERNEL void Halves16(const Format* const* rows, std::size_t b, std::uint16_t Format::*field, float* out) {
    std::uint16_t halves[16];
    for (std::size_t r = 0; r < 16; ++r) halves[r] = rows[r][b].*field;
    Store(LoadF16(halves), out);
}

/// Chunk `chunk` of 16 rows into panel p. `blocks`: blocks of 32 in it.
template <class Format>
COLIBRI_KERNEL void UnpackPanel(const product_arguments& a, std::size_t row, std::size_t chunk, std::size_t blocks, std::size_t p,
                                PanelScratch& s) {
    using C = Codes<Format>;
    const Format* rows[16];
    for (std::size_t r = 0; r < 16; ++r) {
        rows[r] = reinterpret_cast<const Format*>(a.weights + (row + r) * a.row_bytes) + chunk * (C::super ? 1 : 8);
    }
    alignas(64) std::uint8_t four[4][256];
    for (std::size_t r = 0; r < 16; r += 4) {
        for (std::size_t i = 0; i < 4; ++i) {
            UnpackSub<Format, 0>(rows[r + i], blocks, four[i]);
            UnpackSub<Format, 1>(rows[r + i], blocks, four[i]);
            UnpackSub<Format, 2>(rows[r + i], blocks, four[i]);
            UnpackSub<Format, 3>(rows[r + i], blocks, four[i]);
            UnpackSub<Format, 4>(rows[r + i], blocks, four[i]);
            UnpackSub<Format, 5>(rows[r + i], blocks, four[i]);
            UnpackSub<Format, 6>(rows[r + i], blocks, four[i]);
            UnpackSub<Format, 7>(rows[r + i], blocks, four[i]);
        }
        TransposeFour(four, s.codes[0] + p * 64 + r * 4, kGroupPanels * 64);
    }
    if constexpr (C::super) {
        constexpr std::size_t apart = Format::sub_size / 16;  // factors come for every 16 weights
        Halves16(rows, 0, &Format::d, s.scale[0] + p * 16);
        if constexpr (C::minimums) Halves16(rows, 0, &Format::dmin, s.minimum[0] + p * 16);
        for (std::size_t r = 0; r < 16; ++r) {
            alignas(16) std::uint8_t factors[16];
            hn::Store(C::Scales(rows[r][0]), Tag16(), factors);
            for (std::size_t i = 0; i < 16 / apart; ++i) s.factors[i][p * 16 + r] = static_cast<std::int8_t>(factors[i * apart]);
            if constexpr (C::minimums) {
                hn::Store(C::Minimums(rows[r][0]), Tag16(), factors);
                for (std::size_t i = 0; i < 16 / apart; ++i) s.pairs[i / 2][(p * 16 + r) * 2 + i % 2] = factors[i * apart];
            }
        }
    } else {
        for (std::size_t b = 0; b < blocks; ++b) {
            if constexpr (Format::type == dtype::mxfp4) {
                for (std::size_t r = 0; r < 16; ++r) s.scale[b][p * 16 + r] = rows[r][b].scale();
            } else {
                Halves16(rows, b, &Format::d, s.scale[b] + p * 16);
            }
            if constexpr (C::minimums) Halves16(rows, b, &Format::m, s.minimum[b] + p * 16);
        }
    }
}

template <class Format>
COLIBRI_ENTRY void GemmGroup(const product_arguments& a, std::size_t row) {
    using C = Codes<Format>;
    PanelScratch s;
    for (std::size_t chunk = 0; chunk * 256 < a.k; ++chunk) {
        const std::size_t left = (a.k - chunk * 256) / 32;
        const std::size_t blocks = left < 8 ? left : 8;
        for (std::size_t p = 0; p < kGroupPanels; ++p) UnpackPanel<Format>(a, row + p * 16, chunk, blocks, p, s);
        AllColumns<TileKindOf<Format>>(s, TileArguments{&a, row, chunk, 0, blocks, C::zero, C::minimums, false});
    }
}

/// From this many columns on unpacking pays.
inline constexpr std::size_t kGemmColumns = 4;

template <class Format>
COLIBRI_ENTRY void CodeProduct(const product_arguments& a, std::size_t row_begin, std::size_t row_end) {
    constexpr std::size_t group = kGroupPanels * 16;
    if (a.column_count >= kGemmColumns && row_end - row_begin >= group) {
        std::size_t r = row_begin;
        for (; r + group <= row_end; r += group) GemmGroup<Format>(a, r);
        if (r < row_end) GemmGroup<Format>(a, row_end - group);  // some rows twice, with the same result
        return;
    }
    for (std::size_t j = 0; j < a.column_count; ++j) GemvRows<Format>(a, row_begin, row_end, j);
}
