// The tensor types that a GGUF file can name: numbers, names, block sizes.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace colibri {

/// Type of a tensor's elements, by its number in GGUF files. Numbers that no published file may use any more (4, 5, 31-33,
/// 36-38) have no name here. Source: ggml's docs/gguf.md and, for 40-42, files in the wild.
enum class dtype : std::uint32_t {
    f32 = 0,
    f16 = 1,
    q4_0 = 2,
    q4_1 = 3,
    q5_0 = 6,
    q5_1 = 7,
    q8_0 = 8,
    q8_1 = 9,
    q2_k = 10,
    q3_k = 11,
    q4_k = 12,
    q5_k = 13,
    q6_k = 14,
    q8_k = 15,
    iq2_xxs = 16,
    iq2_xs = 17,
    iq3_xxs = 18,
    iq1_s = 19,
    iq4_nl = 20,
    iq3_s = 21,
    iq2_s = 22,
    iq4_xs = 23,
    i8 = 24,
    i16 = 25,
    i32 = 26,
    i64 = 27,
    f64 = 28,
    iq1_m = 29,
    bf16 = 30,
    tq1_0 = 34,
    tq2_0 = 35,
    mxfp4 = 39,
    nvfp4 = 40,
    q1_0 = 41,
    q2_0 = 42,
};

/// What a reader must know of a type to find its way in a file.
struct dtype_info {
    dtype type;
    std::string_view name;      ///< as published, upper case: "Q4_K"
    std::uint32_t block_size;   ///< elements in one block; a row is a whole number of blocks
    std::uint32_t block_bytes;  ///< bytes of one block
};

/// All types with a defined layout, by number.
inline constexpr std::array dtype_table = {
    dtype_info{dtype::f32, "F32", 1, 4},          dtype_info{dtype::f16, "F16", 1, 2},
    dtype_info{dtype::q4_0, "Q4_0", 32, 18},      dtype_info{dtype::q4_1, "Q4_1", 32, 20},
    dtype_info{dtype::q5_0, "Q5_0", 32, 22},      dtype_info{dtype::q5_1, "Q5_1", 32, 24},
    dtype_info{dtype::q8_0, "Q8_0", 32, 34},      dtype_info{dtype::q8_1, "Q8_1", 32, 36},
    dtype_info{dtype::q2_k, "Q2_K", 256, 84},     dtype_info{dtype::q3_k, "Q3_K", 256, 110},
    dtype_info{dtype::q4_k, "Q4_K", 256, 144},    dtype_info{dtype::q5_k, "Q5_K", 256, 176},
    dtype_info{dtype::q6_k, "Q6_K", 256, 210},    dtype_info{dtype::q8_k, "Q8_K", 256, 292},
    dtype_info{dtype::iq2_xxs, "IQ2_XXS", 256, 66}, dtype_info{dtype::iq2_xs, "IQ2_XS", 256, 74},
    dtype_info{dtype::iq3_xxs, "IQ3_XXS", 256, 98}, dtype_info{dtype::iq1_s, "IQ1_S", 256, 50},
    dtype_info{dtype::iq4_nl, "IQ4_NL", 32, 18},  dtype_info{dtype::iq3_s, "IQ3_S", 256, 110},
    dtype_info{dtype::iq2_s, "IQ2_S", 256, 82},   dtype_info{dtype::iq4_xs, "IQ4_XS", 256, 136},
    dtype_info{dtype::i8, "I8", 1, 1},            dtype_info{dtype::i16, "I16", 1, 2},
    dtype_info{dtype::i32, "I32", 1, 4},          dtype_info{dtype::i64, "I64", 1, 8},
    dtype_info{dtype::f64, "F64", 1, 8},          dtype_info{dtype::iq1_m, "IQ1_M", 256, 56},
    dtype_info{dtype::bf16, "BF16", 1, 2},        dtype_info{dtype::tq1_0, "TQ1_0", 256, 54},
    dtype_info{dtype::tq2_0, "TQ2_0", 256, 66},   dtype_info{dtype::mxfp4, "MXFP4", 32, 17},
    dtype_info{dtype::nvfp4, "NVFP4", 64, 36},    dtype_info{dtype::q1_0, "Q1_0", 128, 18},
    dtype_info{dtype::q2_0, "Q2_0", 64, 18},
};

/// The row of `dtype_table` for a type number, or nothing for a number without a defined layout.
[[nodiscard]] constexpr std::optional<dtype_info> find_dtype(std::uint32_t number) noexcept {
    for (const auto& row : dtype_table) {
        if (static_cast<std::uint32_t>(row.type) == number) return row;
    }
    return std::nullopt;
}

/// Published name of a type ("Q4_K"); "?" for a number without a name.
[[nodiscard]] constexpr std::string_view name(dtype type) noexcept {
    const auto row = find_dtype(static_cast<std::uint32_t>(type));
    return row ? row->name : std::string_view("?");
}

}  // namespace colibri
