// A file mapped read-only into memory.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <utility>

#include "colibri/io/file_handle.hpp"

namespace colibri {

/// How mapped bytes will be used; a wish that the kernel may ignore.
enum class access_hint : std::uint8_t { normal, sequential, random, will_need, dont_need };

/// A regular file's bytes, mapped and shared with the page cache. Move-only; the bytes don't move. Copy the file
/// instead of mapping it when somebody might shorten it meanwhile: touching pages that are gone kills the process
/// (SIGBUS).
class mapped_file {
public:
    mapped_file() = default;
    mapped_file(mapped_file&& other) noexcept
        : path_(std::move(other.path_)),
          data_(std::exchange(other.data_, nullptr)),
          size_(std::exchange(other.size_, 0)) {}
    mapped_file& operator=(mapped_file&& other) noexcept {
        if (this != &other) {
            unmap();
            path_ = std::move(other.path_);
            data_ = std::exchange(other.data_, nullptr);
            size_ = std::exchange(other.size_, 0);
        }
        return *this;
    }
    ~mapped_file() { unmap(); }

    /// Maps all of a regular file; an empty file gives no bytes. Errors: not_found, not_a_file, io, out_of_memory.
    [[nodiscard]] static result<mapped_file> open(const std::filesystem::path& path) {
        auto opened = open_for_reading(path);
        if (!opened) return std::move(opened).error();
        mapped_file out;
        out.path_ = path;
        if (opened->size == 0) return out;
        if (opened->size > static_cast<std::uint64_t>(PTRDIFF_MAX)) return detail::system_error("map", path, ENOMEM);
        const auto size = static_cast<std::size_t>(opened->size);
        void* const data = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, opened->handle.get(), 0);
        if (data == MAP_FAILED) return detail::system_error("map", path, errno);
        out.data_ = static_cast<const std::byte*>(data);
        out.size_ = size;
        return out;
    }

    [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return {data_, size_}; }
    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

    /// Tells the kernel how [offset, offset + length) will be used, widened to whole pages (`dont_need`: narrowed to
    /// them).
    void advise(access_hint hint, std::size_t offset = 0, std::size_t length = SIZE_MAX) const noexcept {
        if (data_ == nullptr || offset >= size_) return;
        length = std::min(length, size_ - offset);
        const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
        const bool inner = hint == access_hint::dont_need;
        const std::size_t begin = (inner ? offset + page - 1 : offset) / page * page;
        const bool to_end = offset + length == size_;
        const std::size_t end = inner && !to_end ? (offset + length) / page * page : offset + length;
        if (begin >= end) return;
        const int advice = hint == access_hint::sequential  ? MADV_SEQUENTIAL
                           : hint == access_hint::random    ? MADV_RANDOM
                           : hint == access_hint::will_need ? MADV_WILLNEED
                           : hint == access_hint::dont_need ? MADV_DONTNEED
                                                            : MADV_NORMAL;
        ::madvise(const_cast<std::byte*>(data_) + begin, end - begin, advice);
    }

private:
    void unmap() noexcept {
        if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
        data_ = nullptr;
    }

    std::filesystem::path path_;
    const std::byte* data_ = nullptr;
    std::size_t size_ = 0;
};

}  // namespace colibri
