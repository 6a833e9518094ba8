// Where a consumer pins up its reads and readers take them from.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "colibri/core/cancel.hpp"
#include "colibri/io/read_job.hpp"

namespace colibri {

/// What a queue has done so far.
struct read_statistics {
    std::uint64_t bytes_read = 0;  ///< as asked from the kernel: with what reads are widened by
    std::uint64_t jobs = 0;        ///< jobs finished, well or not
    double wait_seconds = 0.0;     ///< time that the consumer slept until something was finished
};

namespace detail {

/// The first-in-first-out list of jobs, and another of urgent ones, between one consumer and any number of readers, who get them in
/// pieces. Allocates nothing but the text of errors. The mutex is held for a few stores only, never over a read.
class read_board {
public:
    /// `request`: most bytes of one piece, a multiple of read_job::alignment.
    explicit read_board(std::size_t request) noexcept : request_(request) {}
    read_board(const read_board&) = delete;
    read_board& operator=(const read_board&) = delete;

    // The consumer's side.

    void submit(read_job& job) {
        constexpr std::uint64_t step = read_job::alignment;
        job.in_flight_ = 0;
        job.cursor_ = job.offset / step * step;
        job.end_ = job.cursor_ + read_job::room(job.offset, job.bytes);
        job.next_ = nullptr;
        job.failed_ = false;
        job.state_.store(read_job::state::pending, std::memory_order_relaxed);
        bool wake = false;
        {
            const std::scoped_lock lock(mutex_);
            list_of(job).push(job);
            ++pending_;
            wake = sleepers_ != 0;
        }
        if (wake) work_.notify_one();  // who takes a piece and leaves some wakes the next
    }

    /// A job that can't even begin.
    void refuse(read_job& job, error problem) {
        job.failed_ = true;
        job.problem_ = std::move(problem);
        const std::scoped_lock lock(mutex_);
        ++statistics_.jobs;
        job.state_.store(read_job::state::done, std::memory_order_release);
    }

    [[nodiscard]] result<void> wait(read_job& job, const cancel_flag* cancel) {
        if (!job.finished()) {
            if (job.state_.load(std::memory_order_relaxed) == read_job::state::idle) {
                return error{errc::invalid_argument, "a read is waited for that was never submitted"};
            }
            if (!sleep([&] { return job.finished(); }, &job, cancel)) return canceled();
        }
        if (job.failed_) return job.problem_;
        return {};
    }

    [[nodiscard]] result<std::size_t> wait_any(std::span<read_job* const> jobs, const cancel_flag* cancel) {
        std::size_t out = 0;
        const auto found = [&] {
            for (out = 0; out < jobs.size(); ++out) {
                if (jobs[out]->finished()) return true;
            }
            return false;
        };
        if (found()) return out;
        const bool any = std::any_of(jobs.begin(), jobs.end(), [](const read_job* job) {
            return job->state_.load(std::memory_order_relaxed) != read_job::state::idle;  // one may have ended just now
        });
        if (!any) return error{errc::invalid_argument, "none of the reads that are waited for was submitted"};
        if (!sleep(found, nullptr, cancel)) return canceled();
        return out;
    }

    /// Gives up what no reader has begun; jobs that this concerns end as canceled.
    void abandon() {
        bool wake = false;
        {
            const std::scoped_lock lock(mutex_);
            while (read_job* const job = first()) {
                cut_short(*job, canceled());
                if (job->in_flight_ == 0) wake = close(*job) || wake;
            }
        }
        if (wake) finished_.notify_one();
    }

    void drain() {
        (void)sleep([&] { return pending_ == 0; }, nullptr, nullptr);
    }

    [[nodiscard]] read_statistics statistics() const {
        const std::scoped_lock lock(mutex_);
        return statistics_;
    }

    // The readers' side.

    /// The next piece; sleeps until there is one. False once `stop` was called and nothing is left.
    [[nodiscard]] bool next(read_piece& out) {
        std::unique_lock lock(mutex_);
        while (first() == nullptr && !stopped_) {
            ++sleepers_;
            work_.wait(lock);
            --sleepers_;
        }
        return take(out, lock);
    }
    /// The next piece if there is one.
    [[nodiscard]] bool try_next(read_piece& out) {
        std::unique_lock lock(mutex_);
        return take(out, lock);
    }

    /// `piece` was read, or `done` tells why not. Afterwards the job may be gone.
    void finish(const read_piece& piece, result<void> done) {
        bool wake = false;
        {
            const std::scoped_lock lock(mutex_);
            read_job& job = *piece.job;
            statistics_.bytes_read += piece.bytes;
            --job.in_flight_;
            if (!done) cut_short(job, std::move(done).error());
            if (job.in_flight_ == 0 && job.cursor_ == job.end_) wake = close(job);
        }
        if (wake) finished_.notify_one();
    }

    /// Lets readers end.
    void stop() {
        {
            const std::scoped_lock lock(mutex_);
            stopped_ = true;
        }
        work_.notify_all();
    }

private:
    struct job_list {
        read_job* first = nullptr;
        read_job* last = nullptr;

        void push(read_job& job) noexcept {
            if (last == nullptr) first = &job;
            else last->next_ = &job;
            last = &job;
        }
        void pop() noexcept {
            first = first->next_;
            if (first == nullptr) last = nullptr;
        }
    };

    static constexpr std::chrono::milliseconds look_up{25};  // how often a sleeping consumer looks at its cancel flag

    [[nodiscard]] static error canceled() { return error{errc::canceled, "the read was given up on request"}; }

    /// Sleeps until `ready()`, which is called under the mutex. `job`: the only one that matters, or null. False: canceled.
    template <class Ready>
    [[nodiscard]] bool sleep(Ready&& ready, const read_job* job, const cancel_flag* cancel) {
        using clock = std::chrono::steady_clock;
        std::unique_lock lock(mutex_);
        if (ready()) return true;
        const auto begin = clock::now();
        bool out = true;
        awaited_ = job;
        consumer_sleeps_ = true;
        do {
            if (cancel == nullptr) {
                finished_.wait(lock);
                continue;
            }
            if (cancel->requested()) {
                out = false;
                break;
            }
            finished_.wait_for(lock, look_up);
        } while (!ready());
        consumer_sleeps_ = false;
        statistics_.wait_seconds += std::chrono::duration<double>(clock::now() - begin).count();
        return out;
    }

    [[nodiscard]] bool take(read_piece& out, std::unique_lock<std::mutex>& lock) {
        read_job* const found = first();
        if (found == nullptr) return false;
        read_job& job = *found;
        const auto skip = static_cast<std::size_t>(job.cursor_ - job.offset / read_job::alignment * read_job::alignment);
        out = {.job = &job, .file = job.file, .offset = job.cursor_, .memory = job.memory + skip};
        out.bytes = static_cast<std::size_t>(std::min<std::uint64_t>(request_, job.end_ - job.cursor_));
        out.wanted = static_cast<std::size_t>(std::min<std::uint64_t>(out.bytes, job.offset + job.bytes - job.cursor_));
        job.cursor_ += out.bytes;
        ++job.in_flight_;
        if (job.cursor_ == job.end_) list_of(job).pop();
        const bool wake = sleepers_ != 0 && first() != nullptr;
        lock.unlock();
        if (wake) work_.notify_one();
        return true;
    }

    [[nodiscard]] job_list& list_of(const read_job& job) noexcept { return job.urgent ? urgent_ : usual_; }
    [[nodiscard]] read_job* first() const noexcept { return urgent_.first != nullptr ? urgent_.first : usual_.first; }

    /// Takes the rest of a failed job from the list, and keeps the error that is first in the file.
    void cut_short(read_job& job, error problem) {
        if (job.cursor_ != job.end_) {  // then it is the first of its list: pieces come from there only
            job.cursor_ = job.end_;
            list_of(job).pop();
        }
        if (job.failed_ && job.problem_.offset <= problem.offset) return;
        job.failed_ = true;
        job.problem_ = std::move(problem);
    }

    /// Hands a job back to the consumer; it isn't ours from then on. Tells whether that one has to be woken.
    [[nodiscard]] bool close(read_job& job) noexcept {
        --pending_;
        ++statistics_.jobs;
        const bool wake = consumer_sleeps_ && (awaited_ == nullptr || awaited_ == &job);
        job.state_.store(read_job::state::done, std::memory_order_release);
        return wake;
    }

    const std::size_t request_;
    mutable std::mutex mutex_;
    std::condition_variable work_;      // readers sleep here
    std::condition_variable finished_;  // the consumer here
    job_list usual_;
    job_list urgent_;
    std::size_t pending_ = 0;  // jobs not finished
    unsigned sleepers_ = 0;    // readers asleep
    bool consumer_sleeps_ = false;
    const read_job* awaited_ = nullptr;
    bool stopped_ = false;
    read_statistics statistics_;
};

}  // namespace detail

}  // namespace colibri
