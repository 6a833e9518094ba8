// The one list of block formats; everything that depends on which formats exist is derived from it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "colibri/core/concat.hpp"
#include "colibri/core/error.hpp"
#include "colibri/quant/block_format.hpp"
#include "colibri/quant/floats.hpp"
#include "colibri/quant/iq1.hpp"
#include "colibri/quant/iq2.hpp"
#include "colibri/quant/iq3.hpp"
#include "colibri/quant/iq4.hpp"
#include "colibri/quant/mxfp4.hpp"
#include "colibri/quant/nvfp4.hpp"
#include "colibri/quant/q1_q2.hpp"
#include "colibri/quant/q2_k.hpp"
#include "colibri/quant/q3_k.hpp"
#include "colibri/quant/q4.hpp"
#include "colibri/quant/q4_k.hpp"
#include "colibri/quant/q5.hpp"
#include "colibri/quant/q6_k.hpp"
#include "colibri/quant/q8.hpp"
#include "colibri/quant/tq.hpp"

namespace colibri::quant {

/// A list of types.
template <class... Formats>
struct format_list {
    static constexpr std::size_t size = sizeof...(Formats);
};

/// Every weight format that can be computed with. A new format is one struct and one name here.
using weight_formats =
    format_list<f32, f16, bf16, q4_0, q4_1, q5_0, q5_1, q8_0, q2_k, q3_k, q4_k, q5_k, q6_k, iq4_nl, iq4_xs, mxfp4, nvfp4, q1_0,
                q2_0, tq1_0, tq2_0, iq1_s, iq1_m, iq2_xxs, iq2_xs, iq2_s, iq3_xxs, iq3_s>;

/// Calls `fn(std::type_identity<F>{})` for every format F of the list, in order.
template <class... Formats, class Fn>
constexpr void for_each_format(format_list<Formats...>, Fn&& fn) {
    (fn(std::type_identity<Formats>{}), ...);
}

namespace detail {

template <class... Formats>
[[nodiscard]] consteval bool all_valid(format_list<Formats...>) {
    const dtype types[] = {Formats::type...};
    for (std::size_t i = 0; i < sizeof...(Formats); ++i) {
        for (std::size_t j = 0; j < i; ++j) {
            if (types[i] == types[j]) return false;
        }
    }
    return (block_format<Formats> && ...);
}

template <class... Formats>
[[nodiscard]] constexpr bool contains(format_list<Formats...>, dtype type) noexcept {
    return ((Formats::type == type) || ...);
}

template <class T>
struct as_result {
    using type = result<T>;
};
template <class T>
struct as_result<result<T>> {
    using type = result<T>;
};

}  // namespace detail

static_assert(detail::all_valid(weight_formats{}), "a format contradicts dtype_table, or a type is listed twice");

/// Whether weights of this type can be decoded and multiplied.
[[nodiscard]] constexpr bool is_supported(dtype type) noexcept { return detail::contains(weight_formats{}, type); }

/// The error for a type that nothing here can run.
[[nodiscard]] inline error unsupported_format(dtype type) {
    if (const auto shown = name(type); shown != "?") {
        return {errc::unsupported,
                concat("weights of type ", shown, " can't be run yet; convert the model to another type")};
    }
    return {errc::unsupported, concat("tensor type number ", static_cast<std::uint32_t>(type),
                                      " is not known; a newer Colibri may read it")};
}

namespace detail {

template <class Result, class Fn, class First, class... Rest>
[[nodiscard]] Result visit_in(format_list<First, Rest...>, dtype type, Fn& fn) {
    if (type == First::type) {
        if constexpr (std::is_void_v<std::invoke_result_t<Fn&, std::type_identity<First>>>) {
            fn(std::type_identity<First>{});
            return {};
        } else {
            return fn(std::type_identity<First>{});
        }
    }
    if constexpr (sizeof...(Rest) > 0) return visit_in<Result>(format_list<Rest...>{}, type, fn);
    return unsupported_format(type);
}

}  // namespace detail

/// Turns a run-time type into a compile-time one: calls `fn(std::type_identity<F>{})` for the format F of `type` and
/// returns what it returns (the same type for all F) in a result; a `result` that fn returns is passed on as it is.
/// errc::unsupported, with the type's name, for anything that isn't in `weight_formats`.
template <class Fn>
[[nodiscard]] auto visit_format(dtype type, Fn&& fn) {
    using plain = std::invoke_result_t<Fn&, std::type_identity<f32>>;
    return detail::visit_in<typename detail::as_result<plain>::type>(weight_formats{}, type, fn);
}

}  // namespace colibri::quant
