// Sampling settings that a model's file recommends.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "colibri/core/concat.hpp"
#include "colibri/core/error.hpp"
#include "colibri/core/escape.hpp"
#include "colibri/gguf/metadata.hpp"
#include "colibri/sampling/order.hpp"
#include "colibri/sampling/params.hpp"

namespace colibri::sampling {

/// The settings in `general.sampling.*` (the names that llama.cpp's gguf package writes: sequence, temp, top_k, top_p,
/// min_p, xtc_probability, xtc_threshold, penalty_last_n, penalty_repeat, mirostat, mirostat_tau, mirostat_eta).
/// Errors: bad_type, bad_value; the key is named.
[[nodiscard]] inline result<params> params_from(const gguf::metadata& meta) {
    params out;
    result<void> ok;
    for_each_number([&]<class T>(const number_field<T>& field) {
        if (!ok || field.key.empty()) return;
        const std::string key = concat("general.sampling.", field.key);
        if (!meta.contains(key)) return;
        // Published files write whole numbers of either sign and width, and now and then a float where an integer
        // belongs.
        const auto number = meta.get<double>(key);
        if (!number) {
            ok = number.error();
            return;
        }
        constexpr bool whole = std::is_same_v<T, std::int32_t>;
        if (whole && !(std::abs(*number) <= 2147483647.0 && std::trunc(*number) == *number)) {
            ok = error{errc::bad_value,
                       concat("the metadata key ", quoted(key), " is ", *number, ", not a whole number")};
            return;
        }
        const auto value = static_cast<T>(*number);
        if (auto in_range = check(field, value); !in_range) {
            ok = error{errc::bad_value, std::move(in_range).error().message, error::no_offset, key};
            return;
        }
        out.*field.given = value;
    });
    if (!ok) return std::move(ok).error();
    constexpr std::string_view sequence = "general.sampling.sequence";
    if (meta.contains(sequence)) {
        const auto text = meta.get<std::string>(sequence);
        if (!text) return text.error();
        auto order = parse_order(*text);
        if (!order)
            return error{errc::bad_value, std::move(order).error().message, error::no_offset, std::string(sequence)};
        if (!order->empty()) out.order = std::move(*order);
    }
    return out;
}

}  // namespace colibri::sampling
