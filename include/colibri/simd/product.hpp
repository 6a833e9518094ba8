// Products of weight matrices and columns of activations.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "colibri/core/buffer.hpp"
#include "colibri/core/checked.hpp"
#include "colibri/core/concat.hpp"
#include "colibri/core/error.hpp"
#include "colibri/core/thread_pool.hpp"
#include "colibri/quant/activation.hpp"
#include "colibri/quant/format_list.hpp"
#include "colibri/quant/panel.hpp"
#include "colibri/simd/kernel_table.hpp"
#include "colibri/simd/targets.hpp"
#include "colibri/tensor/tensor_ref.hpp"

namespace colibri::simd {
inline namespace COLIBRI_SIMD_ABI {

/// Columns of F32 activations and, once a product wanted them, their quantised forms. Reused for one group of products after the
/// other. Not thread-safe. Move-only.
class activations {
public:
    /// Nothing fits until `make`'s result is assigned.
    activations() = default;

    /// Room for columns x k values in all forms; allocates here and never again. Errors: out_of_memory, overflow.
    [[nodiscard]] static result<activations> make(std::size_t max_columns, std::size_t max_k);

    /// Refers to `columns` columns of k floats, column c at x + c * stride; forgets what was quantised before. The floats must not
    /// change until the last product with them. Preconditions: columns <= max_columns, k <= max_k, stride >= k.
    void assign(const float* x, std::size_t columns, std::size_t k, std::size_t stride) noexcept {
        x_ = x;
        columns_ = columns;
        k_ = k;
        stride_ = stride;
        has_32_ = has_256_ = false;
    }

    [[nodiscard]] std::size_t columns() const noexcept { return columns_; }
    [[nodiscard]] std::size_t k() const noexcept { return k_; }
    [[nodiscard]] std::size_t stride() const noexcept { return stride_; }
    [[nodiscard]] const float* data() const noexcept { return x_; }
    [[nodiscard]] std::size_t max_columns() const noexcept { return max_columns_; }
    [[nodiscard]] std::size_t max_k() const noexcept { return max_k_; }

    /// Bytes of memory for the quantised forms.
    [[nodiscard]] std::size_t bytes() const noexcept { return memory_32_.size() + memory_256_.size(); }

    /// Quantises all columns in the form that weights of `type` want, unless that is done already. Products call it.
    void prepare(dtype type, thread_pool& pool) noexcept;

    /// Fills in the fields of a kernel's arguments that describe the activations for weights of `type`, which are prepared.
    void describe(dtype type, product_arguments& arguments) const noexcept;

private:
    template <std::size_t Group>
    void quantise(quant::activation_matrix<Group>& matrix, std::byte* memory, kernel_table::quantise_fn kernel,
                  kernel_table::residual_fn residuals, thread_pool& pool) noexcept;

    template <std::size_t Group>
    static void describe(const quant::activation_matrix<Group>& matrix, product_arguments& arguments) noexcept {
        arguments.codes = matrix.codes;
        arguments.code_stride = matrix.code_stride(matrix.k);
        arguments.scales = matrix.scales;
        arguments.scale_stride = matrix.k / Group;
        arguments.sums = matrix.sums;
        arguments.sum_stride = matrix.k / matrix.run;
        arguments.residual_codes = matrix.residual_codes;
        arguments.residual_scales = matrix.residual_scales;
        arguments.residual_sums = matrix.residual_sums;
        arguments.flags = matrix.flags;
        arguments.flag_stride = matrix.flag_stride(matrix.k);
    }

    const float* x_ = nullptr;
    std::size_t columns_ = 0;
    std::size_t k_ = 0;
    std::size_t stride_ = 0;
    std::size_t max_columns_ = 0;
    std::size_t max_k_ = 0;
    bool has_32_ = false;
    bool has_256_ = false;
    quant::activation_matrix<32> matrix_32_;
    quant::activation_matrix<256> matrix_256_;
    aligned_buffer memory_32_;
    aligned_buffer memory_256_;
};

/// One matrix of a group of products that share their activations.
struct product_job {
    tensor_ref w;
    float* out = nullptr;
    std::size_t out_stride = 0;  ///< floats from one column's results to the next's, at least w.rows()
};

/// out[c * out_stride + r] = dot(row r of w, column c of x) for all rows and columns. The rows are spread over the pool; results
/// have the same bits for any number of threads and columns (docs/numerics.md). Activations are quantised when first wanted.
/// Preconditions: is_supported(w.type()), w.columns() == x.k(), out doesn't overlap x. No allocation.
void product(const tensor_ref& w, activations& x, float* out, std::size_t out_stride, thread_pool& pool) noexcept;

/// The same for some columns of x only (MoE: those routed to one expert): out[j * out_stride + r] belongs to columns[j].
void product(const tensor_ref& w, activations& x, std::span<const std::uint32_t> columns, float* out, std::size_t out_stride,
             thread_pool& pool) noexcept;

/// Several matrices times the same columns in one fork-join; with `columns`, only those.
void products(std::span<const product_job> jobs, activations& x, thread_pool& pool) noexcept;
void products(std::span<const product_job> jobs, activations& x, std::span<const std::uint32_t> columns,
              thread_pool& pool) noexcept;

namespace detail {

/// Place of a type in quant::weight_formats; its number if it isn't there.
template <class... Formats>
[[nodiscard]] constexpr std::size_t slot_in(quant::format_list<Formats...>, dtype type) noexcept {
    const dtype types[] = {Formats::type...};
    std::size_t slot = 0;
    while (slot < sizeof...(Formats) && types[slot] != type) ++slot;
    return slot;
}

/// Activation group of products with weights of `type`: 1 (F32 activations), 32 or 256.
template <class... Formats>
[[nodiscard]] constexpr std::size_t group_in(quant::format_list<Formats...>, dtype type) noexcept {
    std::size_t group = 1;
    ((Formats::type == type ? void(group = Formats::block_size) : void()), ...);
    return group;
}

[[nodiscard]] constexpr std::size_t format_slot(dtype type) noexcept { return slot_in(quant::weight_formats{}, type); }
[[nodiscard]] constexpr std::size_t group_of(dtype type) noexcept { return group_in(quant::weight_formats{}, type); }

static_assert(quant::weight_formats::size == format_slots);

/// Rows that a thread takes at once are whole tiles.
inline constexpr std::size_t tile_rows = 16;
inline constexpr std::size_t tiles_per_chunk = 4;

/// Products of the rows of panels [begin, end): rows go back to the file's layout for the kernel.
inline void run_panels(const product_job& job, product_arguments arguments, std::size_t begin, std::size_t end) noexcept {
    thread_local std::vector<std::byte> rows;
    const std::size_t row_bytes = job.w.row_bytes();
    if (rows.size() < tile_rows * row_bytes) rows.resize(tile_rows * row_bytes);
    arguments.weights = rows.data();
    for (std::size_t p = begin; p < end; ++p) {
        const std::size_t count = std::min(tile_rows, job.w.rows() - p * tile_rows);
        for (std::size_t r = 0; r < count; ++r) {
            quant::unpack_panel_row(job.w.type(), job.w.panel(p), r, arguments.k, rows.data() + r * row_bytes);
        }
        arguments.out = job.out + p * tile_rows;
        kernels().product[format_slot(job.w.type())](arguments, 0, count);
    }
}

/// Runs the jobs' tiles [begin, end), counted through all jobs.
inline void run_tiles(std::span<const product_job> jobs, const activations& x, std::span<const std::uint32_t> columns,
                      std::size_t begin, std::size_t end) noexcept {
    const auto& table = kernels();
    std::size_t first = 0;
    for (const auto& job : jobs) {
        const std::size_t rows = job.w.rows();
        const std::size_t tiles = (rows + tile_rows - 1) / tile_rows;
        const std::size_t from = std::max(begin, first);
        const std::size_t to = std::min(end, first + tiles);
        if (from < to) {
            product_arguments arguments;
            arguments.weights = job.w.data();
            arguments.row_bytes = job.w.row_bytes();
            arguments.k = x.k();
            arguments.columns = columns.data();
            arguments.column_count = columns.data() != nullptr ? columns.size() : x.columns();
            arguments.out = job.out;
            arguments.out_stride = job.out_stride;
            x.describe(job.w.type(), arguments);
            if (job.w.layout() == layout::panels) run_panels(job, arguments, from - first, to - first);
            else table.product[format_slot(job.w.type())](arguments, (from - first) * tile_rows,
                                                     std::min(rows, (to - first) * tile_rows));
        }
        first += tiles;
    }
}

inline void run(std::span<const product_job> jobs, activations& x, std::span<const std::uint32_t> columns,
                thread_pool& pool) noexcept {
    std::size_t tiles = 0;
    for (const auto& job : jobs) {
        x.prepare(job.w.type(), pool);
        tiles += (job.w.rows() + tile_rows - 1) / tile_rows;
    }
    const activations& ready = x;
    pool.for_chunks(tiles, tiles_per_chunk, [&](std::size_t begin, std::size_t end, unsigned) {
        run_tiles(jobs, ready, columns, begin, end);
    });
}

}  // namespace detail

inline result<activations> activations::make(std::size_t max_columns, std::size_t max_k) {
    const auto k = checked_round_up<std::size_t>(max_k, 256);
    const auto values = k ? checked_mul<std::size_t>(max_columns, *k) : std::nullopt;
    if (!values || !checked_mul<std::size_t>(*values, 4)) {
        return error{errc::overflow, concat(max_columns, " columns of ", max_k, " activations are more than memory can hold")};
    }
    activations out;
    out.max_columns_ = max_columns;
    out.max_k_ = max_k;
    auto memory_32 = aligned_buffer::allocate(quant::activation_matrix<32>::bytes(*k, max_columns));
    if (!memory_32) return std::move(memory_32).error();
    auto memory_256 = aligned_buffer::allocate(quant::activation_matrix<256>::bytes(*k, max_columns));
    if (!memory_256) return std::move(memory_256).error();
    out.memory_32_ = *std::move(memory_32);
    out.memory_256_ = *std::move(memory_256);
    return out;
}

template <std::size_t Group>
void activations::quantise(quant::activation_matrix<Group>& matrix, std::byte* memory, kernel_table::quantise_fn kernel,
                           kernel_table::residual_fn residuals, thread_pool& pool) noexcept {
    matrix = quant::activation_matrix<Group>::over(memory, k_, columns_);
    // Pieces of at most 1024 values, so that one long column is shared too; the last piece of a column pads its codes.
    constexpr std::size_t piece = 1024;
    const std::size_t pieces = (k_ + piece - 1) / piece;
    pool.for_chunks(columns_ * pieces, 4, [&](std::size_t begin, std::size_t end, unsigned) {
        for (std::size_t i = begin; i < end; ++i) {
            const std::size_t column = i / pieces;
            const std::size_t from = i % pieces * piece;
            const std::size_t n = std::min(piece, k_ - from);
            kernel(x_ + column * stride_ + from, n, matrix.column_codes(column) + from,
                   matrix.column_scales(column) + from / Group, matrix.column_sums(column) + from / matrix.run);
            if (from + n == k_) std::fill(matrix.column_codes(column) + k_, matrix.column_codes(column) + matrix.code_stride(k_), std::int8_t{0});
        }
    });
    // Residuals come when all scales of a column are known.
    pool.for_chunks(columns_, 1, [&](std::size_t begin, std::size_t end, unsigned) {
        for (std::size_t c = begin; c < end; ++c) {
            const std::size_t first_code = c * matrix.code_stride(k_);
            residuals(x_ + c * stride_, k_, matrix.column_codes(c), matrix.column_scales(c), matrix.residual_codes + first_code,
                      matrix.residual_scales + c * (k_ / Group), matrix.residual_sums + c * (k_ / matrix.run),
                      matrix.column_flags(c));
        }
    });
}

inline void activations::prepare(dtype type, thread_pool& pool) noexcept {
    const std::size_t group = detail::group_of(type);
    if (group == 32 && !has_32_) {
        quantise(matrix_32_, memory_32_.data(), detail::kernels().quantise_32, detail::kernels().residuals_32, pool);
        has_32_ = true;
    } else if (group == 256 && !has_256_) {
        quantise(matrix_256_, memory_256_.data(), detail::kernels().quantise_256, detail::kernels().residuals_256, pool);
        has_256_ = true;
    }
}

inline void activations::describe(dtype type, product_arguments& arguments) const noexcept {
    switch (detail::group_of(type)) {
        case 32: describe(matrix_32_, arguments); break;
        case 256: describe(matrix_256_, arguments); break;
        default:
            arguments.x = x_;
            arguments.x_stride = stride_;
    }
}

inline void products(std::span<const product_job> jobs, activations& x, thread_pool& pool) noexcept {
    detail::run(jobs, x, {}, pool);
}

inline void products(std::span<const product_job> jobs, activations& x, std::span<const std::uint32_t> columns,
                     thread_pool& pool) noexcept {
    if (!columns.empty()) detail::run(jobs, x, columns, pool);
}

inline void product(const tensor_ref& w, activations& x, float* out, std::size_t out_stride, thread_pool& pool) noexcept {
    const product_job job{w, out, out_stride};
    products({&job, 1}, x, pool);
}

inline void product(const tensor_ref& w, activations& x, std::span<const std::uint32_t> columns, float* out,
                    std::size_t out_stride, thread_pool& pool) noexcept {
    const product_job job{w, out, out_stride};
    products({&job, 1}, x, columns, pool);
}

}  // namespace COLIBRI_SIMD_ABI
}  // namespace colibri::simd
