// The kernels of one target as function pointers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "colibri/gguf/tensor_type.hpp"
#include "colibri/simd/config.hpp"
#include "colibri/simd/cpu.hpp"

namespace colibri::simd {
inline namespace COLIBRI_SIMD_ABI {

/// What a product kernel works on: rows of weights in the file's layout times columns of activations.
struct product_arguments {
    const std::byte* weights = nullptr;  ///< row 0
    std::size_t row_bytes = 0;
    std::size_t k = 0;                   ///< weights in a row, whole blocks
    const std::uint32_t* columns = nullptr;  ///< which columns, or null: 0, 1, ...
    std::size_t column_count = 0;

    const float* x = nullptr;            ///< F32 activations: float formats only
    std::size_t x_stride = 0;            ///< floats between columns
    const std::int8_t* codes = nullptr;  ///< quantised activations (see quant/activation.hpp): all other formats
    std::size_t code_stride = 0;
    const float* scales = nullptr;
    std::size_t scale_stride = 0;
    const std::int16_t* sums = nullptr;
    std::size_t sum_stride = 0;
    const std::int8_t* residual_codes = nullptr;  ///< the residual plane, with the strides of the first one
    const float* residual_scales = nullptr;
    const std::int16_t* residual_sums = nullptr;
    const std::uint8_t* flags = nullptr;  ///< which groups have a residual: a byte per 256 weights
    std::size_t flag_stride = 0;

    float* out = nullptr;                ///< out[j * out_stride + r] for the j-th of the columns and row r
    std::size_t out_stride = 0;
};

/// Keys or values of one head over consecutive positions, and the query heads that share them.
struct head_rows {
    const std::byte* rows = nullptr;
    std::size_t row_bytes = 0;  ///< from one position to the next
    std::size_t count = 0;      ///< positions, at most 256
    std::size_t width = 0;      ///< elements of a row
};

/// What span_weights leaves besides the weights exp(score - maximum) themselves.
struct span_softmax {
    float maximum;
    float sum;
};

inline constexpr std::size_t format_slots = 16;  ///< quant::weight_formats, in order
inline constexpr std::size_t kv_slots = 5;       ///< f32, f16, bf16, q8_0, q4_0

/// Entry points of one target. All noexcept by contract; none allocates.
struct kernel_table {
    using product_fn = void (*)(const product_arguments&, std::size_t row_begin, std::size_t row_end);
    using quantise_fn = void (*)(const float* x, std::size_t k, std::int8_t* codes, float* scales, std::int16_t* sums);
    using residual_fn = void (*)(const float* x, std::size_t k, const std::int8_t* codes, const float* scales,
                                 std::int8_t* residual_codes, float* residual_scales, std::int16_t* residual_sums,
                                 std::uint8_t* flags);
    using scores_fn = void (*)(const head_rows& keys, const float* queries, std::size_t query_stride, std::size_t heads,
                               float scale, float* scores, std::size_t score_stride);
    using accumulate_fn = void (*)(const head_rows& values, const float* weights, std::size_t weight_stride, std::size_t heads,
                                   float* out, std::size_t out_stride);
    using store_fn = void (*)(const float* in, std::byte* out, std::size_t n);

    product_fn product[format_slots];
    quantise_fn quantise_32;
    quantise_fn quantise_256;
    residual_fn residuals_32;
    residual_fn residuals_256;

    void (*rms_norm)(const float* x, const float* weight, float* out, std::size_t n, float epsilon);
    void (*softmax)(const float* x, float* out, std::size_t n);
    void (*rope_interleaved)(float* x, const float* cosine, const float* sine, std::size_t rotated);
    void (*rope_halves)(float* x, const float* cosine, const float* sine, std::size_t rotated);
    void (*swiglu)(const float* gate, const float* up, float* out, std::size_t n);
    void (*geglu)(const float* gate, const float* up, float* out, std::size_t n);
    void (*add)(const float* a, const float* b, float* out, std::size_t n);
    void (*multiply_add)(float factor, const float* x, float* out, std::size_t n);
    void (*blend)(float* out, float out_factor, const float* x, float x_factor, std::size_t n);
    void (*scale)(float* x, float factor, std::size_t n);
    void (*softcap)(float* x, float cap, std::size_t n);
    void (*exp)(const float* x, float* out, std::size_t n);
    void (*tanh)(const float* x, float* out, std::size_t n);
    float (*max)(const float* x, std::size_t n);
    std::size_t (*argmax)(const float* x, std::size_t n);

    scores_fn scores[kv_slots];
    accumulate_fn accumulate[kv_slots];
    store_fn store[kv_slots];
    span_softmax (*span_weights)(float* scores, std::size_t n);

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
