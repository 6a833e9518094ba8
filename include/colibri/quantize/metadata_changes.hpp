// Metadata that a quantised file has in place of its source's.
#pragma once

#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "colibri/core/concat.hpp"
#include "colibri/core/error.hpp"
#include "colibri/core/escape.hpp"
#include "colibri/core/number.hpp"
#include "colibri/gguf/metadata.hpp"
#include "colibri/gguf/split_plan.hpp"
#include "colibri/gguf/writer.hpp"
#include "colibri/quantize/mixture_name.hpp"

namespace colibri::quantize {

/// A key with the value that it shall have.
struct metadata_override {
    std::string key;
    gguf::value value;
};

/// Reads "KEY=TYPE:VALUE", where TYPE is int, float, bool or str. A whole number becomes u32 if it fits, else i32, u64 or i64.
/// Errors: invalid_argument.
[[nodiscard]] inline result<metadata_override> parse_override(std::string_view text) {
    const auto refuse = [&](std::string_view why) {
        return error{errc::invalid_argument,
                     concat(quoted(text), " ", why, "; write KEY=TYPE:VALUE, where TYPE is int, float, bool or str")};
    };
    const auto equals = text.find('=');
    if (equals == std::string_view::npos || equals == 0) return refuse("names no key");
    const std::string_view key = text.substr(0, equals);
    const std::string_view rest = text.substr(equals + 1);
    const auto colon = rest.find(':');
    if (colon == std::string_view::npos) return refuse("has no type");
    const std::string_view type = rest.substr(0, colon);
    const std::string_view value = rest.substr(colon + 1);
    if (key.size() > gguf::max_key_size || !gguf::detail::check_name("key", key, error::no_offset)) return refuse("has no key of a GGUF file");
    if (key.starts_with("split.")) return refuse("is about how the model is split, which follows from the other options");
    metadata_override out{std::string(key), {}};
    if (type == "str") {
        out.value = gguf::value::of(value);
    } else if (type == "bool") {
        if (value != "true" && value != "false") return refuse("is neither true nor false");
        out.value = gguf::value::of(value == "true");
    } else if (type == "float") {
        const auto number = parse_number<float>(value);
        if (!number) return refuse("has no number");
        out.value = gguf::value::of(*number);
    } else if (type == "int") {
        const auto number = parse_number<std::int64_t>(value);
        const auto large = parse_number<std::uint64_t>(value);
        if (!number && !large) return refuse("has no whole number");
        if (large && *large <= std::numeric_limits<std::uint32_t>::max()) out.value = gguf::value::of(static_cast<std::uint32_t>(*large));
        else if (large) out.value = gguf::value::of(*large);
        else if (*number >= std::numeric_limits<std::int32_t>::min()) out.value = gguf::value::of(static_cast<std::int32_t>(*number));
        else out.value = gguf::value::of(*number);
    } else {
        return refuse("has an unknown type");
    }
    return out;
}

namespace detail {

/// `given` in the width of `type` when it is a number that fits there, else as it is.
[[nodiscard]] inline gguf::value in_type_of(gguf::value given, gguf::value_type type) {
    const auto as = [&]<class T>(T) -> gguf::value {
        auto number = given.as<T>();
        return number ? gguf::value::of(*number) : std::move(given);
    };
    if (!gguf::is_integer(given.type()) && !gguf::is_float(given.type())) return given;
    switch (type) {
        case gguf::value_type::u8: return as(std::uint8_t{});
        case gguf::value_type::i8: return as(std::int8_t{});
        case gguf::value_type::u16: return as(std::uint16_t{});
        case gguf::value_type::i16: return as(std::int16_t{});
        case gguf::value_type::u32: return as(std::uint32_t{});
        case gguf::value_type::i32: return as(std::int32_t{});
        case gguf::value_type::u64: return as(std::uint64_t{});
        case gguf::value_type::i64: return as(std::int64_t{});
        case gguf::value_type::f64: return gguf::is_float(given.type()) ? as(double{}) : std::move(given);
        default: return given;
    }
}

}  // namespace detail

/// Puts values in place; a number keeps the width that the key has already, if it fits.
inline void apply(std::span<const metadata_override> overrides, gguf::metadata& meta) {
    for (const auto& change : overrides) {
        const gguf::value* old = meta.find(change.key);
        meta.set(change.key, old == nullptr ? change.value : detail::in_type_of(change.value, old->type()));
    }
}

/// Marks a file as made: format version of its blocks, and the kind (not for copy). What said how the source was split is taken away.
inline void mark_as(mixture kind, gguf::metadata& meta) {
    constexpr std::uint32_t block_formats_version = 2;
    gguf::remove_split_keys(meta);
    meta.set("general.quantization_version", block_formats_version);
    if (kind != mixture::copy) meta.set("general.file_type", static_cast<std::uint32_t>(kind));
}

}  // namespace colibri::quantize
