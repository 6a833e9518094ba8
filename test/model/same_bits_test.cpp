// The bits of the logits: whatever the target with FMA, threads, ubatch, way of holding weights, and company in the batch.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "simd/targets.hpp"
#include "support/running.hpp"
#include "support/tiny_models.hpp"

using namespace colibri;

namespace {

evaluator open(const model& m, unsigned threads, std::uint32_t ubatch, kv_type cache) {
    evaluator_options options;
    options.context = 300;
    options.sequences = 2;
    options.ubatch = options.outputs = ubatch;
    options.threads = options.threads_batch = threads;
    options.cache_k = options.cache_v = cache;
    return evaluator::make(m, options).value();
}

/// Number of floats that differ in any bit.
std::size_t differing(const golden::matrix& a, const golden::matrix& b) {
    REQUIRE(a.values.size() == b.values.size());
    std::size_t out = 0;
    for (std::size_t i = 0; i < a.values.size(); ++i) out += std::memcmp(&a.values[i], &b.values[i], sizeof(float)) != 0;
    return out;
}

/// Two sequences by turns in the same steps; the logits of the first.
golden::matrix in_company(evaluator& e, const std::vector<text::token_id>& tokens) {
    golden::matrix out;
    out.columns = e.source().params().vocabulary;
    e.kv().truncate(0, 0);
    e.kv().truncate(1, 0);
    for (std::size_t i = 0; i < tokens.size(); ++i) {
        const auto position = static_cast<std::uint32_t>(i);
        const batch_token batch[] = {{tokens[tokens.size() - 1 - i], position, 1, false}, {tokens[i], position, 0, true}};
        REQUIRE(e.step(batch).has_value());
        const auto logits = e.logits(0);
        out.values.insert(out.values.end(), logits.begin(), logits.end());
        ++out.rows;
    }
    return out;
}

void check_model(const std::filesystem::path& path, std::size_t count, kv_type cache) {
    CAPTURE(path.string());
    CAPTURE(name(cache));
    model_options mapped;
    mapped.holding = weights::holding::mapped;
    model_options resident;
    resident.holding = weights::holding::resident;
    const model models[] = {model::open(path, mapped).value(), model::open(path, resident).value()};
    const auto tokens = tiny::tokens(count, models[0].params().vocabulary);
    golden::matrix fused;    // of the first target with FMA
    test::on_every_target([&](std::string_view target) {
        // One token at a time with one thread and mapped weights is what all else must equal.
        auto first = open(models[0], 1, 1, cache);
        const auto expected = golden::run_all(first, tokens, 1);
        if (test::is_fused(target)) {
            if (fused.rows == 0) fused = expected;
            CHECK(differing(expected, fused) == 0);
        }
        for (std::size_t m = 0; m < 2; ++m) {
            for (const unsigned threads : {1u, 3u}) {
                for (const std::uint32_t ubatch : {3u, 50u, 256u}) {
                    INFO("resident ", m, ", threads ", threads, ", ubatch ", ubatch);
                    auto other = open(models[m], threads, ubatch, cache);
                    CHECK(differing(golden::run_all(other, tokens, ubatch), expected) == 0);
                }
            }
            auto shared = open(models[m], 2, 2, cache);
            CHECK(differing(in_company(shared, tokens), expected) == 0);
        }
    });
}

/// Streamed weights: nothing held but the least, parts, and everything; few and many bytes read at once. Their pieces go through the
/// same kernels as mapped and resident ones, which check_model compares on every target, so here one target does.
void check_streamed(const std::filesystem::path& path, std::size_t count, kv_type cache) {
    CAPTURE(path.string());
    model_options mapped;
    mapped.holding = weights::holding::mapped;
    const auto plain = model::open(path, mapped).value();
    const auto tokens = tiny::tokens(count, plain.params().vocabulary);
    auto first = open(plain, 1, 1, cache);
    const auto expected = golden::run_all(first, tokens, 1);
    for (const auto& each : {std::pair{0.0, 4096}, {0.3, 8192}, {0.6, 2048}, {0.8, 16384}, {2.0, 4096}}) {
        const double part = each.first;
        const int piece = each.second;
        CAPTURE(part);
        model_options streamed;
        streamed.holding = weights::holding::streamed;
        streamed.streaming.piece = static_cast<std::size_t>(piece);
        std::uint64_t least = 0;
        (void)weights::stream_plan::make(plain.file(), plain.tensors().groups, 0, streamed.streaming, &least);
        streamed.streaming.memory = least + static_cast<std::uint64_t>(part * static_cast<double>(plain.file().tensor_bytes()));
        const auto m = model::open(path, streamed).value();
        CHECK(m.weights().how() == weights::holding::streamed);
        if (part == 0.0) CHECK(m.weights().memory().swept > 0);
        if (part == 2.0) CHECK(m.weights().memory().swept == 0);
        for (const unsigned threads : {1u, 2u}) {
            for (const std::uint32_t ubatch : {1u, 5u, 256u}) {
                auto other = open(m, threads, ubatch, cache);
                CHECK(differing(golden::run_all(other, tokens, ubatch), expected) == 0);
            }
        }
        auto shared = open(m, 2, 2, cache);
        CHECK(differing(in_company(shared, tokens), expected) == 0);
    }
}

}  // namespace

TEST_CASE("the bits of the logits depend on the tokens alone") {
    for (const auto cache : {kv_type::f16, kv_type::f32, kv_type::bf16}) check_model(tiny::path("llama"), 40, cache);
    for (const auto* name : {"mixtral", "gemma3", "qwen3"}) check_model(tiny::path(name), 24, kv_type::f16);
}

TEST_CASE("the bits of the logits depend on the tokens alone: streamed weights") {
    for (const auto* name : {"llama", "mixtral", "gemma3", "qwen3"}) check_streamed(tiny::path(name), 16, kv_type::f16);
    check_streamed(golden::root() / "models" / "quant" / "llama-Q4_K_S.gguf", 8, kv_type::q8_0);
}

TEST_CASE("the bits of the logits depend on the tokens alone: long, over several spans of attention") {
    check_model(tiny::path("gemma2"), 280, kv_type::q8_0);
}

TEST_CASE("the bits of the logits depend on the tokens alone: every format of weights") {
    const auto folder = golden::root() / "models" / "quant";
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        if (entry.path().extension() == ".gguf" && model::open(entry.path())) files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    REQUIRE(!files.empty());
    for (const auto& file : files) check_model(file, 12, kv_type::f16);
}
