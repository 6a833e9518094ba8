// A flag that a signal handler or another thread sets to stop work.
#pragma once

#include <atomic>

namespace colibri {

/// Set once, seen by all holders of a pointer to it. `request` is safe in a signal handler (lock-free atomic).
class cancel_flag {
public:
    void request() noexcept { set_.store(true, std::memory_order_relaxed); }
    void reset() noexcept { set_.store(false, std::memory_order_relaxed); }
    [[nodiscard]] bool requested() const noexcept { return set_.load(std::memory_order_relaxed); }

private:
    std::atomic<bool> set_{false};
    static_assert(std::atomic<bool>::is_always_lock_free);
};

}  // namespace colibri
