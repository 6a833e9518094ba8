// A file that readers share: direct reads where they are possible, and no traces in the page cache where they aren't.
#pragma once

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "colibri/io/byte_source.hpp"
#include "colibri/io/file_identity.hpp"
#include "colibri/io/file_reader.hpp"
#include "colibri/io/page_cache.hpp"
#include "colibri/io/read_job.hpp"

namespace colibri {

/// Opens a source in place of a file.
using source_opener = std::function<result<std::unique_ptr<byte_source>>(const std::filesystem::path&)>;

namespace detail {

/// How far an attempt to read got.
struct read_progress {
    std::size_t bytes = 0;
    int problem = 0;  ///< errno; 0: all of it, or the end of the file, or a place where aligned reads can't go on
};

/// Reads what the piece wants behind its first `have` bytes, by calls `read(memory, bytes, offset)` in the manner of pread(2). They
/// may fall short: it goes on from the last whole block, as long as that helps.
template <class Read>
[[nodiscard]] read_progress read_aligned(Read&& read, const read_piece& piece, std::size_t have = 0) {
    for (;;) {
        const std::size_t at = have / read_job::alignment * read_job::alignment;
        const auto got = read(piece.memory + at, piece.bytes - at, piece.offset + at);
        if (got < 0) {
            if (errno == EINTR) continue;
            return {have, errno};
        }
        const std::size_t now = at + static_cast<std::size_t>(got);
        if (now >= piece.wanted) return {piece.wanted, 0};
        if (now <= have) return {have, 0};
        have = now;
    }
}

/// Descriptors stay open, so that a file that loses its name goes on being read. Reads are const and thread-safe.
class read_file {
public:
    /// `allow_direct` = false: buffered, as where the file system has no direct reads. Errors: not_found, not_a_file, io.
    [[nodiscard]] static result<read_file> open(const std::filesystem::path& path, bool allow_direct,
                                                const source_opener& opener) {
        read_file out;
        out.path_ = path;
        if (opener) {
            auto source = opener(path);
            if (!source) return std::move(source).error();
            out.source_ = std::move(*source);
            out.before_.size = out.source_->size();
            return out;
        }
        auto buffered = open_for_reading(path);
        if (!buffered) return std::move(buffered).error();
        out.buffered_ = std::move(buffered->handle);
        auto identity = identity_of(out.buffered_.get(), path);
        if (!identity) return std::move(identity).error();
        out.before_ = *identity;
        if (allow_direct) out.open_direct();
        if (!out.direct_.is_open()) out.prepare_buffered();
        return out;
    }

    [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
    /// Bytes when it was opened.
    [[nodiscard]] std::uint64_t size() const noexcept { return before_.size; }
    [[nodiscard]] bool is_direct() const noexcept { return direct_.is_open(); }
    /// What asynchronous reads should use.
    [[nodiscard]] int descriptor() const noexcept { return is_direct() ? direct_.get() : buffered_.get(); }

    /// Reads at least what the piece wants, which the file had when it was opened. Errors: truncated (it became shorter), io, both
    /// with the offset.
    [[nodiscard]] result<void> read(const read_piece& piece) const { return read(piece, 0); }

    /// The same after the first `have` bytes.
    [[nodiscard]] result<void> read(const read_piece& piece, std::size_t have) const {
        if (source_) {
            auto done = source_->read_at(piece.offset, {piece.memory, piece.wanted});
            if (!done) {
                if (done.error().offset == error::no_offset) done.error().offset = piece.offset;
                if (done.error().context.empty()) done.error().context = quoted(path_.string());
            }
            return done;
        }
        if (is_direct()) {
            const auto read_direct = [&](std::byte* to, std::size_t count, std::uint64_t from) {
                return ::pread(direct_.get(), to, count, static_cast<::off_t>(from));
            };
            const auto progress = read_aligned(read_direct, piece, have);
            have = progress.bytes;
            if (progress.problem != 0 && progress.problem != EINVAL) return read_error(piece.offset + have, progress.problem);
        }
        if (have == piece.wanted) return {};
        auto done = pread_all(buffered_.get(), path_, piece.offset + have, {piece.memory + have, piece.wanted - have});
        forget(piece);
        return done;
    }

    [[nodiscard]] error read_error(std::uint64_t offset, int number) const {
        auto out = system_error("read", path_, number);
        out.offset = offset;
        return out;
    }

    /// After a buffered read: drops the pages that weren't in the page cache when the file was opened.
    void forget(const read_piece& piece) const {
#if defined(POSIX_FADV_DONTNEED)
        if (cached_.ranges().empty()) return;
        std::vector<cache_range> parts;
        cached_.split(piece.offset, piece.offset + piece.bytes, 0, parts);
        for (const auto& part : parts) {
            if (part.cached) continue;
            ::posix_fadvise(buffered_.get(), static_cast<::off_t>(part.begin), static_cast<::off_t>(part.end - part.begin),
                            POSIX_FADV_DONTNEED);
        }
#else
        (void)piece;
#endif
    }

    /// Errors: truncated, io.
    [[nodiscard]] result<void> check_unchanged() const {
        if (source_) {
            auto now = before_;
            now.size = source_->size();
            return same_file(path_, before_, now);
        }
        auto now = identity_of(buffered_.get(), path_);
        if (!now) return std::move(now).error();
        return same_file(path_, before_, *now);
    }

private:
    read_file() = default;

    void open_direct() {
#if defined(O_DIRECT)
        auto direct = open_for_reading(path_, O_DIRECT);
        if (!direct) return;
        const auto identity = identity_of(direct->handle.get(), path_);
        if (!identity || *identity != before_) return;  // another file took its name in between
        // Where direct reads are refused, either the flag is or the first read.
        alignas(read_job::alignment) std::byte block[read_job::alignment];
        ::ssize_t got = 0;
        do {
            got = ::pread(direct->handle.get(), block, sizeof block, 0);
        } while (got < 0 && errno == EINTR);
        if (got < 0 && errno == EINVAL) return;
        direct_ = std::move(direct->handle);
#endif
    }

    void prepare_buffered() {
#if defined(POSIX_FADV_RANDOM)
        // Requests are large; what the kernel reads ahead of them would stay in the page cache at the end.
        ::posix_fadvise(buffered_.get(), 0, 0, POSIX_FADV_RANDOM);
#endif
        if (auto mapped = mapped_file::open(path_)) cached_ = page_cache_state::of(*mapped);
    }

    std::filesystem::path path_;
    std::unique_ptr<byte_source> source_;
    unique_fd buffered_;
    unique_fd direct_;
    file_identity before_;
    page_cache_state cached_;  // only where reads are buffered
};

}  // namespace detail

}  // namespace colibri
