#include "colibri/weights/streamed_store.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "colibri/model/evaluator.hpp"
#include "support/scratch.hpp"
#include "support/tiny_models.hpp"
#include "weights/sample_file.hpp"

using namespace colibri;
using namespace colibri::weights;

namespace {

/// The smallest memory for these groups, and `extra` bytes.
stream_options options_for(const gguf::file& file, const std::vector<group>& groups, std::uint64_t extra, std::size_t piece) {
    stream_options out;
    out.sizes.piece = piece;
    (void)stream_plan::make(file, groups, 0, out.sizes, &out.memory);
    out.memory += extra;
    return out;
}

/// All rows of a group's tensors in the file's layout, by slot, as a lease gives them.
std::vector<std::vector<std::byte>> taken(store& from, group_id group, std::size_t slots, std::size_t at_once) {
    std::vector<std::vector<std::byte>> out(slots);
    std::vector<row_piece> pieces(at_once);
    auto lease = from.acquire(group).value();
    while (true) {
        const std::size_t n = lease.take(slots, pieces).value();
        if (n == 0) return out;
        for (std::size_t i = 0; i < n; ++i) {
            auto& to = out[pieces[i].slot];
            CHECK(to.size() == pieces[i].first_row * pieces[i].rows.row_bytes());
            const auto rows = rows_of(pieces[i].rows);
            to.insert(to.end(), rows.begin(), rows.end());
        }
    }
}

std::vector<group> streamed_groups() {
    return {{access::rows, {0}, demand::each_sweep},       {access::rows, {7}, demand::each_sweep},
            {access::experts, {2, 2}, demand::each_sweep}, {access::whole, {4, 5}, demand::each_sweep},
            {access::whole, {6}, demand::each_sweep},      {access::whole, {1}, demand::some_sweeps},
            {access::whole, {3}, demand::once}};
}

/// One sweep: everything that is asked for is compared with the file's bytes.
void check_sweep(store& s, const std::vector<std::vector<std::byte>>& bytes, bool head, bool in_order) {
    sweep pass;
    REQUIRE(pass.begin(s, head, nullptr));
    {
        const std::uint32_t rows[] = {0, 3, 20};
        auto lease = s.acquire(0, rows).value();
        std::vector<float> got(96);
        std::vector<float> expected(96);
        for (const auto row : rows) {
            REQUIRE(lease.decode_row(0, row, got));
            const std::size_t size = bytes[0].size() / 21;
            REQUIRE(quant::decode_row(dtype::q8_0, std::span(bytes[0]).subspan(row * size, size), expected));
            CHECK(std::memcmp(got.data(), expected.data(), got.size() * sizeof(float)) == 0);  // NaNs too
        }
        CHECK(!lease.decode_row(0, 3, std::span(got).first(95)));
    }
    {
        const std::uint32_t experts[] = {0, 2};
        auto lease = s.acquire(2, experts).value();
        std::size_t given = 0;
        std::uint32_t last = 0;
        while (const auto e = lease.next_expert(in_order).value()) {
            CHECK((*e == 0 || *e == 2));
            if (in_order && given == 1) CHECK(last < *e);
            last = *e;
            for (const std::size_t slot : {0u, 1u}) {
                const auto matrix = lease.expert(slot, *e);
                const std::size_t size = bytes[2].size() / 3;
                CHECK(std::memcmp(matrix.data(), bytes[2].data() + *e * size, size) == 0);
            }
            ++given;
        }
        CHECK(given == 2);
    }
    const auto two = taken(s, 3, 2, 3);
    CHECK(two[0] == bytes[4]);
    CHECK(two[1] == bytes[5]);
    CHECK(taken(s, 4, 1, 1)[0] == bytes[6]);
    if (head) CHECK(taken(s, 5, 1, 16)[0] == bytes[1]);
}

/// Lets a test decide what happens before each read.
class hooked_source final : public byte_source {
public:
    using hook = std::function<result<void>(std::uint64_t offset, std::size_t bytes)>;
    hooked_source(std::unique_ptr<byte_source> real, hook before) : real_(std::move(real)), before_(std::move(before)) {}
    [[nodiscard]] std::uint64_t size() const noexcept override { return real_->size(); }

private:
    [[nodiscard]] result<void> do_read(std::uint64_t offset, std::span<std::byte> out) override {
        if (auto ok = before_(offset, out.size()); !ok) return ok;
        return real_->read_at(offset, out);
    }
    std::unique_ptr<byte_source> real_;
    hook before_;
};

source_opener hooked(hooked_source::hook before) {
    return [before](const std::filesystem::path& path) -> result<std::unique_ptr<byte_source>> {
        auto real = file_reader::open(path);
        if (!real) return std::move(real).error();
        return std::unique_ptr<byte_source>(new hooked_source(*std::move(real), before));
    };
}

/// A tiny model that is streamed as far as possible, read through `before`.
model streamed_model(const std::filesystem::path& path, hooked_source::hook before = {}) {
    model_options options;
    options.holding = holding::streamed;
    options.streaming.piece = 4096;
    const auto header = model::open_header(path).value();
    (void)stream_plan::make(header.file(), header.tensors().groups, 0, options.streaming, &options.streaming.memory);
    if (before) options.reading.open = hooked(std::move(before));
    return model::open(path, options).value();
}

model open_as(const std::filesystem::path& path, holding how) {
    if (how == holding::streamed) return streamed_model(path);
    model_options options;
    options.holding = how;
    return model::open(path, options).value();
}

evaluator evaluator_of(const model& m) {
    evaluator_options options;
    options.context = 64;
    options.ubatch = 8;
    return evaluator::make(m, options).value();
}

result<void> step_once(evaluator& e) {
    const std::uint32_t position = e.kv().length(0);
    const batch_token token{static_cast<text::token_id>(position % 7), position, 0, true};
    return e.step({&token, 1});
}

std::vector<float> logits_of(evaluator& e) {
    const auto logits = e.logits(0);
    return {logits.begin(), logits.end()};
}

}  // namespace

TEST_CASE("streamed: sweep after sweep gives the file's bytes, whatever is held, with both kinds of reader") {
    const scratch::folder folder;
    const auto path = folder.path() / "samples.gguf";
    const auto bytes = write_samples(path);
    const auto file = gguf::file::open(path).value();
    const auto groups = streamed_groups();
    std::vector<std::string> notes;
    for (const auto reader : {read_backend_kind::threads, read_backend_kind::io_uring}) {
        for (const std::uint64_t extra : {0u, 3u << 20, 7u << 20, 64u << 20}) {
            for (const std::size_t piece : {std::size_t{1} << 16, std::size_t{1} << 20}) {
                auto options = options_for(file, groups, extra, piece);
                options.reading.backend = reader;
                auto store = streamed_store::open(file, groups, options, notes);
                if (!store && store.error().code == errc::unsupported) {
                    MESSAGE("skipped: no io_uring here");
                    continue;
                }
                REQUIRE_MESSAGE(store, (store ? std::string() : store.error().text()));
                const auto use = (*store)->memory();
                CHECK(use.resident + use.buffers + use.cache <= options.memory);
                for (const bool head : {true, false, false, true, true}) check_sweep(**store, bytes, head, !head);
                const auto done = (*store)->statistics();
                CHECK(done.sweeps == 5);
                CHECK(done.expert_hits + done.expert_misses == 10);
                CHECK(done.expert_misses == 2);  // both fit
                if (extra == 64u << 20) CHECK(use.swept == 0);
                else CHECK(done.bytes_read >= 3 * use.swept);
            }
        }
    }
}

TEST_CASE("streamed: a sweep that is left half way, and groups taken out of order") {
    const scratch::folder folder;
    const auto path = folder.path() / "samples.gguf";
    const auto bytes = write_samples(path);
    const auto file = gguf::file::open(path).value();
    std::vector<std::string> notes;
    const auto groups = streamed_groups();
    const auto store = streamed_store::open(file, groups, options_for(file, groups, 0, 1 << 16), notes).value();
    for (int round = 0; round < 3; ++round) {
        {
            sweep pass;
            REQUIRE(pass.begin(*store, true, nullptr));
            row_piece piece[2];
            auto lease = store->acquire(3).value();
            CHECK(lease.take(2, piece).value() >= 1);
        }
        check_sweep(*store, bytes, true, true);
        CHECK(taken(*store, 4, 1, 2)[0] == bytes[6]);
        CHECK(taken(*store, 3, 2, 2)[1] == bytes[5]);
    }
}

TEST_CASE("streamed: more experts than fit, in order and as they come") {
    const scratch::folder folder;
    const auto path = folder.path() / "experts.gguf";
    const auto bytes = write_samples(path, {{"experts", dtype::q8_0, {64, 50, 40}}, {"other", dtype::q4_0, {32, 50, 40}}});
    const auto file = gguf::file::open(path).value();
    const std::vector<group> groups = {{access::experts, {0, 1}, demand::each_sweep}};
    std::vector<std::string> notes;
    const auto store = streamed_store::open(file, groups, options_for(file, groups, 0, 4096), notes).value();
    const auto slots = static_cast<const streamed_store&>(*store).plan().caches[0].slots;
    REQUIRE(slots == 16);
    std::vector<std::uint32_t> all(40);
    for (std::uint32_t e = 0; e < 40; ++e) all[e] = e;
    for (const bool in_order : {true, false, true, false}) {
        sweep pass;
        REQUIRE(pass.begin(*store, true, nullptr));
        auto lease = store->acquire(0, all).value();
        std::vector<int> given(40);
        std::optional<std::uint32_t> last;
        while (const auto e = lease.next_expert(in_order).value()) {
            if (in_order && last) CHECK(*e > *last);
            last = e;
            ++given[*e];
            for (std::size_t slot = 0; slot < 2; ++slot) {
                const std::size_t size = bytes[slot].size() / 40;
                CHECK(std::memcmp(lease.expert(slot, *e).data(), bytes[slot].data() + *e * size, size) == 0);
            }
        }
        CHECK(given == std::vector<int>(40, 1));
    }
    // Few enough to stay.
    const std::uint32_t few[] = {1, 5, 9};
    for (int i = 0; i < 3; ++i) {
        auto lease = store->acquire(0, few).value();
        while (lease.next_expert(false).value()) {}
    }
    const auto before = store->statistics();
    auto lease = store->acquire(0, few).value();
    CHECK(store->statistics().expert_misses == before.expert_misses);
    CHECK(store->statistics().expert_hits == before.expert_hits + 3);
}

TEST_CASE("streamed: tensors at odd places are moved to where they can be computed with") {
    const scratch::folder folder;
    const auto path = folder.path() / "odd.gguf";
    const auto bytes = write_samples(path, {{"first", dtype::q4_0, {4096, 100}}, {"floats", dtype::f32, {1000, 200}}});
    auto file = gguf::file::open(path).value();
    // The same tensors one byte further, as files with an alignment of 1 have them.
    std::string text = scratch::read(path);
    const auto data = static_cast<std::size_t>(file.tensors()[0].offset);
    text.insert(data, 1, '\0');
    scratch::write(path, text);
    auto shifted = std::vector<gguf::tensor_info>(file.tensors().begin(), file.tensors().end());
    const std::vector<group> groups = {{access::whole, {0, 1}, demand::each_sweep}};
    for (auto& info : shifted) ++info.offset;
    std::vector<std::string> notes;
    const auto options = options_for(file, groups, 0, 1 << 16);
    auto plan = stream_plan::make(file, groups, options.memory, options.sizes).value();
    auto queue = read_queue::open({path}, {}).value();
    std::vector<ring_piece> pieces;
    for (const auto& piece : plan.pieces) {
        auto source = piece.source;
        ++source.offset;
        pieces.push_back({source, quant::block_alignment(file.tensors()[piece.tensor].type), false});
    }
    auto memory = aligned_buffer::allocate(std::size_t{4} << 20).value();
    sweep_ring ring(*queue, pieces, {memory.data(), memory.size()});
    std::vector<std::byte> got[2];
    for (std::size_t i = 0; i < pieces.size(); ++i) {
        const auto* at = ring.take(i, nullptr).value();
        CHECK(reinterpret_cast<std::uintptr_t>(at) % pieces[i].alignment == 0);
        auto& to = got[plan.pieces[i].slot];
        to.insert(to.end(), at, at + pieces[i].source.bytes);
        ring.release();
    }
    CHECK(got[0] == bytes[0]);
    CHECK(got[1] == bytes[1]);
}

TEST_CASE("streamed: a read error ends the step with tensor and byte, and the next step is whole again") {
    for (const auto* name : {"llama", "mixtral"}) {
        CAPTURE(name);
        std::atomic<bool> broken{false};
        auto m = streamed_model(tiny::path(name), [&](std::uint64_t, std::size_t) -> result<void> {
            if (broken) return error{errc::io, "could not read: Input/output error"};
            return {};
        });
        auto e = evaluator_of(m);
        auto healthy = evaluator_of(model::open(tiny::path(name)).value());
        for (int i = 0; i < 4; ++i) {
            broken = true;
            result<void> failed;
            // What was read ahead may still do for a part of a sweep.
            for (int attempt = 0; attempt < 3 && failed; ++attempt) failed = step_once(e);
            while (e.kv().length(0) > healthy.kv().length(0)) REQUIRE(step_once(healthy));
            REQUIRE(!failed);
            CHECK(failed.error().code == errc::io);
            CHECK(failed.error().text().find("tensor") != std::string::npos);
            CHECK(failed.error().offset != error::no_offset);
            broken = false;
            const auto again = step_once(e);
            REQUIRE_MESSAGE(again, (again ? std::string() : again.error().text()));
            REQUIRE(step_once(healthy));
            CHECK(logits_of(e) == logits_of(healthy));
        }
    }
}

TEST_CASE("streamed: cancelling ends a step while the disk doesn't answer") {
    for (const auto* name : {"llama", "mixtral"}) {
        CAPTURE(name);
        std::mutex mutex;
        std::condition_variable changed;
        bool stuck = false;
        bool waiting = false;
        auto m = streamed_model(tiny::path(name), [&](std::uint64_t, std::size_t) -> result<void> {
            std::unique_lock lock(mutex);
            waiting = waiting || stuck;
            changed.notify_all();
            changed.wait(lock, [&] { return !stuck; });
            return {};
        });
        auto e = evaluator_of(m);
        REQUIRE(step_once(e));
        {
            const std::lock_guard lock(mutex);
            stuck = true;
        }
        cancel_flag cancel;
        std::thread other([&] {
            std::unique_lock lock(mutex);
            changed.wait(lock, [&] { return waiting; });
            cancel.request();
        });
        // Reads stay stuck until the step has ended: only the flag can end it.
        result<void> ended;
        while (ended) {
            const std::uint32_t position = e.kv().length(0);
            const batch_token token{3, position, 0, true};
            ended = e.step({&token, 1}, &cancel);
        }
        other.join();
        CHECK(ended.error().code == errc::canceled);
        const auto length = e.kv().length(0);
        {
            const std::lock_guard lock(mutex);
            stuck = false;
        }
        changed.notify_all();
        REQUIRE(step_once(e));
        CHECK(e.kv().length(0) == length + 1);
    }
}

TEST_CASE("streamed and mapped: files that are removed, cut or changed while they are in use") {
    for (const auto how : {holding::streamed, holding::mapped}) {
        CAPTURE(name(how));
        const scratch::folder folder;
        const auto path = folder.path() / "model.gguf";
        const auto copy = [&] {
            std::filesystem::copy_file(tiny::path("llama"), path, std::filesystem::copy_options::overwrite_existing);
        };
        copy();
        {
            auto e = evaluator_of(open_as(path, how));
            REQUIRE(step_once(e));
            std::filesystem::rename(path, folder.path() / "renamed.gguf");
            REQUIRE(step_once(e));
            std::filesystem::remove(folder.path() / "renamed.gguf");
            for (int i = 0; i < 3; ++i) REQUIRE(step_once(e));
        }
        copy();
        {
            auto e = evaluator_of(open_as(path, how));
            REQUIRE(step_once(e));
            std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
            const auto cut = step_once(e);
            REQUIRE(!cut);
            CHECK(cut.error().code == errc::truncated);
            CHECK(cut.error().text().find("model.gguf") != std::string::npos);
        }
        copy();
        {
            auto e = evaluator_of(open_as(path, how));
            REQUIRE(step_once(e));
            const auto written = std::filesystem::last_write_time(path);
            std::fstream(path, std::ios::in | std::ios::out | std::ios::binary).seekp(100).write("x", 1);
            // A clock that stands still for a moment is no part of this.
            std::filesystem::last_write_time(path, written + std::chrono::seconds(2));
            const auto changed = step_once(e);
            REQUIRE(!changed);
            CHECK(changed.error().code == errc::io);
            CHECK(changed.error().text().find("changed") != std::string::npos);
        }
    }
}

TEST_CASE("streamed: two evaluators of one model take turns") {
    auto m = streamed_model(tiny::path("mixtral"));
    auto alone = evaluator_of(m);
    std::vector<float> expected;
    for (int i = 0; i < 6; ++i) REQUIRE(step_once(alone));
    expected = logits_of(alone);
    std::vector<std::vector<float>> got(3);
    std::vector<std::thread> threads;
    for (auto& out : got) {
        threads.emplace_back([&] {
            auto e = evaluator_of(m);
            for (int i = 0; i < 6; ++i) {
                if (!step_once(e)) return;
            }
            out = logits_of(e);
        });
    }
    for (auto& t : threads) t.join();
    for (const auto& each : got) CHECK(each == expected);
}
