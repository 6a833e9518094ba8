// Bytes that can be read at any position: the interface, and memory as a source.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "colibri/core/error.hpp"

namespace colibri {

/// Something of a fixed size that is read at positions. Reads from several threads at once are fine.
class byte_source {
public:
    byte_source() = default;
    byte_source(const byte_source&) = delete;
    byte_source& operator=(const byte_source&) = delete;
    virtual ~byte_source() = default;

    /// Bytes in all, as found when the source was opened.
    [[nodiscard]] virtual std::uint64_t size() const noexcept = 0;

    /// Fills all of `out` from byte `offset` on. Errors: truncated (past the end), io.
    [[nodiscard]] result<void> read_at(std::uint64_t offset, std::span<std::byte> out) {
        if (offset > size() || out.size() > size() - offset) {
            return error{errc::truncated,
                         concat("needs ", out.size(), " bytes, but the file has only ", size(), " in all"), offset};
        }
        auto done = do_read(offset, out);
        if (done) bytes_read_.fetch_add(out.size(), std::memory_order_relaxed);
        return done;
    }

    /// Bytes handed out by `read_at` so far.
    [[nodiscard]] std::uint64_t bytes_read() const noexcept { return bytes_read_.load(std::memory_order_relaxed); }

private:
    /// `read_at` after the range has been checked.
    [[nodiscard]] virtual result<void> do_read(std::uint64_t offset, std::span<std::byte> out) = 0;

    std::atomic<std::uint64_t> bytes_read_{0};
};

/// Bytes in memory that somebody else owns and keeps alive.
class memory_source final : public byte_source {
public:
    explicit memory_source(std::span<const std::byte> bytes) noexcept : bytes_(bytes) {}
    [[nodiscard]] std::uint64_t size() const noexcept override { return bytes_.size(); }

private:
    [[nodiscard]] result<void> do_read(std::uint64_t offset, std::span<std::byte> out) override {
        if (!out.empty()) std::memcpy(out.data(), bytes_.data() + offset, out.size());
        return {};
    }

    std::span<const std::byte> bytes_;
};

}  // namespace colibri
