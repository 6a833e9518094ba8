// Reads tensors from files into memory and packs them on the way, with all threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include "colibri/core/buffer.hpp"
#include "colibri/core/cancel.hpp"
#include "colibri/core/progress.hpp"
#include "colibri/core/thread_pool.hpp"
#include "colibri/gguf/file.hpp"
#include "colibri/io/cpu_count.hpp"
#include "colibri/io/direct_reader.hpp"
#include "colibri/io/page_cache.hpp"
#include "colibri/quant/panel.hpp"
#include "colibri/weights/resident_plan.hpp"

namespace colibri::weights {

/// How weights are read.
struct load_options {
    unsigned threads = 0;                ///< that read and pack; 0: chosen here
    progress_fn progress = {};           ///< bytes of the file, called on the calling thread
    const cancel_flag* cancel = nullptr;
};

namespace detail {

/// Bytes of one tensor that are read, and packed, at once.
struct load_piece {
    const gguf::tensor_info* info = nullptr;
    std::uint64_t begin = 0;  ///< in the file
    std::uint64_t end = 0;
    std::size_t target = 0;   ///< in memory
    std::size_t rows = 0;     ///< to be packed; 0: the bytes stay as they are
};

/// Bytes of a piece, about: large enough for the disk's full speed, small enough for a core's cache to hold it until it is packed.
inline constexpr std::size_t load_piece_bytes = std::size_t{1} << 20;

/// The pieces of all tensors, in the order of the files: a disk reads them fastest that way.
[[nodiscard]] inline std::vector<load_piece> load_pieces(const gguf::file& file, std::span<const resident_tensor> tensors) {
    std::vector<load_piece> out;
    for (const auto& tensor : tensors) {
        const auto& info = file.tensors()[tensor.id];
        const auto row_bytes = static_cast<std::size_t>(info.bytes / (info.dims[1] * info.dims[2] * info.dims[3]));
        std::uint64_t begin = info.offset + tensor.first_row * row_bytes;
        if (tensor.how == layout::file) {
            for (std::size_t at = 0; at < tensor.bytes; at += load_piece_bytes) {
                const auto n = std::min(load_piece_bytes, tensor.bytes - at);
                out.push_back({&info, begin + at, begin + at + n, tensor.offset + at, 0});
            }
            continue;
        }
        const std::size_t panel = quant::panel_bytes(info.type, static_cast<std::size_t>(tensor.dims.columns()));
        const std::size_t group = quant::panel_rows * row_bytes;
        const std::size_t step = std::max<std::size_t>(1, load_piece_bytes / group) * quant::panel_rows;
        const auto slice_rows = static_cast<std::size_t>(tensor.dims.dims()[1]);
        std::size_t target = tensor.offset;
        for (std::uint64_t slice = 0; slice < tensor.dims.slices(); ++slice) {
            for (std::size_t row = 0; row < slice_rows; row += step) {
                const std::size_t rows = std::min(step, slice_rows - row);
                out.push_back({&info, begin, begin + rows * row_bytes, target, rows});
                begin += rows * row_bytes;
                target += (rows + quant::panel_rows - 1) / quant::panel_rows * panel;
            }
        }
    }
    std::sort(out.begin(), out.end(), [](const load_piece& a, const load_piece& b) {
        return a.info->part != b.info->part ? a.info->part < b.info->part : a.begin < b.begin;
    });
    return out;
}

/// A file of the model, open in all the ways that loading needs.
struct load_source {
    std::filesystem::path path;
    page_cache_state cache;  // before loading
    std::unique_ptr<file_reader> cached;
    std::unique_ptr<direct_reader> direct;

    [[nodiscard]] static result<load_source> open(const gguf::part& part) {
        load_source out;
        auto map = mapped_file::open(part.path);
        if (!map) return std::move(map).error();
        if (map->size() < part.size) {
            return error{errc::truncated,
                         concat("the file has shrunk from ", part.size, " to ", map->size(), " bytes while it was being opened"),
                         map->size(), escaped(part.path.string())};
        }
        out.path = part.path;
        out.cache = page_cache_state::of(*map);
        auto cached = file_reader::open(part.path);
        if (!cached) return std::move(cached).error();
        out.cached = *std::move(cached);
        auto direct = direct_reader::open(part.path);
        if (!direct) return std::move(direct).error();
        out.direct = *std::move(direct);
        return out;
    }
};

/// What one thread works with.
struct load_scratch {
    std::byte* memory = nullptr;  // aligned for direct reads
    std::vector<cache_range> ranges;
};

/// Loads pieces one after the other; the first error wins.
class loader {
public:
    loader(std::span<const load_source> sources, std::span<const load_piece> pieces, std::byte* target,
           const load_options& options)
        : sources_(sources), pieces_(pieces), target_(target), options_(options) {
        for (const auto& piece : pieces) {
            total_ += piece.end - piece.begin;
            longest_ = std::max(longest_, static_cast<std::size_t>(piece.end - piece.begin));
        }
    }

    [[nodiscard]] result<void> run(unsigned threads) {
        // Both ends of a piece are rounded outwards. One block for all, so that it has huge pages: the disk takes larger requests
        // where memory is contiguous.
        const std::size_t each = round_up(longest_ + 2 * direct_reader::alignment, direct_reader::alignment);
        auto memory = aligned_buffer::allocate(std::max<std::size_t>(threads * each, std::size_t{4} << 20));
        if (!memory) return std::move(memory).error();
        std::vector<load_scratch> scratch(threads);
        for (unsigned i = 0; i < threads; ++i) scratch[i].memory = memory->data() + i * each;
        try {
            thread_pool pool(threads);
            pool.for_chunks(pieces_.size(), 1, [&](std::size_t begin, std::size_t end, unsigned worker) {
                for (std::size_t i = begin; i < end && !stop_.load(std::memory_order_relaxed); ++i) {
                    load(pieces_[i], scratch[worker], worker == 0);
                }
            });
        } catch (const std::system_error&) {
            return error{errc::out_of_memory, concat("could not start ", threads, " threads to read the weights")};
        }
        if (stop_) return first_;
        return {};
    }

private:
    void load(const load_piece& piece, load_scratch& scratch, bool report) noexcept {
        try {
            auto bytes = read(piece, scratch);
            if (!bytes) return fail(std::move(bytes).error().within(concat("tensor ", quoted(piece.info->name))));
            place(piece, *bytes);
        } catch (const std::bad_alloc&) {
            return fail({errc::out_of_memory, "no memory left while the weights were read"});
        }
        const auto done = done_.fetch_add(piece.end - piece.begin, std::memory_order_relaxed) + piece.end - piece.begin;
        const bool canceled = (options_.cancel != nullptr && options_.cancel->requested()) ||
                              (report && options_.progress && !options_.progress({done, total_}));
        if (canceled) fail({errc::canceled, "stopped while the weights were read"});
    }

    /// The piece's bytes, in the thread's memory.
    [[nodiscard]] result<const std::byte*> read(const load_piece& piece, load_scratch& scratch) const {
        const auto& source = sources_[piece.info->part];
        constexpr std::uint64_t alignment = direct_reader::alignment;
        const std::uint64_t first = piece.begin / alignment * alignment;
        const std::uint64_t last = std::min(source.cached->size(), round_up(piece.end, alignment));
        // A shorter stretch costs more as a read of its own than in a direct read.
        constexpr std::uint64_t least = 64 << 10;
        source.cache.split(first, last, least, scratch.ranges);
        for (const auto& range : scratch.ranges) {
            const std::span<std::byte> to(scratch.memory + (range.begin - first),
                                          static_cast<std::size_t>(range.end - range.begin));
            auto ok = range.cached ? source.cached->read_at(range.begin, to) : source.direct->read_at(range.begin, to);
            if (!ok) return std::move(ok).error();
        }
        return static_cast<const std::byte*>(scratch.memory + (piece.begin - first));
    }

    void place(const load_piece& piece, const std::byte* bytes) const noexcept {
        const auto size = static_cast<std::size_t>(piece.end - piece.begin);
        std::byte* to = target_ + piece.target;
        if (piece.rows == 0) {
            std::memcpy(to, bytes, size);
            return;
        }
        const std::size_t row_bytes = size / piece.rows;
        const auto k = static_cast<std::size_t>(piece.info->dims[0]);
        const std::size_t panel = quant::panel_bytes(piece.info->type, k);
        for (std::size_t row = 0; row < piece.rows; row += quant::panel_rows, to += panel) {
            quant::pack_panel(piece.info->type, bytes + row * row_bytes, row_bytes,
                              std::min(quant::panel_rows, piece.rows - row), k, to);
        }
    }

    void fail(error problem) noexcept {
        const std::lock_guard lock(mutex_);
        if (stop_.load(std::memory_order_relaxed)) return;
        first_ = std::move(problem);
        stop_.store(true, std::memory_order_relaxed);
    }

    std::span<const load_source> sources_;
    std::span<const load_piece> pieces_;
    std::byte* target_;
    const load_options& options_;
    std::uint64_t total_ = 0;
    std::size_t longest_ = 0;
    std::atomic<std::uint64_t> done_{0};
    std::atomic<bool> stop_{false};
    std::mutex mutex_;
    error first_;
};

}  // namespace detail

/// Reads tensors to their places in `target` (aligned to 64), each in its layout. What is in the page cache is read
/// from there; the rest past it, so that no second copy stays in memory.
/// Errors: io, not_found, truncated (a file has become shorter), out_of_memory, canceled; in reading, with tensor and offset.
[[nodiscard]] inline result<void> load_tensors(const gguf::file& file, std::span<const resident_tensor> tensors,
                                               std::byte* target, const load_options& options) {
    std::vector<detail::load_source> sources;
    for (const auto& part : file.parts()) {
        auto source = detail::load_source::open(part);
        if (!source) return std::move(source).error();
        sources.push_back(*std::move(source));
    }
    const auto pieces = detail::load_pieces(file, tensors);
    // A thread reads and packs by turns; with two for each core the disk has something to do while others pack.
    const unsigned threads = options.threads != 0 ? options.threads : std::clamp(2 * cpu_count(), 4u, 64u);
    auto done = detail::loader(sources, pieces, target, options).run(threads);
    // The kernel reads ahead at the end of what is cached.
    for (const auto& source : sources) source.cache.drop_others(source.path);
    return done;
}

}  // namespace colibri::weights
