// Floats to blocks of any type that is chosen at run time, with or without importance weights.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <type_traits>

#include "colibri/core/concat.hpp"
#include "colibri/core/error.hpp"
#include "colibri/gguf/tensor_type.hpp"
#include "colibri/quant/block_encoder.hpp"
#include "colibri/quant/encode_grid.hpp"
#include "colibri/quant/encoders.hpp"
#include "colibri/quant/format_list.hpp"
#include "colibri/quant/rows.hpp"

namespace colibri::quant {

namespace detail {

template <class... Formats>
[[nodiscard]] constexpr bool is_writable_in(format_list<Formats...>, dtype type) noexcept {
    return ((Formats::type == type && writable_format<Formats>) || ...);
}

}  // namespace detail

/// Whether `encode_row` can write this type.
[[nodiscard]] constexpr bool is_encodable(dtype type) noexcept { return detail::is_writable_in(weight_formats{}, type); }

/// Whether a type has so few bits that it is useless without importance weights: `encode_row` refuses it without them.
[[nodiscard]] constexpr bool needs_importance(dtype type) noexcept {
    return type == dtype::iq1_s || type == dtype::iq1_m || type == dtype::iq2_xxs || type == dtype::iq2_xs;
}

/// Encodes `blocks` blocks of F. `importance` is null or has a weight for each of the values, finite and not negative.
template <writable_format F>
inline void encode_blocks(const float* x, const float* importance, std::size_t blocks, F* out) noexcept {
    if constexpr (detail::row_searched<F>) {
        block_encoder<F>::encode(x, importance, blocks, out);
    } else {
        for (std::size_t b = 0; b < blocks; ++b) {
            const float* values = x + b * F::block_size;
            if constexpr (detail::block_searched<F>) {
                out[b] = block_encoder<F>::encode(values, importance == nullptr ? nullptr : importance + b * F::block_size);
            } else {
                out[b] = F::encode(values);
            }
        }
    }
}

/// Encodes a row to blocks of `type` in `out`, which may have any alignment and has exactly row_bytes(type, row.size()) bytes.
/// `importance` is empty or has one finite weight >= 0 a column. Allocates nothing; any number of threads may call it.
/// Errors: unsupported (no such encoder, or one that needs importance and has none), bad_shape (the row is no whole number of
/// blocks), truncated or bad_count (the sizes of `out` or `importance`).
[[nodiscard]] inline result<void> encode_row(dtype type, std::span<const float> row, std::span<const float> importance,
                                             std::span<std::byte> out) {
    if (auto sound = detail::check_row(type, row.size(), out.size()); !sound) return sound;
    if (!importance.empty() && importance.size() != row.size()) {
        return error{errc::bad_count,
                     concat("a row of ", row.size(), " values needs as many importance weights, not ", importance.size())};
    }
    if (importance.empty() && needs_importance(type)) {
        return error{errc::unsupported,
                     concat(name(type), " can't be written without importance weights; make an importance matrix first")};
    }
    return visit_format(type, [&]<class F>(std::type_identity<F>) -> result<void> {
        if constexpr (writable_format<F>) {
            constexpr std::size_t step = 16 * 256 / F::block_size;  // whole batches of any encoder
            F made[step];
            const std::size_t blocks = row.size() / F::block_size;
            for (std::size_t first = 0; first < blocks; first += step) {
                const std::size_t count = std::min(step, blocks - first);
                const float* x = row.data() + first * F::block_size;
                const float* w = importance.empty() ? nullptr : importance.data() + first * F::block_size;
                encode_blocks(x, w, count, made);
                std::memcpy(out.data() + first * sizeof(F), made, count * sizeof(F));
            }
            return {};
        } else {
            return error{errc::unsupported, concat("there is no encoder for ", name(F::type))};
        }
    });
}

}  // namespace colibri::quant
