// Several columns: 256 columns of 16 or 32 rows of weights at a time are unpacked, which all columns of activations then use. Part
// of kernels-inl.hpp.

/// Panels of 16 rows that a tile's vectors are from, one row for each word of 64 bytes; and those unpacked together, at most: the
/// packed columns, which may lie in a far cache, are read once for all of them.
inline constexpr std::size_t kTilePanels = kByteParts == 1 ? 2 : 1;
inline constexpr std::size_t kGroupPanels = 2 * kTilePanels;

/// 256 columns of a group of rows, unpacked.
struct PanelScratch {
    alignas(64) std::uint8_t codes[64][kGroupPanels * 64];  ///< [k / 4][row][k % 4]
    alignas(64) float scale[16][kGroupPanels * 16];         ///< of each run of 16 or 32
    alignas(64) float minimum[16][kGroupPanels * 16];
    alignas(64) float unused[kTileVectors * kLanes];        ///< results of columns that fill up a tile
};

/// How a tile is computed: everything about a format that its inner loop depends on.
///   run        weights that share a scale: 16, 32
///   is_signed  whether weights are signed bytes
///   adds       pair sums that fit 16 bits (1 where it doesn't matter)
///   minimums   whether there are any
///   zeros      whether the zero point is 0
template <std::size_t kRunSize, bool kIsSigned, std::size_t kAddCount, bool kMinimums>
struct TileKind {
    static constexpr std::size_t run = kRunSize;
    static constexpr bool is_signed = kIsSigned, minimums = kMinimums;
    static constexpr std::size_t adds = kAddCount;
    static constexpr bool zeros = kIsSigned || kMinimums;
};
template <class Format>
using TileKindOf = TileKind<quant::scale_run<Format>, Codes<Format>::max_code == 255 && kSignedDot,
                            static_cast<std::size_t>(AddsOf<Format>()), Codes<Format>::minimums>;

/// What a tile needs besides the panels.
struct TileArguments {
    const product_arguments* product;
    std::size_t row;     ///< first row of the rows' group
    std::size_t panels;  ///< of the group
    int zero;            ///< zero point of the unsigned codes
    bool begins;         ///< results start at zero, not at what is there
};

COLIBRI_KERNEL ByteVec SpreadWord(const std::int32_t* word) { return hn::BitCast(ByteTag(), hn::Set(WordTag(), *word)); }

/// Integer sums of one run: t[v][c] = start[c] + dot.
template <class Kind, std::size_t kVectors, std::size_t kColumns>
COLIBRI_KERNEL void DotRun(const std::uint8_t* panel, const std::int32_t* quads, const std::int32_t* start,
                           WordVec (&t)[kVectors][kColumns]) {
    COLIBRI_UNROLL for (std::size_t c = 0; c < kColumns; ++c) {
        COLIBRI_UNROLL for (std::size_t v = 0; v < kVectors; ++v) {
            t[v][c] = Kind::zeros ? ZeroWords() : hn::Set(WordTag(), start[c]);
        }
    }
    COLIBRI_UNROLL_RUN for (std::size_t four = 0; four < Kind::run / 4; four += 4) {
        COLIBRI_UNROLL for (std::size_t q = four; q < four + 4; q += Kind::adds) {
            ByteVec w[kVectors][Kind::adds];
            COLIBRI_UNROLL for (std::size_t v = 0; v < kVectors; ++v) {
                COLIBRI_UNROLL for (std::size_t i = 0; i < Kind::adds; ++i) {
                    w[v][i] = hn::Load(ByteTag(), panel + (q + i) * kGroupPanels * 64 + v * kBytes);
                }
            }
            COLIBRI_UNROLL for (std::size_t c = 0; c < kColumns; ++c) {
                ByteVec y[Kind::adds];
                COLIBRI_UNROLL for (std::size_t i = 0; i < Kind::adds; ++i) {
                    y[i] = SpreadWord(quads + four * kColumns + c * 4 + (q - four) + i);
                }
                COLIBRI_UNROLL for (std::size_t v = 0; v < kVectors; ++v) {
                    t[v][c] = DotSeveral<Kind::is_signed, Kind::adds>(t[v][c], w[v], y);
                }
            }
        }
    }
}

using FloatVec = hn::Vec<FloatTag>;

/// acc + a * b, fused where the target can.
COLIBRI_KERNEL FloatVec FmaVec(FloatVec a, FloatVec b, FloatVec acc) {
#if HWY_NATIVE_FMA
    return hn::MulAdd(a, b, acc);
#else
    return hn::Add(acc, hn::Mul(a, b));
#endif
}

/// Adds one chunk of kVectors vectors of rows, from vector `first`, times the columns of a packed tile to the results. `start`: what
/// the sum of each run and column begins with, unless that is zero.
template <class Kind, std::size_t kVectors, std::size_t kColumns>
COLIBRI_KERNEL void Tile(PanelScratch& s, const TileArguments& a, std::size_t first, PackedTile<kColumns> tile,
                         const std::int32_t* start) {
    constexpr std::size_t runs = 32 / Kind::run;  // in a group of 32
    const std::size_t steps = tile.Steps();
    const std::size_t lane = first * kLanes;
    float* out[kColumns];
    FloatVec acc[kVectors][kColumns];
    COLIBRI_UNROLL for (std::size_t c = 0; c < kColumns; ++c) {
        const std::int32_t j = tile.Columns()[c];
        out[c] = j < 0 ? s.unused : a.product->out + static_cast<std::size_t>(j) * a.product->out_stride + a.row + lane;
        COLIBRI_UNROLL for (std::size_t v = 0; v < kVectors; ++v) {
            acc[v][c] = a.begins ? hn::Zero(FloatTag()) : hn::LoadU(FloatTag(), out[c] + v * kLanes);
        }
    }
    const std::int32_t* quads = tile.Quads();
    const auto ahead = reinterpret_cast<std::uintptr_t>(tile.End());
    for (std::size_t step = 0; step < steps; ++step) {
        const std::size_t g = tile.Groups()[step];
        if (first == 0) {  // the next tile, a step of it at a time
            constexpr std::size_t bytes = 13 * kColumns * sizeof(std::int32_t);
            COLIBRI_UNROLL for (std::size_t i = 0; i < bytes; i += 64) {
                __builtin_prefetch(reinterpret_cast<const void*>(ahead + step * bytes + i), 0, 3);
            }
        }
        COLIBRI_UNROLL for (std::size_t half = 0; half < runs; ++half) {
            const std::size_t j = step * runs + half;
            const float* scale = s.scale[g * runs + half] + lane;
            const float* minimum = s.minimum[g * runs + half] + lane;
            WordVec t[kVectors][kColumns];
            DotRun<Kind, kVectors, kColumns>(s.codes[g * 8 + half * 4] + first * kBytes, quads,
                                               Kind::zeros ? start : start + j * kColumns, t);
            quads += Kind::run / 4 * kColumns;
            COLIBRI_UNROLL for (std::size_t c = 0; c < kColumns; ++c) {
                const auto y = hn::Set(FloatTag(), tile.Scales()[step * kColumns + c]);
                COLIBRI_UNROLL for (std::size_t v = 0; v < kVectors; ++v) {
                    const auto factor = hn::Mul(hn::Load(FloatTag(), scale + v * kLanes), y);  // a factor: can't be fused
                    acc[v][c] = FmaVec(hn::ConvertTo(FloatTag(), t[v][c]), factor, acc[v][c]);
                }
                if constexpr (Kind::minimums) {
                    const float weighted = runs == 1 ? tile.Weighted()[step * kColumns + c]
                                                     : tile.Scales()[step * kColumns + c] *
                                                           static_cast<float>(tile.HalfSums()[j * kColumns + c]);
                    COLIBRI_UNROLL for (std::size_t v = 0; v < kVectors; ++v) {
                        acc[v][c] = FmaVec(hn::Load(FloatTag(), minimum + v * kLanes), hn::Set(FloatTag(), weighted), acc[v][c]);
                    }
                }
            }
        }
    }
    COLIBRI_UNROLL for (std::size_t c = 0; c < kColumns; ++c) {
        COLIBRI_UNROLL for (std::size_t v = 0; v < kVectors; ++v) hn::StoreU(acc[v][c], FloatTag(), out[c] + v * kLanes);
    }
}

/// A packed tile times all rows of the group. Returns its end.
template <class Kind, std::size_t kColumns>
COLIBRI_KERNEL const std::int32_t* Tiles(PanelScratch& s, const TileArguments& a, const std::int32_t* words) {
    constexpr std::size_t runs = 32 / Kind::run;
    const PackedTile<kColumns> tile{words};
    // What the zero point of the codes adds too much, for all runs and columns at once.
    alignas(64) std::int32_t start[round_up<std::size_t>(Kind::zeros ? 1 : 16 * runs * kColumns, 16)];
    if constexpr (!Kind::zeros) {
        const std::int32_t* sums = runs == 1 ? tile.Sums() : tile.HalfSums();
        const auto zero = hn::Set(WordTag(), -a.zero);
        for (std::size_t i = 0; i < tile.Steps() * runs * kColumns; i += kLanes) {
            hn::Store(hn::Mul(hn::LoadU(WordTag(), sums + i), zero), WordTag(), start + i);
        }
    }
    for (std::size_t v = 0; v < a.panels * kByteParts; v += kTileVectors) {
        Tile<Kind, kTileVectors, kColumns>(s, a, v, tile, start);
    }
    return tile.End();
}

/// One chunk of a group of rows times all columns. Not inlined: formats of one kind share it.
template <class Kind>
COLIBRI_OUTLINE void AllColumns(PanelScratch& s, const TileArguments& a, std::size_t chunk) {
    const std::int32_t* words = a.product->packed.words + chunk * a.product->packed.chunk_words;
    std::size_t count = a.product->column_count;
    for (; count >= kTileColumns; count -= kTileColumns) words = Tiles<Kind, kTileColumns>(s, a, words);
    switch (RestColumns(count)) {
        case 0: break;
        case 1: Tiles<Kind, 1>(s, a, words); break;
        case 2: Tiles<Kind, 2>(s, a, words); break;
        case 4: Tiles<Kind, kTileColumns < 4 ? 1 : 4>(s, a, words); break;
        default: Tiles<Kind, kTileColumns>(s, a, words); break;
    }
}

/// Four rows of 64 words each, 16 bytes apart from one word to the next in the panel.
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
        if (kSub < count) Store32(GroupCodes(blocks, kSub), out + kSub * 32);
    }
}

/// Half floats of 16 rows as floats.
template <class Format>
COLIBRI_KERNEL Floats Halves16(const Format* const* rows, std::size_t b, std::uint16_t Format::*field) {
    std::uint16_t halves[16];
    for (std::size_t r = 0; r < 16; ++r) halves[r] = rows[r][b].*field;
    return LoadF16(halves);
}

/// Scales of block b of 16 rows.
template <class Format>
COLIBRI_KERNEL Floats Scales16(const Format* const* rows, std::size_t b) {
    std::uint16_t halves[16];
    for (std::size_t r = 0; r < 16; ++r) halves[r] = HalfOf(rows[r][b]);
    constexpr float unit = quant::scale_unit<Format>;
    if constexpr (unit == 1.0f) return LoadF16(halves);
    else return Mul(LoadF16(halves), Set(unit));
}

/// Factors of a super-block's runs, of 16 rows: out[run] = d * factor. Its name in parentheses: see AddPanelGroup.
template <class Format>
COLIBRI_KERNEL void UnpackFactors(const std::uint8_t (*factors)[16], Floats d, float (*out)[kGroupPanels * 16], std::size_t p) {
    constexpr std::size_t apart = quant::scale_run<Format> / 16;  // factors come for every 16 weights
    for (std::size_t j = 0; j < 16 / apart; ++j) {
        std::int8_t column[16];
        for (std::size_t r = 0; r < 16; ++r) column[r] = static_cast<std::int8_t>(factors[r][j * apart]);
        Store(Mul(LoadI8(column), d), out[j] + p * 16);
    }
}

/// Chunk `chunk` of 16 rows in the file's layout into panel p. `groups`: of 32 in it.
template <class Format>
COLIBRI_KERNEL void UnpackRows(const product_arguments& a, std::size_t row, std::size_t chunk, std::size_t groups, std::size_t p,
                               PanelScratch& s) {
    using C = Codes<Format>;
    const Format* rows[16];
    for (std::size_t r = 0; r < 16; ++r) {
        rows[r] = reinterpret_cast<const Format*>(a.weights + (row + r) * a.row_bytes) + chunk * (256 / Format::block_size);
    }
    alignas(64) std::uint8_t four[4][256];
    for (std::size_t r = 0; r < 16; r += 4) {
        for (std::size_t i = 0; i < 4; ++i) {
            UnpackSub<Format, 0>(rows[r + i], groups, four[i]);
            UnpackSub<Format, 1>(rows[r + i], groups, four[i]);
            UnpackSub<Format, 2>(rows[r + i], groups, four[i]);
            UnpackSub<Format, 3>(rows[r + i], groups, four[i]);
            UnpackSub<Format, 4>(rows[r + i], groups, four[i]);
            UnpackSub<Format, 5>(rows[r + i], groups, four[i]);
            UnpackSub<Format, 6>(rows[r + i], groups, four[i]);
            UnpackSub<Format, 7>(rows[r + i], groups, four[i]);
        }
        TransposeFour(four, s.codes[0] + p * 64 + r * 4, kGroupPanels * 64);
    }
    if constexpr (C::super) {
        alignas(16) std::uint8_t factors[16][16];
        for (std::size_t r = 0; r < 16; ++r) hn::Store(C::Scales(rows[r][0]), Tag16(), factors[r]);
        (UnpackFactors<Format>)(factors, Scales16(rows, 0), s.scale, p);
        if constexpr (C::minimums) {
            for (std::size_t r = 0; r < 16; ++r) hn::Store(C::Minimums(rows[r][0]), Tag16(), factors[r]);
            (UnpackFactors<Format>)(factors, Neg(Halves16(rows, 0, &Format::dmin)), s.minimum, p);
        }
    } else {
        for (std::size_t b = 0; b < groups; ++b) {
            if constexpr (Format::type == dtype::mxfp4) {
                for (std::size_t r = 0; r < 16; ++r) s.scale[b][p * 16 + r] = rows[r][b].scale();
            } else if constexpr (Format::type == dtype::nvfp4) {
                for (std::size_t i = 2 * b; i < 2 * b + 2; ++i) {
                    std::uint8_t bytes[16];
                    for (std::size_t r = 0; r < 16; ++r) bytes[r] = rows[r][i / 4].d[i % 4];
                    Store(LoadE4m3(bytes), s.scale[i] + p * 16);
                }
            } else {
                Store(Scales16(rows, b * 32 / Format::block_size), s.scale[b] + p * 16);
            }
            if constexpr (C::minimums) Store(Halves16(rows, b, &Format::m), s.minimum[b] + p * 16);
        }
    }
}

template <class Format, int kQuad>
COLIBRI_KERNEL void UnpackQuads(const std::uint8_t* run, std::uint8_t* out) {
    if constexpr (kQuad < 8) {
        COLIBRI_UNROLL for (std::size_t i = 0; i < kByteParts; ++i) {
            hn::Store(PanelCode<Format, kQuad>(run + i * kBytes), ByteTag(), out + i * kBytes);
        }
        UnpackQuads<Format, kQuad + 1>(run, out + kGroupPanels * 64);
    }
}

/// A chunk of a panel into panel p.
template <class Format>
COLIBRI_KERNEL void UnpackChunk(const std::uint8_t* chunk, std::size_t groups, std::size_t p, PanelScratch& s) {
    constexpr std::size_t runs = 32 / quant::scale_run<Format>;
    const PanelScales<Format> scales(chunk, groups);
    for (std::size_t g = 0; g < groups; ++g) {
        PrefetchRun<Format>(chunk, g);
        UnpackQuads<Format, 0>(chunk + g * panel_layout<Format>::run_codes, s.codes[g * 8] + p * 64);
        for (std::size_t j = g * runs; j < (g + 1) * runs; ++j) {
            Store(scales.Scale(j), s.scale[j] + p * 16);
            if constexpr (Codes<Format>::minimums) Store(scales.Minimum(j), s.minimum[j] + p * 16);
        }
    }
}

/// `panels` times 16 rows, from `row` on, times all columns, not inlined: it has several callers. `kPanels`: the weights lie in panels.
template <class Format, bool kPanels>
COLIBRI_OUTLINE void GemmGroup(const product_arguments& a, std::size_t row, std::size_t panels) {
    static_assert(!TileKindOf<Format>::zeros || Codes<Format>::zero == 0);
    PanelScratch s;
    for (std::size_t chunk = 0; chunk * 256 < a.k; ++chunk) {
        const std::size_t left = (a.k - chunk * 256) / 32;
        const std::size_t groups = left < 8 ? left : 8;
        for (std::size_t p = 0; p < panels; ++p) {
            if constexpr (kPanels) {
                const auto* panel = reinterpret_cast<const std::uint8_t*>(a.weights) + (row / 16 + p) * a.row_bytes;
                UnpackChunk<Format>(panel + chunk * panel_layout<Format>::chunk_bytes(8), groups, p, s);
            } else {
                UnpackRows<Format>(a, row + p * 16, chunk, groups, p, s);
            }
        }
        AllColumns<TileKindOf<Format>>(s, TileArguments{&a, row, panels, Codes<Format>::zero, chunk == 0}, chunk);
    }
}

/// Rows [row, row_end) in groups: at least those of one tile.
template <class Format, bool kPanels>
COLIBRI_KERNEL void GemmRows(const product_arguments& a, std::size_t row, std::size_t row_end) {
    constexpr std::size_t tile = kTilePanels * 16;
    while (row_end - row >= tile) {
        const std::size_t tiles = (row_end - row) / tile;
        const std::size_t panels = tiles * kTilePanels < kGroupPanels ? tiles * kTilePanels : kGroupPanels;
        GemmGroup<Format, kPanels>(a, row, panels);
        row += panels * 16;
    }
    if (row < row_end) GemmGroup<Format, kPanels>(a, row_end - tile, kTilePanels);  // some rows twice, with the same result
}

/// Weights in the file's layout.
template <class Format>
COLIBRI_ENTRY void CodeProduct(const product_arguments& a, std::size_t row_begin, std::size_t row_end) {
    if (a.column_count >= packed_minimum && row_end - row_begin >= kTilePanels * 16) {
        GemmRows<Format, false>(a, row_begin, row_end);
        return;
    }
    for (std::size_t j = 0; j < a.column_count; ++j) GemvRows<Format>(a, row_begin, row_end, j);
}

/// Weights in panels.
template <class Format>
COLIBRI_ENTRY void PanelProduct(const product_arguments& a, std::size_t row_begin, std::size_t row_end) {
    const std::size_t whole = row_end / 16 * 16;
    if (a.column_count >= packed_minimum && whole >= row_begin + kTilePanels * 16) {
        GemmRows<Format, true>(a, row_begin, whole);
        row_begin = whole;
    }
    PanelColumns<Format>(a, row_begin, row_end);
}
