#include "colibri/weights/stream_plan.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "support/scratch.hpp"
#include "weights/sample_file.hpp"

using namespace colibri;
using namespace colibri::weights;

namespace {

/// Twelve layers of three matrices in two groups, a head, a table, experts in two of the layers.
struct layered {
    layered() {
        std::vector<sample> all = {{"table", dtype::q4_0, {256, 900}}};
        for (int i = 0; i < 12; ++i) {
            const std::string layer = std::to_string(i);
            all.push_back({"a" + layer, dtype::q4_k, {256, 512}});
            all.push_back({"b" + layer, dtype::q8_0, {256, 200}});
            all.push_back({"c" + layer, i % 2 == 0 ? dtype::q6_k : dtype::q5_0, {512, 256}});
        }
        all.push_back({"head", dtype::q6_k, {256, 900}});
        all.push_back({"norm", dtype::f32, {256}});
        all.push_back({"experts 0", dtype::q4_0, {64, 96, 40}});
        all.push_back({"experts 1", dtype::q8_0, {64, 96, 40}});
        write_samples(path, all);
        groups.push_back({access::rows, {0}, demand::each_sweep});
        for (tensor_id i = 0; i < 12; ++i) {
            groups.push_back({access::whole, {1 + 3 * i, 2 + 3 * i}, demand::each_sweep});
            groups.push_back({access::whole, {3 + 3 * i}, demand::each_sweep});
            if (i == 4) groups.push_back({access::experts, {39}, demand::each_sweep});
            if (i == 8) groups.push_back({access::experts, {40}, demand::each_sweep});
        }
        groups.push_back({access::whole, {37}, demand::some_sweeps});
        groups.push_back({access::whole, {38}, demand::once});
    }
    scratch::folder folder;
    std::filesystem::path path = folder.path() / "layered.gguf";
    std::vector<group> groups;
};

}  // namespace

TEST_CASE("stream plan: every row once, nothing outside the memory, nothing twice in it") {
    const layered model;
    const auto file = gguf::file::open(model.path).value();
    std::uint64_t least = 0;
    REQUIRE(!stream_plan::make(file, model.groups, 1000, {16384, 0, 0}, &least));
    CHECK(least > 1000);
    CHECK(stream_plan::make(file, model.groups, least, {16384, 0, 0}));
    const auto refused = stream_plan::make(file, model.groups, least - 1, {16384, 0, 0});
    REQUIRE(!refused);
    CHECK(refused.error().code == errc::out_of_memory);
    double before = -1.0;
    for (const std::uint64_t extra : {0u, 100000u, 300000u, 700000u, 1500000u, 2500000u, 5000000u}) {
        CAPTURE(extra);
        const auto plan = stream_plan::make(file, model.groups, least + extra, {16384, 0, 0}).value();
        CHECK(plan.bytes <= least + extra);
        std::map<std::pair<group_id, std::uint32_t>, std::uint64_t> rows;
        std::uint64_t pinned_source = 0;
        std::uint64_t streamed = 0;
        for (const auto& piece : plan.pieces) {
            CHECK(piece.first_row == (rows[{piece.group, piece.slot}]));
            rows[{piece.group, piece.slot}] += piece.rows;
            const auto& info = file.tensors()[piece.tensor];
            CHECK(piece.source.offset == info.offset + piece.first_row * info.row_bytes());
            CHECK(piece.source.bytes == piece.rows * info.row_bytes());
            (piece.pinned ? pinned_source : streamed) += piece.pinned ? piece.source.bytes : piece.source.room();
            if (piece.pinned) CHECK(plan.pinned[piece.place].id == piece.tensor);
        }
        for (group_id g = 0; g < model.groups.size(); ++g) {
            for (std::uint32_t slot = 0; model.groups[g].how == access::whole && slot < model.groups[g].tensors.size(); ++slot) {
                CHECK((rows[{g, slot}]) == file.tensors()[model.groups[g].tensors[slot]].rows());
            }
        }
        CHECK(plan.streamed_bytes == streamed);
        std::size_t end = 0;
        for (const auto& held : plan.pinned) {
            CHECK(held.offset >= end);
            CHECK(held.offset % 64 == 0);
            end = held.offset + held.bytes;
        }
        CHECK(end <= plan.row_offset);
        CHECK(plan.row_offset + plan.row_capacity * plan.row_bytes <= plan.staging_offset);
        CHECK(plan.staging_offset + stream_plan::row_reads * plan.staging_room <= plan.ring_offset);
        std::size_t at = plan.ring_offset + plan.ring_bytes;
        for (const auto& cache : plan.caches) {
            CHECK(cache.offset == at);
            CHECK(cache.slots >= 16);
            CHECK(cache.slots <= cache.units);
            at += cache.slots * cache.slot_bytes;
        }
        CHECK(at == plan.bytes);
        // More memory never holds less.
        CHECK(static_cast<double>(pinned_source) >= before);
        before = static_cast<double>(pinned_source);
        CHECK((plan.streamed_bytes == 0) == (extra == 5000000u));
        // The memory is used: what is left is less than a piece and an expert.
        if (plan.streamed_bytes != 0) CHECK(plan.bytes + 20000 >= least + extra);
    }
}

TEST_CASE("stream plan: what is held is spread over the sweep") {
    const layered model;
    const auto file = gguf::file::open(model.path).value();
    std::uint64_t least = 0;
    (void)stream_plan::make(file, model.groups, 0, {16384, 0, 0}, &least);
    for (const std::uint64_t extra : {300000u, 700000u, 1100000u}) {
        const auto plan = stream_plan::make(file, model.groups, least + extra, {16384, 0, 0}).value();
        std::uint64_t all = 0;
        std::uint64_t pinned = 0;
        for (const auto& piece : plan.pieces) {
            all += piece.source.bytes;
            pinned += piece.pinned ? piece.source.bytes : 0;
        }
        const double share = static_cast<double>(pinned) / static_cast<double>(all);
        std::uint64_t seen = 0;
        std::uint64_t held = 0;
        for (const auto& piece : plan.pieces) {
            seen += piece.source.bytes;
            held += piece.pinned ? piece.source.bytes : 0;
            // Never further from the even share than a few pieces: the ring covers that much.
            CHECK(std::abs(static_cast<double>(held) - share * static_cast<double>(seen)) < 4 * 16384.0);
        }
    }
}

TEST_CASE("stream plan: numbers that overflow are refused") {
    const layered model;
    const auto file = gguf::file::open(model.path).value();
    CHECK(stream_plan::make(file, model.groups, ~std::uint64_t{0} / 2).value().streamed_bytes == 0);
}
