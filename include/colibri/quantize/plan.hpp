// What will be written, tensor by tensor, decided from the header alone.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "colibri/core/concat.hpp"
#include "colibri/core/error.hpp"
#include "colibri/core/escape.hpp"
#include "colibri/gguf/file.hpp"
#include "colibri/quant/encode_tensor.hpp"
#include "colibri/quantize/metadata_changes.hpp"
#include "colibri/quantize/mixture.hpp"
#include "colibri/quantize/pruning.hpp"
#include "colibri/quantize/type_rules.hpp"

namespace colibri::quantize {

/// A tensor of the output and where it comes from.
struct planned_tensor {
    gguf::tensor_info source;  ///< name, type, place and shape in the input
    gguf::tensor_info target;  ///< name, type, shape and bytes in the output; its offset is the writer's
    bool can_change = false;   ///< mixtures may choose its type
    bool is_fallback = false;  ///< the wanted type's blocks don't fit its rows
    bool wants_importance = false;
    std::vector<float> importance = {};      ///< empty, or a weight for each column, or for each column of each slice
    std::vector<std::uint32_t> slices = {};  ///< which slice of the source each one is; empty: the same
};

/// What decides on types.
struct type_choice {
    mixture kind = mixture::copy;
    bool pure = false;                     ///< the base type everywhere
    bool leave_output = false;             ///< output.weight stays as it is
    std::optional<dtype> output_type = {};     ///< of output.weight, or of the embeddings where they are the head
    std::optional<dtype> embedding_type = {};  ///< of token_embd.weight
    type_rules rules = {};
};

/// The whole output.
struct plan {
    gguf::metadata meta;
    std::vector<planned_tensor> tensors;  ///< in the order that they are written in
    std::vector<std::string> notes;       ///< what a person should know, a sentence each

    [[nodiscard]] std::uint64_t source_bytes() const noexcept {
        std::uint64_t sum = 0;
        for (const auto& tensor : tensors) sum += tensor.source.bytes;
        return sum;
    }
    [[nodiscard]] std::uint64_t target_bytes() const noexcept {
        std::uint64_t sum = 0;
        for (const auto& tensor : tensors) sum += tensor.target.bytes;
        return sum;
    }
    [[nodiscard]] std::uint64_t elements() const noexcept {
        std::uint64_t sum = 0;
        for (const auto& tensor : tensors) sum += tensor.source.elements();
        return sum;
    }
};

/// Gives a tensor a type and the size that follows. Errors: bad_shape (its blocks don't fit the rows), overflow.
[[nodiscard]] inline result<void> set_type(planned_tensor& tensor, dtype type, mixture kind) {
    auto bytes = gguf::tensor_bytes(type, tensor.target.dims, tensor.target.n_dims);
    if (!bytes) return std::move(bytes).error().within(concat("tensor ", quoted(tensor.target.name)));
    tensor.target.type = type;
    tensor.target.bytes = *bytes;
    tensor.wants_importance = type != tensor.source.type && wants_importance(tensor.target.name, type, kind);
    return {};
}

/// A plan that copies: every tensor that the layers kept have, in the input's order, in its own type; metadata with `overrides`.
/// Errors: those of `prune`.
[[nodiscard]] inline result<plan> plan_copy(const gguf::file& input, std::span<const metadata_override> overrides,
                                            std::span<const std::uint32_t> pruned) {
    plan out;
    out.meta = input.meta();
    apply(overrides, out.meta);
    for (const auto& tensor : input.tensors()) out.tensors.push_back({tensor, tensor});
    if (!pruned.empty()) {
        auto names = prune(out.meta, pruned);
        if (!names) return std::move(names).error();
        std::vector<planned_tensor> kept;
        for (auto& tensor : out.tensors) {
            const auto name = names->new_name(tensor.source.name);
            if (!name) continue;
            tensor.target.name = *name;
            kept.push_back(std::move(tensor));
        }
        out.tensors = std::move(kept);
    }
    return out;
}

/// Gives all tensors of a plan their types. `has_importance`: weights will be there, which some rules depend on.
/// Errors: unsupported (no encoder for a type), bad_shape (a type asked for by name that doesn't fit), limit.
[[nodiscard]] inline result<void> choose_types(plan& out, type_choice& choice, bool has_importance) {
    const dtype base = base_type(choice.kind);
    std::vector<gguf::tensor_info> targets;
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < out.tensors.size(); ++i) {
        targets.push_back(out.tensors[i].target);
        order.push_back(i);
    }
    std::ranges::sort(order, [&](std::size_t a, std::size_t b) { return type_chooser::goes_before(targets[a].name, targets[b].name); });
    type_chooser chooser(choice.kind, model_facts::of(out.meta, targets), has_importance);
    const bool has_head = std::ranges::any_of(targets, [](const auto& t) { return t.name == "output.weight"; });
    if (choice.leave_output && !has_head) {
        out.notes.push_back("the model has no tensor output.weight that could be left as it is; its embeddings are the output head");
    }
    for (const std::size_t i : order) {
        auto& tensor = out.tensors[i];
        const auto role = role_of(tensor.target.name);
        if (choice.kind == mixture::copy || !is_quantisable(tensor.target)) continue;
        if (choice.leave_output && role == tensor_role::output) continue;
        auto ruled = choice.rules.find(tensor.target.name);
        if (!ruled) return std::move(ruled).error();
        const bool is_main_embedding = tensor.target.name == "token_embd.weight";
        std::optional<dtype> asked = *ruled;
        if (is_main_embedding && !has_head && choice.output_type) asked = choice.output_type;
        if (role == tensor_role::embedding && choice.embedding_type && (is_main_embedding || !asked)) asked = choice.embedding_type;
        if (role == tensor_role::output && choice.output_type) asked = choice.output_type;
        const dtype wanted = asked ? *asked : choice.pure || !is_quantised(base) ? base : chooser.choose(tensor.target);
        const dtype fitting = fitting_type(wanted, tensor.target.dims[0]);
        tensor.can_change = !asked;
        tensor.is_fallback = fitting != wanted;
        if (auto ok = set_type(tensor, fitting, choice.kind); !ok) return ok;
    }
    if (const auto* unused = choice.rules.unused()) {
        out.notes.push_back(concat("no tensor that can be quantised has a name that ", quoted(*unused), " is found in"));
    }
    return {};
}

/// Checks that everything can be written: encoders, decoders, and that nothing is quantised twice without being asked for.
/// Errors: unsupported, invalid_argument; the message names the tensor.
[[nodiscard]] inline result<void> check_types(const plan& out, bool allow_requantise) {
    for (const auto& tensor : out.tensors) {
        const dtype from = tensor.source.type;
        const dtype to = tensor.target.type;
        if (from == to) continue;
        const auto refuse = [&](errc code, std::string text) {
            return error{code, std::move(text), error::no_offset, concat("tensor ", quoted(tensor.source.name))};
        };
        if (!quant::is_supported(from)) {
            return refuse(errc::unsupported, concat("it is of type ", name(from), ", which can't be turned into ", name(to)));
        }
        if (!quant::is_encodable(to)) return refuse(errc::unsupported, concat("there is no encoder for ", name(to)));
        if (is_quantised(from) && !allow_requantise) {
            return refuse(errc::invalid_argument,
                          concat("it is of type ", name(from), " already, and turning it into ", name(to),
                                 " would lose more than starting from the original; take an F16 or BF16 file, or give --allow-requantize"));
        }
    }
    return {};
}

}  // namespace colibri::quantize
