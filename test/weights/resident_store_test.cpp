#include "colibri/weights/resident_store.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "colibri/gguf/writer.hpp"
#include "colibri/weights/open_store.hpp"
#include "support/scratch.hpp"
#include "support/tiny_models.hpp"
#include "weights/sample_file.hpp"

using namespace colibri;
using namespace colibri::weights;

namespace {

page_cache_state cache_of(const std::filesystem::path& path) { return page_cache_state::of(mapped_file::open(path).value()); }

std::uint64_t cached_bytes(const page_cache_state& state) {
    std::uint64_t out = 0;
    for (const auto& range : state.ranges()) out += range.cached ? range.end - range.begin : 0;
    return out;
}

/// Drops the file from the page cache; false where that can't be done (a file system in memory).
bool drop(const std::filesystem::path& path) {
    const auto opened = open_for_reading(path).value();
    ::fsync(opened.handle.get());
    ::posix_fadvise(opened.handle.get(), 0, 0, POSIX_FADV_DONTNEED);
    return cached_bytes(cache_of(path)) == 0;
}

/// Bytes that this process has read from disks; nothing where the system doesn't count.
std::optional<std::uint64_t> disk_bytes() {
    const auto text = scratch::read("/proc/self/io");
    const auto at = text.find("\nread_bytes: ");
    if (at == std::string::npos) return std::nullopt;
    return std::stoull(text.substr(at + 13));
}

}  // namespace

TEST_CASE("resident: every tensor once, as panels where it is multiplied, else as in the file") {
    const scratch::folder folder;
    const auto path = folder.path() / "samples.gguf";
    const auto bytes = write_samples(path);
    const auto file = gguf::file::open(path).value();
    const auto groups = sample_groups();
    const auto plan = resident_plan::make(file, groups).value();
    CHECK(plan.tensors.size() == samples.size());
    for (const unsigned threads : {0u, 1u, 2u, 7u}) {
        CAPTURE(threads);
        std::vector<std::string> notes;
        load_options options;
        options.threads = threads;
        const auto store = resident_store::open(file, groups, false, notes, options).value();
        CHECK(notes.empty());
        CHECK(store->memory().mapped == 0);
        CHECK(store->memory().resident == plan.bytes);
        for (group_id g = 0; g < groups.size(); ++g) {
            auto lease = store->acquire(g).value();
            for (std::size_t slot = 0; slot < groups[g].tensors.size(); ++slot) {
                const auto id = groups[g].tensors[slot];
                CAPTURE(samples[id].name);
                const auto& t = lease[slot];
                const bool panels = id == 1 || id == 2 || id == 5 || id == 6;
                CHECK(t.layout() == (panels ? layout::panels : layout::file));
                CHECK(t.type() == samples[id].type);
                CHECK(reinterpret_cast<std::uintptr_t>(t.data()) % 64 == 0);
                CHECK(rows_of(t) == bytes[id]);
            }
        }
        // One copy for both uses.
        CHECK(store->acquire(1).value()[0].data() == store->acquire(7).value()[0].data());
    }
}

TEST_CASE("resident: matrices whose panels would be larger become panels only if asked, with the same values") {
    const scratch::folder folder;
    const auto path = folder.path() / "grids.gguf";
    const std::vector<sample> all = {{"grid", dtype::iq2_xxs, {512, 37}},
                                     {"experts", dtype::iq3_s, {256, 19, 3}},
                                     {"ternary", dtype::tq1_0, {256, 21}},
                                     {"plain", dtype::tq2_0, {256, 21}}};
    const auto bytes = write_samples(path, all);
    const auto file = gguf::file::open(path).value();
    const std::vector<group> groups = {{access::whole, {0}}, {access::experts, {1}}, {access::whole, {2}}, {access::whole, {3}}};
    const auto large = resident_plan::make(file, groups, panel_choice::all).value();
    const auto small = resident_plan::make(file, groups, panel_choice::same_size).value();
    CHECK(large.bytes > small.bytes);
    for (std::size_t i = 0; i < all.size(); ++i) {
        CHECK(large.tensors[i].how == layout::panels);
        CHECK(small.tensors[i].how == (all[i].type == dtype::tq2_0 ? layout::panels : layout::file));
        if (small.tensors[i].how == layout::file) CHECK(small.tensors[i].bytes == bytes[i].size());
    }
    std::vector<std::string> notes;
    const auto fast = resident_store::open(file, groups, false, notes, {}, panel_choice::all).value();
    const auto compact = resident_store::open(file, groups, false, notes, {}, panel_choice::same_size).value();
    CHECK(fast->memory().resident == large.bytes);
    CHECK(compact->memory().resident == small.bytes);
    for (group_id g = 0; g < groups.size(); ++g) {
        auto a = fast->acquire(g).value();
        auto b = compact->acquire(g).value();
        std::vector<float> x(a[0].columns()), y(a[0].columns());
        for (std::uint32_t r = 0; r < a[0].rows(); ++r) {
            CHECK(a.decode_row(0, r, x));
            CHECK(b.decode_row(0, r, y));
            CHECK(std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) == 0);
        }
    }
}

TEST_CASE("resident: rows are looked up in either layout") {
    const scratch::folder folder;
    const auto path = folder.path() / "samples.gguf";
    const auto bytes = write_samples(path);
    const auto file = gguf::file::open(path).value();
    const auto groups = sample_groups();
    std::vector<std::string> notes;
    const auto resident = resident_store::open(file, groups, false, notes).value();
    const auto mapped = file_store::open(file, groups, false, notes).value();
    for (const group_id g : {0u, 1u, 2u, 6u}) {
        auto a = resident->acquire(g).value();
        auto b = mapped->acquire(g).value();
        std::vector<float> x(a[0].columns()), y(a[0].columns());
        for (std::uint32_t r = 0; r < a[0].rows(); ++r) {
            CHECK(a.decode_row(0, r, x));
            CHECK(b.decode_row(0, r, y));
            CHECK(std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) == 0);
        }
        x.resize(x.size() - 32);
        CHECK(!a.decode_row(0, 0, x));
        CHECK(!b.decode_row(0, 0, x));
    }
}

TEST_CASE("resident: pages that weren't cached aren't afterwards; those that were are read from memory and stay") {
    const scratch::folder folder;
    const auto path = folder.path() / "samples.gguf";
    const auto bytes = write_samples(path);
    const auto file = gguf::file::open(path).value();
    const auto groups = sample_groups();
    std::vector<std::string> notes;
    if (!drop(path)) {
        MESSAGE("skipped: files in the folder for temporary files can't leave the page cache");
        return;
    }
    const auto size = std::filesystem::file_size(path);
    const auto check = [&] {
        const auto store = resident_store::open(file, groups, false, notes).value();
        for (group_id g = 0; g < groups.size(); ++g) CHECK(rows_of(store->acquire(g).value()[0]) == bytes[groups[g].tensors[0]]);
    };
    // Nothing cached.
    const auto start = disk_bytes();
    check();
    CHECK(cached_bytes(cache_of(path)) == 0);
    if (start && *disk_bytes() == *start) MESSAGE("reads from disk aren't counted here");
    else if (start) CHECK(*disk_bytes() - *start >= size - 8192);
    // Half of it.
    {
        const auto opened = open_for_reading(path).value();
        ::posix_fadvise(opened.handle.get(), 0, 0, POSIX_FADV_RANDOM);  // nothing ahead, which would arrive later
        std::vector<std::byte> half(size / 2);
        REQUIRE(::pread(opened.handle.get(), half.data(), half.size(), 0) == static_cast<::ssize_t>(half.size()));
    }
    const auto before = cached_bytes(cache_of(path));
    CHECK(before >= size / 2);
    check();
    CHECK(cached_bytes(cache_of(path)) == before);
    // All.
    CHECK(scratch::read(path).size() == size);
    const auto warm = disk_bytes();
    check();
    if (warm) CHECK(*disk_bytes() - *warm < size / 2);  // the system may bring in some of this program itself
    CHECK(cached_bytes(cache_of(path)) >= size);
}

TEST_CASE("resident: what stops loading") {
    const scratch::folder folder;
    const auto path = folder.path() / "samples.gguf";
    write_samples(path);
    const auto file = gguf::file::open(path).value();
    const auto groups = sample_groups();
    std::vector<std::string> notes;
    SUBCASE("a request") {
        cancel_flag cancel;
        cancel.request();
        load_options options;
        options.cancel = &cancel;
        const auto refused = resident_store::open(file, groups, false, notes, options);
        REQUIRE(!refused);
        CHECK(refused.error().code == errc::canceled);
    }
    SUBCASE("whoever watches") {
        progress last;
        load_options options;
        options.threads = 1;
        options.progress = [&](const progress& p) {
            CHECK(p.done > last.done);
            last = p;
            return true;
        };
        CHECK(resident_store::open(file, groups, false, notes, options));
        CHECK(last.done == last.total);
        CHECK(last.total == file.tensor_bytes());
        options.progress = [](const progress&) { return false; };
        const auto refused = resident_store::open(file, groups, false, notes, options);
        REQUIRE(!refused);
        CHECK(refused.error().code == errc::canceled);
    }
    SUBCASE("a file that has become shorter") {
        std::filesystem::resize_file(path, std::filesystem::file_size(path) - 100);
        const auto refused = resident_store::open(file, groups, false, notes);
        REQUIRE(!refused);
        CHECK(refused.error().code == errc::truncated);
        CHECK(refused.error().message.find("shrunk") != std::string::npos);
    }
    SUBCASE("a file that becomes shorter while it is read") {
        for (const bool cached : {true, false}) {
            const auto other = folder.path() / "other.gguf";
            std::filesystem::copy_file(path, other, std::filesystem::copy_options::overwrite_existing);
            const auto now = gguf::file::open(other).value();
            if (!cached) drop(other);
            load_options options;
            options.threads = 1;
            const auto& wide = now.tensors()[6];
            options.progress = [&](const progress&) {
                std::filesystem::resize_file(other, wide.offset + wide.bytes / 2);
                return true;
            };
            const auto refused = resident_store::open(now, groups, false, notes, options);
            REQUIRE(!refused);
            CHECK(refused.error().code == errc::truncated);
            CHECK(refused.error().context.find("'wide'") != std::string::npos);
            CHECK(refused.error().offset != error::no_offset);
        }
    }
}

TEST_CASE("resident: a model opens either way, and automatic takes what fits") {
    model_options options;
    options.holding = holding::automatic;
    for (const auto* name : {"gemma3", "llama", "mixtral"}) {
        const auto opened = tiny::open(name, options);
        CHECK(opened.weights().memory().mapped == 0);
        CHECK(opened.weights().memory().resident >= opened.file().tensor_bytes());
        model_options mapped;
        mapped.holding = holding::mapped;
        CHECK(tiny::open(name, mapped).weights().memory().mapped > 0);
        CHECK(tiny::open(name).weights().memory().resident > 0);  // the default
    }
    // A KV cache that no memory holds.
    options.use.context = 0xffffffff;
    CHECK(model::open(tiny::path("llama"), options).error().code == errc::out_of_memory);
    options.memory = std::uint64_t{1} << 30;
    CHECK(model::open(tiny::path("llama"), options).error().code == errc::out_of_memory);
}

TEST_CASE("resident: too little memory is refused under a real limit") {
    const scratch::folder folder;
    const auto path = folder.path() / "large.gguf";
    // 170 MiB of weights where 160 MiB may be used.
    write_samples(path, {{"large", dtype::q8_0, {4096, 40000}}});
    const auto file = gguf::file::open(path).value();
    const std::vector<group> groups = {{access::whole, {0}}};
    const auto own_groups = colibri::detail::cgroup_folders("memory", "/");
    for (const auto& [own, version] : own_groups) {
        const auto* const limit_file = version == 1 ? "memory.limit_in_bytes" : "memory.max";
        if (!std::filesystem::exists(own / limit_file)) continue;
        const auto group_folder = own / ("colibri-test-" + std::to_string(::getpid()));
        if (::mkdir(group_folder.c_str(), 0755) != 0) break;
        std::ofstream(group_folder / limit_file) << (std::uint64_t{160} << 20);
        const ::pid_t child = ::fork();
        REQUIRE(child >= 0);
        if (child == 0) {
            {
                std::ofstream procs(group_folder / "cgroup.procs");
                procs << ::getpid() << std::flush;
                if (!procs) ::_exit(77);
            }
            if (read_memory_limits().free() > (std::uint64_t{160} << 20)) ::_exit(1);
            std::vector<std::string> notes;
            for (const bool lock : {false, true}) {
                const auto refused = open_store(file, groups, {holding::resident, lock, {}, {}}, notes);
                if (refused) ::_exit(2);
                if (refused.error().code != errc::out_of_memory) ::_exit(3);
                if (refused.error().message.find("--weights mapped") == std::string::npos) ::_exit(4);
                if ((refused.error().message.find("--mlock") != std::string::npos) != lock) ::_exit(5);
            }
            const auto locked = open_store(file, groups, {holding::mapped, true, {}, {}}, notes);
            if (locked || locked.error().message.find("--mlock") == std::string::npos) ::_exit(6);
            ::_exit(0);
        }
        int status = 0;
        REQUIRE(::waitpid(child, &status, 0) == child);
        for (int attempt = 0; attempt < 100 && ::rmdir(group_folder.c_str()) != 0; ++attempt) ::usleep(10000);
        REQUIRE(WIFEXITED(status));
        if (WEXITSTATUS(status) == 77) break;
        CHECK(WEXITSTATUS(status) == 0);
        MESSAGE(std::string("tested under a real limit, version ") << version);
        return;
    }
    MESSAGE("skipped: no right to make a control group here");
}

TEST_CASE("resident: locked pages are counted as such, or a note says why not") {
    const auto file = gguf::file::open(tiny::path("llama")).value();
    std::vector<std::string> notes;
    REQUIRE(resident_store::open(file, {{access::whole, {0}}}, true, notes));
    CHECK(notes.size() <= 1);
    if (notes.size() == 1) CHECK(notes[0].find("not locked in memory") != std::string::npos);
}
