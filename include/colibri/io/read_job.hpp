// One read in the background: what is wanted, and whether it is there.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "colibri/core/checked.hpp"
#include "colibri/core/error.hpp"

namespace colibri {

namespace detail {
class read_board;
}

/// Bytes of a file that a read_queue shall bring. The caller owns it and fills in the public fields; from `submit` until it
/// is finished it and its memory stay in place and untouched. Then it may be used again.
struct read_job {
    /// What direct reads want of offset, address and length: covers all common disks (512 or 4096).
    static constexpr std::size_t alignment = 4096;

    std::uint32_t file = 0;       ///< place in the queue's list of files
    std::uint64_t offset = 0;     ///< first byte wanted; need not be aligned
    std::size_t bytes = 0;        ///< bytes wanted, > 0
    std::byte* memory = nullptr;  ///< aligned to `alignment`, room for `room(offset, bytes)` bytes
    bool urgent = false;          ///< goes before all that isn't and that no reader has begun

    /// Bytes of memory that a read needs: it is widened to whole multiples of `alignment` at both ends.
    [[nodiscard]] static constexpr std::size_t room(std::uint64_t offset, std::size_t bytes) noexcept {
        return round_up(static_cast<std::size_t>(offset % alignment) + bytes, alignment);
    }

    /// The bytes, once it is finished without an error.
    [[nodiscard]] std::span<const std::byte> data() const noexcept { return {memory + offset % alignment, bytes}; }

    /// Whether it is finished, well or not; its bytes may be read then. No system call, no lock.
    [[nodiscard]] bool finished() const noexcept { return state_.load(std::memory_order_acquire) == state::done; }

private:
    friend class detail::read_board;
    enum class state : std::uint8_t { idle, pending, done };

    // All but state_ belongs to the board's mutex while the job is pending.
    std::atomic<state> state_{state::idle};
    unsigned in_flight_ = 0;    // pieces being read
    std::uint64_t cursor_ = 0;  // where the next piece starts
    std::uint64_t end_ = 0;     // where the last one ends
    read_job* next_ = nullptr;
    bool failed_ = false;
    error problem_;
};

namespace detail {

/// One request to the kernel: a part of a job. Offset, memory and `bytes` are aligned.
struct read_piece {
    read_job* job = nullptr;
    std::uint32_t file = 0;
    std::uint64_t offset = 0;
    std::size_t bytes = 0;   // to ask for
    std::size_t wanted = 0;  // of these, up to the end of what the job wants
    std::byte* memory = nullptr;
};

}  // namespace detail

}  // namespace colibri
