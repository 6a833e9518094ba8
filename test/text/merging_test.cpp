#include "colibri/text/merging.hpp"

#include <doctest/doctest.h>

#include <random>
#include <string>
#include <vector>

using namespace colibri::text;

TEST_CASE("few and many symbols are merged alike") {
    std::mt19937 random(3);
    for (int round = 0; round < 500; ++round) {
        // Symbols are numbers; which pairs merge, when and to what is a fixed but wild function of them, with many
        // ties.
        const std::uint32_t salt = static_cast<std::uint32_t>(random());
        const auto lookup = [&](const merge_symbol& left, const merge_symbol& right) -> merge {
            const auto mixed =
                (static_cast<std::uint32_t>(left.id) * 31u + static_cast<std::uint32_t>(right.id) * 17u + salt) *
                2654435761u;
            if (mixed >> 31 != 0) return {};
            return {(mixed >> 20) % 8, static_cast<std::int32_t>((mixed >> 8) % 50)};
        };
        std::vector<merge_symbol> few;
        const auto count = static_cast<std::uint32_t>(2 + random() % 200);
        for (std::uint32_t i = 0; i < count; ++i) few.push_back({i, 1, static_cast<std::int32_t>(random() % 50)});
        auto many = few;
        merge_memory memory;
        detail::merge_few(few, memory, lookup);
        detail::merge_many(many, memory, lookup);
        REQUIRE(few.size() == many.size());
        std::uint32_t at = 0;
        for (std::size_t i = 0; i < few.size(); ++i) {
            CHECK(few[i].begin == at);
            CHECK(few[i].begin == many[i].begin);
            CHECK(few[i].size == many[i].size);
            CHECK(few[i].id == many[i].id);
            at += few[i].size;
        }
        CHECK(at == count);
    }
}

TEST_CASE("of equal ranks the leftmost goes first") {
    const auto lookup = [](const merge_symbol& left, const merge_symbol& right) {
        return left.size == 1 && right.size == 1 ? merge{0, 9} : merge{};
    };
    for (const std::uint32_t count : {5u, 501u}) {  // one for either way
        std::vector<merge_symbol> symbols;
        for (std::uint32_t i = 0; i < count; ++i) symbols.push_back({i, 1, 0});
        merge_memory memory;
        merge_all(symbols, memory, lookup);
        REQUIRE(symbols.size() == count / 2 + 1);
        CHECK(symbols.front().size == 2);
        CHECK(symbols.back().size == 1);
    }
}
