// Tensors, and experts in them, in the order of how much they were used.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "colibri/core/concat.hpp"
#include "colibri/core/error.hpp"
#include "colibri/core/escape.hpp"
#include "colibri/quantize/model_facts.hpp"
#include "colibri/quantize/plan.hpp"
#include "colibri/weights/heat.hpp"

namespace colibri::quantize {

/// How often each expert of each layer was used: layer -> expert -> steps.
using heat_counts = std::map<std::uint32_t, std::map<std::uint32_t, std::uint64_t>>;

/// Reads what `colibri run --record-heat` writes: a line "STEP LAYER EXPERT,EXPERT..." for each step and layer.
/// Errors: bad_value (names the line).
[[nodiscard]] inline result<heat_counts> read_heat(std::string_view text) {
    heat_counts out;
    weights::heat_line use;
    std::size_t number = 0;
    while (!text.empty()) {
        ++number;
        const auto end = std::min(text.find('\n'), text.size());
        const std::string_view line = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        const auto refuse = [&] {
            return error{errc::bad_value, concat("line ", number, " is ", quoted(line, 60),
                                                 ", not \"step layer expert,expert...\" as colibri run --record-heat writes")};
        };
        if (!weights::detail::parse_heat_line(line, use)) return refuse();
        for (const auto expert : use.experts) ++out[use.layer][expert];
    }
    if (out.empty()) return error{errc::bad_value, "it has no line; colibri run --record-heat writes such a file with a mixture of experts"};
    return out;
}

namespace detail {

/// Whether a tensor of a block has a part for each expert, along its last dimension.
[[nodiscard]] constexpr bool has_expert_parts(std::string_view name) noexcept {
    return has(name, "_exps.") || name.ends_with(".ffn_gate_inp.weight") || name.ends_with(".ffn_gate_inp.bias") ||
           name.ends_with(".exp_probs_b") || name.ends_with(".exp_probs_b.bias");
}

/// Experts by falling use; equal ones keep their order. With groups, of which the router chooses first, each stays in its group.
[[nodiscard]] inline std::vector<std::uint32_t> hottest_first(const std::map<std::uint32_t, std::uint64_t>& used, std::uint32_t experts,
                                                              std::uint32_t groups) {
    std::vector<std::uint32_t> out(experts);
    std::iota(out.begin(), out.end(), 0u);
    const auto count = [&](std::uint32_t e) {
        const auto at = used.find(e);
        return at == used.end() ? std::uint64_t{0} : at->second;
    };
    const std::uint32_t each = groups > 1 && experts % groups == 0 ? experts / groups : experts;
    for (std::uint32_t begin = 0; begin < experts; begin += each) {
        std::stable_sort(out.begin() + begin, out.begin() + begin + each, [&](auto a, auto b) { return count(a) > count(b); });
    }
    return out;
}

}  // namespace detail

/// Puts the hottest experts of each layer first - in all tensors that have a part for each, the router's among them, so that the model
/// stays the same up to the order of sums - and behind the other tensors those of experts, the layers with the most uses of an expert
/// first. `pruned`: layers of the heat that the plan has no more. Errors: bad_value (the heat is another model's), unsupported (experts that can't change places).
[[nodiscard]] inline result<void> order_by_heat(plan& work, const heat_counts& heat, std::span<const std::uint32_t> pruned = {}) {
    std::vector<gguf::tensor_info> sources;
    for (const auto& tensor : work.tensors) sources.push_back(tensor.source);
    const auto facts = model_facts::of(work.meta, sources);
    const auto groups = work.meta.get_or<std::uint32_t>(concat(facts.architecture, ".expert_group_count"), 1).value_or(1u);
    std::map<std::uint32_t, std::uint64_t> uses;
    for (const auto& [layer, used] : heat) {
        if (used.empty() || std::ranges::find(pruned, layer) != pruned.end()) continue;
        if (used.rbegin()->first >= facts.experts) {
            return error{errc::bad_value, concat("it has expert ", used.rbegin()->first, " in layer ", layer, ", but the model has ",
                                                 facts.experts, " experts; the heat belongs to another model")};
        }
        for (const auto& [expert, count] : used) uses[layer] += count;
        bool found = false;
        std::vector<std::uint32_t> order;  // once a tensor says that there are so many experts
        for (auto& tensor : work.tensors) {
            const auto block = block_of(tensor.source.name);
            if (!block || *block != layer || !detail::has_expert_parts(tensor.source.name)) continue;
            const auto row = find_dtype(static_cast<std::uint32_t>(tensor.source.type));
            const std::uint64_t last = tensor.source.dims[std::max(tensor.source.n_dims, 1u) - 1];
            if (tensor.source.n_dims == 0 || last != facts.experts || tensor.source.elements() / last % row->block_size != 0) {
                return error{errc::unsupported, concat("the tensor ", quoted(tensor.source.name), " of shape ", gguf::shape_text(tensor.source),
                                                       " has no part for each of the ", facts.experts, " experts")};
            }
            found = true;
            if (order.empty()) order = detail::hottest_first(used, facts.experts, groups);
            tensor.slices = order;
        }
        if (!found) {
            return error{errc::bad_value, concat("it has layer ", layer, ", in which the model has no experts; the heat belongs to another model")};
        }
    }
    // A router that looks expert numbers up in a table would need that table changed.
    for (const auto& tensor : work.tensors) {
        if (detail::has(tensor.source.name, "ffn_gate_tid2eid")) {
            return error{errc::unsupported, concat("the tensor ", quoted(tensor.source.name), " names experts by number, so they can't change places")};
        }
    }
    const auto rank = [&](const planned_tensor& tensor) -> std::uint64_t {
        const auto block = block_of(tensor.source.name);
        if (!block || !detail::has(tensor.source.name, "_exps.")) return ~std::uint64_t{0};
        const auto at = uses.find(*block);
        return at == uses.end() ? 0 : at->second;
    };
    std::ranges::stable_sort(work.tensors, [&](const planned_tensor& a, const planned_tensor& b) {
        return a.source.part != b.source.part ? a.source.part < b.source.part : rank(a) > rank(b);
    });
    return {};
}

}  // namespace colibri::quantize
