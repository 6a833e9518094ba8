// Floats to blocks of any type that is chosen at run time, with or without importance weights.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <type_traits>

#include "colibri/core/concat.hpp"
#include "colibri/core/error.hpp"
#include "colibri/gguf/tensor_type.hpp"
#include "colibri/quant/block_encoder.hpp"
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
[[nodiscard]] constexpr bool is_encodable(dtype type) noexcept { return detail::is_writable_in(stored_formats{}, type); }

/// Whether a type has so few bits that it is useless without importance weights: `encode_row` refuses it without them.
[[nodiscard]] constexpr bool needs_importance(dtype type) noexcept {
    return type == dtype::iq1_s || type == dtype::iq1_m || type == dtype::iq2_xxs || type == dtype::iq2_xs;
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
        return error{errc::unsupported, concat(name(type), " can't be written without importance weights; make an importance matrix first")};
    }
    return visit_stored(type, [&]<class F>(std::type_identity<F>) -> result<void> {
        const auto write_all = [&](auto&& make) {
            for (std::size_t b = 0; b < row.size() / F::block_size; ++b) {
                const std::size_t at = b * F::block_size;
                const F block = make(row.data() + at, importance.empty() ? nullptr : importance.data() + at);
                std::memcpy(out.data() + b * sizeof(F), &block, sizeof(F));
            }
        };
        if constexpr (detail::block_searched<F>) {
            write_all([](const float* x, const float* w) { return block_encoder<F>::encode(x, w); });
        } else if constexpr (encodable_format<F>) {
            write_all([](const float* x, const float*) { return F::encode(x); });
        } else {
            return error{errc::unsupported, concat("there is no encoder for ", name(F::type))};
        }
        return {};
    });
}

}  // namespace colibri::quant
