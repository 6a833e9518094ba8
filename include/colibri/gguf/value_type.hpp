// The types that metadata values can have, and numbers read from their bytes.
#pragma once

#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string_view>
#include <type_traits>
#include <utility>

#include "colibri/core/error.hpp"

namespace colibri::gguf {

/// Type of a metadata value, by its number in the file. Source: ggml's docs/gguf.md.
enum class value_type : std::uint32_t {
    u8 = 0,
    i8 = 1,
    u16 = 2,
    i16 = 3,
    u32 = 4,
    i32 = 5,
    f32 = 6,
    boolean = 7,
    string = 8,
    array = 9,
    u64 = 10,
    i64 = 11,
    f64 = 12,
};

/// Whether a number from a file is one of value_type's.
[[nodiscard]] constexpr bool is_value_type(std::uint32_t number) noexcept { return number <= 12; }

/// Name as the tools that list GGUF files print it ("u32", "bool", "string").
[[nodiscard]] constexpr std::string_view name(value_type type) noexcept {
    switch (type) {
        case value_type::u8: return "u8";
        case value_type::i8: return "i8";
        case value_type::u16: return "u16";
        case value_type::i16: return "i16";
        case value_type::u32: return "u32";
        case value_type::i32: return "i32";
        case value_type::f32: return "f32";
        case value_type::boolean: return "bool";
        case value_type::string: return "string";
        case value_type::array: return "array";
        case value_type::u64: return "u64";
        case value_type::i64: return "i64";
        case value_type::f64: return "f64";
    }
    return "?";
}

/// Bytes of one value in the file; 0 for strings and arrays, whose size varies.
[[nodiscard]] constexpr std::size_t fixed_bytes(value_type type) noexcept {
    switch (type) {
        case value_type::u8:
        case value_type::i8:
        case value_type::boolean: return 1;
        case value_type::u16:
        case value_type::i16: return 2;
        case value_type::u32:
        case value_type::i32:
        case value_type::f32: return 4;
        case value_type::u64:
        case value_type::i64:
        case value_type::f64: return 8;
        case value_type::string:
        case value_type::array: break;
    }
    return 0;
}

/// Whether the type is a whole number (bool isn't).
[[nodiscard]] constexpr bool is_integer(value_type type) noexcept {
    return fixed_bytes(type) != 0 && type != value_type::boolean && type != value_type::f32 && type != value_type::f64;
}

/// Whether the type is f32 or f64.
[[nodiscard]] constexpr bool is_float(value_type type) noexcept {
    return type == value_type::f32 || type == value_type::f64;
}

/// The value type of a C++ arithmetic type.
template <class T>
requires std::is_arithmetic_v<T>
inline constexpr value_type value_type_of = [] {
    if constexpr (std::same_as<T, bool>) return value_type::boolean;
    else if constexpr (std::floating_point<T>) return sizeof(T) == 4 ? value_type::f32 : value_type::f64;
    else if constexpr (sizeof(T) == 1) return std::is_signed_v<T> ? value_type::i8 : value_type::u8;
    else if constexpr (sizeof(T) == 2) return std::is_signed_v<T> ? value_type::i16 : value_type::u16;
    else if constexpr (sizeof(T) == 4) return std::is_signed_v<T> ? value_type::i32 : value_type::u32;
    else return std::is_signed_v<T> ? value_type::i64 : value_type::u64;
}();

namespace detail {

template <class T>
[[nodiscard]] T load(const char* bytes) noexcept {
    T out{};
    std::memcpy(&out, bytes, sizeof(T));
    return out;
}

/// Calls `use` with the number at `bytes`, as the C++ type that it has in the file. Precondition: fixed_bytes(type) !=
/// 0.
template <class Use>
decltype(auto) visit_number(value_type type, const char* bytes, Use&& use) {
    switch (type) {
        case value_type::u8: return use(load<std::uint8_t>(bytes));
        case value_type::i8: return use(load<std::int8_t>(bytes));
        case value_type::u16: return use(load<std::uint16_t>(bytes));
        case value_type::i16: return use(load<std::int16_t>(bytes));
        case value_type::u32: return use(load<std::uint32_t>(bytes));
        case value_type::i32: return use(load<std::int32_t>(bytes));
        case value_type::f32: return use(load<float>(bytes));
        case value_type::u64: return use(load<std::uint64_t>(bytes));
        case value_type::i64: return use(load<std::int64_t>(bytes));
        case value_type::f64: return use(load<double>(bytes));
        case value_type::boolean:
        case value_type::string:
        case value_type::array: break;
    }
    return use(load<char>(bytes) != 0);
}

[[nodiscard]] inline error wrong_type(std::string_view wanted, value_type found) {
    return error{errc::bad_type, concat("must be ", wanted, ", but is of type ", name(found))};
}

/// What a T is called in messages.
template <class T>
inline constexpr std::string_view wanted_text = std::same_as<T, bool>    ? "true or false"
                                                : std::floating_point<T> ? "a number"
                                                                         : "a whole number";

/// The number at `bytes` as a T, when it keeps its value: integers of any width when they fit, floats from both float
/// types (f64 is rounded to a float) and from integers that are exact, bool from bool only. Errors: bad_type,
/// bad_value.
template <class T>
requires std::is_arithmetic_v<T>
[[nodiscard]] result<T> convert_number(value_type type, const char* bytes) {
    const bool fits_kind = std::same_as<T, bool>    ? type == value_type::boolean
                           : std::floating_point<T> ? is_float(type) || is_integer(type)
                                                    : is_integer(type);
    if (!fits_kind) return wrong_type(wanted_text<T>, type);
    return visit_number(type, bytes, [&]<class From>(From number) -> result<T> {
        if constexpr (std::same_as<T, bool> || std::same_as<From, bool>) {
            return static_cast<T>(number);
        } else if constexpr (std::floating_point<T>) {
            const T out = static_cast<T>(number);
            if constexpr (std::floating_point<From>) {
                if (std::isinf(out) && !std::isinf(number)) {
                    return error{errc::bad_value, concat("is ", number, ", too large for a 32-bit float")};
                }
            } else {
                // Above 2^digits a whole number may have no float of its own.
                constexpr std::uint64_t exact = std::uint64_t{1} << std::numeric_limits<T>::digits;
                const bool negative = std::cmp_less(number, 0);
                const auto magnitude = negative ? std::uint64_t{0} - static_cast<std::uint64_t>(number)
                                                : static_cast<std::uint64_t>(number);
                if (magnitude > exact) {
                    return error{errc::bad_value, concat("is ", number, ", too large for an exact float")};
                }
            }
            return out;
        } else if constexpr (std::floating_point<From>) {
            return wrong_type(wanted_text<T>, type);
        } else {
            if (!std::in_range<T>(number)) {
                return error{errc::bad_value, concat("is ", number, ", outside ", std::numeric_limits<T>::min(), " to ",
                                                     std::numeric_limits<T>::max())};
            }
            return static_cast<T>(number);
        }
    });
}

}  // namespace detail
}  // namespace colibri::gguf
