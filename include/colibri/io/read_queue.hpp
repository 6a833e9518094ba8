// Reads in the background, as fast as the disk can: what streamed weights come through.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "colibri/core/buffer.hpp"
#include "colibri/io/read_backend.hpp"

namespace colibri {

/// How a read_queue reads. automatic: by threads, unless io_uring is there and a probe of at most 150 ms on the largest file, if that is
/// 256 MiB or more, finds it faster by 5 %.
enum class read_backend_kind : std::uint8_t { automatic, threads, io_uring };

struct read_queue_options {
    read_backend_kind backend = read_backend_kind::automatic;
    unsigned threads = 0;                            ///< reader threads, or requests in flight of io_uring; 0: chosen
    std::size_t request = std::size_t{1} << 20;      ///< most bytes asked from the kernel at once, rounded up to 4096
    bool allow_direct = true;                        ///< false: buffered, as where the file system has no direct reads
    source_opener open = {};                         ///< opens other sources in place of the files; these are read by threads
};

/// Reads jobs from some files in the order in which they were submitted (urgent ones first), cut into requests so that one job is enough to keep
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

    /// Threads when the user names no number. Medians of 12 rounds of 128 MiB in jobs of 4 MiB on a shared virtual disk, two processors
    /// computing beside it: 1.8, 1.9, 3.1 and 1.5 GB/s by 1, 2, 4 and 8 threads. Requests of 1 MiB: one job of 4 MiB at a time reaches
    /// 2.3, 2.8, 3.2 and 3.3 GB/s in requests of 128 and 256 KiB, 1 and 4 MiB there; the largest leave one reader at work.
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

    [[nodiscard]] static bool ring_is_faster(const file_list& files, const options& wanted);

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

namespace detail {

/// Reads stretches of files for the sake of measuring, always with the same number of jobs in flight.
class stretch_reader {
public:
    /// `jobs` in flight of `bytes` (a multiple of read_job::alignment) each. Errors: out_of_memory.
    [[nodiscard]] static result<stretch_reader> create(std::size_t jobs, std::size_t bytes) {
        stretch_reader out;
        auto memory = aligned_buffer::allocate(jobs * bytes + read_job::alignment);
        if (!memory) return std::move(memory).error();
        out.memory_ = std::move(*memory);
        const auto address = reinterpret_cast<std::uintptr_t>(out.memory_.data());
        std::byte* at = out.memory_.data() + (read_job::alignment - address % read_job::alignment) % read_job::alignment;
        out.jobs_ = std::make_unique<read_job[]>(jobs);
        out.count_ = jobs;
        out.bytes_ = bytes;
        for (std::size_t i = 0; i < jobs; ++i) out.jobs_[i].memory = at + i * bytes;
        return out;
    }

    /// Reads [begin, begin + bytes) and tells the seconds that took; begin is aligned. Errors: those of read_queue::wait; nothing is
    /// in flight then either.
    [[nodiscard]] result<double> read(read_queue& queue, std::uint32_t file, std::uint64_t begin, std::uint64_t bytes,
                                      const cancel_flag* cancel = nullptr) {
        using clock = std::chrono::steady_clock;
        const auto start = clock::now();
        const std::uint64_t pieces = (bytes + bytes_ - 1) / bytes_;
        for (std::uint64_t i = 0; i < pieces + count_; ++i) {
            read_job& job = jobs_[i % count_];
            if (i >= count_ && i - count_ < pieces) {
                if (auto ok = queue.wait(job, cancel); !ok) {
                    queue.abandon();
                    queue.drain();
                    return std::move(ok).error();
                }
            }
            if (i >= pieces) continue;
            job.file = file;
            job.offset = begin + i * bytes_;
            job.bytes = static_cast<std::size_t>(std::min<std::uint64_t>(bytes_, bytes - i * bytes_));
            queue.submit(job);
        }
        return std::chrono::duration<double>(clock::now() - start).count();
    }

private:
    stretch_reader() = default;

    aligned_buffer memory_;
    std::unique_ptr<read_job[]> jobs_;
    std::size_t count_ = 0;
    std::size_t bytes_ = 0;
};

}  // namespace detail

/// Both ways in turn, on parts of the largest file that lie apart. Disks vary by more than the 5 % (shared ones by 100 %), so that io_uring
/// has to win each round too.
inline bool read_queue::ring_is_faster(const file_list& files, const options& wanted) {
    using clock = std::chrono::steady_clock;
    constexpr std::uint64_t stretch = std::uint64_t{8} << 20;
    constexpr unsigned rounds = 4;
    const auto start_time = clock::now();
    const auto seconds = [&] { return std::chrono::duration<double>(clock::now() - start_time).count(); };
    const auto largest = std::max_element(files->begin(), files->end(),
                                          [](const auto& a, const auto& b) { return a.size() < b.size(); });
    if (largest == files->end() || largest->size() < (std::uint64_t{256} << 20) || !largest->is_direct()) return false;
    const auto file = static_cast<std::uint32_t>(largest - files->begin());
    auto ring = start(files, backend::io_uring, wanted);
    if (!ring) return false;
    auto threads = start(files, backend::threads, wanted);
    auto reader = detail::stretch_reader::create(4, std::size_t{2} << 20);
    if (!threads || !reader) return false;
    // Where this takes so long, the disk is slow and one way is as good as the other.
    const auto first = reader->read(**ring, file, 0, std::uint64_t{1} << 20);
    if (!first || *first > 0.02) return false;
    double by_threads = 0.0;
    double by_ring = 0.0;
    for (unsigned round = 0; round < 2 * rounds; round += 2) {
        double times[2] = {};
        for (unsigned turn = 0; turn < 2; ++turn) {
            const unsigned who = (turn + round / 2) % 2;
            const std::uint64_t at = largest->size() / (2 * rounds + 1) * (round + turn + 1);
            const auto took = reader->read(who == 0 ? **threads : **ring, file, at / read_job::alignment * read_job::alignment, stretch);
            if (!took || seconds() > 0.14) return false;
            times[who] = *took;
        }
        if (times[1] >= times[0]) return false;
        by_threads += times[0];
        by_ring += times[1];
    }
    return by_ring * 1.05 <= by_threads;
}

inline result<std::unique_ptr<read_queue>> read_queue::open(const std::vector<std::filesystem::path>& files,
                                                            const options& wanted) {
    auto list = std::make_shared<std::vector<detail::read_file>>();
    list->reserve(files.size());
    for (const auto& path : files) {
        auto file = detail::read_file::open(path, wanted.allow_direct, wanted.open);
        if (!file) return std::move(file).error();
        list->push_back(std::move(*file));
    }
    file_list shared = std::move(list);
    auto how = wanted.open ? backend::threads : wanted.backend;  // a source of the caller's is read by calling it
    if (how == backend::automatic) how = ring_is_faster(shared, wanted) ? backend::io_uring : backend::threads;
    return start(std::move(shared), how, wanted);
}

}  // namespace colibri
