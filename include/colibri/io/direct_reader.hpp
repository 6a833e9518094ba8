// A file read past the page cache, so that no second copy of weights stays in memory.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <memory>

#include "colibri/core/buffer.hpp"
#include "colibri/core/checked.hpp"
#include "colibri/io/file_reader.hpp"

namespace colibri {

/// A regular file as a byte_source, read with direct I/O where the file system can. Elsewhere reads are buffered and
/// the pages dropped from the page cache behind them; the bytes are the same. Fast when the file offset, the address
/// and the length are multiples of `alignment` (only the length may be cut by the end of the file): such reads go
/// straight to the caller's memory. Others are rounded outwards through a buffer of 1 MiB that each call allocates.
class direct_reader final : public byte_source {
public:
    /// What direct reads want of offset, address and length: covers all common disks (512 or 4096).
    static constexpr std::size_t alignment = 4096;

    /// `allow_direct` = false: buffered, as where the file system has no direct reads. Errors: not_found, not_a_file,
    /// io.
    [[nodiscard]] static result<std::unique_ptr<direct_reader>> open(const std::filesystem::path& path,
                                                                     bool allow_direct = true) {
        auto buffered = open_for_reading(path);
        if (!buffered) return std::move(buffered).error();
        std::unique_ptr<direct_reader> out(new direct_reader(path, std::move(*buffered)));
#if defined(O_DIRECT)
        // A file system without direct reads refuses the flag here or the first read.
        if (!allow_direct) return out;
        if (auto direct = open_for_reading(path, O_DIRECT); direct && direct->size == out->buffered_.size) {
            out->direct_ = std::move(direct->handle);
            out->use_direct_.store(true, std::memory_order_relaxed);
        }
#else
        (void)allow_direct;
#endif
        return out;
    }

    [[nodiscard]] std::uint64_t size() const noexcept override { return buffered_.size; }
    [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
    /// Whether reads pass the page cache by; may turn false at the first read.
    [[nodiscard]] bool is_direct() const noexcept { return use_direct_.load(std::memory_order_relaxed); }

private:
    direct_reader(std::filesystem::path path, opened_file buffered)
        : path_(std::move(path)), buffered_(std::move(buffered)) {}

    [[nodiscard]] result<void> do_read(std::uint64_t offset, std::span<std::byte> out) override {
        if (out.empty()) return {};
        if (is_direct()) {
            bool refused = false;
            auto done = aligned(offset, out) ? read_direct(offset, out, refused) : read_rounded(offset, out, refused);
            if (!refused) return done;
            use_direct_.store(false, std::memory_order_relaxed);
        }
        auto done = detail::pread_all(buffered_.handle.get(), path_, offset, out);
#if defined(POSIX_FADV_DONTNEED)
        ::posix_fadvise(buffered_.handle.get(), static_cast<::off_t>(offset), static_cast<::off_t>(out.size()),
                        POSIX_FADV_DONTNEED);
#endif
        return done;
    }

    [[nodiscard]] bool aligned(std::uint64_t offset, std::span<std::byte> out) const noexcept {
        return offset % alignment == 0 && reinterpret_cast<std::uintptr_t>(out.data()) % alignment == 0 &&
               out.size() % alignment == 0;
    }

    /// Reads into aligned memory up to `out` or the end of the file. `refused`: the file system can't do it at all.
    [[nodiscard]] result<void> read_direct(std::uint64_t offset, std::span<std::byte> out, bool& refused) {
        constexpr std::size_t most = std::size_t{1} << 30;  // pread moves less than 2 GiB at once
        std::uint64_t left = std::min<std::uint64_t>(out.size(), buffered_.size - offset);
        while (left != 0) {
            const ::ssize_t got =
                ::pread(direct_.get(), out.data(), std::min(out.size(), most), static_cast<::off_t>(offset));
            if (got < 0) {
                if (errno == EINTR) continue;
                refused = errno == EINVAL;
                auto e = detail::system_error("read", path_, errno);
                e.offset = offset;
                return e;
            }
            const auto count = std::min(static_cast<std::uint64_t>(got), left);
            left -= count;
            if (left == 0) break;
            // A short read inside the file leaves an unaligned rest: the buffered way takes it.
            if (count == 0 || count % alignment != 0) {
                return detail::pread_all(buffered_.handle.get(), path_, offset + count,
                                         out.subspan(static_cast<std::size_t>(count), static_cast<std::size_t>(left)));
            }
            out = out.subspan(static_cast<std::size_t>(count));
            offset += count;
        }
        return {};
    }

    /// Reads whole aligned pieces around `out` and copies.
    [[nodiscard]] result<void> read_rounded(std::uint64_t offset, std::span<std::byte> out, bool& refused) {
        constexpr std::size_t piece = std::size_t{1} << 20;
        const std::size_t span = static_cast<std::size_t>(offset % alignment) + out.size();
        const std::size_t room = std::min(piece, round_up(span, alignment));
        auto memory = aligned_buffer::allocate(room + alignment);  // room to align the start
        if (!memory) return std::move(memory).error();
        const auto address = reinterpret_cast<std::uintptr_t>(memory->data());
        const std::span<std::byte> scratch(memory->data() + (alignment - address % alignment) % alignment, room);
        while (!out.empty()) {
            const auto skip = static_cast<std::size_t>(offset % alignment);
            const std::size_t now = std::min(out.size(), room - skip);
            if (auto ok = read_direct(offset - skip, scratch.first(round_up(skip + now, alignment)), refused); !ok)
                return ok;
            std::memcpy(out.data(), scratch.data() + skip, now);
            out = out.subspan(now);
            offset += now;
        }
        return {};
    }

    std::filesystem::path path_;
    opened_file buffered_;
    unique_fd direct_;
    std::atomic<bool> use_direct_{false};
};

}  // namespace colibri
