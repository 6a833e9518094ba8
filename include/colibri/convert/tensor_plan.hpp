// Which tensors a GGUF gets, and from which of the source's tensors each is made.
#pragma once

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "colibri/convert/model_config.hpp"
#include "colibri/convert/weight_files.hpp"
#include "colibri/gguf/tensor_info.hpp"

namespace colibri::convert {

/// One tensor to write.
struct planned_tensor {
    gguf::tensor_info info;                   ///< its type is chosen later; F32 until then
    std::vector<const source_tensor*> parts;  ///< one below the other; experts are parts
    std::uint32_t permuted_heads = 0;         ///< heads whose rows change places: halves become neighbouring pairs; 0: none
    bool plus_one = false;                    ///< stored as 1 + w
    bool keeps_f32 = false;                   ///< whatever type the file has
    std::vector<float> values;                ///< computed values in place of parts
};

/// Finds every tensor that the architecture has and checks its shape. Tensors of the source that nothing needs are an error,
/// apart from a few known ones, which are counted in `notes`. The result refers to `weights`. Errors: missing_tensor, bad_shape,
/// bad_type, unsupported; each names the tensor.
[[nodiscard]] inline result<std::vector<planned_tensor>> plan_tensors(const model_sizes& sizes, const weight_files& weights,
                                                                      std::vector<std::string>& notes);

namespace detail {

[[nodiscard]] constexpr bool is_weight(element type) noexcept {
    return type == element::f64 || type == element::f32 || type == element::f16 || type == element::bf16;
}

class tensor_planner {
public:
    tensor_planner(const model_sizes& sizes, const weight_files& weights, std::vector<std::string>& notes)
        : s_(sizes), weights_(weights), notes_(notes) {}

    [[nodiscard]] result<std::vector<planned_tensor>> run() {
        if (s_.family.nested)
            root_ = weights_.find("language_model.model.embed_tokens.weight") != nullptr ? "language_model.model."
                                                                                         : "model.language_model.";
        else if (weights_.find("model.embed_tokens.weight") != nullptr) root_ = "model.";
        if (!s_.rope_factors.empty()) {
            planned_tensor factors;
            factors.info.name = "rope_freqs.weight";
            factors.info.dims[0] = s_.rope_factors.size();
            factors.values = s_.rope_factors;
            factors.keeps_f32 = true;
            out_.push_back(std::move(factors));
        }
        matrix(concat(root_, "embed_tokens.weight"), "token_embd.weight", s_.vocabulary, s_.hidden);
        for (std::uint32_t i = 0; i < s_.layers && !problem_; ++i) layer(i);
        norm(concat(root_, "norm.weight"), "output_norm.weight", s_.hidden);
        head();
        if (!problem_) check_rest();
        if (problem_) return std::move(*problem_);
        return std::move(out_);
    }

private:
    void fail(errc code, std::string message) {
        if (!problem_) problem_ = error{code, std::move(message)};
    }
    /// A source tensor of this shape, or null where it is optional or after a problem.
    const source_tensor* take(const std::string& name, std::initializer_list<std::uint64_t> shape, bool optional) {
        const auto* found = weights_.find(name);
        if (found == nullptr) {
            if (!optional) fail(errc::missing_tensor, concat("the tensor ", quoted(name), " is missing"));
            return nullptr;
        }
        used_.insert(found->stored.name);
        if (!is_weight(found->stored.type)) {
            fail(errc::unsupported, concat("the tensor ", quoted(name), " is of the type ", convert::name(found->stored.type),
                                           "; only F64, F32, F16 and BF16 can be converted"));
        } else if (!std::ranges::equal(found->stored.shape, shape)) {
            fail(errc::bad_shape, concat("the tensor ", quoted(name), " has the shape ", shape_text(found->stored.shape),
                                         ", but config.json asks for ", shape_text(std::vector<std::uint64_t>(shape))));
        }
        return found;
    }
    planned_tensor& add(std::string name, std::uint64_t columns, std::uint64_t rows, unsigned dims) {
        auto& one = out_.emplace_back();
        one.info.name = std::move(name);
        one.info.n_dims = dims;
        one.info.dims[0] = columns;
        one.info.dims[1] = rows;
        return one;
    }
    planned_tensor* matrix(const std::string& from, std::string to, std::uint64_t rows, std::uint64_t columns,
                           std::uint32_t permuted = 0) {
        const auto* found = take(from, {rows, columns}, false);
        if (found == nullptr) return nullptr;
        auto& one = add(std::move(to), columns, rows, 2);
        one.parts.push_back(found);
        one.permuted_heads = permuted;
        return &one;
    }
    void vector(const std::string& from, std::string to, std::uint64_t size, bool optional, std::uint32_t permuted = 0) {
        const auto* found = take(from, {size}, optional);
        if (found == nullptr) return;
        auto& one = add(std::move(to), size, 1, 1);
        one.parts.push_back(found);
        one.permuted_heads = permuted;
        one.keeps_f32 = true;
    }
    void norm(const std::string& from, std::string to, std::uint64_t size) {
        const std::size_t before = out_.size();
        vector(from, std::move(to), size, false);
        if (out_.size() > before) out_.back().plus_one = s_.family.gemma;
    }
    /// A weight and, where there is one, its bias.
    void linear(const std::string& from, const std::string& to, std::uint64_t rows, std::uint64_t columns,
                std::uint32_t permuted = 0, bool needs_bias = false) {
        matrix(concat(from, ".weight"), concat(to, ".weight"), rows, columns, permuted);
        vector(concat(from, ".bias"), concat(to, ".bias"), rows, !needs_bias, permuted);
    }

    void layer(std::uint32_t number) {
        const std::string from = concat(root_, "layers.", number, "."), to = concat("blk.", number, ".");
        const std::uint64_t q = std::uint64_t{s_.heads} * s_.head, kv = std::uint64_t{s_.kv_heads} * s_.head;
        const std::uint32_t permuted_q = s_.family.permuted ? s_.heads : 0, permuted_k = s_.family.permuted ? s_.kv_heads : 0;
        const bool needs_bias = s_.family.architecture == "qwen2";
        norm(from + "input_layernorm.weight", to + "attn_norm.weight", s_.hidden);
        linear(from + "self_attn.q_proj", to + "attn_q", q, s_.hidden, permuted_q, needs_bias);
        linear(from + "self_attn.k_proj", to + "attn_k", kv, s_.hidden, permuted_k, needs_bias);
        linear(from + "self_attn.v_proj", to + "attn_v", kv, s_.hidden, 0, needs_bias);
        linear(from + "self_attn.o_proj", to + "attn_output", s_.hidden, q);
        if (s_.family.head_norms) {
            norm(from + "self_attn.q_norm.weight", to + "attn_q_norm.weight", s_.head);
            norm(from + "self_attn.k_norm.weight", to + "attn_k_norm.weight", s_.head);
        }
        norm(from + "post_attention_layernorm.weight", to + (s_.family.gemma ? "post_attention_norm.weight" : "ffn_norm.weight"),
             s_.hidden);
        if (s_.family.gemma) {
            norm(from + "pre_feedforward_layernorm.weight", to + "ffn_norm.weight", s_.hidden);
            norm(from + "post_feedforward_layernorm.weight", to + "post_ffw_norm.weight", s_.hidden);
        }
        if (s_.family.experts) return experts(from + "block_sparse_moe.", to);
        linear(from + "mlp.gate_proj", to + "ffn_gate", s_.feed_forward, s_.hidden);
        linear(from + "mlp.up_proj", to + "ffn_up", s_.feed_forward, s_.hidden);
        linear(from + "mlp.down_proj", to + "ffn_down", s_.hidden, s_.feed_forward);
    }
    void experts(const std::string& from, const std::string& to) {
        if (auto* router = matrix(from + "gate.weight", to + "ffn_gate_inp.weight", s_.experts, s_.hidden))
            router->keeps_f32 = true;
        const std::pair<std::string_view, std::string_view> kinds[] = {
            {"w1", "ffn_gate_exps"}, {"w2", "ffn_down_exps"}, {"w3", "ffn_up_exps"}};
        for (const auto& [theirs, ours] : kinds) {
            const bool down = theirs == "w2";
            const std::uint64_t rows = down ? s_.hidden : s_.feed_forward, columns = down ? s_.feed_forward : s_.hidden;
            auto& all = add(concat(to, ours, ".weight"), columns, rows, 3);
            all.info.dims[2] = s_.experts;
            for (std::uint32_t i = 0; i < s_.experts; ++i) {
                if (const auto* one = take(concat(from, "experts.", i, ".", theirs, ".weight"), {rows, columns}, false))
                    all.parts.push_back(one);
            }
        }
    }
    void head() {
        const std::string name = s_.family.nested && weights_.find("language_model.lm_head.weight") != nullptr
                                     ? "language_model.lm_head.weight"
                                     : "lm_head.weight";
        const bool there = weights_.find(name) != nullptr;
        if (s_.tied && there) {
            used_.insert(name);
            notes_.push_back("the head is the embedding by config.json, so the tensor 'lm_head.weight' is left out");
        } else if (there || (s_.tied_is_said && !s_.tied)) {
            matrix(name, "output.weight", s_.vocabulary, s_.hidden);
        }
    }
    /// Nothing of the source may get lost without a word.
    void check_rest() {
        std::size_t others = 0;
        for (const auto& [name, tensor] : weights_.tensors()) {
            if (used_.contains(name)) continue;
            if (name.ends_with(".rotary_emb.inv_freq") || name.ends_with(".masked_bias")) continue;  // computed from config.json
            const bool seeing =
                name.find("vision_tower.") != std::string::npos || name.find("multi_modal_projector.") != std::string::npos;
            if (s_.family.nested && seeing) {
                ++others;
                continue;
            }
            return fail(errc::unsupported, concat("the tensor ", quoted(name), " has no place in the architecture ",
                                                  s_.family.architecture, " as config.json describes it"));
        }
        if (others != 0)
            notes_.push_back(
                concat(others, " tensors of the part that sees images are left out: only the text model is converted"));
    }

    const model_sizes& s_;
    const weight_files& weights_;
    std::vector<std::string>& notes_;
    std::string root_;
    std::vector<planned_tensor> out_;
    std::set<std::string, std::less<>> used_;
    std::optional<error> problem_;
};

}  // namespace detail

inline result<std::vector<planned_tensor>> plan_tensors(const model_sizes& sizes, const weight_files& weights,
                                                        std::vector<std::string>& notes) {
    return detail::tensor_planner(sizes, weights, notes).run();
}

}  // namespace colibri::convert
