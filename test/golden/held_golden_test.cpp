// Real models held in every way: the same bits of all logits.
#include <doctest/doctest.h>

#include <cstring>
#include <string>
#include <vector>

#include "colibri/model/evaluator.hpp"
#include "support/golden.hpp"
#include "support/models.hpp"
#include "support/running.hpp"
#include "support/tiny_models.hpp"

using namespace colibri;

namespace {

/// Logits of some tokens: a short prompt in two steps and tokens one by one.
golden::matrix logits_of(const model& m, unsigned threads) {
    evaluator_options options;
    options.context = 32;
    options.ubatch = options.outputs = 5;
    options.threads = threads;
    auto e = evaluator::make(m, options).value();
    const auto tokens = tiny::tokens(8, m.params().vocabulary);
    auto out = golden::run_all(e, tokens, 5);
    e.kv().truncate(0, 6);
    for (std::uint32_t i = 6; i < 9; ++i) {
        const batch_token one{tokens[i % 8], i, 0, true};
        REQUIRE(e.step({&one, 1}).has_value());
        const auto logits = e.logits(0);
        out.values.insert(out.values.end(), logits.begin(), logits.end());
        ++out.rows;
    }
    return out;
}

bool same(const golden::matrix& a, const golden::matrix& b) {
    return a.values.size() == b.values.size() && std::memcmp(a.values.data(), b.values.data(), a.values.size() * sizeof(float)) == 0;
}

}  // namespace

TEST_CASE("golden real models: resident, mapped and streamed at five budgets give the same bits") {
    golden::tally tally("held");
    for (const std::string name : {"smollm2", "gemma3"}) {
        const auto path = models::file(name);
        if (!path) {
            tally.not_yet(name + " (model file absent)");
            continue;
        }
        CAPTURE(name);
        model_options how;
        how.holding = weights::holding::resident;
        const auto expected = logits_of(model::open(*path, how).value(), 1);
        how.holding = weights::holding::mapped;
        CHECK(same(logits_of(model::open(*path, how).value(), 2), expected));
        how.holding = weights::holding::streamed;
        const auto header = model::open_header(*path).value();
        std::uint64_t least = 0;
        (void)weights::stream_plan::make(header.file(), header.tensors().groups, 0, {}, &least);
        const auto bytes = static_cast<double>(header.file().tensor_bytes());
        for (const double part : {0.0, 1.0 / 3, 0.5, 2.0 / 3, 1.1}) {
            CAPTURE(part);
            how.streaming.memory = std::max(least, static_cast<std::uint64_t>(part * bytes));
            const auto opened = model::open(*path, how).value();
            CHECK(opened.weights().how() == weights::holding::streamed);
            CHECK((opened.weights().memory().swept == 0) == (part > 1.0));
            for (const unsigned threads : {1u, 2u}) {
                if (models::short_cases_only() && (threads == 1) != (part == 0.5)) continue;
                CHECK(same(logits_of(opened, threads), expected));
                tally.ran("runs");
            }
        }
    }
}
