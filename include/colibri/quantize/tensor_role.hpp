// What a tensor's name says of its part in a model, and which tensors are quantised at all.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "colibri/core/number.hpp"
#include "colibri/gguf/tensor_info.hpp"

namespace colibri::quantize {

/// Parts of a model that mixtures tell apart.
enum class tensor_role : std::uint8_t {
    output,
    embedding,
    attention_q,
    attention_k,
    attention_v,  ///< also the joint q, k, v projection and the compressed keys' and values' one
    attention_output,
    ffn_up,
    ffn_gate,
    ffn_down,
    other,
};

namespace detail {

[[nodiscard]] constexpr bool has(std::string_view text, std::string_view part) noexcept {
    return text.find(part) != std::string_view::npos;
}

}  // namespace detail

/// Role by name, as GGUF names tensors.
[[nodiscard]] constexpr tensor_role role_of(std::string_view name) noexcept {
    using detail::has;
    if (name == "output.weight") return tensor_role::output;
    if (name == "token_embd.weight" || name == "per_layer_token_embd.weight") return tensor_role::embedding;
    if (has(name, "attn_qkv.weight") || has(name, "attn_kv_b.weight") || has(name, "attn_v.weight")) return tensor_role::attention_v;
    if (has(name, "attn_k.weight")) return tensor_role::attention_k;
    if (has(name, "attn_q.weight")) return tensor_role::attention_q;
    if (has(name, "attn_output.weight")) return tensor_role::attention_output;
    if (has(name, "ffn_up")) return tensor_role::ffn_up;
    if (has(name, "ffn_gate")) return tensor_role::ffn_gate;
    if (has(name, "ffn_down")) return tensor_role::ffn_down;
    return tensor_role::other;
}

/// N of a name that begins with "blk.N.", or nothing.
[[nodiscard]] inline std::optional<std::uint32_t> block_of(std::string_view name) noexcept {
    if (!name.starts_with("blk.")) return std::nullopt;
    name.remove_prefix(4);
    const auto dot = name.find('.');
    if (dot == std::string_view::npos || name.front() == '+') return std::nullopt;
    return parse_number<std::uint32_t>(name.substr(0, dot));
}

/// Whether weights of this name and shape are ever quantised: matrices and stacks of them whose name ends in "weight", but for norms,
/// routers, position tables, small convolutions and other small tensors that errors in would cost more than they save.
[[nodiscard]] inline bool is_quantisable(const gguf::tensor_info& tensor) noexcept {
    // Parts of names. What they stand for: norms; routers, their tables and indexers; gemma 3n's small corrections; convolutions of
    // state-space layers; rwkv's mixing vectors; T5's positions; parts of image and sound encoders.
    constexpr std::string_view kept[] = {
        "_norm.weight", "ffn_gate_inp.weight", "ffn_gate_tid2eid.weight", "indexer.k_proj.weight", "indexer.q_proj.weight", "altup",
        "laurel", "per_layer_model_proj", "ssm_conv1d", "shortconv.conv.weight", "time_mix_first.weight", "time_mix_w0.weight",
        "time_mix_w1.weight", "time_mix_w2.weight", "time_mix_v0.weight", "time_mix_v1.weight", "time_mix_v2.weight",
        "time_mix_a0.weight", "time_mix_a1.weight", "time_mix_a2.weight", "time_mix_g1.weight", "time_mix_g2.weight",
        "time_mix_decay_w1.weight", "time_mix_decay_w2.weight", "time_mix_lerp_fused.weight", "attn_rel_b.weight", ".position_embd",
        "sam.pos_embd", "sam.neck.", "sam.net_", ".rel_pos", ".patch_embd", ".patch_merger", "a.rvq.codebook", "mm.a.code_embd"};
    const std::string_view name = tensor.name;
    const bool is_matrix = tensor.dims[1] > 1 || tensor.dims[2] > 1 || tensor.dims[3] > 1;
    if (!is_matrix || !name.ends_with("weight")) return false;
    if (name == "position_embd.weight" || name == "token_types.weight") return false;
    for (const auto part : kept) {
        if (detail::has(name, part)) return false;
    }
    return true;
}

}  // namespace colibri::quantize
