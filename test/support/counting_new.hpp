// Replaces the global operator new by one that counts, so that a test can say how much memory something took at most.
// To be included by exactly one source file of a test program.
#pragma once

#include <malloc.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace counting {

inline std::atomic<std::size_t> now{0};     ///< bytes held
inline std::atomic<std::size_t> peak{0};    ///< most bytes held since `restart`
inline std::atomic<std::size_t> blocks{0};  ///< blocks taken since `restart`

inline void restart() {
    peak = now.load();
    blocks = 0;
}

inline void* take(std::size_t size) noexcept {
    void* const block = std::malloc(size == 0 ? 1 : size);
    if (block == nullptr) return nullptr;
    const std::size_t held = now.fetch_add(::malloc_usable_size(block)) + ::malloc_usable_size(block);
    std::size_t most = peak.load();
    while (held > most && !peak.compare_exchange_weak(most, held)) {
    }
    ++blocks;
    return block;
}

inline void* take_or_throw(std::size_t size) {
    void* const block = take(size);
    if (block == nullptr) throw std::bad_alloc();
    return block;
}

inline void give(void* block) noexcept {
    if (block == nullptr) return;
    now.fetch_sub(::malloc_usable_size(block));
    std::free(block);
}

}  // namespace counting

void* operator new(std::size_t size) { return counting::take_or_throw(size); }
void* operator new[](std::size_t size) { return counting::take_or_throw(size); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return counting::take(size); }
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept { return counting::take(size); }
void operator delete(void* block) noexcept { counting::give(block); }
void operator delete[](void* block) noexcept { counting::give(block); }
void operator delete(void* block, std::size_t) noexcept { counting::give(block); }
void operator delete[](void* block, std::size_t) noexcept { counting::give(block); }
