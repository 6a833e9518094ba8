// Linux's io_uring by its system calls: reads that the kernel does while nobody waits for them.
#pragma once

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "colibri/io/file_handle.hpp"

#if defined(__linux__) && __has_include(<linux/io_uring.h>)
#include <linux/io_uring.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#if defined(SYS_io_uring_setup) && defined(IORING_FEAT_RW_CUR_POS)
#define COLIBRI_HAS_URING 1
#endif
#endif

namespace colibri::detail {

#if defined(COLIBRI_HAS_URING)

/// One ring of reads, and a bell that another thread may ring to end a wait. All but `ring_bell` belongs to one thread.
class uring {
public:
    /// A read that is over: bytes read, or -errno.
    struct completion {
        std::uint64_t tag = 0;
        int outcome = 0;
    };

    /// A ring for up to `reads` at once. Errors: unsupported (no such system call, too old, or not allowed here).
    [[nodiscard]] static result<std::unique_ptr<uring>> open(unsigned reads) {
        std::unique_ptr<uring> out(new uring);
        ::io_uring_params set{};
        out->ring_ = unique_fd(static_cast<int>(::syscall(SYS_io_uring_setup, reads + 1, &set)));
        // The last of these came with Linux 5.6, as plain reads did.
        constexpr unsigned needed = IORING_FEAT_SINGLE_MMAP | IORING_FEAT_NODROP | IORING_FEAT_RW_CUR_POS;
        if (!out->ring_.is_open() || (set.features & needed) != needed) return refused();
        out->bell_ = unique_fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
        if (!out->bell_.is_open() || !out->map(set)) return refused();
        return out;
    }

    uring(const uring&) = delete;
    uring& operator=(const uring&) = delete;
    /// No read is in flight.
    ~uring() {
        if (entries_ != nullptr) ::munmap(entries_, entries_bytes_);
        if (rings_ != nullptr) ::munmap(rings_, rings_bytes_);
    }

    /// Prepares a read, which `wait` hands to the kernel; no more than the ring was opened for.
    void read(int descriptor, std::byte* memory, std::size_t bytes, std::uint64_t offset, std::uint64_t tag) noexcept {
        ::io_uring_sqe& entry = next_entry();
        entry.opcode = IORING_OP_READ;
        entry.fd = descriptor;
        entry.off = offset;
        entry.addr = reinterpret_cast<std::uintptr_t>(memory);
        entry.len = static_cast<std::uint32_t>(bytes);
        entry.user_data = tag;
    }

    /// Hands over what was prepared and sleeps until a read is over or the bell rings.
    void wait() noexcept {
        if (!listening_) {
            ::io_uring_sqe& entry = next_entry();
            entry.opcode = IORING_OP_POLL_ADD;
            entry.fd = bell_.get();
            entry.poll_events = POLLIN;
            entry.user_data = bell_tag;
            listening_ = true;
        }
        for (;;) {
            const long taken = ::syscall(SYS_io_uring_enter, ring_.get(), prepared_, 1u, IORING_ENTER_GETEVENTS, nullptr, 0);
            if (taken > 0) prepared_ -= static_cast<unsigned>(taken);
            if (taken >= 0 && prepared_ == 0) return;
            if (head() != tail()) return;  // its completions may be what makes room
            // Interrupted, or the kernel is short of memory at the moment.
            if (taken >= 0 || errno != EINTR) ::usleep(1000);
        }
    }

    /// The next read that is over, if there is one.
    [[nodiscard]] bool next(completion& out) noexcept {
        for (;;) {
            const std::uint32_t at = head();
            if (at == tail()) return false;
            const ::io_uring_cqe& entry = completions_[at & completion_mask_];
            out = {entry.user_data, entry.res};
            std::atomic_ref(*completion_head_).store(at + 1, std::memory_order_release);
            if (out.tag != bell_tag) return true;
            listening_ = false;
            std::uint64_t rings = 0;
            (void)!::read(bell_.get(), &rings, sizeof rings);
        }
    }

    /// Ends the `wait` of this moment, or the next one. From any thread.
    void ring_bell() noexcept {
        const std::uint64_t once = 1;
        (void)!::write(bell_.get(), &once, sizeof once);
    }

private:
    static constexpr std::uint64_t bell_tag = ~std::uint64_t{0};

    uring() = default;

    [[nodiscard]] static error refused() {
        return error{errc::unsupported, "the system has no io_uring, or doesn't allow it here; read by threads instead"};
    }

    [[nodiscard]] bool map(const ::io_uring_params& set) noexcept {
        const auto place = [&](std::size_t bytes, std::uint64_t what) {
            void* out = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring_.get(),
                               static_cast<::off_t>(what));
            return out == MAP_FAILED ? nullptr : static_cast<std::byte*>(out);
        };
        const std::size_t submissions = set.sq_off.array + set.sq_entries * sizeof(std::uint32_t);
        const std::size_t completions = set.cq_off.cqes + set.cq_entries * sizeof(::io_uring_cqe);
        rings_bytes_ = submissions > completions ? submissions : completions;
        rings_ = place(rings_bytes_, IORING_OFF_SQ_RING);
        entries_bytes_ = set.sq_entries * sizeof(::io_uring_sqe);
        entries_ = reinterpret_cast<::io_uring_sqe*>(place(entries_bytes_, IORING_OFF_SQES));
        if (rings_ == nullptr || entries_ == nullptr) return false;
        const auto number = [&](std::uint32_t at) { return reinterpret_cast<std::uint32_t*>(rings_ + at); };
        submission_tail_ = number(set.sq_off.tail);
        submission_mask_ = *number(set.sq_off.ring_mask);
        completion_head_ = number(set.cq_off.head);
        completion_tail_ = number(set.cq_off.tail);
        completion_mask_ = *number(set.cq_off.ring_mask);
        completions_ = reinterpret_cast<::io_uring_cqe*>(rings_ + set.cq_off.cqes);
        for (std::uint32_t i = 0; i < set.sq_entries; ++i) number(set.sq_off.array)[i] = i;
        return true;
    }

    /// A cleared entry, counted as prepared. The kernel looks at it in `wait` at the earliest.
    [[nodiscard]] ::io_uring_sqe& next_entry() noexcept {
        std::atomic_ref tail_of(*submission_tail_);
        const std::uint32_t at = tail_of.load(std::memory_order_relaxed);
        ::io_uring_sqe& out = entries_[at & submission_mask_];
        out = {};
        tail_of.store(at + 1, std::memory_order_release);
        ++prepared_;
        return out;
    }

    [[nodiscard]] std::uint32_t head() const noexcept {
        return std::atomic_ref(*completion_head_).load(std::memory_order_relaxed);
    }
    [[nodiscard]] std::uint32_t tail() const noexcept {
        return std::atomic_ref(*completion_tail_).load(std::memory_order_acquire);
    }

    unique_fd bell_;
    unique_fd ring_;
    std::byte* rings_ = nullptr;
    std::size_t rings_bytes_ = 0;
    ::io_uring_sqe* entries_ = nullptr;
    std::size_t entries_bytes_ = 0;
    std::uint32_t* submission_tail_ = nullptr;
    std::uint32_t submission_mask_ = 0;
    std::uint32_t* completion_head_ = nullptr;
    std::uint32_t* completion_tail_ = nullptr;
    std::uint32_t completion_mask_ = 0;
    const ::io_uring_cqe* completions_ = nullptr;
    unsigned prepared_ = 0;   // entries that the kernel hasn't taken
    bool listening_ = false;  // whether the kernel looks at the bell
};

#undef COLIBRI_HAS_URING

#else

/// Where there is no io_uring: can't be opened.
class uring {
public:
    struct completion {
        std::uint64_t tag = 0;
        int outcome = 0;
    };
    [[nodiscard]] static result<std::unique_ptr<uring>> open(unsigned) {
        return error{errc::unsupported, "this system has no io_uring; read by threads instead"};
    }
    void read(int, std::byte*, std::size_t, std::uint64_t, std::uint64_t) noexcept {}
    void wait() noexcept {}
    [[nodiscard]] bool next(completion&) noexcept { return false; }
    void ring_bell() noexcept {}
};

#endif

}  // namespace colibri::detail
