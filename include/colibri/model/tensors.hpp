// A decoder's tensors: found by name, checked against the hyper-parameters, grouped in the order of their use.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "colibri/gguf/file.hpp"
#include "colibri/model/decoder_config.hpp"
#include "colibri/quant/format_list.hpp"
#include "colibri/weights/store.hpp"

namespace colibri {

/// Slots of a layer's tensors in its groups' leases.
struct attention_slots {
    enum : std::size_t { q, k, v, output };
};
struct feed_forward_slots {
    enum : std::size_t { gate, up, down };
};

/// Small vectors of a layer, decoded to float when the model is opened; empty where the architecture has none.
struct layer_vectors {
    std::vector<float> attention_norm, q_bias, k_bias, v_bias, output_bias, q_norm, k_norm, post_attention_norm;
    std::vector<float> feed_forward_norm, gate_bias, up_bias, down_bias, post_feed_forward_norm;
};

/// Groups of one layer.
struct layer_groups {
    weights::group_id attention = 0;     ///< whole; slots of attention_slots
    weights::group_id feed_forward = 0;  ///< whole, slots of feed_forward_slots; or, with experts, the router alone in slot 0
    weights::group_id experts = 0;       ///< experts, slots of feed_forward_slots; only with experts
};

/// Everything found in a file for one decoder.
struct decoder_tensors {
    std::vector<weights::group> groups;  ///< in the order of one sweep
    weights::group_id embedding = 0;     ///< rows; slot 0: token_embd
    weights::group_id head = 0;          ///< whole; slot 0: output, or token_embd where the head is tied
    weights::group_id small = 0;         ///< whole, the last group, used only when a model is opened: `vectors` and the like
    std::vector<layer_groups> layers;
    std::vector<layer_vectors> vectors;
    std::vector<float> output_norm;
    std::vector<float> rope_factors;     ///< rope_freqs, one per rotated pair, or empty
    std::uint64_t parameters = 0;        ///< elements of all tensors of the file
    std::uint64_t weight_bytes = 0;      ///< bytes of all tensors of the file
};

namespace detail {

/// Finds tensors and checks their shapes; remembers the first problem.
class tensor_finder {
public:
    explicit tensor_finder(const gguf::file& file) : file_(file) {}

    /// Position of the tensor `name` with the shape [columns, rows] or, for depth > 1 or `stack`, [columns, rows, depth]; its type
    /// can be multiplied. `required` and missing is an error; nothing without one.
    std::optional<weights::tensor_id> matrix(const std::string& name, std::uint64_t columns, std::uint64_t rows, bool required = true,
                                             std::uint64_t depth = 1) {
        const auto* info = find(name, required);
        if (info == nullptr) return std::nullopt;
        if (info->dims[0] != columns || info->dims[1] != rows || info->dims[2] != depth || info->dims[3] != 1 ||
            (depth == 1 && info->n_dims < 2)) {
            wrong_shape(*info, depth == 1 ? concat(columns, " x ", rows) : concat(columns, " x ", rows, " x ", depth));
            return std::nullopt;
        }
        if (!quant::is_supported(info->type)) {
            fail(quant::unsupported_format(info->type).within(concat("tensor ", quoted(name))));
            return std::nullopt;
        }
        return static_cast<weights::tensor_id>(info - file_.tensors().data());
    }

    /// The tensor `name` of `length` elements in F32, F16 or BF16.
    std::optional<weights::tensor_id> vector(const std::string& name, std::uint64_t length, bool required = true) {
        const auto* info = find(name, required);
        if (info == nullptr) return std::nullopt;
        if (info->dims[0] != length || info->dims[1] != 1 || info->dims[2] != 1 || info->dims[3] != 1) {
            wrong_shape(*info, concat(length));
            return std::nullopt;
        }
        if (info->type != dtype::f32 && info->type != dtype::f16 && info->type != dtype::bf16) {
            fail({errc::bad_type, concat("tensor ", quoted(name), " has type ", colibri::name(info->type),
                                         "; a vector must be F32, F16 or BF16")});
            return std::nullopt;
        }
        return static_cast<weights::tensor_id>(info - file_.tensors().data());
    }

    void fail(error problem) {
        if (!problem_) problem_ = std::move(problem);
    }
    [[nodiscard]] const std::optional<error>& problem() const noexcept { return problem_; }

private:
    const gguf::tensor_info* find(const std::string& name, bool required) {
        const auto* info = file_.find(name);
        if (info == nullptr && required) {
            fail({errc::missing_tensor, concat("the file has no tensor ", quoted(name), ", which this architecture needs",
                                               name.starts_with("blk.") ? concat(" for the layers in ", key("block_count")) : "",
                                               "; it is incomplete or of an older layout: get or convert it again")});
        }
        return info;
    }

    void wrong_shape(const gguf::tensor_info& info, const std::string& wanted) {
        std::string shape;
        for (unsigned i = 0; i < info.n_dims; ++i) shape += concat(i == 0 ? "" : " x ", info.dims[i]);
        const bool attention = info.name.find(".attn_") != std::string::npos;
        const bool feed_forward = info.name.find(".ffn_") != std::string::npos;
        const std::string keys = attention ? concat(" (", key("attention.head_count"), ", ", key("attention.head_count_kv"), ", ",
                                                    key("attention.key_length"), ", ", key("attention.value_length"), ")")
                                 : feed_forward ? concat(" (", key("embedding_length"), ", ", key("feed_forward_length"), ")")
                                                : concat(" (", key("embedding_length"), ")");
        fail({errc::bad_shape, concat("tensor ", quoted(info.name), " has the shape ", shape, " where the metadata", keys,
                                      " ask for ", wanted, "; the file is damaged")});
    }

    [[nodiscard]] std::string key(std::string_view suffix) const {
        return quoted(concat(file_.meta().get_or<std::string>("general.architecture", {}).value_or(std::string()), ".", suffix));
    }

    const gguf::file& file_;
    std::optional<error> problem_;
};

}  // namespace detail

/// A vector that `find_decoder_tensors` wants decoded: which tensor goes where.
struct vector_request {
    weights::tensor_id tensor;
    std::vector<float>* target;
};

/// Finds and checks all tensors of a decoder; fills in h.vocabulary (the embedding's rows). `requests` tells which vectors are to
/// be decoded into the result (their targets stay valid while the result isn't moved).
/// Errors: missing_tensor, bad_shape, bad_type, each naming the tensor.
[[nodiscard]] inline result<void> find_decoder_tensors(const gguf::file& file, hparams& h, const decoder_config& config,
                                                       decoder_tensors& out, std::vector<vector_request>& requests) {
    using weights::access;
    detail::tensor_finder find(file);
    const auto want = [&](std::vector<float>& target, const std::string& name, std::uint64_t length, bool required) {
        if (const auto id = find.vector(name, length, required)) requests.push_back({*id, &target});
    };
    const auto add_group = [&](access how, std::initializer_list<std::optional<weights::tensor_id>> ids) {
        weights::group group{how, {}, weights::demand::each_sweep};
        for (const auto& id : ids) group.tensors.push_back(id.value_or(0));
        out.groups.push_back(std::move(group));
        return static_cast<weights::group_id>(out.groups.size() - 1);
    };

    const auto* embedding = file.find("token_embd.weight");
    if (embedding == nullptr) {
        return error{errc::missing_tensor, "the file has no tensor 'token_embd.weight'; it holds no weights of a language model "
                                           "(a vocabulary alone, or a part of a model)"};
    }
    if (embedding->dims[1] == 0 || embedding->dims[1] > (1u << 24)) {
        return error{errc::bad_shape, concat("tensor 'token_embd.weight' has ", embedding->dims[1], " rows")};
    }
    h.vocabulary = static_cast<std::uint32_t>(embedding->dims[1]);
    const auto embedding_id = find.matrix("token_embd.weight", h.hidden, h.vocabulary);
    out.embedding = add_group(access::rows, {embedding_id});
    if (const auto* factors = file.find("rope_freqs.weight"); factors != nullptr) {
        want(out.rope_factors, "rope_freqs.weight", h.rope_dimensions / 2, true);
    }

    const std::uint64_t q_rows = std::uint64_t{h.heads} * h.head_k;
    const std::uint64_t k_rows = std::uint64_t{h.kv_heads} * h.head_k;
    const std::uint64_t v_rows = std::uint64_t{h.kv_heads} * h.head_v;
    const std::uint64_t o_columns = std::uint64_t{h.heads} * h.head_v;
    out.layers.resize(h.layers);
    out.vectors.resize(h.layers);
    for (std::uint32_t i = 0; i < h.layers && !find.problem(); ++i) {
        const std::string block = concat("blk.", i, ".");
        auto& v = out.vectors[i];
        auto& groups = out.layers[i];
        want(v.attention_norm, block + "attn_norm.weight", h.hidden, true);
        groups.attention = add_group(access::whole, {find.matrix(block + "attn_q.weight", h.hidden, q_rows),
                                                     find.matrix(block + "attn_k.weight", h.hidden, k_rows),
                                                     find.matrix(block + "attn_v.weight", h.hidden, v_rows),
                                                     find.matrix(block + "attn_output.weight", o_columns, h.hidden)});
        want(v.q_bias, block + "attn_q.bias", q_rows, config.qkv_bias);
        want(v.k_bias, block + "attn_k.bias", k_rows, config.qkv_bias);
        want(v.v_bias, block + "attn_v.bias", v_rows, config.qkv_bias);
        want(v.output_bias, block + "attn_output.bias", h.hidden, false);
        if (config.head_norms) {
            want(v.q_norm, block + "attn_q_norm.weight", h.head_k, true);
            want(v.k_norm, block + "attn_k_norm.weight", h.head_k, true);
        }
        if (config.post_norms) {
            want(v.post_attention_norm, block + "post_attention_norm.weight", h.hidden, true);
            want(v.post_feed_forward_norm, block + "post_ffw_norm.weight", h.hidden, true);
        }
        want(v.feed_forward_norm, block + "ffn_norm.weight", h.hidden, true);
        if (h.experts > 0) {
            groups.feed_forward = add_group(access::whole, {find.matrix(block + "ffn_gate_inp.weight", h.hidden, h.experts)});
            groups.experts = add_group(
                access::experts, {find.matrix(block + "ffn_gate_exps.weight", h.hidden, h.feed_forward, true, h.experts),
                                  find.matrix(block + "ffn_up_exps.weight", h.hidden, h.feed_forward, true, h.experts),
                                  find.matrix(block + "ffn_down_exps.weight", h.feed_forward, h.hidden, true, h.experts)});
        } else {
            groups.feed_forward = add_group(access::whole, {find.matrix(block + "ffn_gate.weight", h.hidden, h.feed_forward),
                                                            find.matrix(block + "ffn_up.weight", h.hidden, h.feed_forward),
                                                            find.matrix(block + "ffn_down.weight", h.feed_forward, h.hidden)});
            want(v.gate_bias, block + "ffn_gate.bias", h.feed_forward, false);
            want(v.up_bias, block + "ffn_up.bias", h.feed_forward, false);
            want(v.down_bias, block + "ffn_down.bias", h.hidden, false);
        }
    }
    want(out.output_norm, "output_norm.weight", h.hidden, true);
    const auto head = find.matrix("output.weight", h.hidden, h.vocabulary, false);
    out.head = add_group(access::whole, {head ? head : embedding_id});
    out.groups.back().when = weights::demand::some_sweeps;
    if (find.problem()) return *find.problem();
    weights::group small{access::whole, {}, weights::demand::once};
    for (const auto& request : requests) small.tensors.push_back(request.tensor);
    out.groups.push_back(std::move(small));
    out.small = static_cast<weights::group_id>(out.groups.size() - 1);
    for (const auto& tensor : file.tensors()) {
        out.parameters += tensor.elements();
        out.weight_bytes += tensor.bytes;
    }
    return {};
}

}  // namespace colibri
