// Overrides, rules, layers left out, heat, importance and sizes: what is read from people and files.
#include <doctest/doctest.h>

#include <vector>

#include "colibri/quantize/heat_order.hpp"
#include "colibri/quantize/importance.hpp"
#include "colibri/quantize/metadata_changes.hpp"
#include "colibri/quantize/output_files.hpp"
#include "colibri/quantize/pruning.hpp"
#include "colibri/quantize/target_size.hpp"
#include "colibri/quantize/type_rules.hpp"

using namespace colibri;

TEST_CASE("overrides keep a key's width where the number fits") {
    gguf::metadata meta;
    meta.set("a", std::uint16_t{1});
    meta.set("b", std::int64_t{1});
    meta.set("c", 1.5);
    meta.set("d", "text");
    std::vector<quantize::metadata_override> changes;
    for (const char* text : {"a=int:7", "b=int:-7", "c=float:0.25", "d=int:3", "e=int:5000000000", "f=int:-5000000000", "g=str:a=b:c"}) {
        auto change = quantize::parse_override(text);
        REQUIRE(change);
        changes.push_back(*change);
    }
    quantize::apply(changes, meta);
    CHECK(meta.find("a")->type() == gguf::value_type::u16);
    CHECK(*meta.get<int>("a") == 7);
    CHECK(meta.find("b")->type() == gguf::value_type::i64);
    CHECK(meta.find("c")->type() == gguf::value_type::f64);
    CHECK(meta.find("d")->type() == gguf::value_type::u32);
    CHECK(meta.find("e")->type() == gguf::value_type::u64);
    CHECK(meta.find("f")->type() == gguf::value_type::i64);
    CHECK(*meta.get<std::string>("g") == "a=b:c");
    auto large = quantize::parse_override("a=int:70000");
    quantize::apply(std::span(&*large, 1), meta);
    CHECK(meta.find("a")->type() == gguf::value_type::u32);
}

TEST_CASE("rules: the first that is found counts") {
    quantize::type_rules rules;
    REQUIRE(rules.add("attn_[qk]=Q8_0"));
    REQUIRE(rules.add("attn=f16"));
    REQUIRE(rules.add("a=b=Q4_0"));
    CHECK(**rules.find("blk.0.attn_q.weight") == dtype::q8_0);
    CHECK(**rules.find("blk.0.attn_v.weight") == dtype::f16);
    CHECK_FALSE(rules.find("blk.0.ffn_up.weight")->has_value());
    REQUIRE(rules.unused() != nullptr);
    CHECK(*rules.unused() == "a=b");
    for (const char* bad : {"", "x", "=F16", "x=", "x=Q9", "[=F16"}) CHECK_FALSE(rules.add(bad));
}

TEST_CASE("layers left out") {
    gguf::metadata meta;
    meta.set("general.architecture", "x");
    meta.set("x.block_count", std::uint32_t{3});
    const std::uint32_t heads[] = {4, 5, 6};
    meta.set("x.heads", gguf::value::array(std::span<const std::uint32_t>(heads)));
    const bool flags[] = {true, false, true};
    meta.set("x.flags", gguf::value::array(std::span<const bool>(flags)));
    meta.set("other", gguf::value::array(std::span<const std::uint32_t>(heads)));
    const std::uint32_t gone[] = {1};
    auto names = quantize::prune(meta, gone);
    REQUIRE(names);
    CHECK(*names->new_name("blk.2.ffn_up.weight") == "blk.1.ffn_up.weight");
    CHECK(*names->new_name("output.weight") == "output.weight");
    CHECK_FALSE(names->new_name("blk.1.ffn_up.weight"));
    CHECK(*meta.get_array<int>("x.heads") == std::vector{4, 6});
    CHECK(meta.find("x.flags")->size() == 2);
    CHECK(meta.find("other")->size() == 3);
    CHECK(*meta.get<int>("x.block_count") == 2);
    const std::uint32_t all[] = {0, 1};
    CHECK_FALSE(quantize::prune(meta, all));
}

TEST_CASE("heat: counts, and experts in their groups") {
    auto heat = quantize::read_heat("0 1 3,4\n1 1 3\n1 2 0\n");
    REQUIRE(heat);
    CHECK((*heat)[1][3] == 2);
    CHECK((*heat)[1][4] == 1);
    CHECK((*heat)[2].size() == 1);
    using order = std::vector<std::uint32_t>;
    CHECK(quantize::detail::hottest_first((*heat)[1], 6, 1) == order{3, 4, 0, 1, 2, 5});
    CHECK(quantize::detail::hottest_first((*heat)[1], 6, 2) == order{0, 1, 2, 3, 4, 5});
    CHECK(quantize::detail::hottest_first((*heat)[1], 6, 3) == order{0, 1, 3, 2, 4, 5});
    CHECK(quantize::read_heat("0 1 2\n0 1\n").error().message.find("line 2") != std::string::npos);
}

TEST_CASE("importance of experts that were never used is neutral") {
    eval::importance_matrix matrix;
    matrix.entries["a"] = {{2.0f, 4.0f, 9.0f, 9.0f}, {2.0, 0.0}};
    matrix.entries["b"] = {{0.0f, 0.0f, 3.0f, 6.0f}, {3.0}};
    auto weights = quantize::importance_weights::of(std::move(matrix), "file");
    CHECK(weights.entries["a"] == std::vector{1.0f, 2.0f, 1.0f, 1.0f});
    auto& b = weights.entries["b"];
    CHECK(b == std::vector{0.0f, 0.0f, 1.0f, 2.0f});
    quantize::detail::make_unused_neutral(b, 2);
    CHECK(b == std::vector{1.0f, 1.0f, 1.0f, 2.0f});
}

TEST_CASE("options of a tensor: only those that something larger isn't worse than") {
    const auto kept = quantize::detail::worthwhile({{dtype::q8_0, 34, 0.01}, {dtype::q4_0, 18, 0.5}, {dtype::q5_0, 22, 0.45}, {dtype::q5_1, 24, 0.1}, {dtype::q4_1, 20, 0.6}});
    REQUIRE(kept.size() == 3);
    CHECK(kept[0].type == dtype::q4_0);
    CHECK(kept[1].type == dtype::q5_1);
    CHECK(kept[2].type == dtype::q8_0);
}
