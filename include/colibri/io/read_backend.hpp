// Who reads what a read_board lists: a few threads, or the kernel.
#pragma once

#include <atomic>
#include <cerrno>
#include <csignal>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "colibri/io/read_board.hpp"
#include "colibri/io/read_file.hpp"
#include "colibri/io/uring.hpp"

namespace colibri::detail {

/// Readers of one board. Their destructor waits for them; the board is stopped and empty by then.
class read_backend {
public:
    read_backend() = default;
    read_backend(const read_backend&) = delete;
    read_backend& operator=(const read_backend&) = delete;
    virtual ~read_backend() = default;

    /// Called after each `submit`.
    virtual void submitted() noexcept {}
};

/// Starts threads that no signal interrupts: those are for the program's own threads.
class quiet_signals {
public:
    quiet_signals() noexcept {
        ::sigset_t all;
        ::sigfillset(&all);
        for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS}) ::sigdelset(&all, own);
        ::pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    quiet_signals(const quiet_signals&) = delete;
    quiet_signals& operator=(const quiet_signals&) = delete;
    ~quiet_signals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

private:
    ::sigset_t before_{};
};

/// Each thread reads one piece at a time, and sleeps in the kernel meanwhile.
class thread_backend final : public read_backend {
public:
    /// Errors: limit (the system gives no thread).
    [[nodiscard]] static result<std::unique_ptr<read_backend>> start(read_board& board, const std::vector<read_file>& files,
                                                                     unsigned threads) {
        std::unique_ptr<thread_backend> out(new thread_backend(board));
        const quiet_signals quiet;
        out->threads_.reserve(threads);
        for (unsigned id = 0; id < threads; ++id) {
            try {
                out->threads_.emplace_back([&board, &files] {
                    read_piece piece;
                    while (board.next(piece)) board.finish(piece, files[piece.file].read(piece));
                });
            } catch (const std::system_error&) {
                if (id != 0) break;  // fewer do too
                return error{errc::limit, "could not start a thread that reads"};
            }
        }
        return std::unique_ptr<read_backend>(std::move(out));
    }

    ~thread_backend() override {
        board_.stop();
        for (auto& thread : threads_) thread.join();
    }

private:
    explicit thread_backend(read_board& board) noexcept : board_(board) {}

    read_board& board_;
    std::vector<std::thread> threads_;
};

/// One thread that hands pieces to the kernel, a fixed number at once, and finishes them as they come in.
class uring_backend final : public read_backend {
public:
    /// `depth`: pieces at once. Errors: unsupported, limit (the system gives no thread).
    [[nodiscard]] static result<std::unique_ptr<read_backend>> start(read_board& board, const std::vector<read_file>& files,
                                                                     unsigned depth) {
        auto ring = uring::open(depth);
        if (!ring) return std::move(ring).error();
        std::unique_ptr<uring_backend> out(new uring_backend(board, files, std::move(*ring), depth));
        const quiet_signals quiet;
        try {
            out->thread_ = std::thread([self = out.get()] { self->serve(); });
        } catch (const std::system_error&) {
            return error{errc::limit, "could not start a thread that reads"};
        }
        return std::unique_ptr<read_backend>(std::move(out));
    }

    ~uring_backend() override {
        board_.stop();
        ring_->ring_bell();
        if (thread_.joinable()) thread_.join();
    }

    void submitted() noexcept override {
        if (may_take_more_.load(std::memory_order_acquire) && may_take_more_.exchange(false)) ring_->ring_bell();
    }

private:
    struct slot {
        read_piece piece;
        std::size_t have = 0;
    };

    uring_backend(read_board& board, const std::vector<read_file>& files, std::unique_ptr<uring> ring, unsigned depth)
        : board_(board), files_(files), ring_(std::move(ring)), slots_(depth) {
        for (std::size_t i = 0; i < slots_.size(); ++i) free_.push_back(i);
    }

    void serve() {
        for (;;) {
            // Set before the last look at the board: what is submitted after that look finds it set. While nothing is in flight
            // the board's own sleep is the right one.
            while (!free_.empty()) {
                slot& at = slots_[free_.back()];
                const bool idle = free_.size() == slots_.size();
                may_take_more_.store(!idle, std::memory_order_release);
                if (!(idle ? board_.next(at.piece) : board_.try_next(at.piece))) break;
                at.have = 0;
                read(free_.back());
                free_.pop_back();
            }
            if (free_.size() == slots_.size()) return;
            ring_->wait();
            may_take_more_.store(false, std::memory_order_relaxed);
            uring::completion over;
            while (ring_->next(over)) came_in(static_cast<std::size_t>(over.tag), over.outcome);
        }
    }

    void read(std::size_t number) noexcept {
        const auto& [piece, have] = slots_[number];
        ring_->read(files_[piece.file].descriptor(), piece.memory + have, piece.bytes - have, piece.offset + have, number);
    }

    void came_in(std::size_t number, int outcome) {
        auto& [piece, have] = slots_[number];
        const auto& file = files_[piece.file];
        if (outcome == -EINTR || outcome == -EAGAIN) return read(number);
        result<void> done;
        if (outcome == -EINVAL || outcome == -EOPNOTSUPP) {
            done = file.read(piece, have);
        } else if (outcome < 0) {
            done = file.read_error(piece.offset + have, -outcome);
        } else if (have += static_cast<std::size_t>(outcome); have < piece.wanted) {
            if (outcome != 0 && have % read_job::alignment == 0) return read(number);
            done = file.read(piece, have);  // it knows what to do with the rest of a block, and at the end
        } else if (!file.is_direct()) {
            file.forget(piece);
        }
        free_.push_back(number);
        board_.finish(piece, std::move(done));
    }

    read_board& board_;
    const std::vector<read_file>& files_;
    std::unique_ptr<uring> ring_;
    std::vector<slot> slots_;
    std::vector<std::size_t> free_;  // numbers of slots without a read
    std::atomic<bool> may_take_more_{false};
    std::thread thread_;
};

}  // namespace colibri::detail
