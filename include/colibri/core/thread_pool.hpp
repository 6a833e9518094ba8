// Fork-join threads for one product at a time.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <type_traits>
#include <vector>

namespace colibri {

/// A set of threads that run one loop together and wait on a futex between loops. The calling thread takes part, so a pool of
/// size 1 has no thread of its own. A worker joins a loop whenever it gets to it: one that is still asleep, or has no processor,
/// isn't waited for, so a loop lasts as long as its work. Idle workers spin for a short while (fork-join 0.08 us median on Zen 4
/// that way, 76 us with condition variables), then sleep and cost nothing. Not thread-safe: one caller at a time; loops don't nest.
class thread_pool {
public:
    /// Most threads that a pool can have.
    static constexpr unsigned max_threads = 1024;

    /// `threads` in all, the caller included; 0 counts as 1, at most max_threads. No more than `processors` of them run at
    /// once (0: as many as the system has for this process), as further ones would only take time from each other.
    /// Throws std::system_error if a thread can't be started.
    explicit thread_pool(unsigned threads, unsigned processors = 0)
        : size_(std::clamp(threads, 1u, max_threads)),
          usable_(std::min(size_, processors != 0 ? processors : std::max(1u, std::thread::hardware_concurrency()))),
          limit_(usable_) {
        workers_.reserve(usable_ - 1);
        try {
            for (unsigned id = 1; id < usable_; ++id) workers_.emplace_back([this, id] { serve(id); });
        } catch (...) {
            shut_down();
            throw;
        }
    }
    thread_pool(const thread_pool&) = delete;
    thread_pool& operator=(const thread_pool&) = delete;
    ~thread_pool() { shut_down(); }

    /// The number asked for; a worker's number is below it.
    [[nodiscard]] unsigned size() const noexcept { return size_; }

    /// From now on loops run on at most `threads` threads (of those that there are; 0 counts as 1); the others sleep.
    void use(unsigned threads) noexcept {
        threads = std::clamp(threads, 1u, usable_);
        if (threads == limit_.load(std::memory_order_relaxed)) return;
        limit_.store(threads, std::memory_order_release);
        limit_.notify_all();
    }

    /// Threads that loops run on.
    [[nodiscard]] unsigned used() const noexcept { return limit_.load(std::memory_order_relaxed); }

    /// Calls `body(begin, end, worker)` for pieces of [0, count) of at most `chunk` items, spread over the threads as they
    /// become free; returns when all are done. `body` must not throw. `worker` < used() tells which scratch to use.
    /// No allocation, no lock; the only system call is the futex of a thread that sleeps.
    template <class Body>
    void for_chunks(std::size_t count, std::size_t chunk, Body&& body) noexcept {
        if (count == 0) return;
        chunk = std::max<std::size_t>(1, chunk);
        if (limit_.load(std::memory_order_relaxed) == 1 || count <= chunk) {
            body(std::size_t{0}, count, 0u);
            return;
        }
        using body_type = std::remove_reference_t<Body>;
        job_.body = const_cast<void*>(static_cast<const void*>(&body));
        job_.call = [](void* erased, std::size_t begin, std::size_t end, unsigned worker) {
            (*static_cast<body_type*>(erased))(begin, end, worker);
        };
        job_.count = count;
        job_.chunk = chunk;
        next_.store(0, std::memory_order_relaxed);
        open();
        work(0);
        close();
    }

private:
    struct job {
        void* body = nullptr;
        void (*call)(void*, std::size_t, std::size_t, unsigned) = nullptr;
        std::size_t count = 0;
        std::size_t chunk = 1;
    };

    // gate_ is [number of the loop | open | workers inside]. Whoever is counted inside may read job_; the caller writes job_
    // when the gate is closed and nobody is inside. A worker that misses a loop, or all that the number can count, only doesn't help.
    static constexpr std::uint32_t one_inside = 1;
    static constexpr std::uint32_t is_open = 2 * max_threads;
    static constexpr std::uint32_t one_loop = 2 * is_open;
    static constexpr std::uint32_t inside_bits = is_open - 1;
    static constexpr std::uint32_t loop_bits = ~(is_open | inside_bits);

    static constexpr unsigned spin_limit = 2000;

    static void pause() noexcept {
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        asm volatile("yield");
#endif
    }

    /// Lets workers in; nobody is inside.
    void open() noexcept {
        const std::uint32_t now = gate_.load(std::memory_order_relaxed);
        gate_.store(((now & loop_bits) + one_loop) | is_open, std::memory_order_seq_cst);
        if (sleepers_.load(std::memory_order_seq_cst) != 0) gate_.notify_all();
    }

    /// Lets nobody else in and waits until those inside are done.
    void close() noexcept {
        if ((gate_.fetch_and(~is_open, std::memory_order_acq_rel) & inside_bits) == 0) return;
        for (unsigned spins = 0; spins < spin_limit; ++spins) {
            if ((gate_.load(std::memory_order_acquire) & inside_bits) == 0) return;
            pause();
        }
        caller_sleeps_.store(true, std::memory_order_seq_cst);
        for (;;) {
            const std::uint32_t seen = emptied_.load(std::memory_order_acquire);
            if ((gate_.load(std::memory_order_seq_cst) & inside_bits) == 0) break;
            emptied_.wait(seen, std::memory_order_acquire);
        }
        caller_sleeps_.store(false, std::memory_order_relaxed);
    }

    void work(unsigned id) noexcept {
        for (;;) {
            const std::size_t begin = next_.fetch_add(job_.chunk, std::memory_order_relaxed);
            if (begin >= job_.count) return;
            job_.call(job_.body, begin, std::min(job_.count, begin + job_.chunk), id);
        }
    }

    /// Takes part in the loop that `gate`, just read, stands for, if that is still open.
    void join(std::uint32_t gate, unsigned id) noexcept {
        const std::uint32_t loop = gate & loop_bits;
        while ((gate & is_open) != 0 && (gate & loop_bits) == loop) {
            if (!gate_.compare_exchange_weak(gate, gate + one_inside, std::memory_order_acquire, std::memory_order_relaxed)) continue;
            if (id < limit_.load(std::memory_order_relaxed)) work(id);  // `use` may have come in between
            const std::uint32_t left = gate_.fetch_sub(one_inside, std::memory_order_seq_cst);
            if ((left & (is_open | inside_bits)) == one_inside && caller_sleeps_.load(std::memory_order_seq_cst)) {
                emptied_.fetch_add(1, std::memory_order_release);
                emptied_.notify_one();
            }
            return;
        }
    }

    void serve(unsigned id) noexcept {
        std::uint32_t seen = 0;
        unsigned spins = 0;
        while (!stop_.load(std::memory_order_acquire)) {
            const unsigned limit = limit_.load(std::memory_order_acquire);
            if (id >= limit) {
                limit_.wait(limit, std::memory_order_acquire);
                continue;
            }
            const std::uint32_t gate = gate_.load(std::memory_order_acquire);
            if ((gate & loop_bits) != seen) {
                seen = gate & loop_bits;
                join(gate, id);
                spins = 0;
            } else if (++spins < spin_limit) {
                pause();
            } else {
                sleepers_.fetch_add(1, std::memory_order_seq_cst);
                gate_.wait(gate, std::memory_order_seq_cst);
                sleepers_.fetch_sub(1, std::memory_order_relaxed);
                spins = 0;
            }
        }
    }

    void shut_down() noexcept {
        stop_.store(true, std::memory_order_release);
        gate_.fetch_add(one_loop, std::memory_order_seq_cst);
        gate_.notify_all();
        limit_.store(max_threads + 1, std::memory_order_release);
        limit_.notify_all();
        for (auto& worker : workers_) worker.join();
    }

    unsigned size_;
    unsigned usable_;
    job job_;
    alignas(64) std::atomic<std::size_t> next_{0};
    alignas(64) std::atomic<std::uint32_t> gate_{0};
    alignas(64) std::atomic<std::uint32_t> emptied_{0};  ///< changes when the last one leaves a closed gate
    std::atomic<bool> caller_sleeps_{false};
    alignas(64) std::atomic<unsigned> limit_;
    std::atomic<std::uint32_t> sleepers_{0};
    std::atomic<bool> stop_{false};
    std::vector<std::thread> workers_;
};

}  // namespace colibri
