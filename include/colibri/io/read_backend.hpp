// Who reads what a read_board lists.
#pragma once

#include <csignal>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "colibri/io/read_board.hpp"
#include "colibri/io/read_file.hpp"

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

}  // namespace colibri::detail
