// Whether a model's file is sound to its last byte: values, padding, bytes that nobody uses.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "colibri/core/thread_pool.hpp"
#include "colibri/gguf/tensor_reader.hpp"
#include "colibri/quant/tensor_values.hpp"

namespace colibri::quant {

/// Values of one tensor that are no numbers to compute with.
struct bad_values {
    std::size_t tensor = 0;   ///< index into file::tensors()
    std::uint64_t nans = 0;
    std::uint64_t infinities = 0;
    std::uint64_t first = 0;  ///< index of the first of them in the tensor, row by row
};

/// Bytes of a part's file that belong to nothing.
struct unused_bytes {
    unsigned part = 0;
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
};

/// What a whole file's check found.
struct file_check {
    std::vector<bad_values> not_finite;    ///< in the tensors' order
    std::vector<std::size_t> undecodable;  ///< tensors of types that can't be decoded here
    std::vector<unused_bytes> unused;      ///< beyond the padding that alignment asks for
    std::uint64_t dirty_padding = 0;       ///< bytes of padding that aren't 0
    bool in_order = true;                  ///< data lies in the order of the list
    std::uint64_t values = 0;              ///< that were looked at

    /// Whether the model can be computed with. Unused bytes and padding do no harm.
    [[nodiscard]] bool sound() const noexcept { return not_finite.empty() && undecodable.empty(); }
};

/// Reads the whole model once. `watch` gets bytes of tensors. Errors: truncated, io, canceled.
[[nodiscard]] result<file_check> check_file(const gguf::file& model, thread_pool& pool, const progress_fn& watch = {});

namespace detail {

/// Counts what isn't finite in whole blocks; `at` is the index of their first value.
[[nodiscard]] inline bad_values scan(dtype type, std::span<const std::byte> bytes, std::uint64_t at) {
    bad_values out;
    for_values(type, bytes, [&]<class T>(std::span<const T> values, std::size_t first) {
        std::size_t odd = 0;
        for (const T value : values) odd += static_cast<std::size_t>(!std::isfinite(value));
        if (odd == 0) return;
        for (std::size_t i = 0; i < values.size(); ++i) {
            if (std::isfinite(values[i])) continue;
            if (out.nans + out.infinities == 0) out.first = at + first + i;
            ++(std::isnan(values[i]) ? out.nans : out.infinities);
        }
    });
    return out;
}

/// What lies between and behind the tensors of each part.
[[nodiscard]] inline result<void> check_layout(const gguf::file& model, gguf::tensor_reader& in, file_check& out) {
    const auto pad = [&](unsigned part, std::uint64_t begin, std::uint64_t end) -> result<void> {
        std::byte piece[4096];
        while (begin < end) {
            const auto now = static_cast<std::size_t>(std::min<std::uint64_t>(end - begin, sizeof piece));
            if (auto ok = in.read_part(part, begin, std::span(piece, now)); !ok) return ok;
            out.dirty_padding += static_cast<std::uint64_t>(now - static_cast<std::size_t>(std::count(piece, piece + now, std::byte{0})));
            begin += now;
        }
        return {};
    };
    for (unsigned number = 0; number < model.parts().size(); ++number) {
        const gguf::part& part = model.parts()[number];
        std::vector<std::pair<std::uint64_t, std::uint64_t>> places;  // offset, bytes
        for (const auto& tensor : model.tensors()) {
            if (tensor.part == number) places.emplace_back(tensor.offset, tensor.bytes);
        }
        out.in_order = out.in_order && std::ranges::is_sorted(places);
        std::ranges::sort(places);
        std::uint64_t used = std::min(part.data_offset, part.size);
        places.emplace_back(part.size, 0);
        for (const auto& [offset, bytes] : places) {
            const std::uint64_t padded = std::min(round_up(used, part.alignment), offset);
            if (auto ok = pad(number, used, padded); !ok) return ok;
            if (padded < offset) out.unused.push_back({number, padded, offset - padded});
            used = offset + bytes;
        }
    }
    return {};
}

}  // namespace detail

inline result<file_check> check_file(const gguf::file& model, thread_pool& pool, const progress_fn& watch) {
    auto in = gguf::tensor_reader::open(model);
    if (!in) return std::move(in).error();
    file_check out;
    if (auto ok = detail::check_layout(model, *in, out); !ok) return std::move(ok).error();
    for (std::size_t i = 0; i < model.tensors().size(); ++i) {
        if (!has_values(model.tensors()[i].type)) out.undecodable.push_back(i);
        else out.values += model.tensors()[i].elements();
    }
    struct job {
        gguf::tensor_piece piece;
        bad_values found;
    };
    std::vector<job> jobs;
    auto swept = gguf::sweep_tensors(*in, model.tensors(), watch, [&](std::span<const gguf::tensor_piece> pieces) -> result<void> {
        jobs.clear();
        for (const auto& piece : pieces) {
            const auto kind = *find_dtype(static_cast<std::uint32_t>(piece.tensor->type));
            const std::size_t step = (std::size_t{256} << 10) / kind.block_bytes * kind.block_bytes;
            for (std::size_t at = 0; at < piece.bytes.size(); at += step) {
                jobs.push_back({piece, {}});
                jobs.back().piece.at += at;
                jobs.back().piece.bytes = piece.bytes.subspan(at, std::min(step, piece.bytes.size() - at));
            }
        }
        pool.for_chunks(jobs.size(), 1, [&](std::size_t begin, std::size_t end, unsigned) {
            for (std::size_t i = begin; i < end; ++i) {
                const auto& piece = jobs[i].piece;
                const auto kind = *find_dtype(static_cast<std::uint32_t>(piece.tensor->type));
                jobs[i].found = detail::scan(piece.tensor->type, piece.bytes, piece.at / kind.block_bytes * kind.block_size);
            }
        });
        for (const auto& [piece, found] : jobs) {
            if (found.nans + found.infinities == 0) continue;
            if (out.not_finite.empty() || out.not_finite.back().tensor != piece.index) {
                out.not_finite.push_back({piece.index, 0, 0, found.first});
            }
            out.not_finite.back().nans += found.nans;
            out.not_finite.back().infinities += found.infinities;
        }
        return {};
    });
    if (!swept) return std::move(swept).error();
    return out;
}

}  // namespace colibri::quant
