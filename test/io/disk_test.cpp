// Measuring a disk, telling disks apart, and keeping what was measured.
#include <doctest/doctest.h>

#include <string>

#include "colibri/io/disk_identity.hpp"
#include "colibri/io/disk_probe.hpp"
#include "support/scratch.hpp"

using namespace colibri;

TEST_CASE("disk: a file's disk is measured by reading parts of it") {
    const scratch::folder folder;
    const auto path = folder.put("large", std::string((std::size_t{20} << 20) + 5, 'x'));
    disk_probe_options options;
    options.seconds = 0.01;
    options.job_bytes = 1;  // rounded up
    options.jobs = 3;
    options.reads.threads = 2;
    const auto small_jobs = measure_disk(path, options);
    REQUIRE(small_jobs);
    CHECK(small_jobs->bytes_per_second > 0.0);
    options.job_bytes = std::size_t{1} << 20;
    options.seconds = 0.0;
    const auto once = measure_disk(path, options);
    REQUIRE(once);
    CHECK(once->bytes == std::uint64_t{20} << 20);
    CHECK(std::string(once->backend) == "threads");  // too small to ask for more
    options.reads.allow_direct = false;
    const auto buffered = measure_disk(path, options);
    REQUIRE(buffered);
    CHECK(!buffered->direct);
}

TEST_CASE("disk: what can't be measured") {
    const scratch::folder folder;
    CHECK(measure_disk(folder.path() / "none").error().code == errc::not_found);
    const auto small = measure_disk(folder.put("small", std::string(100000, 'x')));
    REQUIRE(!small);
    CHECK(small.error().code == errc::bad_value);
    CHECK(small.error().message.find("small' is too small to measure a disk by") != std::string::npos);
    cancel_flag cancel;
    cancel.request();
    // A source that is slow enough for the flag to be seen.
    class slow_source final : public byte_source {
    public:
        [[nodiscard]] std::uint64_t size() const noexcept override { return std::uint64_t{64} << 20; }

    private:
        [[nodiscard]] result<void> do_read(std::uint64_t, std::span<std::byte>) override {
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
            return {};
        }
    };
    disk_probe_options options;
    options.cancel = &cancel;
    options.job_bytes = std::size_t{1} << 20;
    options.reads.open = [](const std::filesystem::path&) -> result<std::unique_ptr<byte_source>> {
        return std::unique_ptr<byte_source>(new slow_source);
    };
    CHECK(measure_disk("slow", options).error().code == errc::canceled);
}

TEST_CASE("disk: identity and model") {
    const scratch::folder folder;
    const auto path = folder.put("file", "x");
    const auto real = identify_disk(path);
    REQUIRE(real);
    CHECK(identify_disk(folder.path())->key() == real->key());
    CHECK(real->key().find(' ') == std::string::npos);
    CHECK(identify_disk(folder.path() / "none").error().code == errc::not_found);

    const std::string number = concat(real->major, ":", real->minor);
    const auto with_model = [&](const std::filesystem::path& device, const std::filesystem::path& place) {
        const scratch::folder root;
        std::filesystem::create_directories(root.path() / "sys/dev/block");
        std::filesystem::create_directories(root.path() / device);
        std::filesystem::create_directory_symlink(root.path() / device, root.path() / "sys/dev/block" / number);
        root.put(place, "  Fast Disk 3000  \n");
        return identify_disk(path, root.path()).value().model;
    };
    CHECK(with_model("sys/devices/a/nvme0n1", "sys/devices/a/nvme0n1/device/model") == "Fast Disk 3000");
    CHECK(with_model("sys/devices/a/nvme0n1/nvme0n1p2", "sys/devices/a/nvme0n1/device/model") == "Fast Disk 3000");
    CHECK(with_model("sys/devices/a/nvme0n1", "sys/devices/other") == "");
}

TEST_CASE("disk: speeds are kept, replaced and found again; damaged lines don't matter") {
    const scratch::folder folder;
    const auto store = folder.path() / "cache/colibri/disks";
    const disk_identity a{8, 1, 0xabcdef, "A"}, b{8, 1, 0xabcdee, "A"}, c{259, 0, 0, ""};
    CHECK(a.key() == "8:1-abcdef");
    CHECK(!find_disk_speed(store, a));
    REQUIRE(keep_disk_speed(store, a, 1.5e9));
    REQUIRE(keep_disk_speed(store, b, 2e9));
    REQUIRE(find_disk_speed(store, a));
    CHECK(find_disk_speed(store, a)->bytes_per_second == 1.5e9);
    CHECK(find_disk_speed(store, a)->date == detail::today());
    CHECK(detail::today().size() == 10);
    CHECK(!find_disk_speed(store, c));
    REQUIRE(keep_disk_speed(store, a, 1234567.9));
    CHECK(find_disk_speed(store, a)->bytes_per_second == 1234567.0);
    CHECK(find_disk_speed(store, b)->bytes_per_second == 2e9);

    const std::string good = scratch::read(store);
    folder.put("cache/colibri/disks", concat(std::string("\0\xff junk\n", 8), "259:0-0 12\n259:0-0 x 2026-01-01\n259:0-0 0 2026-01-01\n",
                                             "259:0-0 5 yesterday\n259:0-0 -5 2026-01-01\n", good, "259:0-0 77"));
    CHECK(!find_disk_speed(store, c));
    CHECK(find_disk_speed(store, b)->bytes_per_second == 2e9);
    REQUIRE(keep_disk_speed(store, c, 77.0));
    CHECK(scratch::read(store) == concat(good, "259:0-0 77 ", detail::today(), "\n"));

    // The oldest go when there are too many.
    std::string many = good;
    for (unsigned i = 0; i < 120; ++i) many += concat("1:", i, "-0 100 2026-01-01\n");
    folder.put("cache/colibri/disks", many);
    REQUIRE(keep_disk_speed(store, c, 77.0));
    CHECK(!find_disk_speed(store, b));
    CHECK(!find_disk_speed(store, disk_identity{1, 20, 0, ""}));
    CHECK(find_disk_speed(store, disk_identity{1, 21, 0, ""}));
    CHECK(find_disk_speed(store, c));
    CHECK(scratch::read(store).size() < 4000);

    for (const double wrong : {0.0, -1.0, 1e300}) CHECK(keep_disk_speed(store, a, wrong).error().code == errc::invalid_argument);
    CHECK(!keep_disk_speed(folder.put("plain", "x") / "disks", a, 1.0));
}
