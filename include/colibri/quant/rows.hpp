// Rows of blocks to rows of floats and back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>
#include <utility>

#include "colibri/core/checked.hpp"
#include "colibri/core/concat.hpp"
#include "colibri/core/error.hpp"
#include "colibri/quant/block_format.hpp"
#include "colibri/quant/format_list.hpp"

namespace colibri::quant {

/// Writes the n values (a multiple of F::block_size) of a row.
template <block_format F>
constexpr void decode_row(const F* row, std::size_t n, float* out) noexcept {
    for (std::size_t b = 0; b < n / F::block_size; ++b) row[b].decode(out + b * F::block_size);
}

/// Writes the blocks of n values (a multiple of F::block_size). What becomes of values that aren't finite is said at
/// `F::encode`.
template <encodable_format F>
constexpr void encode_row(const float* in, std::size_t n, F* row) noexcept {
    for (std::size_t b = 0; b < n / F::block_size; ++b) row[b] = F::encode(in + b * F::block_size);
}

/// Bytes of a row of n values of any type in `dtype_table`.
/// Errors: unsupported (no such type), bad_shape (n is no whole number of blocks), overflow.
[[nodiscard]] inline result<std::size_t> row_bytes(dtype type, std::uint64_t n) {
    const auto row = find_dtype(static_cast<std::uint32_t>(type));
    if (!row) return unsupported_format(type);
    if (n % row->block_size != 0) {
        return error{errc::bad_shape,
                     concat("a row of ", n, " is not a whole number of ", row->name, " blocks of ", row->block_size)};
    }
    const auto bytes = checked_mul<std::uint64_t>(n / row->block_size, row->block_bytes);
    if (!bytes || *bytes > std::numeric_limits<std::size_t>::max()) {
        return error{errc::overflow, concat("a row of ", n, " ", row->name, " is larger than memory")};
    }
    return static_cast<std::size_t>(*bytes);
}

/// Alignment that blocks of this type need to be used in place; 1 for a type that isn't supported.
[[nodiscard]] constexpr std::size_t block_alignment(dtype type) noexcept {
    std::size_t out = 1;
    for_each_format(weight_formats{}, [&]<class F>(std::type_identity<F>) {
        if (F::type == type) out = alignof(F);
    });
    return out;
}

/// Decodes a row of out.size() values from bytes of any alignment. Errors: as `row_bytes`; truncated or bad_count if
/// `bytes` isn't the row's size; unsupported.
[[nodiscard]] inline result<void> decode_row(dtype type, std::span<const std::byte> bytes, std::span<float> out);

/// Encodes a row into bytes of any alignment. Errors: as `decode_row`; unsupported also for formats that can only be
/// read.
[[nodiscard]] inline result<void> encode_row(dtype type, std::span<const float> in, std::span<std::byte> bytes);

namespace detail {

[[nodiscard]] inline result<void> check_row(dtype type, std::size_t values, std::size_t bytes) {
    auto needed = row_bytes(type, values);
    if (!needed) return std::move(needed).error();
    if (bytes == *needed) return {};
    return error{bytes < *needed ? errc::truncated : errc::bad_count,
                 concat("a row of ", values, " ", name(type), " takes ", *needed, " bytes, not ", bytes)};
}

}  // namespace detail

inline result<void> decode_row(dtype type, std::span<const std::byte> bytes, std::span<float> out) {
    if (auto sound = detail::check_row(type, out.size(), bytes.size()); !sound) return sound;
    return visit_format(type, [&]<class F>(std::type_identity<F>) {
        for (std::size_t b = 0; b < out.size() / F::block_size; ++b) {
            F block;
            std::memcpy(&block, bytes.data() + b * sizeof(F), sizeof(F));
            block.decode(out.data() + b * F::block_size);
        }
    });
}

inline result<void> encode_row(dtype type, std::span<const float> in, std::span<std::byte> bytes) {
    if (auto sound = detail::check_row(type, in.size(), bytes.size()); !sound) return sound;
    return visit_format(type, [&]<class F>(std::type_identity<F>) -> result<void> {
        if constexpr (encodable_format<F>) {
            for (std::size_t b = 0; b < in.size() / F::block_size; ++b) {
                const F block = F::encode(in.data() + b * F::block_size);
                std::memcpy(bytes.data() + b * sizeof(F), &block, sizeof(F));
            }
            return {};
        } else {
            return error{errc::unsupported, concat("there is no encoder for ", name(F::type), " yet")};
        }
    });
}

}  // namespace colibri::quant
