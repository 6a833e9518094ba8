// Panels from rows in the file's layout, and rows back from panels.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "colibri/quant/panel_codec.hpp"
#include "colibri/quant/panel_layout.hpp"

namespace colibri::quant {

/// Makes a panel of `row_count` (1..16) rows of k weights; row r starts at rows + r * row_bytes, at any address. Rows that
/// are missing become zeros. Writes panel_bytes(F::type, k) bytes. No allocation.
template <code_format F>
void pack_panel(const std::byte* rows, std::size_t row_bytes, std::size_t row_count, std::size_t k, std::byte* out) noexcept;

/// Writes the bytes of row `row` (0..15, not a missing one) as they were in the file's layout. Recoded panels have only
/// what the bytes meant.
template <code_format F>
    requires(!panel_layout<F>::recoded)
void unpack_panel_row(const std::byte* panel, std::size_t row, std::size_t k, std::byte* out_row) noexcept;

/// Decodes row `row` (0..15, not a missing one) to k floats, the same bits as from the file's layout.
template <code_format F>
void decode_panel_row(const std::byte* panel, std::size_t row, std::size_t k, float* out) noexcept;

/// The same for a type known at run time, which has panels, and not recoded ones for `unpack_panel_row` (else nothing happens).
void pack_panel(dtype type, const std::byte* rows, std::size_t row_bytes, std::size_t row_count, std::size_t k,
                std::byte* out) noexcept;
void unpack_panel_row(dtype type, const std::byte* panel, std::size_t row, std::size_t k, std::byte* out_row) noexcept;
void decode_panel_row(dtype type, const std::byte* panel, std::size_t row, std::size_t k, float* out) noexcept;

namespace detail {

/// Words of one row lie a vector (16 words) apart; scales of one row 16 elements apart.
inline void scatter_words(const std::uint32_t* words, std::size_t count, std::byte* out) noexcept {
    for (std::size_t i = 0; i < count; ++i) std::memcpy(out + i * 64, words + i, 4);
}
inline void gather_words(const std::byte* in, std::size_t count, std::uint32_t* words) noexcept {
    for (std::size_t i = 0; i < count; ++i) std::memcpy(words + i, in + i * 64, 4);
}

/// Block `b` of row `row` of a chunk of n runs.
template <code_format F>
void pack_block(const F& block, std::size_t b, std::size_t n, std::size_t row, std::byte* chunk) noexcept {
    using layout = panel_layout<F>;
    constexpr std::size_t count = F::block_size / 32 * (layout::low_vectors + layout::high_vectors);
    std::uint32_t words[count];
    pack_codes(block, words);
    scatter_words(words, count, chunk + b * (count * 64) + row * 4);
    const auto put = [&](std::size_t offset, const auto& value) {
        std::memcpy(chunk + offset + (b * panel_rows + row) * sizeof(value), &value, sizeof(value));
    };
    if constexpr (layout::scale_size != 0) put(layout::scale_offset(n), scale_bits(block));
    if constexpr (layout::has_minimum) put(layout::minimum_offset(n), minimum_field(block));
    if constexpr (layout::sub_runs != 0) {
        constexpr std::size_t scales = layout::sub_runs * (layout::has_sub_minimum ? 2 : 1);
        std::uint32_t packed[scales / 4];
        std::byte bytes[scales];
        pack_scales(block, packed);
        std::memcpy(bytes, packed, scales);
        std::byte* const to = chunk + layout::sub_scale_offset(n) + b * layout::sub_runs * panel_rows + row;
        for (std::size_t j = 0; j < scales; ++j) to[j * panel_rows] = bytes[j];
    }
}

template <code_format F>
void unpack_block(const std::byte* chunk, std::size_t b, std::size_t n, std::size_t row, panel_block<F>& block) noexcept {
    using layout = panel_layout<F>;
    constexpr std::size_t count = F::block_size / 32 * (layout::low_vectors + layout::high_vectors);
    std::uint32_t words[count];
    gather_words(chunk + b * (count * 64) + row * 4, count, words);
    unpack_codes(words, block);
    const auto get = [&](std::size_t offset, auto& value) {
        std::memcpy(&value, chunk + offset + (b * panel_rows + row) * sizeof(value), sizeof(value));
    };
    if constexpr (layout::scale_size != 0) get(layout::scale_offset(n), scale_field(block));
    if constexpr (layout::has_minimum) get(layout::minimum_offset(n), minimum_field(block));
    if constexpr (layout::sub_runs != 0) {
        constexpr std::size_t scales = layout::sub_runs * (layout::has_sub_minimum ? 2 : 1);
        std::byte bytes[scales];
        const std::byte* const from = chunk + layout::sub_scale_offset(n) + b * layout::sub_runs * panel_rows + row;
        for (std::size_t j = 0; j < scales; ++j) bytes[j] = from[j * panel_rows];
        if constexpr (layout::recoded) {
            std::memcpy(block.scales, bytes, scales);
        } else {
            std::uint32_t packed[scales / 4];
            std::memcpy(packed, bytes, scales);
            unpack_scales(packed, block);
        }
    } else if constexpr (layout::recoded) {
        for (auto& scale : block.scales) scale = 1;
    }
}

/// Calls fn(chunk's offset in the panel, its first block, its runs) for the chunks of a panel of k columns.
template <code_format F, class Fn>
void for_each_chunk(std::size_t k, Fn&& fn) noexcept {
    std::size_t offset = 0;
    for (std::size_t first = 0; first < k; first += panel_columns) {
        const std::size_t n = std::min(panel_columns, k - first) / 32;
        fn(offset, first / F::block_size, n);
        offset += panel_layout<F>::chunk_bytes(n);
    }
}

}  // namespace detail

template <code_format F>
void pack_panel(const std::byte* rows, std::size_t row_bytes, std::size_t row_count, std::size_t k, std::byte* out) noexcept {
    using layout = panel_layout<F>;
    const std::size_t bytes = layout::bytes(k);
    if (row_count < panel_rows) std::memset(out, 0, bytes);
    std::size_t end = 0;
    detail::for_each_chunk<F>(k, [&](std::size_t offset, std::size_t first, std::size_t n) {
        for (std::size_t r = 0; r < row_count; ++r) {
            const std::byte* in = rows + r * row_bytes + first * sizeof(F);
            for (std::size_t b = 0; b < layout::blocks(n); ++b) {
                F block;
                std::memcpy(&block, in + b * sizeof(F), sizeof(F));
                detail::pack_block(block, b, n, r, out + offset);
            }
        }
        end = offset + layout::chunk_bytes(n);
    });
    std::memset(out + end, 0, bytes - end);
}

template <code_format F>
    requires(!panel_layout<F>::recoded)
void unpack_panel_row(const std::byte* panel, std::size_t row, std::size_t k, std::byte* out_row) noexcept {
    detail::for_each_chunk<F>(k, [&](std::size_t offset, std::size_t first, std::size_t n) {
        for (std::size_t b = 0; b < panel_layout<F>::blocks(n); ++b) {
            F block;
            detail::unpack_block<F>(panel + offset, b, n, row, block);
            std::memcpy(out_row + (first + b) * sizeof(F), &block, sizeof(F));
        }
    });
}

template <code_format F>
void decode_panel_row(const std::byte* panel, std::size_t row, std::size_t k, float* out) noexcept {
    detail::for_each_chunk<F>(k, [&](std::size_t offset, std::size_t first, std::size_t n) {
        for (std::size_t b = 0; b < panel_layout<F>::blocks(n); ++b) {
            detail::panel_block<F> block;
            detail::unpack_block<F>(panel + offset, b, n, row, block);
            block.decode(out + (first + b) * F::block_size);
        }
    });
}

inline void pack_panel(dtype type, const std::byte* rows, std::size_t row_bytes, std::size_t row_count, std::size_t k,
                       std::byte* out) noexcept {
    for_each_format(weight_formats{}, [&]<class F>(std::type_identity<F>) {
        if constexpr (code_format<F>) {
            if (F::type == type) pack_panel<F>(rows, row_bytes, row_count, k, out);
        }
    });
}

inline void unpack_panel_row(dtype type, const std::byte* panel, std::size_t row, std::size_t k, std::byte* out_row) noexcept {
    for_each_format(weight_formats{}, [&]<class F>(std::type_identity<F>) {
        if constexpr (code_format<F>) {
            if constexpr (!panel_layout<F>::recoded) {
                if (F::type == type) unpack_panel_row<F>(panel, row, k, out_row);
            }
        }
    });
}

inline void decode_panel_row(dtype type, const std::byte* panel, std::size_t row, std::size_t k, float* out) noexcept {
    for_each_format(weight_formats{}, [&]<class F>(std::type_identity<F>) {
        if constexpr (code_format<F>) {
            if (F::type == type) decode_panel_row<F>(panel, row, k, out);
        }
    });
}

}  // namespace colibri::quant
