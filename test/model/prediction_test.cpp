#include "colibri/model/prediction.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <deque>

#include "colibri/session/session.hpp"
#include "support/tiny_models.hpp"

using namespace colibri;

namespace {

model header(const std::string& name) {
    auto opened = model::open_header(tiny::path(name));
    REQUIRE_MESSAGE(opened, (opened ? std::string() : opened.error().text()));
    return *std::move(opened);
}

/// A plan that holds nothing of one matrix of `bytes` bytes in the first layer, nor of another in the head.
memory_plan streamed(const model& m, std::size_t layer_bytes, std::size_t head_bytes) {
    memory_plan plan;
    plan.how = weights::holding::streamed;
    plan.ubatch = 8;
    const auto& tensors = m.tensors();
    for (const auto& group : tensors.groups) plan.streaming.demands.push_back(group.when);
    weights::stream_piece piece;
    piece.group = tensors.layers[0].attention;
    piece.source = {0, 4096, layer_bytes};
    plan.streaming.pieces.push_back(piece);
    piece.group = tensors.head;
    piece.source = {0, 8192, head_bytes};
    plan.streaming.pieces.push_back(piece);
    piece.pinned = true;
    piece.source.bytes = 1 << 30;
    plan.streaming.pieces.push_back(piece);
    return plan;
}

constexpr machine_limits fast = {.bandwidth = 1e15, .integer_peak = 1e15, .float_peak = 1e15};

}  // namespace

TEST_CASE("prediction: resident weights read nothing, and memory is their limit") {
    const auto m = header("llama");
    memory_plan plan;
    plan.how = weights::holding::resident;
    plan.ubatch = 8;
    const machine_limits memory = {.bandwidth = 1e6, .integer_peak = 1e15, .float_peak = 1e15};
    const speed_predictor predictor(m, plan, {}, {.one = memory, .several = memory});
    const double bytes = roofline(m, kv_type::f16, kv_type::f16, memory).sweep(1, 9, 1, 1).bytes;
    const auto speed = predictor.decode(9);
    CHECK(speed.bytes_read == 0.0);
    REQUIRE(speed.limit);
    REQUIRE(speed.expected);
    CHECK(*speed.limit == doctest::Approx(1e6 / bytes));
    CHECK(*speed.expected == doctest::Approx(reached_shares{}.decode * 1e6 / bytes));
    CHECK(speed.slowest == bottleneck::memory);
    // A smaller quantisation makes weights smaller, not the cache.
    const double cache = 10.0 * 2.0 * m.params().kv_heads * (m.params().head_k + m.params().head_v) * m.params().layers;
    const speed_predictor half(m, plan, {}, {.one = memory}, {}, 0.5);
    CHECK(*half.decode(9).limit == doctest::Approx(1e6 / ((bytes - cache) / 2 + cache)));
}

TEST_CASE("prediction: arithmetic is the limit of a prompt where it takes longer than memory") {
    const auto m = header("llama");
    memory_plan plan;
    plan.how = weights::holding::resident;
    plan.ubatch = 8;
    const machine_limits slow = {.bandwidth = 1e15, .integer_peak = 1e6, .float_peak = 1e6};
    const speed_predictor predictor(m, plan, {}, {.one = fast, .several = slow});
    const auto w = roofline(m, kv_type::f16, kv_type::f16, slow).prompt(16, 0, 8);
    const auto speed = predictor.prompt(16);
    REQUIRE(speed.expected);
    CHECK(*speed.limit == doctest::Approx(16.0 * 1e6 / (w.integer_madds + w.float_madds)));
    CHECK(*speed.expected == doctest::Approx(reached_shares{}.prompt * *speed.limit));
    CHECK(speed.slowest == bottleneck::arithmetic);
    CHECK(predictor.decode(0).slowest != bottleneck::unknown);
}

TEST_CASE("prediction: what is streamed is read once in each sweep, the head only for logits, and whole blocks of the disk") {
    const auto m = header("llama");
    const auto plan = streamed(m, 40960, 8193);  // 10 blocks and 3
    const speed_predictor predictor(m, plan, {}, {.one = fast, .several = fast, .disk = 1e6});
    CHECK(predictor.reads(1, true).dense == 13 * 4096.0);
    CHECK(predictor.reads(1, false).dense == 10 * 4096.0);
    const auto row = predictor.reads(1, true).rows;
    const auto& embedding = m.file().tensors()[m.tensors().groups[m.tensors().embedding].tensors[0]];
    double blocks = 0.0;
    for (std::uint64_t i = 0; i < std::min<std::uint64_t>(embedding.rows(), 1024); ++i) {
        const auto begin = embedding.offset + i * embedding.row_bytes();
        blocks += static_cast<double>((begin + embedding.row_bytes() - 1) / 4096 - begin / 4096 + 1);
    }
    CHECK(row == doctest::Approx(4096.0 * blocks / static_cast<double>(std::min<std::uint64_t>(embedding.rows(), 1024))));
    CHECK(predictor.reads(7, true).rows == doctest::Approx(7 * row));
    const auto speed = predictor.decode(0);
    CHECK(speed.bytes_read == doctest::Approx(13 * 4096.0 + row));
    CHECK(*speed.limit == doctest::Approx(1e6 / (13 * 4096.0 + row)));
    CHECK(*speed.expected == doctest::Approx(reached_shares{}.disk * *speed.limit));
    CHECK(speed.slowest == bottleneck::disk);
    // 20 tokens in ubatches of 8: three sweeps, logits in the last.
    CHECK(predictor.prompt(20).bytes_read == doctest::Approx((3 * 10 + 3) * 4096.0 / 20 + row));
    CHECK(speed_predictor::speed_of(predictor.prompt_cost(20, 0, 20)).bytes_read == doctest::Approx(13 * 4096.0 / 20 + row));
    // Two sequences share a sweep.
    CHECK(speed_predictor::speed_of(predictor.decode_cost(3, 0, 2)).bytes_read == doctest::Approx(13 * 4096.0 / 2 + row));
}

TEST_CASE("prediction: of a mixture evenly used experts miss by the share that isn't cached") {
    const auto m = header("mixtral");
    const auto& h = m.params();
    auto plan = streamed(m, 4096, 4096);
    weights::expert_cache_plan cache;
    cache.units = std::size_t{h.experts} * h.layers;
    cache.slots = cache.units / 4;
    REQUIRE(cache.slots * 4 == cache.units);
    plan.streaming.caches.push_back(cache);
    for (const auto& layer : m.tensors().layers) {
        plan.streaming.experts.push_back({layer.experts, 0, 0, {{0, 0, 4096}, {0, 0, 4096}, {0, 0, 8192}}, {0, 0, 0}});
    }
    const speed_predictor predictor(m, plan, {}, {.one = fast, .several = fast, .disk = 1e6});
    const double all = 0.75 * h.layers * h.experts * 4 * 4096.0;
    const double used = static_cast<double>(h.experts_used) / h.experts;
    CHECK(predictor.reads(1, true).experts == doctest::Approx(all * used));
    CHECK(predictor.reads(3, true).experts == doctest::Approx(all * (1.0 - std::pow(1.0 - used, 3.0))));
    CHECK(predictor.expert_miss_share() == doctest::Approx(0.75));
    // A token waits for its experts on top of what else it does; here all of that but the layer's and the head's two blocks is nothing.
    const auto all_reads = predictor.reads(1, true);
    const auto speed = predictor.decode(0);
    CHECK(1.0 / *speed.expected == doctest::Approx(all_reads.total() / 1e6 / reached_shares{}.disk));
    const machine_limits slow = {.bandwidth = 1e6, .integer_peak = 1e15, .float_peak = 1e15};
    const double memory = roofline(m, kv_type::f16, kv_type::f16, slow).sweep(1, 0, 1, 1).bytes / 1e6;
    const auto slower = speed_predictor(m, plan, {}, {.one = slow, .several = slow, .disk = 1e6}).decode(0);
    CHECK(1.0 / *slower.expected == doctest::Approx(all_reads.experts / 1e6 / reached_shares{}.disk +
                                                    std::max(memory / reached_shares{}.decode,
                                                             (all_reads.total() - all_reads.experts) / 1e6 / reached_shares{}.disk)));
    plan.streaming.caches[0].slots = cache.units;
    CHECK(speed_predictor(m, plan, {}, {}).reads(1, true).experts == 0.0);
}

TEST_CASE("prediction: a recording says which experts will be missing") {
    const auto m = header("mixtral");
    const auto& h = m.params();
    auto plan = streamed(m, 4096, 4096);
    weights::expert_cache_plan cache;
    cache.units = std::size_t{h.experts} * h.layers;
    cache.slots = h.experts_used * std::size_t{h.layers};
    plan.streaming.caches.push_back(cache);
    for (std::uint32_t i = 0; i < h.layers; ++i) {
        plan.streaming.experts.push_back({m.tensors().layers[i].experts, 0, std::size_t{i} * h.experts, {{0, 0, 4096}}, {0}});
    }
    REQUIRE(h.experts >= 2 * h.experts_used);
    // Always the same ones: they stay. In the last eighth of the file each layer needs others by turns: all miss.
    const auto recording = [&](std::uint64_t steps, std::uint64_t changing) {
        std::deque<weights::heat_line> out;
        for (std::uint64_t step = 0; step < steps; ++step) {
            for (std::uint32_t layer = 0; layer < h.layers; ++layer) {
                weights::heat_line line{step, layer, {}};
                const std::uint32_t first = step + changing < steps ? 0 : step % 2 == 0 ? h.experts_used : 0;
                for (std::uint32_t e = 0; e < h.experts_used; ++e) line.experts.push_back(first + e);
                out.push_back(line);
            }
        }
        return out;
    };
    const auto misses = [&](const std::deque<weights::heat_line>& heat) {
        return speed_predictor(m, plan, {}, {.disk = 1e6}, {}, 1.0, heat).expert_miss_share();
    };
    CHECK(misses(recording(64, 0)) == 0.0);
    const double some = misses(recording(64, 8));
    CHECK(some > 0.0);
    CHECK(some <= 8.0 / 32.0);
    const speed_predictor predictor(m, plan, {}, {.disk = 1e6}, {}, 1.0, recording(64, 8));
    const double used = 4096.0 * h.experts_used * h.layers;
    CHECK(predictor.reads(1, true).experts == doctest::Approx(some * used));
    CHECK(predictor.reads(2, true).experts == doctest::Approx(some * used * 2));
    const double even = speed_predictor(m, plan, {}, {}).reads(1e6, true).experts;
    CHECK(predictor.reads(1e6, true).experts == doctest::Approx(even));  // no more than all that isn't held
}

TEST_CASE("prediction: without a figure that it takes a speed is unknown") {
    const auto m = header("llama");
    const auto plan = streamed(m, 40960, 4096);
    const machine_limits no_peaks = {.bandwidth = 1e9, .integer_peak = 0.0, .float_peak = 0.0};
    const auto unknown = [&](const memory_plan& p, const machine_speed& machine, bool prompt) {
        const speed_predictor predictor(m, p, {}, machine);
        const auto speed = prompt ? predictor.prompt(16) : predictor.decode(0);
        CHECK(speed.limit.has_value() == speed.expected.has_value());
        CHECK((speed.slowest == bottleneck::unknown) == !speed.limit.has_value());
        return !speed.limit.has_value();
    };
    memory_plan resident;
    resident.how = weights::holding::resident;
    resident.ubatch = 8;
    CHECK(unknown(plan, {}, false));
    CHECK(unknown(plan, {.one = fast, .several = fast}, false));  // no disk
    CHECK(unknown(plan, {.disk = 1e9}, false));
    CHECK(unknown(resident, {.disk = 1e9}, false));
    CHECK(!unknown(resident, {.one = no_peaks}, false));
    CHECK(unknown(resident, {.one = no_peaks, .several = no_peaks}, true));
    CHECK(!unknown(resident, {.one = no_peaks, .several = fast}, true));
    CHECK(!unknown(plan, {.one = no_peaks, .several = fast, .disk = 1.0}, false));
    CHECK(speed_predictor(m, plan, {}, {}).decode(0).bytes_read > 40960.0);  // is known all the same
}

TEST_CASE("prediction: mapped weights that don't fit are read anew for each token, how fast is not foretold") {
    const auto m = header("llama");
    memory_plan plan;
    plan.how = weights::holding::mapped;
    plan.ubatch = 8;
    plan.budget = m.tensors().weight_bytes;
    const machine_speed machine = {.one = fast, .several = fast, .disk = 1e6};
    CHECK(speed_predictor(m, plan, {}, machine).decode(0).bytes_read == 0.0);
    CHECK(!speed_predictor(m, plan, {}, machine).decode(0).expected);
    plan.kv = 1;
    const speed_predictor predictor(m, plan, {}, machine);
    const auto speed = predictor.decode(0);
    const double row = 2.0 * m.params().kv_heads * (m.params().head_k + m.params().head_v) * m.params().layers;
    CHECK(speed.bytes_read == doctest::Approx(roofline(m, kv_type::f16, kv_type::f16, fast).bytes_per_token() - row));
    CHECK(speed.limit);
    CHECK(!speed.expected);
    CHECK(speed.slowest == bottleneck::disk);
}

TEST_CASE("prediction: a streamed model reads what was foretold") {
    model_options options;
    options.holding = weights::holding::streamed;
    options.streaming.piece = 8192;
    options.streaming.ring = 32768;
    for (const auto* name : {"llama", "gemma3"}) {
        CAPTURE(name);
        options.streaming.memory = header(name).tensors().weight_bytes * 3 / 4;
        auto m = tiny::open(name, options);
        session_options use;
        use.context = 64;
        auto made = session::make(m, use);
        REQUIRE(made);
        const speed_predictor predictor(m, m.memory(), use, {});
        const auto& plan = m.memory().streaming;
        REQUIRE(predictor.reads(1, true).dense > 0.0);
        const auto read = [&] { return static_cast<double>(m.weights().statistics().bytes_read); };
        REQUIRE(made->prompt(tiny::tokens(1, m.params().vocabulary)));
        const double before = read();
        constexpr std::uint32_t count = 30;
        const auto tokens = tiny::tokens(count, m.params().vocabulary, 7);
        for (const auto token : tokens) {
            const session::next_token next[] = {{0, token}};
            REQUIRE(made->advance(next));
        }
        const auto wanted = predictor.decode_cost(count, 1).disk_bytes;
        // Rows may be known from before, and at both ends up to a ring of reads is under way.
        const double rows = predictor.reads(count, true).rows;
        CHECK(read() - before <= wanted + static_cast<double>(plan.ring_bytes));
        CHECK(read() - before >= wanted - static_cast<double>(plan.ring_bytes) - rows);
    }
}
