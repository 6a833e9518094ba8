// Turns a plan into files: pieces are read, turned and encoded by all threads at once, and written in order.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "colibri/core/buffer.hpp"
#include "colibri/core/error.hpp"
#include "colibri/core/progress.hpp"
#include "colibri/core/thread_pool.hpp"
#include "colibri/gguf/shard_writer.hpp"
#include "colibri/io/file_reader.hpp"
#include "colibri/quantize/convert_values.hpp"
#include "colibri/quantize/piece.hpp"

namespace colibri::quantize {

/// Who watches. Both are called by whichever thread has written last, one call at a time.
struct pipeline_observer {
    progress_fn progress = {};                          ///< in bytes of the source; false stops the work (errc::canceled)
    std::function<void(std::size_t tensor)> written = {};  ///< a tensor of the plan is complete
};

/// Most bytes that the pipeline's buffers take, whatever the model's size; fewer threads work if these would need more.
inline constexpr std::uint64_t pipeline_memory = std::uint64_t{256} << 20;

/// Reads, turns and writes all pieces of a plan. What is written doesn't depend on the threads, and of several errors the first one in
/// the order of writing is told.
class pipeline {
public:
    pipeline(const plan& work, std::span<const std::unique_ptr<file_reader>> sources, gguf::shard_writer& out,
             const pipeline_observer& observer)
        : plan_(work), sources_(sources), out_(out), observer_(observer), pieces_(work.tensors), total_(work.source_bytes()) {}

    /// Does it on the pool's threads. Errors: those of reading and writing; bad_value (NaN, infinity, too large; names tensor and
    /// element); out_of_memory; canceled.
    [[nodiscard]] result<void> run(thread_pool& pool) {
        const std::uint64_t each = 2 * piece_bytes + piece_values * sizeof(float);
        const auto most = static_cast<unsigned>(std::max<std::uint64_t>(1, pipeline_memory / (each + piece_bytes)));
        const unsigned before = pool.used();
        pool.use(std::min(before, most));
        auto done = run_on(pool);
        pool.use(before);
        return done;
    }

private:
    // What a thread has for itself.
    struct worker {
        aligned_buffer in;
        aligned_buffer values;
    };
    // A piece that waits for its turn to be written.
    struct slot {
        aligned_buffer bytes;
        std::size_t size = 0;
        bool full = false;
    };

    [[nodiscard]] result<void> run_on(thread_pool& pool) {
        workers_.resize(pool.used());
        slots_.resize(2 * pool.used());
        for (auto& one : workers_) {
            if (auto ok = fill(one.in, piece_bytes); !ok) return ok;
            if (auto ok = fill(one.values, piece_values * sizeof(float)); !ok) return ok;
        }
        for (auto& one : slots_) {
            if (auto ok = fill(one.bytes, piece_bytes); !ok) return ok;
        }
        pool.for_chunks(static_cast<std::size_t>(pieces_.size()), 1, [&](std::size_t begin, std::size_t end, unsigned id) {
            for (std::size_t i = begin; i < end && !stopped_.load(std::memory_order_relaxed); ++i) one_piece(i, workers_[id]);
        });
        if (failure_) return *failure_;
        return {};
    }

    [[nodiscard]] static result<void> fill(aligned_buffer& buffer, std::uint64_t bytes) {
        auto made = aligned_buffer::allocate(static_cast<std::size_t>(bytes));
        if (!made) return std::move(made).error();
        buffer = std::move(*made);
        return {};
    }

    void one_piece(std::uint64_t number, worker& own) noexcept {
        const piece work = pieces_[number];
        const auto& tensor = plan_.tensors[work.tensor];
        // Pieces are handed out in order, so the one that all wait for is always in somebody's hands.
        slot& place = slots_[number % slots_.size()];
        {
            std::unique_lock lock(mutex_);
            room_.wait(lock, [&] { return number < written_ + slots_.size() || stopped_.load(std::memory_order_relaxed); });
            if (stopped_.load(std::memory_order_relaxed)) return;
        }
        const auto in = own.in.as<std::byte>().first(static_cast<std::size_t>(bytes_of(tensor.source.type, work.values)));
        place.size = static_cast<std::size_t>(bytes_of(tensor.target.type, work.values));
        auto bad = make(work, tensor, in, place.bytes.as<std::byte>().first(place.size), own);
        const std::lock_guard lock(mutex_);
        if (bad) failures_.emplace_back(number, std::move(*bad));
        place.full = true;
        write_ready();
        room_.notify_all();
    }

    /// Reads and turns a piece; what went wrong, if anything.
    [[nodiscard]] std::optional<error> make(const piece& work, const planned_tensor& tensor, std::span<std::byte> in, std::span<std::byte> out,
                                            worker& own) const noexcept {
        const std::uint64_t offset = tensor.source.offset + bytes_of(tensor.source.type, work.source_first);
        if (auto ok = sources_[tensor.source.part]->read_at(offset, in); !ok) return std::move(ok).error();
        if (!quant::is_supported(tensor.source.type)) {  // only copied; checked by the plan
            std::memcpy(out.data(), in.data(), in.size());
            return std::nullopt;
        }
        const auto& shape = pieces_.shape(work.tensor);
        values_to_convert values{tensor.source.type, tensor.target.type, in, out, {}, shape.columns, work.column};
        if (!tensor.importance.empty() && values.from != values.to) {
            const std::uint64_t slice = work.source_first / (shape.columns * shape.rows);
            const bool per_slice = tensor.importance.size() > shape.columns;
            values.importance = std::span(tensor.importance).subspan(per_slice ? slice * shape.columns : 0, shape.columns);
        }
        auto bad = convert_values(values, own.values.as<float>());
        if (!bad) return std::nullopt;
        const std::uint64_t element = work.source_first + bad->index;
        const std::string where = concat("tensor ", quoted(tensor.source.name));
        if (bad->what.code != errc::bad_value) return std::move(bad->what).within(where);
        bad->what.message = concat("element ", element, " (row ", element / tensor.source.dims[0], ", column ",
                                   element % tensor.source.dims[0], ") ", bad->what.message);
        return std::move(bad->what).within(where);
    }

    /// Writes what is ready and next. Called with the mutex.
    void write_ready() noexcept {
        while (!failure_ && written_ < pieces_.size()) {
            slot& place = slots_[written_ % slots_.size()];
            if (!place.full) return;
            if (const auto at = std::ranges::find(failures_, written_, &numbered::first); at != failures_.end()) {
                return stop(std::move(at->second));
            }
            const piece work = pieces_[written_];
            const auto& tensor = plan_.tensors[work.tensor];
            if (auto ok = out_.write(place.bytes.as<std::byte>().first(place.size)); !ok) return stop(std::move(ok).error());
            place.full = false;
            ++written_;
            done_ += bytes_of(tensor.source.type, work.values);
            if (work.ends_tensor && observer_.written) observer_.written(work.tensor);
            if (observer_.progress && !observer_.progress({done_, total_})) return stop({errc::canceled, "stopped on request"});
        }
    }

    void stop(error why) noexcept {
        failure_ = std::move(why);
        stopped_.store(true, std::memory_order_relaxed);
    }

    using numbered = std::pair<std::uint64_t, error>;

    const plan& plan_;
    std::span<const std::unique_ptr<file_reader>> sources_;
    gguf::shard_writer& out_;
    const pipeline_observer& observer_;
    piece_list pieces_;
    std::uint64_t total_;
    std::vector<worker> workers_;
    std::mutex mutex_;
    std::condition_variable room_;
    std::vector<slot> slots_;
    std::vector<numbered> failures_;
    std::uint64_t written_ = 0;  ///< pieces
    std::uint64_t done_ = 0;     ///< bytes of the source
    std::optional<error> failure_;
    std::atomic<bool> stopped_{false};
};

}  // namespace colibri::quantize
