// The kernels of one target as function pointers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include "colibri/gguf/tensor_type.hpp"
#include "colibri/quant/activation.hpp"
#include "colibri/simd/config.hpp"
#include "colibri/simd/cpu.hpp"

namespace colibri::simd {
inline namespace COLIBRI_SIMD_ABI {

/// Columns packed for a product of several: how is up to the target, see pack-inl.hpp. Memory that activations hold.
struct packed_columns {
    std::int32_t* words = nullptr;   ///< chunk i of 256 values of all columns at words + i * chunk_words
    std::size_t chunk_words = 0;
    std::uint32_t* order = nullptr;  ///< for each chunk a place for the columns' numbers
};

/// Words that a chunk of 256 values of n columns takes at most: of each of 16 steps 8 words of codes and 5 of scales and sums, and
/// what a tile begins with. At most 5 columns fill up the last tile.
[[nodiscard]] constexpr std::size_t packed_words(std::size_t n) noexcept { return (n + 5) * (16 * 13 + 6); }

/// From this many columns on products go through packed ones.
inline constexpr std::size_t packed_minimum = 4;

/// What a product kernel works on: rows of weights times columns of activations.
struct product_arguments {
    const std::byte* weights = nullptr;  ///< row 0, or panel 0
    std::size_t row_bytes = 0;           ///< between rows, or between panels of 16 rows
    std::size_t k = 0;                   ///< weights in a row, whole blocks
    const std::uint32_t* columns = nullptr;  ///< which columns, or null: 0, 1, ...
    std::size_t column_count = 0;

    const float* x = nullptr;            ///< F32 activations: float formats only
    std::size_t x_stride = 0;            ///< floats between columns
    quant::activation_matrix activations;  ///< quantised activations: all other formats
    packed_columns packed;               ///< for packed_minimum columns or more

    float* out = nullptr;                ///< out[j * out_stride + r] for the j-th of the columns and row r
    std::size_t out_stride = 0;
};

/// Keys or values of one head over the positions of one span. Values: a row for each position. Keys: panels of 16 positions, each
/// 16 * row_bytes long (see store_key), from the span's start.
struct head_rows {
    const std::byte* rows = nullptr;
    std::size_t row_bytes = 0;
    std::size_t width = 0;  ///< elements of a row
};

inline constexpr std::size_t key_lanes = 16;  ///< positions whose keys lie side by side in a panel

/// One block of 16 keys in a block format: what the blocks of the keys hold, byte by byte side by side. A panel is a row of these;
/// in the float formats it is element after element of 16 keys.
template <class Format>
struct key_block {
    std::uint16_t d[key_lanes];
    std::remove_cvref_t<decltype(Format::qs[0])> qs[sizeof(Format::qs)][key_lanes];
};

/// Positions that a query row attends to, counted from the start of the span; none if begin == end.
struct span_range {
    std::uint32_t begin = 0;
    std::uint32_t end = 0;
};

inline constexpr std::size_t format_slots = 28;  ///< quant::weight_formats, in order
inline constexpr std::size_t kv_slots = 5;       ///< f32, f16, bf16, q8_0, q4_0

/// Entry points of one target. All noexcept by contract; none allocates.
struct kernel_table {
    using product_fn = void (*)(const product_arguments&, std::size_t row_begin, std::size_t row_end);
    using quantise_fn = void (*)(const float* x, std::size_t k, const quant::activation_planes& out);
    using residual_fn = void (*)(const float* x, std::size_t k, const quant::activation_planes& plane,
                                 const quant::activation_planes& residual, std::uint8_t* flags);
    using scores_fn = void (*)(const head_rows& keys, const float* const* queries, const span_range* ranges, std::size_t rows,
                               float scale, float* scores);
    using accumulate_fn = void (*)(const head_rows& values, const float* weights, const span_range* ranges, std::size_t rows,
                                   float* out, std::size_t out_stride);
    using unpack_fn = void (*)(const head_rows& from, span_range positions, float* out, std::size_t out_stride);
    using store_fn = void (*)(const float* in, std::byte* out, std::size_t n);
    using store_key_fn = void (*)(const float* in, std::byte* panel, std::size_t lane, std::size_t n);

    product_fn product[format_slots];        ///< weights in the file's layout; any rows
    product_fn panel_product[format_slots];  ///< weights in panels; rows from a multiple of 16 on; null for float formats
    quantise_fn quantise;
    residual_fn residuals;
    void (*pack)(const product_arguments&, std::size_t chunk);  ///< packs 256 values of all columns; null: nothing wants it

    void (*rms_norm)(const float* x, const float* weight, float* out, std::size_t n, float epsilon);
    void (*softmax)(const float* x, float* out, std::size_t n);
    void (*rope_interleaved)(float* x, const float* cosine, const float* sine, std::size_t rotated);
    void (*rope_halves)(float* x, const float* cosine, const float* sine, std::size_t rotated);
    void (*swiglu)(const float* gate, const float* up, float* out, std::size_t n);
    void (*geglu)(const float* gate, const float* up, float* out, std::size_t n);
    void (*add)(const float* a, const float* b, float* out, std::size_t n);
    void (*multiply_add)(float factor, const float* x, float* out, std::size_t n);
    void (*scale)(float* x, float factor, std::size_t n);
    void (*softcap)(float* x, float cap, std::size_t n);
    void (*exp)(const float* x, float* out, std::size_t n);
    void (*tanh)(const float* x, float* out, std::size_t n);
    float (*max)(const float* x, std::size_t n);
    std::size_t (*argmax)(const float* x, std::size_t n);

    scores_fn scores[kv_slots + 1];          ///< the last one: unpacked to f32, in the CPU's cache
    accumulate_fn accumulate[kv_slots + 1];
    unpack_fn unpack_keys[kv_slots];    ///< to a panel of floats
    unpack_fn unpack_values[kv_slots];  ///< to rows of floats
    store_fn store[kv_slots];
    store_key_fn store_key[kv_slots];
    void (*span_weights)(float* scores, const span_range* ranges, std::size_t rows, float softcap, float* maxima, float* sums);
    void (*merge_spans)(std::size_t rows, const float* maxima, const float* sums, const float* values, std::size_t value_stride,
                        std::size_t width, float* total_maxima, float* total_sums, float* const* totals);

    void (*weigh)(const float* x, std::size_t n, float best, std::uint64_t* distances, std::uint64_t* weights);

    std::uint64_t (*integer_peak)(std::size_t rounds, std::int32_t* sink);
    std::uint64_t (*float_peak)(std::size_t rounds, float* sink);
};

/// Slot of a KV format, or kv_slots for any other type.
[[nodiscard]] constexpr std::size_t kv_slot(dtype type) noexcept {
    switch (type) {
        case dtype::f32: return 0;
        case dtype::f16: return 1;
        case dtype::bf16: return 2;
        case dtype::q8_0: return 3;
        case dtype::q4_0: return 4;
        default: return kv_slots;
    }
}

namespace detail {

/// One target of this architecture.
struct target_entry {
    std::string_view name;
    const kernel_table* kernels;  ///< null: not compiled
    bool (*runnable)(const cpu_features&) noexcept;
};

/// The targets of this architecture, best first; defined in "colibri/simd/kernels.hpp".
#if defined(COLIBRI_EXTERN_KERNELS)
[[nodiscard]] std::span<const target_entry> all_targets() noexcept;
#else
[[nodiscard]] inline std::span<const target_entry> all_targets() noexcept;
#endif

}  // namespace detail
}  // namespace COLIBRI_SIMD_ABI
}  // namespace colibri::simd
