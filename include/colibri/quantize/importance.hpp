// An importance matrix given to the tensors that it was measured for.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "colibri/core/concat.hpp"
#include "colibri/core/error.hpp"
#include "colibri/core/escape.hpp"
#include "colibri/eval/importance.hpp"
#include "colibri/quantize/model_facts.hpp"
#include "colibri/quantize/plan.hpp"

namespace colibri::quantize {

/// Mean squared activations by tensor: a weight for each column, slice (expert) by slice.
struct importance_weights {
    std::map<std::string, std::vector<float>, std::less<>> entries;
    std::string file;                 ///< as a person named it
    std::vector<std::string> datasets;
    std::uint32_t chunks = 0;         ///< of text that it was measured on; 0: unknown

    /// The weights of a matrix that was read from `file`; its sums are used up.
    [[nodiscard]] static importance_weights of(eval::importance_matrix matrix, std::string file) {
        importance_weights out{{}, std::move(file), std::move(matrix.datasets), matrix.chunks};
        while (!matrix.entries.empty()) {
            auto entry = matrix.entries.extract(matrix.entries.begin());
            auto& sums = entry.mapped().sums;
            const std::size_t columns = entry.mapped().columns();
            for (std::size_t i = 0; i < entry.mapped().matrices(); ++i) {
                const auto means = std::span(sums).subspan(i * columns, columns);
                const double count = entry.mapped().count(i);
                for (float& sum : means) sum = count > 0.0 ? static_cast<float>(static_cast<double>(sum) / count) : 1.0f;
            }
            out.entries.emplace(std::move(entry.key()), std::move(sums));
        }
        return out;
    }
};

/// Which entries count.
struct importance_filter {
    std::vector<std::string> include;  ///< parts of names; empty: all
    std::vector<std::string> exclude;

    [[nodiscard]] bool takes(std::string_view tensor) const noexcept {
        const auto named = [&](const std::vector<std::string>& parts) {
            return std::ranges::any_of(parts, [&](const std::string& part) { return tensor.find(part) != std::string_view::npos; });
        };
        return (include.empty() || named(include)) && !named(exclude);
    }
};

namespace detail {

/// Weights of experts that no text reached are all 0, which would say that errors don't matter: they become 1.
inline void make_unused_neutral(std::vector<float>& weights, std::uint64_t columns) noexcept {
    for (std::uint64_t at = 0; at + columns <= weights.size(); at += columns) {
        const auto slice = std::span(weights).subspan(at, columns);
        if (std::ranges::all_of(slice, [](float w) { return w == 0.0f; })) std::ranges::fill(slice, 1.0f);
    }
}

[[nodiscard]] inline error foreign_importance(std::string text) {
    return error{errc::bad_value, concat(text, "; the importance matrix belongs to another model")};
}

}  // namespace detail

/// Refuses a matrix of another model: one that has a tensor that the model hasn't, or of another shape, or nothing for a whole layer.
/// `layers` are the model's before any are left out. Errors: bad_value.
[[nodiscard]] inline result<void> check_importance(const importance_weights& given, std::span<const gguf::tensor_info> model,
                                                   const model_facts& facts) {
    std::map<std::string_view, const gguf::tensor_info*> by_name;
    for (const auto& tensor : model) by_name.emplace(tensor.name, &tensor);
    std::set<std::uint32_t> measured;
    for (const auto& [name, weights] : given.entries) {
        const auto at = by_name.find(name);
        if (at == by_name.end()) return detail::foreign_importance(concat("it has ", quoted(name), ", which is no tensor of the model"));
        const auto& tensor = *at->second;
        const std::uint64_t expected = tensor.dims[0] * tensor.dims[2];
        if (weights.size() != expected && role_of(name) != tensor_role::embedding) {
            return detail::foreign_importance(concat("it has ", weights.size(), " weights for ", quoted(name), ", which needs ", expected));
        }
        for (const float w : weights) {
            if (!std::isfinite(w) || w < 0.0f) return error{errc::bad_value, concat("it has the weight ", w, " for ", quoted(name), "; make it again")};
        }
        if (const auto block = block_of(name)) measured.insert(*block);
    }
    for (const auto& tensor : model) {
        const auto block = block_of(tensor.name);
        if (!block || !is_quantisable(tensor) || measured.contains(*block)) continue;
        if (*block + facts.unused_blocks >= facts.blocks) continue;
        return detail::foreign_importance(concat("it has nothing for layer ", *block));
    }
    return {};
}

/// Gives each tensor that will be quantised - or, with `all`, whose type is still to be chosen - the weights of its name. Tensors without
/// are named in the plan's notes.
inline void attach_importance(importance_weights given, const importance_filter& filter, plan& work, bool all) {
    std::vector<std::string_view> missing;
    for (auto& tensor : work.tensors) {
        const bool is_encoded = tensor.source.type != tensor.target.type && is_quantised(tensor.target.type);
        if (!is_encoded && !(all && tensor.can_change)) continue;
        const auto at = given.entries.find(tensor.source.name);
        const std::uint64_t expected = tensor.source.dims[0] * tensor.source.dims[2];
        if (at == given.entries.end() || at->second.size() != expected || !filter.takes(tensor.source.name)) {
            missing.push_back(tensor.source.name);
            continue;
        }
        tensor.importance = std::move(at->second);
        detail::make_unused_neutral(tensor.importance, tensor.source.dims[0]);
    }
    if (!missing.empty()) {
        std::string names;
        for (std::size_t i = 0; i < std::min<std::size_t>(missing.size(), 4); ++i) names += concat(i == 0 ? "" : ", ", quoted(missing[i]));
        if (missing.size() > 4) names += concat(" and ", missing.size() - 4, " more");
        work.notes.push_back(concat("no importance weights are used for ", names));
    }
}

/// Refuses a plan with a tensor that would be noise without importance weights and has none; gives neutral ones to tensors that may do
/// without although their type can't. Errors: invalid_argument (names the tensor).
[[nodiscard]] inline result<void> check_importance_is_there(plan& work) {
    for (auto& tensor : work.tensors) {
        if (tensor.source.type == tensor.target.type || !tensor.importance.empty()) continue;
        if (tensor.wants_importance) {
            return error{errc::invalid_argument,
                         concat("the type ", name(tensor.target.type), " needs importance weights, and there are none for ",
                                quoted(tensor.source.name), "; make an importance matrix (colibri imatrix) and give it with --imatrix")};
        }
        if (quant::needs_importance(tensor.target.type)) tensor.importance.assign(static_cast<std::size_t>(tensor.target.dims[0]), 1.0f);
    }
    return {};
}

/// Says in a file's metadata which matrix was used.
inline void mark_importance(const importance_weights& given, std::size_t entries, gguf::metadata& meta) {
    meta.set("quantize.imatrix.file", std::string_view(given.file));
    if (!given.datasets.empty()) meta.set("quantize.imatrix.dataset", std::string_view(given.datasets.front()));
    meta.set("quantize.imatrix.entries_count", static_cast<std::uint32_t>(entries));
    if (given.chunks != 0) meta.set("quantize.imatrix.chunks_count", given.chunks);
}

}  // namespace colibri::quantize
