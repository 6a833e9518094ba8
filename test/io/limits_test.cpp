// Memory and processor limits: on trees made up like those that systems show, and on the real one.
#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "colibri/core/buffer.hpp"
#include "colibri/io/cpu_count.hpp"
#include "colibri/io/cpu_name.hpp"
#include "colibri/io/memory_limits.hpp"
#include "colibri/io/memory_lock.hpp"
#include "support/scratch.hpp"

using namespace colibri;

namespace {

constexpr std::uint64_t gib = std::uint64_t{1} << 30;

constexpr const char* meminfo =
    "MemTotal:       16777216 kB\nMemFree:         1000000 kB\nMemAvailable:   12582912 kB\nBuffers: 5 kB\n";

/// A root folder as on a machine with cgroup v2 only.
void put_v2(const scratch::folder& root, std::string_view group) {
    root.put("proc/meminfo", meminfo);
    root.put("proc/self/cgroup", "0::" + std::string(group) + "\n");
    root.put("proc/self/mountinfo",
             "22 28 0:21 / /proc rw,nosuid - proc proc rw\n"
             "30 23 0:26 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate\n");
}

/// A root folder as on a machine with cgroup v1 controllers at their usual places.
void put_v1(const scratch::folder& root, std::string_view group, std::string_view mount_root = "/") {
    root.put("proc/meminfo", meminfo);
    root.put("proc/self/cgroup", "11:memory:" + std::string(group) + "\n4:cpu,cpuacct:" + std::string(group) +
                                     "\n1:name=systemd:/\n0::/\n");
    root.put("proc/self/mountinfo",
             "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"
             "35 31 0:32 " +
                 std::string(mount_root) +
                 " /sys/fs/cgroup/memory rw,relatime shared:12 - cgroup cgroup rw,memory\n"
                 "36 31 0:33 " +
                 std::string(mount_root) + " /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n");
}

}  // namespace

TEST_CASE("without groups the machine's memory is the limit") {
    const scratch::folder root;
    root.put("proc/meminfo", meminfo);
    const auto limits = read_memory_limits(root.path());
    CHECK(limits.total == 16 * gib);
    CHECK(limits.available == 12 * gib);
    CHECK(limits.groups.empty());
    CHECK(limits.limit() == 16 * gib);
    CHECK(limits.free() == 12 * gib);
}

TEST_CASE("what can't be read doesn't limit") {
    const scratch::folder root;
    const auto limits = read_memory_limits(root.path());
    CHECK(limits.limit() == memory_limits::unlimited);
    CHECK(limits.free() == memory_limits::unlimited);
    root.put("proc/meminfo", "MemTotal: many kB\n");
    root.put("proc/self/cgroup", "nonsense\n0:\n::\n0::/x\n");
    root.put("proc/self/mountinfo", "nonsense\n1 2 3 4 5 6 -\n1 2 3 / /sys/fs/cgroup rw - cgroup2\n");
    CHECK(read_memory_limits(root.path()).limit() == memory_limits::unlimited);
    CHECK(read_process_memory(root.path()).resident == 0);
    CHECK(read_cpu_limits(root.path()).threads() >= 1);
}

TEST_CASE("v2: the smallest limit of all ancestors counts, page cache is free") {
    const scratch::folder root;
    put_v2(root, "/user.slice/app.scope");
    root.put("sys/fs/cgroup/user.slice/app.scope/memory.max", "max\n");
    root.put("sys/fs/cgroup/user.slice/app.scope/memory.current", "1\n");
    root.put("sys/fs/cgroup/user.slice/memory.max", std::to_string(4 * gib) + "\n");
    root.put("sys/fs/cgroup/user.slice/memory.high", "max\n");
    root.put("sys/fs/cgroup/user.slice/memory.current", std::to_string(3 * gib) + "\n");
    root.put("sys/fs/cgroup/user.slice/memory.stat",
             "anon 5\nfile 9\nactive_file 77\ninactive_file " + std::to_string(2 * gib) + "\ninactive_file_x 1\n");
    auto limits = read_memory_limits(root.path());
    REQUIRE(limits.groups.size() == 1);
    CHECK(limits.groups[0].limit == 4 * gib);
    CHECK(limits.groups[0].usage == 3 * gib);
    CHECK(limits.groups[0].reclaimable == 2 * gib);
    CHECK(limits.limit() == 4 * gib);
    CHECK(limits.free() == 3 * gib);

    // memory.high limits too, and the group itself can be tighter than its ancestor.
    root.put("sys/fs/cgroup/user.slice/app.scope/memory.high", std::to_string(2 * gib));
    root.put("sys/fs/cgroup/user.slice/app.scope/memory.current", std::to_string(gib / 2));
    limits = read_memory_limits(root.path());
    REQUIRE(limits.groups.size() == 2);
    CHECK(limits.groups[0].folder.filename() == "app.scope");
    CHECK(limits.limit() == 2 * gib);
    CHECK(limits.free() == 3 * gib / 2);

    // More in use than allowed leaves nothing, not a huge number.
    root.put("sys/fs/cgroup/user.slice/app.scope/memory.current", std::to_string(3 * gib));
    CHECK(read_memory_limits(root.path()).free() == 0);
    // The machine itself may have less free than any group.
    root.put("proc/meminfo", "MemTotal: 16777216 kB\nMemAvailable: 1024 kB\n");
    root.put("sys/fs/cgroup/user.slice/app.scope/memory.current", "0");
    CHECK(read_memory_limits(root.path()).free() == 1024 * 1024);
}

TEST_CASE("v2 in a container: the group is the root of what is mounted") {
    const scratch::folder root;
    put_v2(root, "/");
    root.put("sys/fs/cgroup/memory.max", std::to_string(gib) + "\n");
    root.put("sys/fs/cgroup/memory.current", "0\n");
    CHECK(read_memory_limits(root.path()).limit() == gib);
    // A path outside of the name space of the container.
    put_v2(root, "/../other");
    CHECK(read_memory_limits(root.path()).limit() == gib);
}

TEST_CASE("v1: limits, usage and page cache of all ancestors") {
    const scratch::folder root;
    put_v1(root, "/docker/abc");
    const std::string base = "sys/fs/cgroup/memory/";
    const std::string none = "9223372036854771712\n";  // how v1 writes that there is no limit
    root.put(base + "memory.limit_in_bytes", none);
    root.put(base + "docker/memory.limit_in_bytes", std::to_string(8 * gib) + "\n");
    root.put(base + "docker/memory.usage_in_bytes", std::to_string(7 * gib) + "\n");
    root.put(base + "docker/memory.stat", "inactive_file 1\ntotal_inactive_file " + std::to_string(3 * gib) + "\n");
    root.put(base + "docker/abc/memory.limit_in_bytes", std::to_string(6 * gib) + "\n");
    root.put(base + "docker/abc/memory.usage_in_bytes", std::to_string(gib) + "\n");
    root.put(base + "docker/abc/memory.stat",
             "hierarchical_memory_limit " + std::to_string(6 * gib) + "\ninactive_file 4096\n");
    auto limits = read_memory_limits(root.path());
    REQUIRE(limits.groups.size() == 2);
    CHECK(limits.limit() == 6 * gib);
    CHECK(limits.groups[0].free() == 5 * gib + 4096);
    CHECK(limits.groups[1].free() == 4 * gib);
    CHECK(limits.free() == 4 * gib);
    // An ancestor that isn't visible shows in the hierarchical limit.
    root.put(base + "docker/abc/memory.limit_in_bytes", none);
    root.put(base + "docker/abc/memory.stat", "hierarchical_memory_limit " + std::to_string(2 * gib) + "\n");
    CHECK(read_memory_limits(root.path()).limit() == 2 * gib);
}

TEST_CASE("v1 in a container: only the own part of the tree is mounted") {
    const scratch::folder root;
    put_v1(root, "/docker/abc", "/docker/abc");
    root.put("sys/fs/cgroup/memory/memory.limit_in_bytes", std::to_string(3 * gib) + "\n");
    CHECK(read_memory_limits(root.path()).limit() == 3 * gib);
    // A mount of something else that only begins with the same letters.
    put_v1(root, "/docker/abcdef", "/docker/abc");
    CHECK(read_memory_limits(root.path()).limit() == 3 * gib);
}

TEST_CASE("v1 and v2 mounted together both count") {
    const scratch::folder root;
    root.put("proc/meminfo", meminfo);
    root.put("proc/self/cgroup", "4:memory:/a\n0::/b\n");
    root.put("proc/self/mountinfo",
             "35 31 0:32 / /sys/fs/cgroup/my\\040memory rw - cgroup cgroup rw,memory\n"
             "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
    root.put("sys/fs/cgroup/my memory/a/memory.limit_in_bytes", std::to_string(5 * gib));
    root.put("sys/fs/cgroup/unified/b/memory.max", std::to_string(4 * gib));
    const auto limits = read_memory_limits(root.path());
    CHECK(limits.groups.size() == 2);
    CHECK(limits.limit() == 4 * gib);
}

TEST_CASE("the real machine has memory, and this process some of it") {
    const auto limits = read_memory_limits();
    CHECK(limits.limit() > 0);
    CHECK(limits.limit() <= limits.total);
    const auto before = read_process_memory();
    if (before.resident == 0) {
        MESSAGE("skipped: no /proc here");
        return;
    }
    CHECK(limits.total != memory_limits::unlimited);
    CHECK(before.peak >= before.resident);
    constexpr std::size_t size = std::size_t{64} << 20;
    auto memory = aligned_buffer::allocate(size).value();
    std::memset(memory.data(), 1, size);
    const auto after = read_process_memory();
    CHECK(after.anonymous >= before.anonymous + size);
    CHECK(after.resident >= before.resident + size);
    CHECK(after.peak >= after.resident);
}

TEST_CASE("a real group's limit is found") {
    // Needs the right to make a group below the own one.
    const auto folders = detail::cgroup_folders("memory", "/");
    for (const auto& [own, version] : folders) {
        const bool has_files = std::filesystem::exists(own / (version == 1 ? "memory.limit_in_bytes" : "memory.max"));
        if (!has_files) continue;
        const auto group = own / ("colibri-test-" + std::to_string(::getpid()));
        if (::mkdir(group.c_str(), 0755) != 0) break;
        constexpr std::uint64_t wanted = gib;  // room enough for a sanitizer's own memory
        std::ofstream(group / (version == 1 ? "memory.limit_in_bytes" : "memory.max")) << wanted;
        const ::pid_t child = ::fork();
        REQUIRE(child >= 0);
        if (child == 0) {
            {
                std::ofstream procs(group / "cgroup.procs");
                procs << ::getpid() << std::flush;
                if (!procs) ::_exit(77);
            }
            const auto before = read_memory_limits();
            if (before.limit() != wanted) ::_exit(1);
            if (before.free() > wanted) ::_exit(2);
            constexpr std::size_t size = std::size_t{64} << 20;
            auto memory = aligned_buffer::allocate(size);
            if (!memory) ::_exit(3);
            std::memset(memory->data(), 1, size);
            const auto after = read_memory_limits();
            // The kernel counts in batches per processor, so the figure lags by some pages.
            if (before.free() - after.free() < size - (std::size_t{4} << 20)) ::_exit(4);
            ::_exit(0);
        }
        int status = 0;
        REQUIRE(::waitpid(child, &status, 0) == child);
        for (int attempt = 0; attempt < 100 && ::rmdir(group.c_str()) != 0; ++attempt) ::usleep(10000);
        REQUIRE(WIFEXITED(status));
        if (WEXITSTATUS(status) == 77) break;
        CHECK(WEXITSTATUS(status) == 0);
        MESSAGE(std::string("tested under a real limit, version ") << version);
        return;
    }
    MESSAGE("skipped: no right to make a control group here");
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define SANITIZED 1
#endif
#endif

TEST_CASE("locked memory") {
#ifdef SANITIZED
    MESSAGE("skipped: the sanitizers turn mlock off");
    return;
#endif
    auto memory = aligned_buffer::allocate(1 << 16).value();
    const std::span<const std::byte> bytes(memory.data(), memory.size());
    CHECK(lock_memory({}));
    const ::pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        const struct ::rlimit limit { 4096, 4096 };
        if (::setrlimit(RLIMIT_MEMLOCK, &limit) != 0) ::_exit(77);
        // Root may lock whatever it likes.
        if (::geteuid() == 0 && (::setgid(65534) != 0 || ::setuid(65534) != 0)) ::_exit(77);
        auto locked = lock_memory(bytes);
        if (locked) ::_exit(1);
        if (locked.error().code != errc::out_of_memory) ::_exit(2);
        if (locked.error().message.find("may lock 4096") == std::string::npos) ::_exit(3);
        ::_exit(0);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) MESSAGE("skipped: limits can't be set here");
    else CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("lists of processors") {
    CHECK(detail::parse_cpu_list("0-3,8,10-11").value() == std::vector<unsigned>{0, 1, 2, 3, 8, 10, 11});
    CHECK(detail::parse_cpu_list("5").value() == std::vector<unsigned>{5});
    for (const char* bad : {"x", "3-1", "1-", "-1", "0-4294967295"}) CHECK(!detail::parse_cpu_list(bad));
}

TEST_CASE("threads by affinity and physical cores") {
    const scratch::folder root;
    root.put("proc/self/status", "Name:\tx\nCpus_allowed:\tff\nCpus_allowed_list:\t0-7\nMems_allowed_list:\t0\n");
    CHECK(read_cpu_limits(root.path()).logical == 8);
    CHECK(read_cpu_limits(root.path()).cores == 8);  // no topology: each counts
    for (int cpu = 0; cpu < 8; ++cpu) {
        const std::string pair = std::to_string(cpu % 4) + "," + std::to_string(cpu % 4 + 4) + "\n";
        // Half of them with the name of older kernels.
        root.put("sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/" +
                     (cpu % 4 < 2 ? "core_cpus_list" : "thread_siblings_list"),
                 pair);
    }
    auto limits = read_cpu_limits(root.path());
    CHECK(limits.logical == 8);
    CHECK(limits.cores == 4);
    CHECK(!limits.quota);
    CHECK(limits.threads() == 4);
    // Two hardware threads of one core, and one of another.
    root.put("proc/self/status", "Cpus_allowed_list:\t1,5-6\n");
    limits = read_cpu_limits(root.path());
    CHECK(limits.logical == 3);
    CHECK(limits.cores == 2);
}

TEST_CASE("performance cores first where there are two kinds") {
    const auto put_cpu = [](const scratch::folder& root, unsigned cpu, std::string_view file, const std::string& text) {
        root.put("sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/" + std::string(file), text);
    };
    SUBCASE("Intel lists them: two with two hardware threads each, four without") {
        const scratch::folder root;
        root.put("proc/self/status", "Cpus_allowed_list:\t0-7\n");
        for (unsigned cpu = 0; cpu < 8; ++cpu) {
            put_cpu(root, cpu, "topology/core_cpus_list", cpu < 4 ? (cpu < 2 ? "0-1\n" : "2-3\n") : std::to_string(cpu) + "\n");
        }
        root.put("sys/devices/cpu_core/cpus", "0-3\n");
        root.put("sys/devices/cpu_atom/cpus", "4-7\n");
        auto limits = read_cpu_limits(root.path());
        CHECK(limits.logical == 8);
        CHECK(limits.cores == 6);
        CHECK(limits.fast_cores == 2);
        CHECK(limits.threads() == 2);
        CHECK(limits.batch_threads() == 6);
        CHECK(limits.most_threads() == 8);
        // Only slow ones are allowed: then they compute.
        root.put("proc/self/status", "Cpus_allowed_list:\t5-7\n");
        limits = read_cpu_limits(root.path());
        CHECK(limits.threads() == 3);
        CHECK(limits.batch_threads() == 3);
    }
    SUBCASE("ARM by capacity: one prime, three big, four little") {
        const scratch::folder root;
        root.put("proc/self/status", "Cpus_allowed_list:\t0-7\n");
        for (unsigned cpu = 0; cpu < 8; ++cpu) {
            put_cpu(root, cpu, "cpu_capacity", cpu < 4 ? "290\n" : cpu < 7 ? "820\n" : "1024\n");
            put_cpu(root, cpu, "cpufreq/cpuinfo_max_freq", "2000000\n");
        }
        CHECK(read_cpu_limits(root.path()).threads() == 4);
        CHECK(read_cpu_limits(root.path()).batch_threads() == 8);
    }
    SUBCASE("by frequency: dense cores are slow ones, a slightly slower cluster isn't") {
        const scratch::folder root;
        root.put("proc/self/status", "Cpus_allowed_list:\t0-5\n");
        for (unsigned cpu = 0; cpu < 6; ++cpu) {
            put_cpu(root, cpu, "cpu_capacity", "1024\n");  // the same for all says nothing
            put_cpu(root, cpu, "cpufreq/cpuinfo_max_freq", cpu < 2 ? "5100000\n" : cpu < 3 ? "4700000\n" : "3300000\n");
        }
        CHECK(read_cpu_limits(root.path()).threads() == 3);
        CHECK(read_cpu_limits(root.path()).cores == 6);
    }
    SUBCASE("one processor without a figure, or nonsense: all count") {
        const scratch::folder root;
        root.put("proc/self/status", "Cpus_allowed_list:\t0-1\n");
        put_cpu(root, 0, "cpu_capacity", "1024\n");
        CHECK(read_cpu_limits(root.path()).threads() == 2);
        put_cpu(root, 1, "cpu_capacity", "few\n");
        root.put("sys/devices/cpu_core/cpus", "some\n");
        CHECK(read_cpu_limits(root.path()).threads() == 2);
    }
}

TEST_CASE("threads by quota, v2 and v1") {
    const auto with = [](std::string_view cpu_max, std::string_view parent_max) {
        const scratch::folder root;
        put_v2(root, "/a/b");
        root.put("proc/self/status", "Cpus_allowed_list:\t0-7\n");
        root.put("sys/fs/cgroup/a/b/cpu.max", cpu_max);
        root.put("sys/fs/cgroup/a/cpu.max", parent_max);
        return read_cpu_limits(root.path());
    };
    CHECK(with("max 100000\n", "max 100000\n").threads() == 8);
    CHECK(!with("max 100000\n", "max 100000\n").quota);
    CHECK(with("300000 100000\n", "max 100000\n").threads() == 3);
    CHECK(with("max 100000\n", "250000 100000\n").threads() == 3);  // rounded to the nearest
    CHECK(with("max 100000\n", "240000 100000\n").threads() == 2);
    CHECK(with("10000 100000\n", "800000 100000\n").threads() == 1);
    CHECK(with("10000 100000\n", "800000 100000\n").quota.value() == doctest::Approx(0.1));
    CHECK(with("1600000 100000\n", "max 100000\n").threads() == 8);
    CHECK(with("nonsense\n", "0 0\n").threads() == 8);
    CHECK(with("250000 100000\n", "max 100000\n").batch_threads() == 3);
    CHECK(with("210000 100000\n", "max 100000\n").threads() == 2);
    CHECK(with("210000 100000\n", "max 100000\n").most_threads() == 3);  // all of the time that is allowed can be used
    CHECK(with("200000 100000\n", "max 100000\n").most_threads() == 2);
    CHECK(with("10000 100000\n", "max 100000\n").most_threads() == 1);

    const scratch::folder root;
    put_v1(root, "/g");
    root.put("proc/self/status", "Cpus_allowed_list:\t0-7\n");
    const std::string base = "sys/fs/cgroup/cpu,cpuacct/";
    root.put(base + "cpu.cfs_quota_us", "-1\n");
    root.put(base + "cpu.cfs_period_us", "100000\n");
    root.put(base + "g/cpu.cfs_quota_us", "-1\n");
    root.put(base + "g/cpu.cfs_period_us", "100000\n");
    CHECK(read_cpu_limits(root.path()).threads() == 8);
    root.put(base + "g/cpu.cfs_quota_us", "400000\n");
    CHECK(read_cpu_limits(root.path()).threads() == 4);
}

TEST_CASE("the processor's name") {
    const scratch::folder root;
    CHECK(cpu_name(root.path()).empty());
    root.put("proc/cpuinfo", "processor\t: 0\nmodel\t\t: 17\nmodel name\t: Some CPU @ 3\033GHz\nmodel name\t: other\n");
    CHECK(cpu_name(root.path()) == "Some CPU @ 3\\x1bGHz");
    root.put("proc/cpuinfo", "processor : 0\n: x\nModel : Some Board\n");
    CHECK(cpu_name(root.path()) == "Some Board");
    root.put("proc/cpuinfo", "model name :\n");
    CHECK(cpu_name(root.path()).empty());
}

TEST_CASE("the real machine has a processor") {
    const auto limits = read_cpu_limits();
    CHECK(limits.logical >= 1);
    CHECK(limits.cores >= 1);
    CHECK(limits.cores <= limits.logical);
    CHECK(cpu_count() >= 1);
    CHECK(cpu_count() <= limits.cores);
}
