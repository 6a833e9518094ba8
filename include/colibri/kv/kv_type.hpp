// Formats that a KV cache can hold its rows in.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "colibri/gguf/tensor_type.hpp"

namespace colibri {

/// Format of cached keys or values.
enum class kv_type : std::uint8_t { f32, f16, bf16, q8_0, q4_0 };

inline constexpr std::array kv_types = {kv_type::f32, kv_type::f16, kv_type::bf16, kv_type::q8_0, kv_type::q4_0};

/// The tensor type with the same layout.
[[nodiscard]] constexpr dtype dtype_of(kv_type type) noexcept {
    switch (type) {
        case kv_type::f32: return dtype::f32;
        case kv_type::f16: return dtype::f16;
        case kv_type::bf16: return dtype::bf16;
        case kv_type::q8_0: return dtype::q8_0;
        case kv_type::q4_0: return dtype::q4_0;
    }
    return dtype::f32;
}

/// Name as people type it ("q8_0").
[[nodiscard]] constexpr std::string_view name(kv_type type) noexcept {
    switch (type) {
        case kv_type::f32: return "f32";
        case kv_type::f16: return "f16";
        case kv_type::bf16: return "bf16";
        case kv_type::q8_0: return "q8_0";
        case kv_type::q4_0: return "q4_0";
    }
    return "?";
}

/// The type with that name, or nothing.
[[nodiscard]] constexpr std::optional<kv_type> parse_kv_type(std::string_view text) noexcept {
    for (const auto type : kv_types) {
        if (name(type) == text) return type;
    }
    return std::nullopt;
}

/// Elements in one block of the format (1 for the float formats); a head's row must be a whole number of blocks.
[[nodiscard]] constexpr std::size_t block_size_of(kv_type type) noexcept {
    return find_dtype(static_cast<std::uint32_t>(dtype_of(type)))->block_size;
}

/// Bytes of a row of `width` elements; `width` is a multiple of block_size_of(type).
[[nodiscard]] constexpr std::size_t row_bytes_of(kv_type type, std::size_t width) noexcept {
    const auto info = *find_dtype(static_cast<std::uint32_t>(dtype_of(type)));
    return width / info.block_size * info.block_bytes;
}

}  // namespace colibri
