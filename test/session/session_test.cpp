#include "colibri/session/session.hpp"

#include <doctest/doctest.h>

#include <ranges>

#include "colibri/session/generation.hpp"
#include "support/tiny_models.hpp"

using namespace colibri;
using text::token_id;

static_assert(std::ranges::input_range<generation>);

namespace {

session make(const model& m, session_options options = {}) {
    options.threads = 1;
    if (options.context == 0) options.context = 128;
    options.cache_k = options.cache_v = kv_type::f32;
    auto made = session::make(m, options);
    REQUIRE_MESSAGE(made, (made ? std::string() : made.error().text()));
    return *std::move(made);
}

std::vector<float> logits_of(session& s, std::size_t i = 0) {
    const auto logits = s.logits(i);
    return {logits.begin(), logits.end()};
}

sampling::sampler greedy() {
    sampling::params params;
    params.temperature = 0.0f;
    return sampling::sampler::make(params).value();
}

}  // namespace

TEST_CASE("session: a new prompt evaluates only what follows the common prefix") {
    for (const auto* name : {"llama", "gemma3", "mixtral"}) {
        CAPTURE(name);
        const auto m = tiny::open(name);
        auto s = make(m);
        const auto tokens = tiny::tokens(60, m.params().vocabulary);
        auto other = tokens;
        for (std::size_t i = 40; i < other.size(); ++i) other[i] = (other[i] + 1) % static_cast<token_id>(m.params().vocabulary);

        REQUIRE(s.prompt(tokens));
        CHECK(s.statistics().cached_tokens == 0);
        const auto first = logits_of(s);
        REQUIRE(s.prompt(other));
        CHECK(s.statistics().prompt_tokens == 60);
        CHECK(s.statistics().cached_tokens == 40);
        const auto second = logits_of(s);
        REQUIRE(s.prompt(tokens));
        CHECK(s.statistics().cached_tokens == 40);
        CHECK(logits_of(s) == first);
        REQUIRE(s.prompt(tokens));
        CHECK(s.statistics().cached_tokens == 59);  // the last token is always evaluated: its logits are wanted
        CHECK(logits_of(s) == first);
        CHECK(first != second);

        auto fresh = make(m);
        REQUIRE(fresh.prompt(other));
        CHECK(logits_of(fresh) == second);
    }
}

TEST_CASE("session: window layers that have lost a prefix are evaluated again, with the same result") {
    const auto m = tiny::open("gemma3");  // window 16
    session_options options;
    options.context = 512;
    options.ubatch = 8;
    auto s = make(m, options);
    const auto tokens = tiny::tokens(450, m.params().vocabulary);
    const auto start = std::vector<token_id>(tokens.begin(), tokens.begin() + 30);
    REQUIRE(s.prompt(start));
    const auto expected = logits_of(s);
    REQUIRE(s.prompt(tokens));
    REQUIRE(s.prompt(start));  // positions 14 to 29 left the ring of 256 long ago
    CHECK(s.statistics().cached_tokens == 0);
    CHECK(logits_of(s) == expected);
}

TEST_CASE("session: ubatch, threads and the way of holding weights don't change a bit") {
    for (const auto* name : {"llama", "gemma2", "qwen3", "smollm3", "mixtral"}) {
        CAPTURE(name);
        const auto m = tiny::open(name);
        const auto tokens = tiny::tokens(100, m.params().vocabulary);
        std::vector<float> expected;
        for (const auto holding : {weights::holding::mapped, weights::holding::resident}) {
            model_options how;
            how.holding = holding;
            const auto same = tiny::open(name, how);
            for (const std::uint32_t ubatch : {1u, 3u, 64u, 512u}) {
                for (const unsigned threads : {1u, 2u, 3u}) {
                    session_options options;
                    options.ubatch = ubatch;
                    options.threads = threads;
                    options.context = 128;
                    auto s = session::make(same, options).value();
                    REQUIRE(s.prompt(tokens));
                    if (expected.empty()) expected = logits_of(s);
                    CHECK(logits_of(s) == expected);
                }
            }
        }
    }
}

TEST_CASE("session: several sequences in one step give each its own logits") {
    const auto m = tiny::open("llama");
    session_options options;
    options.sequences = 3;
    auto s = make(m, options);
    std::vector<std::vector<token_id>> prompts;
    std::vector<std::vector<float>> expected;
    for (std::uint32_t i = 0; i < 3; ++i) {
        prompts.push_back(tiny::tokens(10 + 7 * i, m.params().vocabulary, i + 1));
        auto alone = make(m);
        REQUIRE(alone.prompt(prompts[i]));
        const session::next_token next{0, 5};
        REQUIRE(alone.advance({&next, 1}));
        expected.push_back(logits_of(alone));
    }
    for (std::uint32_t i = 0; i < 3; ++i) REQUIRE(s.prompt(prompts[i], i));
    const session::next_token next[] = {{2, 5}, {0, 5}, {1, 5}};
    REQUIRE(s.advance(next));
    CHECK(logits_of(s, 0) == expected[2]);
    CHECK(logits_of(s, 1) == expected[0]);
    CHECK(logits_of(s, 2) == expected[1]);
    CHECK(s.used(2) == prompts[2].size() + 1);

    CHECK(s.fork(2, 0, 10) == 10);
    CHECK(s.used(0) == 10);
    CHECK(std::equal(s.tokens(0).begin(), s.tokens(0).end(), prompts[2].begin()));
    REQUIRE(s.prompt(prompts[2], 0));
    CHECK(s.statistics().cached_tokens == 10);
}

TEST_CASE("session: a prompt longer than the context is refused with both numbers") {
    const auto m = tiny::open("llama");
    session_options options;
    options.context = 32;
    auto s = make(m, options);
    const auto refused = s.prompt(tiny::tokens(33, m.params().vocabulary));
    REQUIRE(!refused);
    CHECK(refused.error().code == errc::context_full);
    CHECK(refused.error().message.find("33") != std::string::npos);
    CHECK(refused.error().message.find("32") != std::string::npos);
    CHECK(s.prompt(tiny::tokens(32, m.params().vocabulary)));
    CHECK(!s.prompt({}));
}

TEST_CASE("session: a canceled prompt keeps what was evaluated, and goes on from there") {
    const auto m = tiny::open("llama");
    session_options options;
    options.ubatch = 8;
    auto s = make(m, options);
    const auto tokens = tiny::tokens(50, m.params().vocabulary);
    std::vector<std::uint64_t> seen;
    const auto stopped = s.prompt(tokens, 0, [&](const progress& p) {
        CHECK(p.total == 50);
        seen.push_back(p.done);
        return p.done < 16;
    });
    REQUIRE(!stopped);
    CHECK(stopped.error().code == errc::canceled);
    CHECK(seen == std::vector<std::uint64_t>{8, 16});
    CHECK(s.used() == 16);
    REQUIRE(s.prompt(tokens));
    CHECK(s.statistics().cached_tokens == 16);

    cancel_flag flag;
    flag.request();
    s.clear();
    const auto at_once = s.prompt(tokens, 0, {}, &flag);
    REQUIRE(!at_once);
    CHECK(at_once.error().code == errc::canceled);
    CHECK(s.used() == 0);
}

TEST_CASE("session: without a context it is the model's own") {
    const auto m = tiny::open("llama");
    auto s = session::make(m, {}).value();
    CHECK(s.context() == m.params().trained_context);
    CHECK(s.notes().empty());
    session_options larger;
    larger.context = m.params().trained_context * 2;
    CHECK(session::make(m, larger).value().notes().size() == 1);
}

TEST_CASE("generation: ends by length, context and cancel, and says so") {
    const auto m = tiny::open("llama");
    session_options options;
    options.context = 40;
    const auto prompt = tiny::tokens(30, m.params().vocabulary);
    sampling::params params;
    params.temperature = 0.0f;
    params.ignore_eos = true;
    sampling::vocabulary_info vocabulary;
    vocabulary.size = m.tokenizer().size();
    const auto ends = m.tokenizer().end_of_generation();
    vocabulary.end_tokens.assign(ends.begin(), ends.end());
    const auto run = [&](generation_options how) {
        auto s = make(m, options);
        auto sampler = sampling::sampler::make(params, vocabulary).value();
        REQUIRE(s.prompt(prompt));
        generation g(s, sampler, how);
        std::string text;
        for (const auto piece : g) {
            CHECK(!piece.empty());
            text += piece;
        }
        CHECK(g.next().value() == std::nullopt);
        CHECK(text == m.tokenizer().decode(g.tokens(), false));
        CHECK(s.statistics().generated_tokens == g.tokens().size());
        return std::pair(g.reason(), g.tokens().size());
    };
    CHECK(run({.max_tokens = 4}) == std::pair(finish_reason::length, std::size_t{4}));
    CHECK(run({}) == std::pair(finish_reason::context, std::size_t{11}));  // 30 + 10 evaluated, one more sampled
    cancel_flag flag;
    flag.request();
    generation_options canceled;
    canceled.cancel = &flag;
    CHECK(run(canceled) == std::pair(finish_reason::canceled, std::size_t{0}));
}

TEST_CASE("generation: the same tokens as golden, whatever the piecewise text") {
    const auto m = tiny::open("qwen3");
    auto s = make(m);
    auto sampler = greedy();
    REQUIRE(s.prompt(tiny::tokens(20, m.params().vocabulary)));
    generation g(s, sampler, {.max_tokens = 12});
    for (const auto piece : g) static_cast<void>(piece);
    const auto tokens = g.tokens();
    // Recomputed from scratch, each step gives the same token.
    auto again = make(m);
    auto sequence = tiny::tokens(20, m.params().vocabulary);
    for (const auto token : tokens) {
        REQUIRE(again.prompt(sequence));
        CHECK(simd::argmax(again.logits().data(), again.logits().size()) == static_cast<std::size_t>(token));
        sequence.push_back(token);
    }
}
