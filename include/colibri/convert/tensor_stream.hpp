// Source tensors to GGUF bytes, piece by piece and on all threads.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "colibri/convert/tensor_plan.hpp"
#include "colibri/core/half.hpp"
#include "colibri/core/thread_pool.hpp"
#include "colibri/quant/rows.hpp"

namespace colibri::convert {

/// Turns planned tensors into bytes. Holds 16 MiB of output and, per thread, as much as a piece of about 256 Ki values takes (or
/// a head's rows, where rows change places). The bytes don't depend on the number of threads.
class tensor_stream {
public:
    /// `weights` and `pool` must outlive it; the pool serves one stream at a time.
    tensor_stream(const weight_files& weights, thread_pool& pool) : weights_(weights), pool_(pool), scratch_(pool.size()) {}

    /// Calls `put(std::span<const std::byte>) -> result<void>` with all bytes of the tensor, in order. Errors: bad_value (a
    /// weight that is no number or too large for the type; names the tensor), io, truncated, and those of `put`.
    template <class Put>
    [[nodiscard]] result<void> run(const planned_tensor& tensor, Put&& put) {
        if (tensor.parts.empty()) return put(std::as_bytes(std::span(tensor.values)));
        // Rows are handled in groups that can't be cut: a head's, where its rows change places, else single ones.
        const std::uint64_t columns = tensor.info.dims[0], row_bytes = tensor.info.bytes / tensor.info.rows();
        const bool flat = tensor.info.n_dims == 1;  // a vector's elements are permuted as rows of one
        const std::uint64_t rows = flat ? columns : tensor.info.dims[1], width = flat ? 1 : columns;
        const std::uint64_t unit = tensor.permuted_heads != 0 ? rows / tensor.permuted_heads : 1;
        const std::uint64_t out_row = flat ? row_bytes / columns : row_bytes;
        const std::uint64_t units_in_piece = std::max<std::uint64_t>(1, piece_values / (unit * width));
        const std::uint64_t piece_rows = units_in_piece * unit;
        const std::uint64_t window_rows = std::max<std::uint64_t>(1, window_bytes / (out_row * piece_rows)) * piece_rows;
        reserve(tensor, piece_rows * width);
        for (const auto* part : tensor.parts) {
            for (std::uint64_t first = 0; first < rows; first += window_rows) {
                const std::uint64_t count = std::min(window_rows, rows - first);
                window_.resize(static_cast<std::size_t>(count * out_row));
                const auto pieces = static_cast<std::size_t>((count + piece_rows - 1) / piece_rows);
                pool_.for_chunks(pieces, 1, [&](std::size_t begin, std::size_t end, unsigned worker) {
                    for (std::size_t i = begin; i < end; ++i) {
                        const std::uint64_t from = i * piece_rows, n = std::min(piece_rows, count - from);
                        auto& work = scratch_[worker];
                        if (work.problem) return;
                        const std::span<std::byte> bytes(window_.data() + from * out_row, static_cast<std::size_t>(n * out_row));
                        convert_piece(tensor, *part, first + from, n, width, unit, bytes, work);
                    }
                });
                for (auto& work : scratch_) {
                    if (work.problem) return std::move(*work.problem);
                }
                if (auto ok = put(std::span<const std::byte>(window_)); !ok) return ok;
            }
        }
        return {};
    }

private:
    static constexpr std::uint64_t piece_values = std::uint64_t{256} << 10;
    static constexpr std::uint64_t window_bytes = std::uint64_t{16} << 20;

    struct memory {
        std::vector<std::byte> read;
        std::vector<float> values, moved;
        std::optional<error> problem;
    };

    /// Loops on the pool must not throw, so memory is taken before.
    void reserve(const planned_tensor& tensor, std::uint64_t values) {
        values = std::min(values, tensor.info.elements());
        std::uint32_t bits = 0;
        for (const auto* part : tensor.parts) bits = std::max(bits, bits_of(part->stored.type));
        for (auto& work : scratch_) {
            work.read.reserve(static_cast<std::size_t>(values * (bits / 8)));
            work.values.reserve(static_cast<std::size_t>(values));
            if (tensor.permuted_heads != 0) work.moved.reserve(static_cast<std::size_t>(values));
        }
    }
    void convert_piece(const planned_tensor& tensor, const source_tensor& part, std::uint64_t first, std::uint64_t rows,
                       std::uint64_t width, std::uint64_t unit, std::span<std::byte> out, memory& work) const;

    const weight_files& weights_;
    thread_pool& pool_;
    std::vector<memory> scratch_;
    std::vector<std::byte> window_;
};

namespace detail {

/// Writes the values of stored elements.
inline void widen(element type, const std::byte* in, std::size_t n, float* out) noexcept {
    const auto each = [&]<class Stored>(Stored, auto&& value) {
        for (std::size_t i = 0; i < n; ++i) {
            Stored stored;
            std::memcpy(&stored, in + i * sizeof stored, sizeof stored);
            out[i] = value(stored);
        }
    };
    switch (type) {
        case element::f64: each(double{}, [](double v) { return static_cast<float>(v); }); break;
        case element::f16: each(std::uint16_t{}, [](std::uint16_t v) { return f16_to_f32(v); }); break;
        case element::bf16:
            each(std::uint16_t{}, [](std::uint16_t v) { return std::bit_cast<float>(std::uint32_t{v} << 16); });
            break;
        default: std::memcpy(out, in, n * sizeof(float));
    }
}

/// The first value that is no finite number, or n. A sum of all exponents tells quickly that there is none.
[[nodiscard]] inline std::size_t first_not_finite(const float* x, std::size_t n) noexcept {
    bool found = false;
    for (std::size_t i = 0; i < n; ++i) found |= (std::bit_cast<std::uint32_t>(x[i]) & 0x7f800000u) == 0x7f800000u;
    if (!found) return n;
    for (std::size_t i = 0; i < n; ++i) {
        if (!std::isfinite(x[i])) return i;
    }
    return n;
}

/// Largest magnitude that the type can hold after rounding.
[[nodiscard]] constexpr float largest_of(dtype type) noexcept {
    constexpr float f16 = 65519.996f;  // what is larger rounds to infinity
    if (type == dtype::f16) return f16;
    if (type == dtype::q8_0) return f16 * 127.0f * 0.9999f;  // its scale is F16
    return 0x1.fefffep127f;                                  // BF16 rounds larger ones to infinity
}

[[nodiscard]] inline std::size_t first_above(const float* x, std::size_t n, float limit) noexcept {
    bool found = false;
    for (std::size_t i = 0; i < n; ++i) found |= std::fabs(x[i]) > limit;
    if (!found) return n;
    return static_cast<std::size_t>(std::find_if(x, x + n, [&](float v) { return std::fabs(v) > limit; }) - x);
}

}  // namespace detail

inline void tensor_stream::convert_piece(const planned_tensor& tensor, const source_tensor& part, std::uint64_t first,
                                         std::uint64_t rows, std::uint64_t width, std::uint64_t unit, std::span<std::byte> out,
                                         memory& work) const {
    const std::size_t size = bits_of(part.stored.type) / 8, n = static_cast<std::size_t>(rows * width);
    work.read.resize(n * size);
    const auto where = [&](std::size_t i) { return concat("value ", i % width, " of row ", first + i / width); };
    const auto fail = [&](error e) { work.problem = std::move(e).within(concat("tensor ", quoted(part.stored.name))); };
    if (auto ok = weights_.read(part, first * width * size, work.read); !ok) return fail(std::move(ok).error());
    work.values.resize(n);
    detail::widen(part.stored.type, work.read.data(), n, work.values.data());
    if (const auto bad = detail::first_not_finite(work.values.data(), n); bad != n) {
        return fail(
            {errc::bad_value,
             concat(where(bad), " is ", std::isnan(work.values[bad]) ? "not a number" : "infinite", "; the model is damaged"),
             part.stored.offset + (first * width + bad) * size});
    }
    if (tensor.plus_one) {
        for (float& value : work.values) value += 1.0f;
    }
    const float* values = work.values.data();
    if (tensor.permuted_heads != 0) {
        work.moved.resize(n);
        for (std::uint64_t row = 0; row < rows; ++row) {
            const std::uint64_t head = row / unit * unit, in_head = row % unit;
            const std::uint64_t from = head + in_head / 2 + (in_head % 2) * (unit / 2);
            std::memcpy(work.moved.data() + row * width, values + from * width, static_cast<std::size_t>(width) * sizeof(float));
        }
        values = work.moved.data();
    }
    if (tensor.info.type == dtype::f32) {
        std::memcpy(out.data(), values, out.size());
        return;
    }
    if (const auto large = detail::first_above(values, n, detail::largest_of(tensor.info.type)); large != n) {
        return fail({errc::bad_value, concat("the value ", values[large], " (row ", first + large / width,
                                             " of the result) is too large for ", name(tensor.info.type), "; take f32 or bf16")});
    }
    // All rows are whole blocks, so they may be encoded as one.
    if (auto ok = quant::encode_row(tensor.info.type, std::span(values, n), out); !ok) fail(std::move(ok).error());
}

}  // namespace colibri::convert
