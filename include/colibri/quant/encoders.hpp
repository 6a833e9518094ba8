// The encoders of all formats whose codes are found one by one.
#pragma once

#include <cstddef>

#include "colibri/quant/block_encoder.hpp"
#include "colibri/quant/encode_levels.hpp"

namespace colibri::quant {

namespace detail {

/// Without importance as `F::encode` has it, the bytes that the format's reference writes.
template <class F>
struct exact_or_searching_encoder {
    static void encode(const float* x, const float* importance, std::size_t blocks, F* out) noexcept {
        if (importance != nullptr) return search_blocks(x, importance, blocks, out);
        encode_each(x, blocks, out);
    }
};

}  // namespace detail

template <encodable_format F>
    requires requires { detail::baseline::search_shape<F>::kind; }
struct block_encoder<F> : detail::exact_or_searching_encoder<F> {};

template <block_format F>
    requires(!encodable_format<F>) && requires { detail::baseline::search_shape<F>::kind; }
struct block_encoder<F> {
    static void encode(const float* x, const float* importance, std::size_t blocks, F* out) noexcept {
        detail::search_blocks(x, importance, blocks, out);
    }
};

}  // namespace colibri::quant
