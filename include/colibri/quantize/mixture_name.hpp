// The names that people give to kinds of quantised files, and the tensor type that each stands for first of all.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "colibri/core/concat.hpp"
#include "colibri/core/error.hpp"
#include "colibri/core/escape.hpp"
#include "colibri/core/number.hpp"
#include "colibri/gguf/tensor_type.hpp"

namespace colibri::quantize {

/// A kind of file, by the number that `general.file_type` has for it. Most are mixtures of tensor types.
enum class mixture : std::uint32_t {
    f32 = 0,
    f16 = 1,
    q4_0 = 2,
    q4_1 = 3,
    q8_0 = 7,
    q5_0 = 8,
    q5_1 = 9,
    q2_k = 10,
    q3_k_s = 11,
    q3_k_m = 12,
    q3_k_l = 13,
    q4_k_s = 14,
    q4_k_m = 15,
    q5_k_s = 16,
    q5_k_m = 17,
    q6_k = 18,
    iq2_xxs = 19,
    iq2_xs = 20,
    q2_k_s = 21,
    iq3_xs = 22,
    iq3_xxs = 23,
    iq1_s = 24,
    iq4_nl = 25,
    iq3_s = 26,
    iq3_m = 27,
    iq2_s = 28,
    iq2_m = 29,
    iq4_xs = 30,
    iq1_m = 31,
    bf16 = 32,
    tq1_0 = 36,
    tq2_0 = 37,
    mxfp4_moe = 38,
    q1_0 = 40,
    q2_0 = 41,
    copy = ~std::uint32_t{0},  ///< every tensor as it is; no number of the format
};

/// What belongs to a name.
struct mixture_row {
    mixture id;
    std::string_view name;
    dtype base;  ///< type of what isn't treated specially; f32 for copy, where it means nothing
};

/// All kinds of files, the largest first.
inline constexpr std::array mixture_table = {
    mixture_row{mixture::f32, "F32", dtype::f32},         mixture_row{mixture::bf16, "BF16", dtype::bf16},
    mixture_row{mixture::f16, "F16", dtype::f16},         mixture_row{mixture::q8_0, "Q8_0", dtype::q8_0},
    mixture_row{mixture::q6_k, "Q6_K", dtype::q6_k},      mixture_row{mixture::q5_1, "Q5_1", dtype::q5_1},
    mixture_row{mixture::q5_k_m, "Q5_K_M", dtype::q5_k},  mixture_row{mixture::q5_k_s, "Q5_K_S", dtype::q5_k},
    mixture_row{mixture::q5_0, "Q5_0", dtype::q5_0},      mixture_row{mixture::q4_1, "Q4_1", dtype::q4_1},
    mixture_row{mixture::q4_k_m, "Q4_K_M", dtype::q4_k},  mixture_row{mixture::q4_k_s, "Q4_K_S", dtype::q4_k},
    mixture_row{mixture::q4_0, "Q4_0", dtype::q4_0},      mixture_row{mixture::iq4_nl, "IQ4_NL", dtype::iq4_nl},
    mixture_row{mixture::iq4_xs, "IQ4_XS", dtype::iq4_xs}, mixture_row{mixture::mxfp4_moe, "MXFP4_MOE", dtype::mxfp4},
    mixture_row{mixture::q3_k_l, "Q3_K_L", dtype::q3_k},  mixture_row{mixture::q3_k_m, "Q3_K_M", dtype::q3_k},
    mixture_row{mixture::q3_k_s, "Q3_K_S", dtype::q3_k},  mixture_row{mixture::iq3_m, "IQ3_M", dtype::iq3_s},
    mixture_row{mixture::iq3_s, "IQ3_S", dtype::iq3_s},   mixture_row{mixture::iq3_xs, "IQ3_XS", dtype::iq3_s},
    mixture_row{mixture::iq3_xxs, "IQ3_XXS", dtype::iq3_xxs}, mixture_row{mixture::q2_k, "Q2_K", dtype::q2_k},
    mixture_row{mixture::q2_k_s, "Q2_K_S", dtype::q2_k},  mixture_row{mixture::iq2_m, "IQ2_M", dtype::iq2_s},
    mixture_row{mixture::iq2_s, "IQ2_S", dtype::iq2_xs},  mixture_row{mixture::iq2_xs, "IQ2_XS", dtype::iq2_xs},
    mixture_row{mixture::q2_0, "Q2_0", dtype::q2_0},      mixture_row{mixture::iq2_xxs, "IQ2_XXS", dtype::iq2_xxs},
    mixture_row{mixture::tq2_0, "TQ2_0", dtype::tq2_0},   mixture_row{mixture::iq1_m, "IQ1_M", dtype::iq1_m},
    mixture_row{mixture::tq1_0, "TQ1_0", dtype::tq1_0},   mixture_row{mixture::iq1_s, "IQ1_S", dtype::iq1_s},
    mixture_row{mixture::q1_0, "Q1_0", dtype::q1_0},      mixture_row{mixture::copy, "COPY", dtype::f32},
};

/// The row of a mixture. Precondition: `id` is one of the enumerators.
[[nodiscard]] constexpr const mixture_row& row_of(mixture id) noexcept {
    for (const auto& row : mixture_table) {
        if (row.id == id) return row;
    }
    return mixture_table.back();
}

/// Published name, upper case ("Q4_K_M").
[[nodiscard]] constexpr std::string_view name(mixture id) noexcept { return row_of(id).name; }

/// Type of the tensors that the mixture doesn't treat specially.
[[nodiscard]] constexpr dtype base_type(mixture id) noexcept { return row_of(id).base; }

/// Whether a type stores blocks of codes, as opposed to single floats or integers.
[[nodiscard]] constexpr bool is_quantised(dtype type) noexcept {
    const auto row = find_dtype(static_cast<std::uint32_t>(type));
    return row && row->block_size > 1;
}

namespace detail {

[[nodiscard]] inline std::string upper(std::string_view text) {
    std::string out(text);
    for (char& c : out) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    return out;
}

}  // namespace detail

/// The mixture that a text means, or nothing: a name in any case, an alias (Q3_K, Q4_K, Q5_K), or a number of `general.file_type`.
[[nodiscard]] inline std::optional<mixture> find_mixture(std::string_view text) {
    const std::string wanted = detail::upper(text);
    if (wanted == "Q3_K") return mixture::q3_k_m;
    if (wanted == "Q4_K") return mixture::q4_k_m;
    if (wanted == "Q5_K") return mixture::q5_k_m;
    const auto number = parse_number<std::uint32_t>(text);
    for (const auto& row : mixture_table) {
        if (row.name == wanted) return row.id;
        if (number && row.id != mixture::copy && static_cast<std::uint32_t>(row.id) == *number) return row.id;
    }
    return std::nullopt;
}

/// The same, or why there is none. Errors: invalid_argument.
[[nodiscard]] inline result<mixture> parse_mixture(std::string_view text) {
    if (const auto found = find_mixture(text)) return *found;
    std::string known;
    for (const auto& row : mixture_table) known += concat(known.empty() ? "" : " ", row.name);
    return error{errc::invalid_argument, concat(quoted(text), " is no type to write; there are ", known)};
}

/// The tensor type of that name in any case. Errors: invalid_argument (no such type, or none that weights are written in).
[[nodiscard]] inline result<dtype> parse_tensor_type(std::string_view text) {
    constexpr auto is_weight = [](dtype type) {
        return is_quantised(type) ? type != dtype::q8_1 && type != dtype::q8_k
                                  : type == dtype::f32 || type == dtype::f16 || type == dtype::bf16;
    };
    const std::string wanted = detail::upper(text);
    for (const auto& row : dtype_table) {
        if (row.name == wanted && is_weight(row.type)) return row.type;
    }
    std::string known;
    for (const auto& row : dtype_table) {
        if (is_weight(row.type)) known += concat(known.empty() ? "" : " ", row.name);
    }
    return error{errc::invalid_argument, concat(quoted(text), " is no tensor type; there are ", known)};
}

}  // namespace colibri::quantize
