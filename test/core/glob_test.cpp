#include "colibri/core/glob.hpp"

#include <doctest/doctest.h>

#include <string>

using colibri::matches_glob;

static_assert(matches_glob("blk.*.attn_?.weight", "blk.12.attn_q.weight"));
static_assert(!matches_glob("blk.*.attn_?.weight", "blk.12.attn_qk.weight"));

TEST_CASE("stars and question marks") {
    for (const auto& pair : {std::pair{"", ""}, {"*", ""}, {"*", "abc"}, {"a*", "a"}, {"*c", "abcc"}, {"a**c", "abc"}, {"?b?", "abc"},
                                        {"*ab*ab", "abxabab"}, {"a.c", "a.c"}}) {
        const auto pattern = pair.first, text = pair.second;
        CAPTURE(pattern);
        CHECK(matches_glob(pattern, text));
    }
    for (const auto& pair : {std::pair{"", "a"}, {"?", ""}, {"a", ""}, {"a*b", "abc"}, {"a.c", "abc"}, {"*ab", "aba"}, {"??", "a"}}) {
        const auto pattern = pair.first, text = pair.second;
        CAPTURE(pattern);
        CHECK(!matches_glob(pattern, text));
    }
    CHECK(!matches_glob(std::string(50, '*') + "b", std::string(10000, 'a')));  // not exponential
}
