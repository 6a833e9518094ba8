// Pieces of files read ahead of their use, again and again in the same order.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "colibri/io/read_queue.hpp"
#include "colibri/weights/stream_plan.hpp"

namespace colibri::weights {

/// A piece that the ring reads.
struct ring_piece {
    file_range source;
    std::size_t alignment = 1;  ///< that its first byte must have in memory
    bool some_sweeps = false;   ///< left out of sweeps that don't use everything
};

/// A block of memory that is filled in the order of the pieces, over and over, as far ahead of their use as it has room. One thread.
class sweep_ring {
public:
    /// Preconditions: `memory` is aligned to read_job::alignment and has room for any two pieces; `queue` outlives the ring.
    sweep_ring(read_queue& queue, std::vector<ring_piece> pieces, std::span<std::byte> memory)
        : queue_(queue), pieces_(std::move(pieces)), memory_(memory), entries_(std::make_unique<entry[]>(most_entries)) {}

    ~sweep_ring() { queue_.drain(); }
    sweep_ring(const sweep_ring&) = delete;
    sweep_ring& operator=(const sweep_ring&) = delete;

    /// Whether the sweep that runs uses the pieces that not all do; reading ahead goes by it.
    void use_everything(bool everything) noexcept { everything_ = everything; }

    /// Bytes of piece `index`, which stay until `release`. Usually the one behind the last; any other is read afresh.
    /// Errors: those of reading, canceled (then the same piece can be asked for again).
    [[nodiscard]] result<const std::byte*> take(std::size_t index, const cancel_flag* cancel) {
        for (bool again = false;; again = true) {
            if (auto ok = seek(index, cancel); !ok) return std::move(ok).error();
            fill();
            entry& e = at(taken_);
            auto ok = queue_.wait(e.job, cancel);
            if (ok) {
                ++taken_;
                return aligned(e);
            }
            if (!e.job.finished()) return std::move(ok).error();  // only the wait has ended
            // What went wrong when it was read ahead may be over by now, for what was read after it too.
            for (std::size_t i = taken_; i < count_; ++i) at(i).failed = true;
            if (again || taken_ != 0) return std::move(ok).error();
        }
    }

    /// Whether `take(index)` would not wait.
    [[nodiscard]] bool ready(std::size_t index) const noexcept {
        return taken_ < count_ && at(taken_).index == index && !at(taken_).failed && at(taken_).job.finished();
    }

    /// Pieces taken so far may be overwritten.
    void release() noexcept {
        while (taken_ > 0) pop();
        fill();
    }

private:
    struct entry {
        std::size_t index = 0;
        std::size_t begin = 0;  // in memory
        std::size_t end = 0;
        bool moved = false;     // to its alignment
        bool failed = false;
        read_job job;
    };
    static constexpr std::size_t most_entries = 64;
    static constexpr std::size_t nothing = std::numeric_limits<std::size_t>::max();

    [[nodiscard]] entry& at(std::size_t i) const noexcept { return entries_[(first_ + i) % most_entries]; }

    /// Makes piece `index` the next to be taken.
    [[nodiscard]] result<void> seek(std::size_t index, const cancel_flag* cancel) {
        std::size_t i = taken_;
        while (i < count_ && (at(i).index != index || at(i).failed)) ++i;
        if (i == taken_ && i < count_) return {};
        if (taken_ != 0) return error{errc::invalid_argument, "weights were asked for out of order"};
        const bool found = i < count_;
        if (!found) queue_.abandon();
        // What lies before isn't wanted any more; its memory is free when the disk is done with it.
        for (std::size_t skipped = found ? i : count_; skipped > 0; --skipped) {
            entry& e = at(0);
            if (auto ok = queue_.wait(e.job, cancel); !ok && !e.job.finished()) return ok;
            pop();
        }
        if (!found) next_ = index;
        return {};
    }

    void pop() noexcept {
        first_ = (first_ + 1) % most_entries;
        --count_;
        if (taken_ > 0) --taken_;
    }

    /// Starts reads while there is room.
    void fill() noexcept {
        while (count_ < most_entries && !pieces_.empty()) {
            if (next_ >= pieces_.size()) next_ = 0;
            if (pieces_[next_].some_sweeps && !everything_) {
                std::size_t other = next_;
                do other = (other + 1) % pieces_.size();
                while (other != next_ && pieces_[other].some_sweeps);
                if (other == next_) return;
                next_ = other;
            }
            const auto& piece = pieces_[next_];
            const std::size_t begin = place_for(piece.source.room());
            if (begin == nothing) return;
            entry& e = entries_[(first_ + count_) % most_entries];
            e.index = next_;
            e.begin = begin;
            e.end = begin + piece.source.room();
            e.moved = e.failed = false;
            e.job.file = piece.source.part;
            e.job.offset = piece.source.offset;
            e.job.bytes = piece.source.bytes;
            e.job.memory = memory_.data() + begin;
            queue_.submit(e.job);
            ++count_;
            ++next_;
        }
    }

    /// Where `room` free bytes lie in one piece behind the newest entry; `nothing` if nowhere.
    [[nodiscard]] std::size_t place_for(std::size_t room) const noexcept {
        if (count_ == 0) return room <= memory_.size() ? 0 : nothing;
        const std::size_t oldest = at(0).begin;
        const std::size_t newest = at(count_ - 1).end;
        if (newest > oldest) {  // free at both ends
            if (memory_.size() - newest >= room) return newest;
            return oldest >= room ? 0 : nothing;
        }
        return oldest - newest >= room ? newest : nothing;
    }

    /// The entry's bytes, moved down where a file has its tensors at odd places.
    [[nodiscard]] const std::byte* aligned(entry& e) noexcept {
        const std::size_t skip = static_cast<std::size_t>(e.job.offset % read_job::alignment);
        const std::size_t off = skip % pieces_[e.index].alignment;
        std::byte* data = e.job.memory + skip;
        if (off == 0) return data;
        if (!e.moved) std::memmove(data - off, data, e.job.bytes);
        e.moved = true;
        return data - off;
    }

    read_queue& queue_;
    std::vector<ring_piece> pieces_;
    std::span<std::byte> memory_;
    std::unique_ptr<entry[]> entries_;
    std::size_t first_ = 0;  // entry
    std::size_t count_ = 0;  // entries in use
    std::size_t taken_ = 0;  // of these, the first ones, which are held
    std::size_t next_ = 0;   // piece to be read next
    bool everything_ = true;
};

}  // namespace colibri::weights
