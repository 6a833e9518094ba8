// Background reads: the same bytes whatever reads them, errors with their places, and no waiting without end.
#include "colibri/io/read_queue.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "support/scratch.hpp"

using namespace colibri;

namespace {

using clock_type = std::chrono::steady_clock;
constexpr std::size_t block = read_job::alignment;

std::string noise(std::size_t size, unsigned seed = 5) {
    std::mt19937 random(seed);
    std::string out(size, '\0');
    for (char& c : out) c = static_cast<char>(random());
    return out;
}

double seconds_since(clock_type::time_point begin) {
    return std::chrono::duration<double>(clock_type::now() - begin).count();
}

struct aligned_free {
    void operator()(std::byte* memory) const { std::free(memory); }
};

/// A job with memory of exactly the size that it needs, so that a sanitizer sees what is written past it.
struct own_job {
    own_job(std::uint64_t offset, std::size_t bytes, std::uint32_t file = 0)
        : memory(static_cast<std::byte*>(std::aligned_alloc(block, read_queue::room(offset, bytes)))) {
        job.file = file;
        job.offset = offset;
        job.bytes = bytes;
        job.memory = memory.get();
    }
    [[nodiscard]] bool is(const std::string& data) const {
        return std::memcmp(job.data().data(), data.data() + job.offset, job.bytes) == 0;
    }
    read_job job;
    std::unique_ptr<std::byte, aligned_free> memory;
};

/// A source in memory that does what the test wants before it reads.
class odd_source final : public byte_source {
public:
    using hook = std::function<result<void>(std::uint64_t offset, std::size_t bytes)>;
    odd_source(const std::string& data, hook before) : data_(data), before_(std::move(before)) {}
    [[nodiscard]] std::uint64_t size() const noexcept override { return data_.size(); }

private:
    [[nodiscard]] result<void> do_read(std::uint64_t offset, std::span<std::byte> out) override {
        if (auto ok = before_(offset, out.size()); !ok) return ok;
        std::memcpy(out.data(), data_.data() + offset, out.size());
        return {};
    }
    const std::string& data_;
    hook before_;
};

std::unique_ptr<read_queue> odd_queue(const std::string& data, odd_source::hook before, std::size_t request = block,
                                      unsigned threads = 0) {
    read_queue::options how;
    how.request = request;
    how.threads = threads;
    how.open = [&data, before](const std::filesystem::path&) -> result<std::unique_ptr<byte_source>> {
        return std::unique_ptr<byte_source>(new odd_source(data, before));
    };
    return read_queue::open({"odd.bin"}, how).value();
}

}  // namespace

TEST_CASE("read_queue: room is whole blocks around the bytes") {
    static_assert(read_queue::room(0, 1) == 4096);
    static_assert(read_queue::room(0, 4096) == 4096);
    static_assert(read_queue::room(4095, 1) == 4096);
    static_assert(read_queue::room(4095, 2) == 8192);
    static_assert(read_queue::room(4096, 4097) == 8192);
}

TEST_CASE("read_queue: bytes at any place, from the file") {
    const scratch::folder folder;
    const std::string data = noise((std::size_t{3} << 20) + 123);
    const auto queue = read_queue::open({folder.put("data", data)}).value();
    own_job a(5, 1), b(0, data.size()), c(data.size() - 1, 1);
    for (own_job* one : {&a, &b, &c}) queue->submit(one->job);
    for (own_job* one : {&c, &b, &a}) {
        REQUIRE(queue->wait(one->job));
        CHECK(one->is(data));
    }
}

namespace {

/// Many jobs of all sizes at any places, several in flight, waited for in another order than submitted.
void check_jobs(read_queue& queue, const std::string& data, unsigned rounds) {
    std::mt19937 random(7);
    std::deque<own_job> jobs;
    for (unsigned round = 0; round < rounds; ++round) {
        std::uint64_t offset = random() % data.size();
        std::size_t bytes = 1 + random() % (round % 3 == 0 ? 64 : data.size());
        bytes = std::min(bytes, static_cast<std::size_t>(data.size() - offset));
        if (round % 5 == 0) offset = data.size() - bytes;  // up to the last byte
        jobs.emplace_back(offset, bytes);
        queue.submit(jobs.back().job);
        if (jobs.size() < 8) continue;
        const std::size_t pick = random() % jobs.size();
        REQUIRE(queue.wait(jobs[pick].job));
        CHECK(queue.finished(jobs[pick].job));
        CHECK(jobs[pick].is(data));
        REQUIRE(queue.wait(jobs.front().job));
        CHECK(jobs.front().is(data));
        jobs.pop_front();
    }
    queue.drain();
    for (auto& one : jobs) {
        CHECK(queue.finished(one.job));
        REQUIRE(queue.wait(one.job));
        CHECK(one.is(data));
    }
    CHECK(queue.stats().jobs == rounds);
}

void check_backend(const std::filesystem::path& path, const std::string& data, read_queue::options how) {
    for (const std::size_t request : {std::size_t{1}, std::size_t{8192}, std::size_t{1} << 20}) {
        how.request = request;
        auto queue = read_queue::open({path}, how);
        if (!queue && how.backend == read_queue::backend::io_uring) {
            CHECK(queue.error().code == errc::unsupported);
            MESSAGE("skipped: " << queue.error().text());
            return;
        }
        REQUIRE(queue);
        CHECK((*queue)->size(0) == data.size());
        check_jobs(**queue, data, 60);
    }
}

}  // namespace

TEST_CASE("read_queue: the same bytes by threads and by io_uring, direct and buffered, from disk and from memory") {
    const scratch::folder folder;
    std::vector<std::filesystem::path> folders = {folder.path()};
    const auto in_memory = std::filesystem::path("/dev/shm") / folder.path().filename();
    std::error_code problem;
    if (std::filesystem::create_directories(in_memory, problem)) folders.push_back(in_memory);
    else MESSAGE("skipped: no /dev/shm");
    for (const std::size_t size : {std::size_t{1}, std::size_t{4096}, (std::size_t{2} << 20) + 123}) {
        const std::string data = noise(size);
        for (const auto& where : folders) {
            const auto path = where / "data";
            std::ofstream(path, std::ios::binary).write(data.data(), static_cast<std::streamsize>(data.size()));
            for (const bool direct : {true, false}) {
                read_queue::options how;
                how.allow_direct = direct;
                how.backend = read_queue::backend::automatic;
                check_backend(path, data, how);
                how.backend = read_queue::backend::io_uring;
                check_backend(path, data, how);
                how.backend = read_queue::backend::threads;
                how.threads = 1;
                check_backend(path, data, how);
            }
        }
    }
    std::filesystem::remove_all(in_memory, problem);
}

TEST_CASE("read_queue: several files, one of them small") {
    const scratch::folder folder;
    const std::string first = noise(100000, 1), second = noise(10, 2);
    const auto queue = read_queue::open({folder.put("a", first), folder.put("b", second)}).value();
    own_job a(4097, 50000, 0), b(3, 7, 1);
    queue->submit(a.job);
    queue->submit(b.job);
    REQUIRE(queue->wait(a.job));
    REQUIRE(queue->wait(b.job));
    CHECK(a.is(first));
    CHECK(b.is(second));
    CHECK(queue->check_unchanged());
    const auto stats = queue->stats();
    CHECK(stats.jobs == 2);
    CHECK(stats.bytes_read == read_queue::room(4097, 50000) + 4096);
    CHECK(read_queue::open({folder.path() / "a", folder.path() / "none"}).error().code == errc::not_found);
}

TEST_CASE("read_queue: jobs that can't be are errors at once") {
    const scratch::folder folder;
    const auto queue = read_queue::open({folder.put("data", noise(5000))}).value();
    own_job past(4000, 1001), beyond(5001, 1), nothing(0, 0), elsewhere(0, 1, 1), crooked(0, 10);
    nothing.job.memory = past.job.memory;
    crooked.job.memory += 1;
    for (own_job* one : {&past, &beyond, &nothing, &elsewhere, &crooked}) queue->submit(one->job);
    for (own_job* one : {&past, &beyond}) {
        CHECK(one->job.finished());
        const auto done = queue->wait(one->job);
        REQUIRE(!done);
        CHECK(done.error().code == errc::truncated);
        CHECK(done.error().offset == one->job.offset);
        CHECK(done.error().message.find("data' has only 5000 bytes") != std::string::npos);
    }
    for (own_job* one : {&nothing, &elsewhere, &crooked}) {
        CHECK(one->job.finished());
        CHECK(queue->wait(one->job).error().code == errc::invalid_argument);
    }
    own_job idle(0, 1);
    CHECK(!queue->finished(idle.job));
    CHECK(queue->wait(idle.job).error().code == errc::invalid_argument);
    read_job* const list[] = {&idle.job};
    CHECK(queue->wait_any(list).error().code == errc::invalid_argument);
    CHECK(queue->wait_any({}).error().code == errc::invalid_argument);
}

TEST_CASE("read_queue: a job is used again") {
    const std::string data = noise(20000);
    int reads = 0;
    const auto queue = odd_queue(data, [&](std::uint64_t, std::size_t) -> result<void> {
        if (++reads == 1) return error{errc::io, "broken"};
        return {};
    }, block, 1);
    own_job one(0, 4096);
    queue->submit(one.job);
    CHECK(queue->wait(one.job).error().code == errc::io);
    for (const std::uint64_t offset : {4096u, 0u, 8192u}) {
        one.job.offset = offset;
        queue->submit(one.job);
        REQUIRE(queue->wait(one.job));
        CHECK(one.is(data));
    }
}

TEST_CASE("read_queue: an error has its place and file, the first in the file wins, and other jobs go on") {
    const std::string data = noise(100 * block);
    const auto queue = odd_queue(data, [&](std::uint64_t offset, std::size_t bytes) -> result<void> {
        CHECK(bytes <= block);
        // The later one is there first.
        if (offset == 11 * block) std::this_thread::sleep_for(std::chrono::milliseconds(30));
        if (offset == 11 * block || offset == 12 * block) return error{errc::io, "the disk is broken"};
        return {};
    }, block, 4);
    own_job bad(10 * block + 5, 80 * block), good(0, 9 * block);
    queue->submit(bad.job);
    queue->submit(good.job);
    const auto done = queue->wait(bad.job);
    REQUIRE(!done);
    CHECK(done.error().code == errc::io);
    CHECK(done.error().offset == 11 * block);
    CHECK(done.error().text() == concat("'odd.bin': the disk is broken (at byte ", 11 * block, ")"));
    REQUIRE(queue->wait(good.job));
    CHECK(good.is(data));
    // What comes behind the error wasn't read: at most one more piece for each other reader.
    CHECK(queue->stats().bytes_read <= (9 + 2 + 8) * block);
}

TEST_CASE("read_queue: reads that end in another order than they began in") {
    const std::string data = noise(64 * block);
    std::mutex guard;
    std::mt19937 random(3);
    const auto queue = odd_queue(data, [&](std::uint64_t, std::size_t) -> result<void> {
        std::uint32_t pause = 0;
        {
            const std::scoped_lock lock(guard);
            pause = static_cast<std::uint32_t>(random() % 2000);
        }
        std::this_thread::sleep_for(std::chrono::microseconds(pause));
        return {};
    }, block, 8);
    std::deque<own_job> jobs;
    std::vector<read_job*> open;
    for (std::size_t i = 0; i < 16; ++i) {
        jobs.emplace_back(i * 4 * block + 1, 3 * block);
        queue->submit(jobs.back().job);
        open.push_back(&jobs.back().job);
    }
    while (!open.empty()) {
        const auto which = queue->wait_any(open);
        REQUIRE(which);
        REQUIRE(open[*which]->finished());
        open.erase(open.begin() + static_cast<std::ptrdiff_t>(*which));
    }
    for (auto& one : jobs) {
        REQUIRE(queue->wait(one.job));
        CHECK(one.is(data));
    }
    CHECK(queue->stats().wait_seconds > 0.0);
}

TEST_CASE("read_queue: urgent jobs go before what hasn't begun, also between the pieces of a job") {
    const std::string data = noise(40 * block);
    std::vector<std::uint64_t> order;
    std::atomic<bool> go{false};
    std::atomic<bool> begun{false};
    const auto queue = odd_queue(data, [&](std::uint64_t offset, std::size_t) -> result<void> {
        order.push_back(offset / block);
        begun = true;
        while (!go) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        if (offset == 4 * block) return error{errc::io, "broken"};
        return {};
    }, block, 1);
    own_job early(0, 3 * block), later(10 * block, block), first(4 * block, 2 * block), second(20 * block, 2 * block);
    first.job.urgent = second.job.urgent = true;
    queue->submit(early.job);
    while (!begun) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    for (own_job* one : {&later, &first, &second}) queue->submit(one->job);
    go = true;
    queue->drain();
    CHECK(order == std::vector<std::uint64_t>{0, 4, 20, 21, 1, 2, 10});  // 5 isn't read behind an error
    CHECK(queue->wait(first.job).error().code == errc::io);
    for (own_job* one : {&early, &later, &second}) {
        REQUIRE(queue->wait(one->job));
        CHECK(one->is(data));
    }
}

TEST_CASE("read_queue: a wait is canceled in the middle of a slow read, and what hasn't begun is given up") {
    const std::string data = noise(64 * block);
    std::atomic<bool> go{false};
    std::atomic<int> begun{0};
    const auto queue = odd_queue(data, [&](std::uint64_t, std::size_t) -> result<void> {
        ++begun;
        while (!go) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return {};
    }, block, 2);
    own_job slow(0, 64 * block), later(0, block), urgent(0, block);
    urgent.job.urgent = true;
    queue->submit(slow.job);
    while (begun != 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    queue->submit(later.job);
    queue->submit(urgent.job);
    cancel_flag cancel;
    clock_type::time_point requested;
    std::thread user([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(30));
        requested = clock_type::now();
        cancel.request();
    });
    const auto done = queue->wait(slow.job, &cancel);
    user.join();
    CHECK(seconds_since(requested) < 0.2);  // what Ctrl-C may take
    REQUIRE(!done);
    CHECK(done.error().code == errc::canceled);
    read_job* const list[] = {&slow.job, &later.job};
    CHECK(queue->wait_any(list, &cancel).error().code == errc::canceled);
    queue->abandon();
    for (own_job* one : {&later, &urgent}) {
        CHECK(one->job.finished());
        CHECK(queue->wait(one->job).error().code == errc::canceled);
    }
    CHECK(!slow.job.finished());  // two of its blocks are being read
    go = true;
    queue->drain();
    CHECK(slow.job.finished());
    CHECK(queue->wait(slow.job).error().code == errc::canceled);
    CHECK(begun == 2);
    // The queue is as good as new.
    queue->submit(later.job);
    REQUIRE(queue->wait(later.job));
    CHECK(later.is(data));
}

TEST_CASE("read_queue: destroyed while jobs are in flight") {
    const std::string data = noise(64 * block);
    std::deque<own_job> jobs;
    {
        const auto queue = odd_queue(data, [](std::uint64_t, std::size_t) -> result<void> {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
            return {};
        });
        for (std::size_t i = 0; i < 10; ++i) {
            jobs.emplace_back(i * block, 20 * block);
            queue->submit(jobs.back().job);
        }
    }
    for (const auto& one : jobs) CHECK(one.job.finished());
}

TEST_CASE("read_queue: a file that becomes shorter is an error with the place, and noticed by a look") {
    const scratch::folder folder;
    const std::string data = noise(100000);
    for (const auto kind : {read_queue::backend::threads, read_queue::backend::io_uring}) {
        for (const bool direct : {true, false}) {
            const auto path = folder.put("data", data);
            read_queue::options how;
            how.backend = kind;
            how.allow_direct = direct;
            auto opened = read_queue::open({path}, how);
            if (!opened) continue;  // no io_uring: said by the test above
            const auto queue = std::move(*opened);
            CHECK(queue->check_unchanged());
            REQUIRE(::truncate(path.c_str(), 50001) == 0);
            own_job whole(0, 100000), before(40000, 10001), behind(70000, 10);
            for (own_job* one : {&whole, &before, &behind}) queue->submit(one->job);
            auto done = queue->wait(whole.job);
            REQUIRE(!done);
            CHECK(done.error().code == errc::truncated);
            CHECK(done.error().offset == 50001);
            CHECK(done.error().message.find("data' became shorter") != std::string::npos);
            CHECK(queue->wait(before.job));
            CHECK(before.is(data));
            CHECK(queue->wait(behind.job).error().code == errc::truncated);
            done = queue->check_unchanged();
            REQUIRE(!done);
            CHECK(done.error().code == errc::truncated);
            CHECK(done.error().offset == 50001);
            CHECK(done.error().message.find("data' became shorter") != std::string::npos);
        }
    }
}

TEST_CASE("read_queue: a file overwritten in place is noticed; one removed, renamed or replaced by name goes on") {
    const scratch::folder folder;
    const std::string data = noise(100000);
    const auto path = folder.put("data", data);
    const auto queue = read_queue::open({path}).value();
    const auto still_reads = [&] {
        own_job one(1234, 90000);
        queue->submit(one.job);
        return static_cast<bool>(queue->wait(one.job)) && one.is(data);
    };
    std::filesystem::rename(path, folder.path() / "other");
    CHECK(queue->check_unchanged());
    CHECK(still_reads());
    folder.put("data", "something else");
    CHECK(queue->check_unchanged());
    CHECK(still_reads());
    std::filesystem::remove(folder.path() / "other");
    CHECK(queue->check_unchanged());
    CHECK(still_reads());

    const auto again = read_queue::open({folder.put("second", data)}).value();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the clock of some file systems ticks each 10 ms
    std::fstream(folder.path() / "second", std::ios::binary | std::ios::in | std::ios::out) << "other bytes";
    const auto changed = again->check_unchanged();
    REQUIRE(!changed);
    CHECK(changed.error().code == errc::io);
    CHECK(changed.error().message.find("second' was changed while it was in use") != std::string::npos);
}

TEST_CASE("read_queue: buffered reads leave the page cache as it was") {
    const scratch::folder folder;
    const std::size_t size = std::size_t{4} << 20;
    const std::string data = noise(size);
    const auto path = folder.put("data", data);
    const auto opened = open_for_reading(path).value();
    ::fsync(opened.handle.get());
    ::posix_fadvise(opened.handle.get(), 0, 0, POSIX_FADV_DONTNEED);
    ::posix_fadvise(opened.handle.get(), 0, 0, POSIX_FADV_RANDOM);
    const auto state = [&] { return page_cache_state::of(mapped_file::open(path).value()); };
    const auto cold = state();
    if (std::any_of(cold.ranges().begin(), cold.ranges().end(), [](const auto& range) { return range.cached; })) {
        MESSAGE("skipped: files in the folder for temporary files can't leave the page cache");
        return;
    }
    std::vector<char> some(100 * 4096);
    REQUIRE(::pread(opened.handle.get(), some.data(), some.size(), 1 << 20) == static_cast<::ssize_t>(some.size()));
    const auto text = [](const page_cache_state& of) {
        std::string out;
        for (const auto& range : of.ranges()) out += concat(range.begin, "-", range.end, range.cached ? "+ " : " ");
        return out;
    };
    const std::string before = text(state());
    CHECK(before.find('+') != std::string::npos);
    for (const auto kind : {read_queue::backend::threads, read_queue::backend::io_uring}) {
        read_queue::options how;
        how.allow_direct = false;
        how.backend = kind;
        auto queue = read_queue::open({path}, how);
        if (!queue) continue;
        CHECK(!(*queue)->is_direct());
        own_job all(0, size);
        (*queue)->submit(all.job);
        REQUIRE((*queue)->wait(all.job));
        CHECK(all.is(data));
        (*queue)->drain();
        CHECK(text(state()) == before);
    }
}

TEST_CASE("read_aligned: short reads go on where aligned reads can") {
    const std::string data = noise(5 * block);
    std::vector<std::byte> memory(6 * block);
    std::vector<std::pair<std::uint64_t, std::size_t>> calls;
    // Each entry is what one call does: bytes it gives, or -errno.
    const auto play = [&](std::vector<int> script, std::size_t wanted) {
        calls.clear();
        std::size_t step = 0;
        const auto read = [&](std::byte* to, std::size_t count, std::uint64_t from) -> ::ssize_t {
            CHECK(from % block == 0);
            CHECK(count % block == 0);
            calls.emplace_back(from, count);
            const int now = step < script.size() ? script[step++] : 0;
            if (now < 0) {
                errno = -now;
                return -1;
            }
            const auto got = std::min({count, static_cast<std::size_t>(now), static_cast<std::size_t>(data.size() - from)});
            std::memcpy(to, data.data() + from, got);
            return static_cast<::ssize_t>(got);
        };
        std::fill(memory.begin(), memory.end(), std::byte{0});
        const auto out = detail::read_aligned(
            read, {.bytes = 5 * block, .wanted = wanted, .memory = memory.data()});
        CHECK(std::memcmp(memory.data(), data.data(), out.bytes) == 0);
        return out;
    };
    CHECK(play({5 * block}, 5 * block).bytes == 5 * block);
    CHECK(play({2 * block, 2 * block, 5 * block}, 5 * block).bytes == 5 * block);
    CHECK(calls.size() == 3);
    CHECK(calls[1] == std::pair<std::uint64_t, std::size_t>{2 * block, 3 * block});
    CHECK(play({-EINTR, block + 512, -EINTR, 4 * block}, 5 * block).bytes == 5 * block);  // goes back to a whole block
    CHECK(calls.back() == std::pair<std::uint64_t, std::size_t>{block, 4 * block});
    const auto broken = play({2 * block, -EIO}, 5 * block);
    CHECK(broken.bytes == 2 * block);
    CHECK(broken.problem == EIO);
    // The end of the file: the same tail again and again, then nothing.
    const auto end = play({block + 100, 100, 100}, 5 * block);
    CHECK(end.bytes == block + 100);
    CHECK(end.problem == 0);
    CHECK(calls.size() == 2);
    CHECK(play({2 * block, 0}, 5 * block).bytes == 2 * block);
    CHECK(play({3 * block + 7}, 3 * block + 7).bytes == 3 * block + 7);  // all that was wanted: no second call
    CHECK(calls.size() == 1);
}
