#include "colibri/core/thread_pool.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <random>
#include <thread>
#include <vector>

#include "support/processor_time.hpp"

using namespace colibri;

namespace {

/// Runs one loop and checks that each item is visited once, by a worker that exists, in pieces that aren't too large.
void check_loop(thread_pool& pool, std::size_t count, std::size_t chunk) {
    std::vector<std::atomic<unsigned>> visits(count);
    std::atomic<bool> sound{true};
    pool.for_chunks(count, chunk, [&](std::size_t begin, std::size_t end, unsigned worker) {
        if (begin >= end || end > count || worker >= pool.used()) sound = false;
        if (pool.used() > 1 && count > chunk && end - begin > std::max<std::size_t>(1, chunk)) sound = false;
        for (std::size_t i = begin; i < end && i < count; ++i) visits[i].fetch_add(1, std::memory_order_relaxed);
    });
    REQUIRE(sound);
    std::size_t wrong = 0;
    for (const auto& visit : visits) wrong += visit.load(std::memory_order_relaxed) != 1;
    REQUIRE(wrong == 0);
}

}  // namespace

TEST_CASE("every item is visited exactly once, for many sizes, pieces and pools") {
    for (const unsigned threads : {0u, 1u, 2u, 3u, 7u}) {
        thread_pool pool(threads, 8);
        CHECK(pool.size() == std::max(1u, threads));
        for (const std::size_t count : {0u, 1u, 2u, 3u, 16u, 17u, 1000u}) {
            for (const std::size_t chunk : {0u, 1u, 2u, 5u, 16u, 999u, 1000u, 100000u}) check_loop(pool, count, chunk);
        }
    }
}

TEST_CASE("many short loops, one right behind the other, with and without pauses in which the threads fall asleep") {
    thread_pool pool(4, 4);
    std::mt19937 random(3);
    std::uint64_t expected = 0;
    std::atomic<std::uint64_t> sum{0};
    for (int loop = 0; loop < 4000; ++loop) {
        const std::size_t count = random() % 64;
        expected += count * (count - 1) / 2 * (count != 0);
        pool.for_chunks(count, 1 + random() % 4, [&](std::size_t begin, std::size_t end, unsigned) {
            std::uint64_t mine = 0;
            for (std::size_t i = begin; i < end; ++i) mine += i;
            sum.fetch_add(mine, std::memory_order_relaxed);
        });
        if (loop % 100 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    CHECK(sum.load() == expected);
}

TEST_CASE("what the workers wrote is seen by the caller without further locks") {
    thread_pool pool(3, 3);
    std::vector<std::uint64_t> data(4096);
    for (std::uint64_t loop = 1; loop <= 500; ++loop) {
        pool.for_chunks(data.size(), 64, [&](std::size_t begin, std::size_t end, unsigned) {
            for (std::size_t i = begin; i < end; ++i) data[i] = loop * i;
        });
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < data.size(); ++i) wrong += data[i] != loop * i;
        REQUIRE(wrong == 0);
    }
}

TEST_CASE("pools come and go, used and unused") {
    for (int i = 0; i < 200; ++i) {
        thread_pool pool(1 + static_cast<unsigned>(i) % 5, 5);
        if (i % 2 == 0) check_loop(pool, 37, 3);
    }
}

TEST_CASE("scratch by worker number isn't shared") {
    thread_pool pool(4, 4);
    std::vector<std::atomic<int>> busy(pool.size());
    std::atomic<bool> clash{false};
    for (int loop = 0; loop < 200; ++loop) {
        pool.for_chunks(64, 1, [&](std::size_t, std::size_t, unsigned worker) {
            if (busy[worker].exchange(1) != 0) clash = true;
            busy[worker].store(0);
        });
    }
    CHECK(!clash);
}

TEST_CASE("fewer threads can be used than there are, and more again") {
    thread_pool pool(4, 4);
    CHECK(pool.used() == 4);
    for (const unsigned used : {2u, 1u, 3u, 4u, 0u, 9u}) {
        pool.use(used);
        CHECK(pool.size() == 4);
        CHECK(pool.used() == std::clamp(used, 1u, 4u));
        for (int loop = 0; loop < 100; ++loop) {
            std::atomic<unsigned> highest{0};
            pool.for_chunks(100, 1, [&](std::size_t, std::size_t, unsigned worker) {
                unsigned seen = highest.load();
                while (worker > seen && !highest.compare_exchange_weak(seen, worker)) {}
            });
            REQUIRE(highest < pool.used());
        }
        check_loop(pool, 100, 3);
    }
}

TEST_CASE("no more threads run at once than there are processors") {
    thread_pool pool(1000, 2);
    CHECK(pool.size() == 1000);
    CHECK(pool.used() == 2);
    pool.use(1000);
    CHECK(pool.used() == 2);
    check_loop(pool, 1000, 1);
}

TEST_CASE("a worker that comes late finds the loop over, not its remains") {
    // The caller does all of a short loop before sleeping workers are up; they arrive during later loops of another body.
    thread_pool pool(8, 8);
    for (int round = 0; round < 300; ++round) {
        if (round % 10 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        std::atomic<int> first{0};
        pool.for_chunks(2, 1, [&](std::size_t, std::size_t, unsigned) { first.fetch_add(1); });
        CHECK(first == 2);
        std::vector<int> second(50, round);
        pool.for_chunks(second.size(), 1, [&](std::size_t begin, std::size_t, unsigned) { second[begin] += 1; });
        for (const int value : second) REQUIRE(value == round + 1);
    }
}

TEST_CASE("an idle pool takes no processor time") {
    thread_pool pool(8, 8);
    check_loop(pool, 1000, 1);
    // Spinning ends within a millisecond of a thread's own time, but a loaded machine gives it that late. Eight threads
    // that spin for ever would take 200 ms in every round for each processor that they get; sleeping takes microseconds.
    double took = 1.0;
    for (int round = 0; round < 100 && took >= 0.005; ++round) {
        const double before = processor_seconds();
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        took = processor_seconds() - before;
    }
    CHECK(took < 0.005);
}
