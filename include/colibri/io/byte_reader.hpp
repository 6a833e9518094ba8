// Little-endian values read one behind the other, from memory or from a source, never past the end.
#pragma once

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "colibri/io/byte_source.hpp"

namespace colibri {

namespace detail {

/// The error of a read that wants `wanted` bytes where `left` are left.
[[nodiscard]] inline error ends_inside(std::string_view what, std::uint64_t wanted, std::uint64_t left,
                                       std::uint64_t offset) {
    return error{errc::truncated,
                 concat("the file ends inside ", what, ": ", wanted, wanted == 1 ? " byte is" : " bytes are",
                        " needed, ", left, left == 1 ? " is left" : " are left"),
                 offset};
}

}  // namespace detail

/// Reads a span of bytes from front to back. `what` names the thing read in errors; offsets in errors count from
/// `base`. Doesn't own the bytes; no allocation unless an error is made.
class byte_reader {
public:
    explicit byte_reader(std::span<const std::byte> bytes, std::uint64_t base = 0) noexcept
        : bytes_(bytes), base_(base) {}

    [[nodiscard]] std::uint64_t offset() const noexcept { return base_ + position_; }
    [[nodiscard]] std::uint64_t remaining() const noexcept { return bytes_.size() - position_; }

    /// The next number. Errors: truncated.
    template <class T>
    requires std::is_arithmetic_v<T>
    [[nodiscard]] result<T> read(std::string_view what) {
        if (sizeof(T) > remaining()) return detail::ends_inside(what, sizeof(T), remaining(), offset());
        T out{};
        std::memcpy(&out, bytes_.data() + position_, sizeof(T));
        position_ += sizeof(T);
        return out;
    }

    /// The next number into `out`; false and nothing taken if it isn't there. For loops over many small things.
    template <class T>
    requires std::is_arithmetic_v<T>
    [[nodiscard]] bool take(T& out) noexcept {
        if (sizeof(T) > remaining()) return false;
        std::memcpy(&out, bytes_.data() + position_, sizeof(T));
        position_ += sizeof(T);
        return true;
    }
    /// Appends the next `count` bytes to `out`; false and nothing taken if they aren't there.
    [[nodiscard]] bool take(std::string& out, std::uint64_t count) {
        if (count > remaining()) return false;
        out.append(reinterpret_cast<const char*>(bytes_.data()) + position_, static_cast<std::size_t>(count));
        position_ += static_cast<std::size_t>(count);
        return true;
    }

    /// Whether `count` more bytes can be read. Errors: truncated.
    [[nodiscard]] result<void> need(std::uint64_t count, std::string_view what) const {
        if (count > remaining()) return detail::ends_inside(what, count, remaining(), offset());
        return {};
    }

    /// The next `count` bytes, still inside the span. Errors: truncated.
    [[nodiscard]] result<std::span<const std::byte>> bytes(std::uint64_t count, std::string_view what) {
        if (count > remaining()) return detail::ends_inside(what, count, remaining(), offset());
        const auto out = bytes_.subspan(position_, static_cast<std::size_t>(count));
        position_ += static_cast<std::size_t>(count);
        return out;
    }

    /// The next `count` bytes as text, still inside the span. Errors: truncated.
    [[nodiscard]] result<std::string_view> text(std::uint64_t count, std::string_view what) {
        auto got = bytes(count, what);
        if (!got) return std::move(got).error();
        return std::string_view(reinterpret_cast<const char*>(got->data()), got->size());
    }

    /// Appends the next `count` bytes to `out`. Errors: truncated.
    [[nodiscard]] result<void> append(std::string& out, std::uint64_t count, std::string_view what) {
        auto got = text(count, what);
        if (!got) return std::move(got).error();
        out += *got;
        return {};
    }

private:
    std::span<const std::byte> bytes_;
    std::size_t position_ = 0;
    std::uint64_t base_ = 0;
};

/// Reads a byte_source from front to back through a window of 64 KiB. A count that the source can't hold is refused
/// before anything is allocated for it; reading past `limit` is refused too, for structures whose size only their own
/// bytes tell.
class source_reader {
public:
    explicit source_reader(byte_source& source,
                           std::uint64_t limit = std::numeric_limits<std::uint64_t>::max()) noexcept
        : source_(&source), limit_(limit) {}

    [[nodiscard]] std::uint64_t size() const noexcept { return source_->size(); }
    [[nodiscard]] std::uint64_t offset() const noexcept { return position_; }
    [[nodiscard]] std::uint64_t remaining() const noexcept { return source_->size() - position_; }

    /// The next number. Errors: truncated, limit, io.
    template <class T>
    requires std::is_arithmetic_v<T>
    [[nodiscard]] result<T> read(std::string_view what) {
        if (auto ok = need(sizeof(T), what); !ok) return std::move(ok).error();
        if (sizeof(T) > window_end_ - position_) {
            if (auto ok = fill(); !ok) return std::move(ok).error();
        }
        T out{};
        std::memcpy(&out, at_position(), sizeof(T));
        position_ += sizeof(T);
        return out;
    }

    /// Appends the next `count` bytes to `out`. Errors: truncated, limit, io.
    [[nodiscard]] result<void> append(std::string& out, std::uint64_t count, std::string_view what) {
        if (auto ok = need(count, what); !ok) return ok;
        while (count != 0) {
            if (window_end_ == position_) {
                if (auto ok = fill(); !ok) return ok;
            }
            const std::uint64_t now = std::min(count, window_end_ - position_);
            out.append(reinterpret_cast<const char*>(at_position()), static_cast<std::size_t>(now));
            position_ += now;
            count -= now;
        }
        return {};
    }

    /// The next number into `out` if the window has it; false and nothing taken otherwise: `read` knows more.
    template <class T>
    requires std::is_arithmetic_v<T>
    [[nodiscard]] bool take(T& out) noexcept {
        if (sizeof(T) > window_end_ - position_ || position_ + sizeof(T) > limit_) return false;
        std::memcpy(&out, at_position(), sizeof(T));
        position_ += sizeof(T);
        return true;
    }
    /// Appends the next `count` bytes to `out` if the window has them; false and nothing taken otherwise.
    [[nodiscard]] bool take(std::string& out, std::uint64_t count) {
        if (count > window_end_ - position_ || position_ + count > limit_) return false;
        out.append(reinterpret_cast<const char*>(at_position()), static_cast<std::size_t>(count));
        position_ += count;
        return true;
    }

    /// Whether `count` more bytes can be read. Errors: truncated, limit.
    [[nodiscard]] result<void> need(std::uint64_t count, std::string_view what) const {
        if (count > remaining()) return detail::ends_inside(what, count, remaining(), position_);
        if (count > limit_ || position_ > limit_ - count) {
            return error{errc::limit, concat(what, " goes past the limit of ", limit_, " bytes for a header"),
                         position_};
        }
        return {};
    }

private:
    [[nodiscard]] const std::byte* at_position() const noexcept { return window_.data() + (position_ - window_begin_); }

    /// Makes the window begin at the position.
    [[nodiscard]] result<void> fill() {
        constexpr std::uint64_t window_size = 64 * 1024;
        const std::uint64_t size = std::min(window_size, remaining());
        window_.resize(static_cast<std::size_t>(size));
        if (auto ok = source_->read_at(position_, window_); !ok) return ok;
        window_begin_ = position_;
        window_end_ = position_ + size;
        return {};
    }

    byte_source* source_;
    std::uint64_t limit_;
    std::uint64_t position_ = 0;
    std::uint64_t window_begin_ = 0;
    std::uint64_t window_end_ = 0;
    std::vector<std::byte> window_;
};

}  // namespace colibri
