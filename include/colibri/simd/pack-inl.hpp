// Columns of activations packed for products of several: the columns of a tile side by side. Part of kernels-inl.hpp.

/// Vectors of rows, and columns, whose sums are kept in registers together.
inline constexpr std::size_t kTileVectors = 2;
inline constexpr std::size_t kTileColumns = kByteParts == 1 ? 6 : HWY_ARCH_ARM ? 4 : kByteParts == 2 ? 3 : 2;

/// A tile of kColumns columns and some groups of 32 values: of the quads of codes, scales, weighted sums, sums of 32 and of 16 codes
/// (as words) each kColumns of a kind together; last the columns' numbers, -1 for those that only fill the tile up.
template <std::size_t kColumns>
struct PackedTile {
    const std::int32_t* words;
    std::size_t groups;

    COLIBRI_KERNEL static constexpr std::size_t Words(std::size_t groups) { return kColumns * packed_words(groups); }
    COLIBRI_KERNEL const float* Scales() const { return reinterpret_cast<const float*>(words + 8 * groups * kColumns); }
    COLIBRI_KERNEL const float* Weighted() const { return reinterpret_cast<const float*>(words + 9 * groups * kColumns); }
    COLIBRI_KERNEL const std::int32_t* Sums() const { return words + 10 * groups * kColumns; }
    COLIBRI_KERNEL const std::int32_t* HalfSums() const { return words + 11 * groups * kColumns; }
    COLIBRI_KERNEL const std::int32_t* Columns() const { return words + 13 * groups * kColumns; }
};

/// Columns of the tile that takes the last `rest` columns.
COLIBRI_KERNEL constexpr std::size_t RestColumns(std::size_t rest) {
    return rest <= 2 ? rest : rest <= 4 && kTileColumns > 4 ? 4 : kTileColumns;
}
/// Columns of the tile that has the i-th of `count` columns.
COLIBRI_KERNEL constexpr std::size_t TileWidth(std::size_t i, std::size_t count) {
    return i / kTileColumns < count / kTileColumns ? kTileColumns : RestColumns(count % kTileColumns);
}

/// Writes `groups` groups of column c of a plane, from value `from` on, as number `i` of `count` packed columns; `number` is its
/// place in the product.
COLIBRI_KERNEL void PackColumn(const quant::activation_planes& plane, const quant::activation_strides& stride, std::size_t c,
                               std::size_t from, std::size_t groups, std::size_t i, std::size_t count, std::size_t number,
                               std::int32_t* out) {
    const std::size_t width = TileWidth(i, count);
    out += i / kTileColumns * PackedTile<kTileColumns>::Words(groups);
    std::int32_t* to = out + i % kTileColumns;
    const std::int8_t* codes = plane.codes + c * stride.codes + from;
    for (std::size_t q = 0; q < groups * 8; ++q) __builtin_memcpy(to + q * width, codes + q * 4, 4);
    to += groups * 8 * width;
    const float* scales = plane.scales + c * stride.scales + from / 32;
    const float* weighted = plane.weighted + c * stride.scales + from / 32;
    const std::int16_t* sums = plane.sums + c * stride.sums + from / 16;
    for (std::size_t g = 0; g < groups; ++g) {
        __builtin_memcpy(to + g * width, scales + g, 4);
        __builtin_memcpy(to + (groups + g) * width, weighted + g, 4);
        to[(2 * groups + g) * width] = sums[2 * g] + sums[2 * g + 1];
        to[(3 * groups + 2 * g) * width] = sums[2 * g];
        to[(3 * groups + 2 * g + 1) * width] = sums[2 * g + 1];
    }
    to[5 * groups * width] = static_cast<std::int32_t>(number);
}

/// Zeros for the columns that fill up the last tile of `count`.
COLIBRI_KERNEL void FillTile(std::size_t groups, std::size_t count, std::int32_t* out) {
    const std::size_t rest = count % kTileColumns;
    const std::size_t width = RestColumns(rest);
    out += count / kTileColumns * PackedTile<kTileColumns>::Words(groups);
    for (std::size_t i = rest; i < width; ++i) {
        for (std::size_t w = 0; w < 13 * groups; ++w) out[w * width + i] = 0;
        out[13 * groups * width + i] = -1;
    }
}

/// Packs chunk `chunk` of the product's columns, and of those that have a residual in a group. Writes a.packed.
COLIBRI_ENTRY void PackChunk(const product_arguments& a, std::size_t chunk) {
    const auto& m = a.activations;
    const std::size_t left = a.k / 32 - chunk * 8;
    const std::size_t groups = left < 8 ? left : 8;
    std::int32_t* all = a.packed.words + chunk * a.packed.chunk_words;
    std::uint32_t* counts = a.packed.residual_counts + chunk * 8;
    for (std::size_t g = 0; g < groups; ++g) counts[g] = 0;
    for (std::size_t j = 0; j < a.column_count; ++j) {
        const std::size_t c = ColumnOf(a, j);
        PackColumn(m.plane, m.stride, c, chunk * 256, groups, j, a.column_count, j, all);
        for (unsigned flags = m.flags[c * m.stride.flags + chunk]; flags != 0; flags &= flags - 1) {
            ++counts[static_cast<std::size_t>(__builtin_ctz(flags))];
        }
    }
    FillTile(groups, a.column_count, all);
    std::uint32_t done[8] = {};
    for (std::size_t j = 0; j < a.column_count; ++j) {
        const std::size_t c = ColumnOf(a, j);
        for (unsigned flags = m.flags[c * m.stride.flags + chunk]; flags != 0; flags &= flags - 1) {
            const auto g = static_cast<std::size_t>(__builtin_ctz(flags));
            const std::size_t at = chunk * 8 + g;
            PackColumn(m.residual, m.stride, c, at * 32, 1, done[g]++, counts[g], j, a.packed.residual_words + at * a.packed.group_words);
        }
    }
    for (std::size_t g = 0; g < groups; ++g) {
        FillTile(1, counts[g], a.packed.residual_words + (chunk * 8 + g) * a.packed.group_words);
    }
}
