// Products of a lease's matrices, piece by piece as they come into place.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include "colibri/core/cancel.hpp"
#include "colibri/core/thread_pool.hpp"
#include "colibri/model/product_extras.hpp"
#include "colibri/simd/product.hpp"
#include "colibri/weights/store.hpp"

namespace colibri {

/// What a step that was canceled ends with.
[[nodiscard]] inline error canceled_step() { return {errc::canceled, "stopped in the middle of a step"}; }

/// One of a lease's matrices and where its results go.
struct matrix_use {
    std::size_t slot = 0;
    float* out = nullptr;
    std::size_t out_stride = 0;  ///< floats from one column's results to the next's
};

/// out[c * out_stride + r] = dot(row r of the matrix, column c of x) for all of `uses`, whose slots ascend and lie behind those
/// multiplied before. Rows don't depend on each other, so pieces don't change a bit. `cancel` is looked at before each
/// product; large ones are cut into parts. Errors: those of the weights' store, canceled.
[[nodiscard]] inline result<void> multiply(weights::lease& lease, std::span<const matrix_use> uses, simd::activations& x,
                                           thread_pool& pool, const cancel_flag* cancel, const product_extras& extras = {}) {
    // Multiply-adds of one product: 7 ms of one core that does 650 Gop/s, as this was measured with Q4_K and AVX-512 VNNI.
    constexpr std::size_t most_work = std::size_t{2} << 30;
    constexpr std::size_t most = 16;
    std::array<weights::row_piece, most> pieces;
    std::array<simd::product_job, most> jobs;
    while (true) {
        auto n = lease.take(uses.back().slot + 1, pieces);
        if (!n) return std::move(n).error();
        if (*n == 0) return {};
        for (std::size_t i = 0; i < *n; ++i) {
            const auto use = std::find_if(uses.begin(), uses.end(), [&](const auto& u) { return u.slot == pieces[i].slot; });
            jobs[i] = {pieces[i].rows, use->out + pieces[i].first_row, use->out_stride};
        }
        std::size_t work = 0;
        for (std::size_t i = 0; i < *n; ++i) work += jobs[i].w.rows() * jobs[i].w.columns() * x.columns();
        if (work <= most_work) {
            if (cancel != nullptr && cancel->requested()) return canceled_step();
            extras.products(std::span<const simd::product_job>(jobs).first(*n), x, {}, pool);
            continue;
        }
        for (std::size_t i = 0; i < *n; ++i) {
            const auto& whole = jobs[i];
            const std::size_t step = std::max<std::size_t>(1, most_work / (whole.w.columns() * x.columns() * 256)) * 256;
            for (std::size_t row = 0; row < whole.w.rows(); row += step) {
                if (cancel != nullptr && cancel->requested()) return canceled_step();
                const simd::product_job part{whole.w.row_range(row, std::min(step, whole.w.rows() - row)), whole.out + row,
                                             whole.out_stride};
                extras.products({&part, 1}, x, {}, pool);
            }
        }
    }
}

/// The same for one matrix.
[[nodiscard]] inline result<void> multiply(weights::lease& lease, const matrix_use& use, simd::activations& x, thread_pool& pool,
                                           const cancel_flag* cancel, const product_extras& extras = {}) {
    return multiply(lease, std::span<const matrix_use>(&use, 1), x, pool, cancel, extras);
}

}  // namespace colibri
