// Reads in the background, as fast as the disk can: what streamed weights come through.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "colibri/io/read_backend.hpp"

namespace colibri {

/// How a read_queue reads.
enum class read_backend_kind : std::uint8_t { automatic, threads, io_uring };

struct read_queue_options {
    read_backend_kind backend = read_backend_kind::automatic;
    unsigned threads = 0;                            ///< reader threads, or requests in flight of io_uring; 0: chosen
    std::size_t request = std::size_t{1} << 20;      ///< most bytes asked from the kernel at once, rounded up to 4096
    bool allow_direct = true;                        ///< false: buffered, as where the file system has no direct reads
    source_opener open = {};                         ///< opens other sources in place of the files; these are read by threads
};

/// Reads jobs from some files in the order in which they were submitted, cut into requests so that one job is enough to keep
/// the disk busy. Reads pass the page cache by (O_DIRECT) where the file system allows that; elsewhere pages that weren't cached
/// when the queue was opened are dropped behind the reads. Files stay open: one that is removed or renamed goes on being read.
/// One thread submits and waits. Nothing is allocated but the text of errors; the consumer never waits for the disk but in
/// `wait`, `wait_any` and `drain`. Readers sleep while there is nothing to do.
class read_queue {
public:
    using options = read_queue_options;
    using backend = read_backend_kind;
    using statistics = read_statistics;

    /// Errors: not_found, not_a_file, io, limit (no threads), unsupported (io_uring was asked for and isn't there).
    [[nodiscard]] static result<std::unique_ptr<read_queue>> open(const std::vector<std::filesystem::path>& files,
                                                                  const options& wanted = {});

    read_queue(const read_queue&) = delete;
    read_queue& operator=(const read_queue&) = delete;
    /// Gives up what hasn't begun and waits for the rest.
    ~read_queue() {
        abandon();
        drain();
    }

    /// Bytes of memory that a read needs; the wanted ones lie in it from `offset` % 4096 on.
    [[nodiscard]] static constexpr std::size_t room(std::uint64_t offset, std::size_t bytes) noexcept {
        return read_job::room(offset, bytes);
    }

    /// Begins a job, which isn't pending already. One that asks for what the file didn't have at opening finishes at once
    /// with an error (truncated; invalid_argument where it makes no sense at all).
    void submit(read_job& job) {
        if (auto ok = check(job); !ok) return board_.refuse(job, std::move(ok).error());
        board_.submit(job);
        readers_->submitted();
    }

    /// Whether a job is finished, well or not. No system call.
    [[nodiscard]] bool finished(const read_job& job) const noexcept { return job.finished(); }

    /// Waits until the job is finished; no system call if it is. Errors: the job's (truncated or io, with the offset in the
    /// file; canceled after `abandon`); canceled also when `cancel`, looked at each 25 ms, says so: then the job and its memory are
    /// still in use until `drain`.
    [[nodiscard]] result<void> wait(read_job& job, const cancel_flag* cancel = nullptr) { return board_.wait(job, cancel); }

    /// Waits until one of the jobs is finished, well or not, and tells which (the first in the list, if several are). Jobs that
    /// were never submitted are passed over. Errors: canceled, invalid_argument (no job was submitted).
    [[nodiscard]] result<std::size_t> wait_any(std::span<read_job* const> jobs, const cancel_flag* cancel = nullptr) {
        return board_.wait_any(jobs, cancel);
    }

    /// Drops what no reader has begun; jobs that this cuts short end as canceled, once their begun requests are done.
    void abandon() { board_.abandon(); }

    /// Waits until all jobs are finished.
    void drain() { board_.drain(); }

    /// What was done so far. May be called from any thread.
    [[nodiscard]] statistics stats() const { return board_.statistics(); }

    /// Whether the files still are what they were at opening. One system call for each. Errors: truncated, io.
    [[nodiscard]] result<void> check_unchanged() const {
        for (const auto& file : *files_) {
            if (auto ok = file.check_unchanged(); !ok) return ok;
        }
        return {};
    }

    /// Bytes of a file when it was opened.
    [[nodiscard]] std::uint64_t size(std::size_t file) const noexcept { return (*files_)[file].size(); }
    /// Whether all files are read past the page cache.
    [[nodiscard]] bool is_direct() const noexcept {
        return std::all_of(files_->begin(), files_->end(), [](const auto& file) { return file.is_direct(); });
    }
    /// Who reads: "threads" or "io_uring".
    [[nodiscard]] const char* name() const noexcept { return name_; }

private:
    using file_list = std::shared_ptr<const std::vector<detail::read_file>>;

    /// Threads when the user names no number.
    static constexpr unsigned usual_threads = 4;
    /// Requests that io_uring has in flight.
    static constexpr unsigned uring_depth = 8;

    read_queue(file_list files, std::size_t request) : files_(std::move(files)), board_(request) {}

    [[nodiscard]] static result<std::unique_ptr<read_queue>> start(file_list files, backend how, const options& wanted) {
        constexpr std::size_t most = std::size_t{1} << 30;
        const std::size_t request = round_up(std::clamp(wanted.request, read_job::alignment, most), read_job::alignment);
        std::unique_ptr<read_queue> out(new read_queue(std::move(files), request));
        const bool ring = how == backend::io_uring;
        const unsigned at_once = wanted.threads == 0 ? (ring ? uring_depth : usual_threads) : std::min(wanted.threads, 64u);
        auto readers = ring ? detail::uring_backend::start(out->board_, *out->files_, at_once)
                            : detail::thread_backend::start(out->board_, *out->files_, at_once);
        if (!readers) return std::move(readers).error();
        out->name_ = ring ? "io_uring" : "threads";
        out->readers_ = std::move(*readers);
        return out;
    }

    [[nodiscard]] result<void> check(const read_job& job) const {
        if (job.file >= files_->size() || job.bytes == 0 || job.memory == nullptr ||
            reinterpret_cast<std::uintptr_t>(job.memory) % read_job::alignment != 0) {
            return error{errc::invalid_argument,
                         concat("a read needs a file, at least one byte, and memory aligned to ", read_job::alignment)};
        }
        const auto& file = (*files_)[job.file];
        if (job.offset > file.size() || job.bytes > file.size() - job.offset) {
            return error{errc::truncated,
                         concat(quoted(file.path().string()), " has only ", file.size(), " bytes, but ", job.bytes,
                                " more are needed"),
                         job.offset};
        }
        return {};
    }

    file_list files_;
    detail::read_board board_;
    std::unique_ptr<detail::read_backend> readers_;  // goes first: it uses the others
    const char* name_ = "threads";
};

inline result<std::unique_ptr<read_queue>> read_queue::open(const std::vector<std::filesystem::path>& files,
                                                            const options& wanted) {
    auto list = std::make_shared<std::vector<detail::read_file>>();
    list->reserve(files.size());
    for (const auto& path : files) {
        auto file = detail::read_file::open(path, wanted.allow_direct, wanted.open);
        if (!file) return std::move(file).error();
        list->push_back(std::move(*file));
    }
    // A source of the caller's is read by calling it.
    const auto how = wanted.open ? read_backend_kind::threads : wanted.backend;
    return start(std::move(list), how, wanted);
}

}  // namespace colibri
