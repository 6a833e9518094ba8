// Names of mixtures, roles of tensors, and rules that published models don't show.
#include <doctest/doctest.h>

#include "colibri/quantize/mixture.hpp"
#include "colibri/quantize/plan.hpp"

using namespace colibri;
using quantize::mixture;

namespace {

gguf::tensor_info tensor(std::string name, std::array<std::uint64_t, 4> dims = {256, 256, 1, 1}) {
    gguf::tensor_info out;
    out.name = std::move(name);
    out.dims = dims;
    out.n_dims = dims[2] > 1 ? 3 : dims[1] > 1 ? 2 : 1;
    return out;
}

dtype chosen(mixture kind, quantize::model_facts facts, const gguf::tensor_info& t, bool importance = false) {
    quantize::type_chooser chooser(kind, facts, importance);
    return chooser.choose(t);
}

}  // namespace

TEST_CASE("names of mixtures") {
    CHECK(quantize::find_mixture("q4_k_m") == mixture::q4_k_m);
    CHECK(quantize::find_mixture("Q4_K") == mixture::q4_k_m);
    CHECK(quantize::find_mixture("q3_K") == mixture::q3_k_m);
    CHECK(quantize::find_mixture("Q5_k") == mixture::q5_k_m);
    CHECK(quantize::find_mixture("15") == mixture::q4_k_m);
    CHECK(quantize::find_mixture("0") == mixture::f32);
    CHECK(quantize::find_mixture("copy") == mixture::copy);
    CHECK(quantize::find_mixture("Mxfp4_moe") == mixture::mxfp4_moe);
    for (const char* none : {"", "4", "33", "-1", "4294967295", "Q4", "Q4_K_M ", "Q6_0"}) CHECK_FALSE(quantize::find_mixture(none));
    CHECK(quantize::mixture_table.size() == 36);
    for (const auto& row : quantize::mixture_table) {
        CHECK(quantize::find_mixture(row.name) == row.id);
        CHECK(quantize::name(row.id) == row.name);
        if (row.id != mixture::copy) CHECK(quantize::find_mixture(concat(static_cast<std::uint32_t>(row.id))) == row.id);
    }
    CHECK(quantize::parse_mixture("Q7").error().code == errc::invalid_argument);
    CHECK(*quantize::parse_tensor_type("iq4_xs") == dtype::iq4_xs);
    for (const char* none : {"Q8_1", "Q8_K", "I32", "F64", "Q4_K_M", ""}) CHECK_FALSE(quantize::parse_tensor_type(none));
}

TEST_CASE("blocks and what is quantised") {
    CHECK(quantize::block_of("blk.12.attn_q.weight") == 12u);
    for (const char* none : {"blk.attn", "blk..x", "blk.+1.x", "blk.1", "output.weight", "v.blk.1.x"}) CHECK_FALSE(quantize::block_of(none));
    for (const char* name : {"output.weight", "blk.0.ffn_down_exps.weight", "blk.0.ssm_in.weight"}) CHECK(quantize::is_quantisable(tensor(name)));
    for (const char* name : {"blk.0.attn_q.bias", "blk.0.ffn_gate_inp.weight", "blk.0.attn_norm.weight", "position_embd.weight", "blk.0.ssm_conv1d.weight"}) {
        CHECK_FALSE(quantize::is_quantisable(tensor(name)));
    }
    CHECK_FALSE(quantize::is_quantisable(tensor("blk.0.attn_q.weight", {4096, 1, 1, 1})));
    CHECK(quantize::is_quantisable(tensor("blk.0.attn_q.weight", {4096, 1, 2, 1})));
}

TEST_CASE("types that fit rows") {
    CHECK(quantize::fitting_type(dtype::q4_k, 512) == dtype::q4_k);
    CHECK(quantize::fitting_type(dtype::q4_k, 96) == dtype::q5_0);
    CHECK(quantize::fitting_type(dtype::q5_k, 96) == dtype::q5_1);
    CHECK(quantize::fitting_type(dtype::q6_k, 96) == dtype::q8_0);
    CHECK(quantize::fitting_type(dtype::q2_k, 96) == dtype::q4_0);
    CHECK(quantize::fitting_type(dtype::iq2_xs, 96) == dtype::iq4_nl);
    CHECK(quantize::fitting_type(dtype::q4_k, 40) == dtype::f16);
    CHECK(quantize::fitting_type(dtype::q8_0, 40) == dtype::f16);
    CHECK(quantize::fitting_type(dtype::q1_0, 96) == dtype::q4_0);
}

TEST_CASE("rules for importance, falcon, eight experts and tied embeddings") {
    quantize::model_facts facts;
    facts.architecture = "llama";
    facts.blocks = 32;
    facts.query_heads_per_kv = 1;
    facts.attention_values = 32;
    facts.is_tied = false;
    const auto down = tensor("blk.0.ffn_down.weight");
    CHECK(chosen(mixture::q4_0, facts, down, false) == dtype::q4_0);
    CHECK(chosen(mixture::q4_0, facts, down, true) == dtype::q4_1);
    CHECK(chosen(mixture::q5_0, facts, down, true) == dtype::q5_1);
    CHECK(chosen(mixture::iq4_xs, facts, down, false) == dtype::q5_k);
    CHECK(chosen(mixture::iq4_xs, facts, down, true) == dtype::iq4_xs);
    CHECK(chosen(mixture::iq3_xxs, facts, down, false) == dtype::q4_k);
    CHECK(chosen(mixture::iq3_xxs, facts, tensor("blk.0.attn_v.weight"), true) == dtype::iq3_xxs);
    CHECK(chosen(mixture::q4_k_m, facts, tensor("token_embd.weight")) == dtype::q4_k);
    facts.is_tied = true;
    CHECK(chosen(mixture::q4_k_m, facts, tensor("token_embd.weight")) == dtype::q6_k);
    CHECK(chosen(mixture::iq2_m, facts, tensor("token_embd.weight")) == dtype::q5_k);
    CHECK(chosen(mixture::mxfp4_moe, facts, tensor("blk.0.ffn_up_exps.weight", {256, 256, 8, 1})) == dtype::mxfp4);
    facts.experts = 8;
    CHECK(chosen(mixture::q4_k_m, facts, tensor("blk.5.attn_k.weight")) == dtype::q8_0);
    CHECK(chosen(mixture::q4_k_m, facts, tensor("blk.5.attn_output.weight")) == dtype::q5_k);
    facts.experts = 0;
    facts.architecture = "falcon";
    CHECK(chosen(mixture::q4_k_m, facts, tensor("output.weight")) == dtype::q8_0);
    CHECK(chosen(mixture::q4_k_m, facts, down) == dtype::q6_k);
    CHECK(quantize::wants_importance("blk.0.attn_q.weight", dtype::q2_k, mixture::q2_k_s));
    CHECK_FALSE(quantize::wants_importance("blk.0.attn_q.weight", dtype::q2_k, mixture::q2_k));
    CHECK_FALSE(quantize::wants_importance("output.weight", dtype::iq1_s, mixture::iq1_s));
}

TEST_CASE("facts from metadata that lacks or contradicts") {
    gguf::metadata meta;
    const std::vector tensors = {tensor("blk.4.attn_v.weight"), tensor("output.weight")};
    auto facts = quantize::model_facts::of(meta, tensors);
    CHECK(facts.blocks == 5);
    CHECK(facts.query_heads_per_kv == 0);
    CHECK_FALSE(facts.is_tied);
    meta.set("general.architecture", "x");
    meta.set("x.block_count", "three");
    meta.set("x.attention.head_count", std::uint32_t{8});
    facts = quantize::model_facts::of(meta, tensors);
    CHECK(facts.blocks == 5);
    CHECK(facts.query_heads_per_kv == 1);
    const std::uint32_t kv[] = {2, 0, 1};
    meta.set("x.attention.head_count_kv", gguf::value::array(std::span<const std::uint32_t>(kv)));
    CHECK(quantize::model_facts::of(meta, tensors).query_heads_per_kv == 4);
}
