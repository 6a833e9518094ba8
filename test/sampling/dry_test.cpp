#include "colibri/sampling/dry.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <map>

#include "sampling/logits.hpp"

using namespace colibri::sampling;

namespace {

/// The definition of DRY: for each place of the text, how long is the repetition that ends there, and what came then?
std::map<token_id, float> penalties_by_definition(const std::vector<token_id>& text, std::size_t allowed,
                                                  std::size_t limit) {
    std::map<token_id, float> out;
    for (std::size_t end = 1; end < text.size();
         ++end) {  // tokens before `end` against the tokens before the text's end
        std::size_t length = 0;
        while (length < end && length < limit && text[end - 1 - length] == text[text.size() - 1 - length]) ++length;
        if (length < allowed) continue;
        const float penalty = static_cast<float>(0.8f * std::pow(1.75, static_cast<double>(length - allowed)));
        auto& most = out[text[end]];
        most = std::max(most, penalty);
    }
    return out;
}

std::map<token_id, float> penalties_by_step(const dry_settings& settings, const std::vector<token_id>& text,
                                            dry_breakers breakers = {}) {
    dry step(settings, std::move(breakers));
    for (const token_id token : text) step.accept(token);
    const std::vector<float> logits(64, 0.0f);
    candidates c(logits);
    step(c);
    std::map<token_id, float> out;
    for (const auto& one : c) {
        if (one.logit != 0.0f) out[one.id] = -one.logit;
    }
    return out;
}

void check_close(const std::map<token_id, float>& got, const std::map<token_id, float>& expected) {
    REQUIRE(got.size() == expected.size());
    for (const auto& [id, penalty] : expected) {
        REQUIRE(got.contains(id));
        // Powers by multiplication and by std::pow differ by rounding.
        CHECK(static_cast<double>(got.at(id)) == doctest::Approx(static_cast<double>(penalty)).epsilon(1e-6));
    }
}

/// Pieces "a" to "z", then some of more letters.
const std::vector<std::string>& alphabet() {
    static const std::vector<std::string> pieces = [] {
        std::vector<std::string> out;
        for (char c = 'a'; c <= 'z'; ++c) out.emplace_back(1, c);
        for (const char* more : {"ab", "bc", "xabc", "abcx", "", "cab", "xa", "bcx"}) out.emplace_back(more);
        return out;
    }();
    return pieces;
}

dry_breakers breakers(const std::vector<std::string>& texts) {
    return {texts, alphabet().size(),
            [](token_id id) { return std::string_view(alphabet()[static_cast<std::size_t>(id)]); }};
}

TEST_CASE("DRY penalties are those of the definition") {
    generator random(1);
    for (int round = 0; round < 200; ++round) {
        const std::size_t letters = 2 + random.below(4);
        std::vector<token_id> text;
        for (std::uint64_t i = 0, n = random.below(60); i < n; ++i)
            text.push_back(static_cast<token_id>(random.below(letters)));
        if (round % 2 == 0) text.insert(text.end(), text.begin(), text.end());
        const auto allowed = static_cast<std::int32_t>(1 + random.below(3));
        check_close(penalties_by_step({0.8f, 1.75f, allowed, -1}, text),
                    penalties_by_definition(text, static_cast<std::size_t>(allowed), text.size()));
    }
}

TEST_CASE("DRY sees only its window") {
    std::vector<token_id> text{1, 2, 3, 4, 9, 9, 9, 1, 2, 3};
    CHECK(penalties_by_step({0.8f, 1.75f, 2, -1}, text).contains(4));
    CHECK(penalties_by_step({0.8f, 1.75f, 2, 10}, text).contains(4));
    CHECK_FALSE(penalties_by_step({0.8f, 1.75f, 2, 7}, text).contains(4));
    CHECK(penalties_by_step({0.8f, 1.75f, 2, 0}, text).empty());
    CHECK(penalties_by_step({0.0f, 1.75f, 2, -1}, text).empty());
}

TEST_CASE("a long repetition costs much, but stays finite") {
    const std::vector<token_id> text(5000, 3);
    const auto got = penalties_by_step({1e6f, 1e6f, 0, -1}, text);
    REQUIRE(got.size() == 1);
    CHECK(std::isfinite(got.at(3)));
    CHECK(got.at(3) >= 1e37f);
    CHECK(penalties_by_step({2.0f, 1.0f, 1, -1}, text).at(3) == 2.0f);
}

TEST_CASE("a breaker ends repetitions and is not penalised") {
    // "n" is the breaker: a b c n a b c n a b -> only "a b" behind the last n counts.
    const token_id n = 'n' - 'a';
    const std::vector<token_id> text{0, 1, 2, n, 0, 1, 2, n, 0, 1};
    const auto with = penalties_by_step({0.8f, 1.75f, 1, -1}, text, breakers({"n"}));
    check_close(with, {{2, static_cast<float>(0.8 * 1.75)}});
    const auto without = penalties_by_step({0.8f, 1.75f, 1, -1}, text);
    CHECK(without.at(2) > with.at(2));
    const std::vector<token_id> then{0, 1, n, 0, 1};
    CHECK(penalties_by_step({0.8f, 1.75f, 2, -1}, then, breakers({"n"})).empty());
    CHECK(penalties_by_step({0.8f, 1.75f, 2, -1}, then).contains(n));
}

TEST_CASE("breakers are found in the text, however it was cut into tokens") {
    const auto id = [](std::string_view piece) {
        for (std::size_t i = 0; i < alphabet().size(); ++i) {
            if (alphabet()[i] == piece) return static_cast<token_id>(i);
        }
        FAIL("no such piece");
        return token_id{-1};
    };
    const auto since = [&](const std::vector<std::string>& texts, const std::vector<std::string>& cut) {
        token_history history;
        for (const auto& piece : cut) history.push(id(piece));
        return breakers(texts).tokens_since(history);
    };
    CHECK(since({"abc"}, {"z", "a", "b", "c", "y", "z"}) == 2);
    CHECK(since({"abc"}, {"z", "ab", "c", "y"}) == 1);
    CHECK(since({"abc"}, {"z", "a", "bc"}) == 0);
    CHECK(since({"abc"}, {"xa", "bcx", "y"}) == 1);              // from inside one token to inside another
    CHECK(since({"abc"}, {"xabc", "y", "y"}) == 2);              // inside one token
    CHECK(since({"abc"}, {"a", "b", "y", "c"}) == 4);            // not there
    CHECK(since({"abc"}, {"y", "a", "b"}) == 3);                 // not complete
    CHECK(since({"abc", "y"}, {"a", "b", "c", "y", "z"}) == 1);  // the last of two
    CHECK(since({"ab", "abc"}, {"a", "b", "c", "z"}) == 1);      // the longer of two at the same place
    CHECK(since({""}, {"a", "b"}) == 2);
    CHECK(since({}, {"a", "b"}) == 2);
    CHECK(breakers({"b"}).whole(id("ab")));
    CHECK_FALSE(breakers({"abc"}).whole(id("ab")));
    CHECK_FALSE(breakers({"b"}).whole(-1));
    CHECK_FALSE(breakers({"b"}).whole(100000));
}

}  // namespace
