// What measurements want of matrix products: to see their input, and to do without quantised activations.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>

#include "colibri/core/buffer.hpp"
#include "colibri/core/thread_pool.hpp"
#include "colibri/simd/product.hpp"
#include "colibri/weights/store.hpp"

namespace colibri {

/// Activations that weights are about to be multiplied with, as F32.
struct product_input {
    std::span<const weights::tensor_id> tensors;  ///< that share them
    std::uint32_t matrix = 0;                     ///< of a stack of experts; 0 where there is none
    const simd::activations* x = nullptr;
    std::span<const std::uint32_t> columns = {};  ///< which of x's columns; without data: all
};

/// Told of each product's input, in the thread that evaluates.
using product_watch = std::function<void(const product_input&)>;

/// Products with F32 activations in all formats: weights are decoded, some rows at a time, and multiplied as F32. Follows the order
/// of float products (docs/numerics.md), so results have the same bits for any number of threads and columns.
class exact_products {
public:
    /// Nothing fits until `make`'s result is assigned.
    exact_products() = default;

    /// Room for rows of up to max_k weights; allocates here and never again. Errors: overflow, out_of_memory.
    [[nodiscard]] static result<exact_products> make(std::size_t max_k) {
        // At most 4 MiB, so that decoded rows are still in a cache when they are used; fewer than 32 rows would leave threads idle.
        constexpr std::size_t room = std::size_t{4} << 20;
        exact_products out;
        out.rows_ = std::clamp<std::size_t>(room / (std::max<std::size_t>(max_k, 1) * sizeof(float)) / 16 * 16, 32, 512);
        const auto floats = checked_mul<std::size_t>(max_k, out.rows_ * sizeof(float));
        if (!floats) return error{errc::overflow, concat("rows of ", max_k, " weights are more than memory can hold")};
        auto memory = aligned_buffer::allocate(*floats);
        if (!memory) return std::move(memory).error();
        out.memory_ = *std::move(memory);
        return out;
    }

    /// As simd::products. Precondition: rows have at most max_k weights.
    void operator()(std::span<const simd::product_job> jobs, simd::activations& x, std::span<const std::uint32_t> columns,
                    thread_pool& pool) noexcept {
        for (const auto& job : jobs) {
            if (!simd::detail::wants_codes(job.w.type())) {
                run(job, x, columns, pool);
                continue;
            }
            for (std::size_t row = 0; row < job.w.rows(); row += rows_) decoded(job, row, x, columns, pool);
        }
    }

    [[nodiscard]] std::size_t bytes() const noexcept { return memory_.size(); }

private:
    static void run(const simd::product_job& job, simd::activations& x, std::span<const std::uint32_t> columns,
                    thread_pool& pool) noexcept {
        if (columns.data() == nullptr) simd::products({&job, 1}, x, pool);
        else simd::products({&job, 1}, x, columns, pool);
    }

    void decoded(const simd::product_job& job, std::size_t first, simd::activations& x, std::span<const std::uint32_t> columns,
                 thread_pool& pool) noexcept {
        const std::size_t count = std::min(rows_, job.w.rows() - first);
        const std::size_t k = job.w.columns();
        float* floats = memory_.as<float>().data();
        pool.for_chunks(count, 4, [&](std::size_t begin, std::size_t end, unsigned) {
            for (std::size_t r = begin; r < end; ++r) {
                // The type and the row's length were checked when the model was opened.
                (void)weights::store::decode_row_of(job.w, static_cast<std::uint32_t>(first + r), {floats + r * k, k});
            }
        });
        const auto dims = shape::make({k, count});
        const auto bytes = std::as_bytes(std::span(floats, count * k));
        const auto rows = dims ? tensor_ref::make(dtype::f32, *dims, bytes) : result<tensor_ref>(dims.error());
        if (rows) run({*rows, job.out + first, job.out_stride}, x, columns, pool);
    }

    std::size_t rows_ = 0;
    aligned_buffer memory_;
};

/// Both; null where they aren't wanted.
struct product_extras {
    exact_products* exact = nullptr;
    const product_watch* watch = nullptr;

    void tell(std::span<const weights::tensor_id> tensors, const simd::activations& x, std::uint32_t matrix = 0,
              std::span<const std::uint32_t> columns = {}) const {
        if (watch != nullptr) (*watch)({tensors, matrix, &x, columns});
    }

    /// simd::products, the exact way where that is wanted. `columns` without data: all.
    void products(std::span<const simd::product_job> jobs, simd::activations& x, std::span<const std::uint32_t> columns,
                  thread_pool& pool) const noexcept {
        if (exact != nullptr) (*exact)(jobs, x, columns, pool);
        else if (columns.data() == nullptr) simd::products(jobs, x, pool);
        else simd::products(jobs, x, columns, pool);
    }
};

}  // namespace colibri
