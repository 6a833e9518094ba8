// Products of weight matrices and columns of activations.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "colibri/core/buffer.hpp"
#include "colibri/core/checked.hpp"
#include "colibri/core/concat.hpp"
#include "colibri/core/error.hpp"
#include "colibri/core/thread_pool.hpp"
#include "colibri/quant/activation.hpp"
#include "colibri/quant/format_list.hpp"
#include "colibri/simd/kernel_table.hpp"
#include "colibri/simd/targets.hpp"
#include "colibri/tensor/tensor_ref.hpp"

namespace colibri::simd {
inline namespace COLIBRI_SIMD_ABI {

/// Columns of F32 activations and, once a product wanted it, their quantised form. Reused for one group of products after the
/// other. Not thread-safe. Move-only.
class activations {
public:
    /// Nothing fits until `make`'s result is assigned.
    activations() = default;

    /// Room for columns x k values; allocates here and never again. Errors: out_of_memory, overflow.
    [[nodiscard]] static result<activations> make(std::size_t max_columns, std::size_t max_k);

    /// Refers to `columns` columns of k floats, column c at x + c * stride; forgets what was quantised before. The floats must not
    /// change until the last product with them. Preconditions: columns <= max_columns, k <= max_k, stride >= k.
    void assign(const float* x, std::size_t columns, std::size_t k, std::size_t stride) noexcept {
        x_ = x;
        columns_ = columns;
        k_ = k;
        stride_ = stride;
        quantised_ = all_packed_ = false;
    }

    [[nodiscard]] std::size_t columns() const noexcept { return columns_; }
    [[nodiscard]] std::size_t k() const noexcept { return k_; }
    [[nodiscard]] std::size_t stride() const noexcept { return stride_; }
    [[nodiscard]] const float* data() const noexcept { return x_; }
    [[nodiscard]] std::size_t max_columns() const noexcept { return max_columns_; }
    [[nodiscard]] std::size_t max_k() const noexcept { return max_k_; }

    /// Bytes of memory for the quantised form.
    [[nodiscard]] std::size_t bytes() const noexcept { return memory_.size() + packed_memory_.size(); }

    /// Quantises all columns if weights of `type` want that, unless it is done already. Products call it.
    void prepare(dtype type, thread_pool& pool) noexcept;

    /// Packs `columns` (all of them if that has no data) for a product of several, unless the last call was for all columns and this
    /// one is too. Products call it, after `prepare`.
    void pack(std::span<const std::uint32_t> columns, thread_pool& pool) noexcept;

    /// Fills in the fields of a kernel's arguments that describe the activations for weights of `type`, which are prepared.
    void describe(dtype type, product_arguments& arguments) const noexcept;

private:
    const float* x_ = nullptr;
    std::size_t columns_ = 0;
    std::size_t k_ = 0;
    std::size_t stride_ = 0;
    std::size_t max_columns_ = 0;
    std::size_t max_k_ = 0;
    bool quantised_ = false;
    bool all_packed_ = false;  ///< what is packed are all columns
    quant::activation_matrix matrix_;
    packed_columns packed_;
    aligned_buffer memory_;
    aligned_buffer packed_memory_;
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

/// Whether products with weights of `type` take quantised activations.
template <class... Formats>
[[nodiscard]] constexpr bool quantised_in(quant::format_list<Formats...>, dtype type) noexcept {
    return ((Formats::type == type && Formats::block_size != 1) || ...);
}

[[nodiscard]] constexpr std::size_t format_slot(dtype type) noexcept { return slot_in(quant::weight_formats{}, type); }
[[nodiscard]] constexpr bool wants_codes(dtype type) noexcept { return quantised_in(quant::weight_formats{}, type); }

static_assert(quant::weight_formats::size == format_slots);

/// Rows that a thread takes at once are whole tiles.
inline constexpr std::size_t tile_rows = 16;
inline constexpr std::size_t tiles_per_chunk = 4;

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
            const bool panels = job.w.layout() == layout::panels;
            arguments.row_bytes = panels ? job.w.panel_bytes() : job.w.row_bytes();
            arguments.k = x.k();
            arguments.columns = columns.data();
            arguments.column_count = columns.data() != nullptr ? columns.size() : x.columns();
            arguments.out = job.out;
            arguments.out_stride = job.out_stride;
            x.describe(job.w.type(), arguments);
            const auto& kernels_of_layout = panels ? table.panel_product : table.product;
            kernels_of_layout[format_slot(job.w.type())](arguments, (from - first) * tile_rows,
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
    std::size_t at_once = tiles_per_chunk;
    if ((columns.data() != nullptr ? columns.size() : x.columns()) >= packed_minimum) {
        x.pack(columns, pool);
        // The last chunk of one thread is what the others wait for.
        if (tiles / tiles_per_chunk < std::size_t{16} * pool.used()) at_once = tiles_per_chunk / 2;
    }
    const activations& ready = x;
    pool.for_chunks(tiles, at_once, [&](std::size_t begin, std::size_t end, unsigned) {
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
    auto memory = aligned_buffer::allocate(quant::activation_matrix::bytes(*k, max_columns));
    if (!memory) return std::move(memory).error();
    std::size_t words = 0;
    if (max_columns >= packed_minimum) {
        words = *k / quant::activation_chunk * (packed_words(max_columns) + max_columns) + 16;  // and what vectors read beyond
    }
    auto packed = aligned_buffer::allocate(words * sizeof(std::int32_t));
    if (!packed) return std::move(packed).error();
    out.memory_ = *std::move(memory);
    out.packed_memory_ = *std::move(packed);
    return out;
}

inline void activations::prepare(dtype type, thread_pool& pool) noexcept {
    if (!detail::wants_codes(type) || quantised_) return;
    quantised_ = true;
    matrix_ = quant::activation_matrix::over(memory_.data(), k_, columns_);
    const auto& table = detail::kernels();
    const auto residuals = [&](std::size_t c) {
        table.residuals(x_ + c * stride_, k_, matrix_.plane.column(matrix_.stride, c), matrix_.residual.column(matrix_.stride, c),
                        matrix_.column_flags(c));
    };
    const auto quantise = [&](std::size_t c, std::size_t from, std::size_t n) {
        const auto plane = matrix_.plane.column(matrix_.stride, c);
        table.quantise(x_ + c * stride_ + from, n, plane.from(from));
        if (from + n == k_) std::fill(plane.codes + k_, plane.codes + matrix_.stride.codes, std::int8_t{0});
    };
    if (columns_ >= std::size_t{4} * pool.used()) {  // column by column, while it is in the cache
        pool.for_chunks(columns_, 2, [&](std::size_t begin, std::size_t end, unsigned) {
            for (std::size_t c = begin; c < end; ++c) {
                quantise(c, 0, k_);
                residuals(c);
            }
        });
        return;
    }
    // Pieces of at most 1024 values, so that one long column is shared too; the last piece of a column pads its codes.
    constexpr std::size_t piece = 1024;
    const std::size_t pieces = (k_ + piece - 1) / piece;
    pool.for_chunks(columns_ * pieces, 4, [&](std::size_t begin, std::size_t end, unsigned) {
        for (std::size_t i = begin; i < end; ++i) {
            const std::size_t from = i % pieces * piece;
            quantise(i / pieces, from, std::min(piece, k_ - from));
        }
    });
    // Residuals come when all scales of a column are known.
    pool.for_chunks(columns_, 4, [&](std::size_t begin, std::size_t end, unsigned) {
        for (std::size_t c = begin; c < end; ++c) residuals(c);
    });
}

inline void activations::pack(std::span<const std::uint32_t> columns, thread_pool& pool) noexcept {
    const auto& table = detail::kernels();
    const bool all = columns.data() == nullptr;
    if (!quantised_ || table.pack == nullptr || (all && all_packed_)) return;
    all_packed_ = all;
    product_arguments arguments;
    arguments.k = k_;
    arguments.columns = columns.data();
    arguments.column_count = all ? columns_ : columns.size();
    arguments.activations = matrix_;
    const std::size_t chunks = (k_ + quant::activation_chunk - 1) / quant::activation_chunk;
    packed_.words = packed_memory_.as<std::int32_t>().data();
    packed_.chunk_words = packed_words(arguments.column_count);
    packed_.order = reinterpret_cast<std::uint32_t*>(packed_.words + chunks * packed_.chunk_words);
    arguments.packed = packed_;
    pool.for_chunks(chunks, 1, [&](std::size_t begin, std::size_t end, unsigned) {
        for (std::size_t i = begin; i < end; ++i) table.pack(arguments, i);
    });
}

inline void activations::describe(dtype type, product_arguments& arguments) const noexcept {
    if (detail::wants_codes(type)) {
        arguments.activations = matrix_;
        arguments.packed = packed_;
    } else {
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
