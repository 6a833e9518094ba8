// Columns of activations packed for products of several: the columns of a tile side by side. Part of kernels-inl.hpp.

/// Vectors of rows, and columns, whose sums are kept in registers together.
inline constexpr std::size_t kTileVectors = 2;
inline constexpr std::size_t kTileColumns = kByteParts == 1 ? 6 : HWY_ARCH_ARM ? 4 : kByteParts == 2 ? 3 : 2;

/// A tile of kColumns columns and a chunk of 256 values, in steps of one group of 32 each: the chunk's groups in order, then those
/// in which any of the columns has a residual, with the residuals. First the number of steps and the group of each, a byte a piece,
/// and the columns' numbers, -1 for those that only fill the tile up; then of each step the codes, 16 of a column together; scales,
/// weighted sums, sums of 32 and of 16 codes (as words), each kColumns of a kind together.
template <std::size_t kColumns>
struct PackedTile {
    const std::int32_t* words;

    static constexpr std::size_t head = 1 + 4 + kColumns;
    COLIBRI_KERNEL std::size_t Steps() const { return static_cast<std::size_t>(words[0]); }
    COLIBRI_KERNEL const std::uint8_t* Groups() const { return reinterpret_cast<const std::uint8_t*>(words + 1); }
    COLIBRI_KERNEL const std::int32_t* Columns() const { return words + 5; }
    COLIBRI_KERNEL const std::int32_t* Quads() const { return words + head; }
    COLIBRI_KERNEL const float* Scales() const { return reinterpret_cast<const float*>(Quads() + 8 * Steps() * kColumns); }
    COLIBRI_KERNEL const float* Weighted() const { return reinterpret_cast<const float*>(Quads() + 9 * Steps() * kColumns); }
    COLIBRI_KERNEL const std::int32_t* Sums() const { return Quads() + 10 * Steps() * kColumns; }
    COLIBRI_KERNEL const std::int32_t* HalfSums() const { return Quads() + 11 * Steps() * kColumns; }
    COLIBRI_KERNEL const std::int32_t* End() const { return Quads() + 13 * Steps() * kColumns; }
};

/// Columns of the tile that takes the last `rest` columns.
COLIBRI_KERNEL constexpr std::size_t RestColumns(std::size_t rest) {
    return rest <= 2 ? rest : rest <= 4 && kTileColumns > 4 ? 4 : kTileColumns;
}
/// One plane of one column, from the chunk's first value on.
struct PackedColumn {
    const std::int8_t* codes;
    const float* scales;
    const float* weighted;
    const std::int16_t* sums;
};
COLIBRI_KERNEL PackedColumn ColumnOfPlane(const quant::activation_planes& plane, const quant::activation_strides& stride,
                                          std::size_t c, std::size_t chunk) {
    return {plane.codes + c * stride.codes + chunk * 256, plane.scales + c * stride.scales + chunk * 8,
            plane.weighted + c * stride.scales + chunk * 8, plane.sums + c * stride.sums + chunk * 16};
}

/// Packs `count` columns, the numbers of which are given, as a tile of kColumns. Returns its end.
template <std::size_t kColumns>
COLIBRI_KERNEL std::int32_t* PackTile(const product_arguments& a, std::size_t chunk, std::size_t groups, const std::uint32_t* numbers,
                                      std::size_t count, std::int32_t* out) {
    const auto& m = a.activations;
    alignas(64) static constexpr std::uint8_t nothing[256] = {};  // codes, scales and sums of columns that aren't there
    const auto* zeros = static_cast<const void*>(nothing);
    const PackedColumn none = {static_cast<const std::int8_t*>(zeros), static_cast<const float*>(zeros),
                               static_cast<const float*>(zeros), static_cast<const std::int16_t*>(zeros)};
    PackedColumn planes[2][kColumns];
    unsigned flags[kColumns];
    unsigned any = 0;
    for (std::size_t i = 0; i < kColumns; ++i) {
        const std::size_t c = ColumnOf(a, numbers[i < count ? i : 0]);
        planes[0][i] = i < count ? ColumnOfPlane(m.plane, m.stride, c, chunk) : none;
        planes[1][i] = i < count ? ColumnOfPlane(m.residual, m.stride, c, chunk) : none;
        flags[i] = i < count ? m.flags[c * m.stride.flags + chunk] : 0;
        any |= flags[i];
        out[5 + i] = i < count ? static_cast<std::int32_t>(numbers[i]) : -1;
    }
    const std::size_t steps = groups + static_cast<std::size_t>(__builtin_popcount(any));
    out[0] = static_cast<std::int32_t>(steps);
    std::uint8_t order[16] = {};
    std::int32_t* quads = out + PackedTile<kColumns>::head;
    std::int32_t* rest = quads + 8 * steps * kColumns;
    const std::size_t kind = steps * kColumns;
    for (std::size_t step = 0; step < steps; ++step) {
        const std::size_t residual = step < groups ? 0 : 1;
        const std::size_t g = residual == 0 ? step : static_cast<std::size_t>(__builtin_ctz(any));
        if (residual != 0) any &= any - 1;
        order[step] = static_cast<std::uint8_t>(g);
        PackedColumn from[kColumns];
        for (std::size_t i = 0; i < kColumns; ++i) {
            const bool there = residual == 0 || (flags[i] >> g & 1u) != 0;
            const PackedColumn& p = there ? planes[residual][i] : none;
            from[i] = {p.codes + g * 32, p.scales + g, p.weighted + g, p.sums + 2 * g};
        }
        for (std::size_t half = 0; half < 2; ++half, quads += 4 * kColumns) {
            COLIBRI_UNROLL for (std::size_t i = 0; i < kColumns; ++i) __builtin_memcpy(quads + 4 * i, from[i].codes + half * 16, 16);
        }
        std::int32_t* to = rest + step * kColumns;
        for (std::size_t i = 0; i < kColumns; ++i) {
            __builtin_memcpy(to + i, from[i].scales, 4);
            __builtin_memcpy(to + kind + i, from[i].weighted, 4);
            to[2 * kind + i] = from[i].sums[0] + from[i].sums[1];
            to[3 * kind + step * kColumns + i] = from[i].sums[0];
            to[3 * kind + (step + 1) * kColumns + i] = from[i].sums[1];
        }
    }
    __builtin_memcpy(out + 1, order, 16);
    return rest + 5 * kind;
}

/// Sorts the product's columns by the groups in which they have a residual, so that tiles have few steps: bit by bit, the groups
/// that part the columns best first, as a reflected code, in which neighbours differ in one group.
COLIBRI_KERNEL void SortColumns(const product_arguments& a, std::size_t chunk, std::uint32_t* order) {
    const auto& m = a.activations;
    const auto flags = [&](std::size_t j) HWY_ATTR { return unsigned{m.flags[ColumnOf(a, j) * m.stride.flags + chunk]}; };
    std::size_t with[8] = {};
    for (std::size_t j = 0; j < a.column_count; ++j) {
        for (std::size_t g = 0; g < 8; ++g) with[g] += flags(j) >> g & 1u;
    }
    std::size_t places[8] = {0, 1, 2, 3, 4, 5, 6, 7};  // groups, the most even one last: the highest bit
    const auto evenness = [&](std::size_t g) HWY_ATTR { return with[g] < a.column_count - with[g] ? with[g] : a.column_count - with[g]; };
    for (std::size_t i = 1; i < 8; ++i) {
        for (std::size_t n = i; n > 0 && evenness(places[n]) < evenness(places[n - 1]); --n) {
            const std::size_t other = places[n];
            places[n] = places[n - 1];
            places[n - 1] = other;
        }
    }
    std::uint8_t rank[256];
    for (unsigned f = 0; f < 256; ++f) {
        unsigned code = 0;
        for (unsigned i = 0; i < 8; ++i) code |= (f >> places[i] & 1u) << i;
        code ^= code >> 1;
        code ^= code >> 2;
        rank[f] = static_cast<std::uint8_t>(code ^ code >> 4);
    }
    std::uint32_t begin[257] = {};
    for (std::size_t j = 0; j < a.column_count; ++j) ++begin[rank[flags(j)] + 1];
    for (std::size_t i = 1; i < 257; ++i) begin[i] += begin[i - 1];
    for (std::size_t j = 0; j < a.column_count; ++j) order[begin[rank[flags(j)]]++] = static_cast<std::uint32_t>(j);
}

/// Packs chunk `chunk` of the product's columns and their residuals.
COLIBRI_ENTRY void PackChunk(const product_arguments& a, std::size_t chunk) {
    const std::size_t left = a.k / 32 - chunk * 8;
    const std::size_t groups = left < 8 ? left : 8;
    std::uint32_t* order = a.packed.order + chunk * a.column_count;
    SortColumns(a, chunk, order);
    std::int32_t* out = a.packed.words + chunk * a.packed.chunk_words;
    std::size_t count = a.column_count;
    for (; count >= kTileColumns; count -= kTileColumns, order += kTileColumns) {
        out = PackTile<kTileColumns>(a, chunk, groups, order, kTileColumns, out);
    }
    switch (RestColumns(count)) {
        case 0: break;
        case 1: PackTile<1>(a, chunk, groups, order, count, out); break;
        case 2: PackTile<2>(a, chunk, groups, order, count, out); break;
        case 4: PackTile<kTileColumns < 4 ? 1 : 4>(a, chunk, groups, order, count, out); break;
        default: PackTile<kTileColumns>(a, chunk, groups, order, count, out); break;
    }
}
