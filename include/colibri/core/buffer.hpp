// Aligned memory that never throws on allocation failure in the middle of work.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <span>
#include <utility>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "colibri/core/error.hpp"

namespace colibri {

/// Owning block of zeroed bytes, aligned to 64 (to 2 MiB, with huge pages asked for, from 4 MiB on: one core reads DRAM at
/// 32 instead of 26 GB/s with them on Zen 4). Move-only. Memory is taken from the kernel lazily.
class aligned_buffer {
public:
    aligned_buffer() = default;
    aligned_buffer(aligned_buffer&& other) noexcept
        : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)), mapped_(other.mapped_) {}
    aligned_buffer& operator=(aligned_buffer&& other) noexcept {
        if (this != &other) {
            release();
            data_ = std::exchange(other.data_, nullptr);
            size_ = std::exchange(other.size_, 0);
            mapped_ = other.mapped_;
        }
        return *this;
    }
    ~aligned_buffer() { release(); }

    /// `bytes` zeroed bytes. Errors: out_of_memory.
    [[nodiscard]] static result<aligned_buffer> allocate(std::size_t bytes) {
        aligned_buffer out;
        if (bytes == 0) return out;
        constexpr std::size_t huge = std::size_t{2} << 20;
        const auto fail = [&] {
            return error{errc::out_of_memory, concat("could not get ", bytes, " bytes of memory")};
        };
        if (bytes > ~std::size_t{0} - 2 * huge) return fail();
#if defined(__linux__)
        if (bytes >= 2 * huge) {
            const std::size_t rounded = (bytes + huge - 1) / huge * huge;
            void* whole = ::mmap(nullptr, rounded + huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (whole == MAP_FAILED) return fail();
            auto* begin = static_cast<std::byte*>(whole);
            const auto address = reinterpret_cast<std::uintptr_t>(begin);
            const std::size_t head = (huge - address % huge) % huge;
            if (head != 0) ::munmap(begin, head);
            if (head != huge) ::munmap(begin + head + rounded, huge - head);
            ::madvise(begin + head, rounded, MADV_HUGEPAGE);
            out.data_ = begin + head;
            out.size_ = bytes;
            out.mapped_ = rounded;
            return out;
        }
#endif
        const std::size_t rounded = (bytes + 63) / 64 * 64;
        void* block = std::aligned_alloc(64, rounded);
        if (block == nullptr) return fail();
        std::memset(block, 0, rounded);
        out.data_ = static_cast<std::byte*>(block);
        out.size_ = bytes;
        return out;
    }

    [[nodiscard]] std::byte* data() noexcept { return data_; }
    [[nodiscard]] const std::byte* data() const noexcept { return data_; }
    [[nodiscard]] std::size_t size() const noexcept { return size_; }

    /// The bytes as an array of T (trivial types only); size is size() / sizeof(T).
    template <class T>
    [[nodiscard]] std::span<T> as() noexcept {
        return {reinterpret_cast<T*>(data_), size_ / sizeof(T)};
    }
    template <class T>
    [[nodiscard]] std::span<const T> as() const noexcept {
        return {reinterpret_cast<const T*>(data_), size_ / sizeof(T)};
    }

private:
    void release() noexcept {
        if (data_ == nullptr) return;
#if defined(__linux__)
        if (mapped_ != 0) {
            ::munmap(data_, mapped_);
            data_ = nullptr;
            return;
        }
#endif
        std::free(data_);
        data_ = nullptr;
    }

    std::byte* data_ = nullptr;
    std::size_t size_ = 0;
    std::size_t mapped_ = 0;
};

}  // namespace colibri
