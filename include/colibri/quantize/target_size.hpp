// Types chosen tensor by tensor so that a model fits a size, where they cost least.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <queue>
#include <span>
#include <utility>
#include <vector>

#include "colibri/core/concat.hpp"
#include "colibri/core/error.hpp"
#include "colibri/core/progress.hpp"
#include "colibri/core/thread_pool.hpp"
#include "colibri/io/file_reader.hpp"
#include "colibri/quantize/convert_values.hpp"
#include "colibri/quantize/piece.hpp"
#include "colibri/quantize/plan.hpp"

namespace colibri::quantize {

/// A type that a tensor could have.
struct type_option {
    dtype type;
    std::uint64_t bytes;  ///< of the tensor then
    double error;         ///< squared error as a part of the squared weights, both weighted by importance
};

namespace detail {

/// Types to choose from; each tensor is left with those that it can have and that nothing smaller is better than.
inline constexpr std::array size_choices = {
    dtype::q8_0, dtype::q6_k, dtype::q5_k, dtype::q5_1, dtype::q5_0, dtype::q4_k, dtype::q4_1, dtype::iq4_nl, dtype::q4_0, dtype::iq4_xs,
    dtype::q3_k, dtype::iq3_s, dtype::iq3_xxs, dtype::q2_k, dtype::iq2_s, dtype::iq2_xs, dtype::iq2_xxs, dtype::iq1_m, dtype::iq1_s};

/// Values of a tensor that are looked at, in rows spread over it (one at least).
inline constexpr std::uint64_t sampled_values = 32768;

/// How many values of a row are looked at, from its first on: all, but no more than memory has room for in a piece.
[[nodiscard]] constexpr std::uint64_t sampled_columns(std::uint64_t columns) noexcept { return std::min(columns, piece_values); }

/// Relative error of a type on sampled rows. `values` and `back` have room for them.
[[nodiscard]] inline result<double> sampled_error(dtype type, std::span<const float> values, std::span<const float> importance,
                                                  std::span<std::byte> blocks, std::span<float> back, std::uint64_t columns) {
    double wrong = 0.0;
    double all = 0.0;
    for (std::size_t at = 0; at < values.size(); at += columns) {
        const auto row = values.subspan(at, columns);
        const auto weights = importance.empty() ? importance : importance.subspan(at, columns);
        const auto out = blocks.first(static_cast<std::size_t>(bytes_of(type, columns)));
        if (auto ok = quant::encode_row(type, row, weights, out); !ok) return std::move(ok).error();
        if (auto ok = quant::decode_row(type, out, back.first(columns)); !ok) return std::move(ok).error();
        for (std::size_t i = 0; i < columns; ++i) {
            const double w = weights.empty() ? 1.0 : static_cast<double>(weights[i]);
            const double off = static_cast<double>(row[i]) - static_cast<double>(back[i]);
            wrong += w * off * off;
            all += w * static_cast<double>(row[i]) * static_cast<double>(row[i]);
        }
    }
    return all > 0.0 ? wrong / all : 0.0;
}

/// Sampled rows of a tensor as floats, and the importance of each of their values (or none).
struct tensor_sample {
    std::vector<float> values;
    std::vector<float> importance;
};

[[nodiscard]] inline result<tensor_sample> sample(const planned_tensor& tensor, file_reader& source) {
    const std::uint64_t columns = sampled_columns(tensor.source.dims[0]);
    const std::uint64_t row_bytes = bytes_of(tensor.source.type, tensor.source.dims[0]);
    const std::uint64_t rows = tensor.source.rows();
    const std::uint64_t count = std::min(rows, std::max<std::uint64_t>(1, sampled_values / columns));
    tensor_sample out;
    out.values.resize(static_cast<std::size_t>(count * columns));
    std::vector<std::byte> bytes(static_cast<std::size_t>(bytes_of(tensor.source.type, columns)));
    for (std::uint64_t i = 0; i < count; ++i) {
        const std::uint64_t row = rows / count * i + rows % count * i / count;
        if (auto ok = source.read_at(tensor.source.offset + row * row_bytes, bytes); !ok) return std::move(ok).error();
        const auto values = std::span(out.values).subspan(static_cast<std::size_t>(i * columns), static_cast<std::size_t>(columns));
        if (auto ok = quant::decode_row(tensor.source.type, bytes, values); !ok) return std::move(ok).error();
        if (quant::detail::largest_bits(values.data(), values.size()) >= quant::detail::infinity_bits) {
            const std::size_t at = first_not_finite(values);
            return error{errc::bad_value, concat("element ", row * tensor.source.dims[0] + at, " (row ", row, ", column ", at, ") is ",
                                                 std::isnan(values[at]) ? "not a number (NaN)" : "infinite")};
        }
        if (tensor.importance.empty()) continue;
        const std::uint64_t whole = tensor.source.dims[0];
        const bool per_slice = tensor.importance.size() > whole;
        const auto weights = std::span(tensor.importance).subspan(per_slice ? row / tensor.source.dims[1] * whole : 0, columns);
        out.importance.insert(out.importance.end(), weights.begin(), weights.end());
    }
    return out;
}

/// What a tensor can be, by rising size, on the lower convex hull of error over size: each step up buys less than the one before.
[[nodiscard]] inline std::vector<type_option> worthwhile(std::vector<type_option> options) {
    std::ranges::stable_sort(options, [](const type_option& a, const type_option& b) { return a.bytes != b.bytes ? a.bytes < b.bytes : a.error < b.error; });
    std::vector<type_option> out;
    const auto gain = [](const type_option& low, const type_option& high) {
        return (low.error - high.error) / static_cast<double>(high.bytes - low.bytes);
    };
    for (const auto& option : options) {
        if (!out.empty() && (option.bytes == out.back().bytes || option.error >= out.back().error)) continue;
        while (out.size() > 1 && gain(out[out.size() - 2], out.back()) <= gain(out.back(), option)) out.pop_back();
        out.push_back(option);
    }
    return out;
}

/// Named mixtures by falling size, each of which is better than those behind it; what needs importance weights that are missing is passed over.
inline constexpr std::array size_bases = {mixture::q8_0,   mixture::q6_k,   mixture::q5_k_m, mixture::q5_k_s, mixture::q4_k_m,  mixture::q4_k_s,
                                          mixture::iq4_xs, mixture::iq3_m,  mixture::iq3_s,  mixture::iq3_xs, mixture::iq3_xxs, mixture::q2_k,
                                          mixture::iq2_m,  mixture::iq2_s,  mixture::iq2_xs, mixture::iq2_xxs, mixture::iq1_m,  mixture::iq1_s};

/// Types of the tensors `free` of the first of these mixtures that takes at most `room` bytes for them; empty if none does.
[[nodiscard]] inline std::vector<dtype> base_types(const plan& work, std::span<const std::size_t> free, std::uint64_t room) {
    std::vector<gguf::tensor_info> targets;
    for (const std::size_t i : free) targets.push_back(work.tensors[i].target);
    std::vector<std::size_t> order(free.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::sort(order, [&](std::size_t a, std::size_t b) { return type_chooser::goes_before(targets[a].name, targets[b].name); });
    const auto has_importance = [&](std::size_t i) { return !work.tensors[free[i]].importance.empty(); };
    std::vector<gguf::tensor_info> all;
    for (const auto& tensor : work.tensors) all.push_back(tensor.target);
    const auto facts = model_facts::of(work.meta, all);
    const bool any_importance = std::ranges::any_of(order, has_importance);
    for (const auto kind : size_bases) {
        type_chooser chooser(kind, facts, any_importance);
        std::vector<dtype> out(free.size());
        std::uint64_t bytes = 0;
        bool can_be = true;
        for (const std::size_t i : order) {
            out[i] = fitting_type(chooser.choose(targets[i]), targets[i].dims[0]);
            const auto size = gguf::tensor_bytes(out[i], targets[i].dims, targets[i].n_dims);
            can_be = can_be && size && (has_importance(i) || !wants_importance(targets[i].name, out[i], kind));
            if (size) bytes += *size;
        }
        if (can_be && bytes <= room) return out;
    }
    return {};
}

/// `least`: nothing smaller is worth looking at.
[[nodiscard]] inline result<std::vector<type_option>> options_of(const planned_tensor& tensor, file_reader& source, std::optional<dtype> least) {
    auto rows = sample(tensor, source);
    if (!rows) return std::move(rows).error();
    const std::uint64_t columns = sampled_columns(tensor.source.dims[0]);
    std::vector<float> back(static_cast<std::size_t>(columns));
    std::vector<std::byte> blocks(static_cast<std::size_t>(bytes_of(dtype::f32, columns)));
    std::vector<type_option> options;
    std::uint64_t least_bytes = 0;
    if (least) {
        auto bytes = gguf::tensor_bytes(*least, tensor.target.dims, tensor.target.n_dims);
        if (!bytes) return std::move(bytes).error();
        least_bytes = *bytes;
    }
    for (const dtype type : size_choices) {
        auto bytes = gguf::tensor_bytes(type, tensor.target.dims, tensor.target.n_dims);
        if (!bytes || !quant::is_encodable(type) || *bytes < least_bytes) continue;
        const bool is_noise_without = quant::needs_importance(type) || wants_importance(tensor.target.name, type, mixture::copy);
        if (is_noise_without && tensor.importance.empty()) continue;
        auto wrong = sampled_error(type, rows->values, rows->importance, blocks, back, columns);
        if (!wrong) return std::move(wrong).error();
        options.push_back({type, *bytes, *wrong});
    }
    if (options.empty()) {  // rows that no block fits, or a mixture's largest type
        const dtype only = least.value_or(dtype::f16);
        auto bytes = gguf::tensor_bytes(only, tensor.target.dims, tensor.target.n_dims);
        if (!bytes) return std::move(bytes).error();
        options.push_back({only, *bytes, 0.0});
    }
    return worthwhile(std::move(options));
}

}  // namespace detail

/// Chooses types for the tensors of a plan that mixtures may choose for, so that all tensors together take at most `budget` bytes (padding
/// not counted): everything begins as in the largest named mixture that fits, which knows what tensors matter, or else as small as it can
/// be; then the step up that takes away most of a tensor's relative error for its bytes is taken, as long as one fits. Errors are measured
/// on sampled rows, weighted by importance where there is some.
/// Errors: invalid_argument (nothing fits; says what is the least), bad_value (NaN), canceled, those of reading.
[[nodiscard]] inline result<void> fit_to_size(plan& work, std::uint64_t budget, std::span<const std::unique_ptr<file_reader>> sources,
                                              thread_pool& pool, const progress_fn& watch) {
    std::vector<std::size_t> free;
    std::uint64_t fixed = 0;
    for (std::size_t i = 0; i < work.tensors.size(); ++i) {
        if (work.tensors[i].can_change) free.push_back(i);
        else fixed += work.tensors[i].target.bytes;
    }
    const auto base = detail::base_types(work, free, budget - std::min(budget, fixed));
    std::vector<std::vector<type_option>> options(free.size());
    std::optional<std::pair<std::size_t, error>> failure;
    std::mutex mutex;
    std::size_t done = 0;
    pool.for_chunks(free.size(), 1, [&](std::size_t begin, std::size_t end, unsigned) {
        for (std::size_t i = begin; i < end; ++i) {
            {
                const std::lock_guard lock(mutex);
                if (failure && failure->first < i) return;
            }
            const auto& tensor = work.tensors[free[i]];
            auto found = detail::options_of(tensor, *sources[tensor.source.part], base.empty() ? std::nullopt : std::optional(base[i]));
            const std::lock_guard lock(mutex);
            if (!found) {
                if (!failure || i < failure->first) failure.emplace(i, std::move(found).error().within(concat("tensor ", quoted(tensor.source.name))));
            } else {
                options[i] = std::move(*found);
            }
            ++done;
            if (watch && !watch({done, free.size()})) failure.emplace(0, error{errc::canceled, "stopped on request"});
        }
    });
    if (failure) return std::move(failure->second);
    std::uint64_t bytes = fixed;
    for (const auto& list : options) bytes += list.front().bytes;
    if (bytes > budget) {
        return error{errc::invalid_argument, concat("the tensors take at least ", bytes, " bytes, more than the ", budget,
                                                    " that the wanted size leaves for them")};
    }
    struct step {
        double gain;
        std::size_t tensor;
        std::size_t option;  ///< that it leads to
        bool operator<(const step& other) const noexcept { return gain != other.gain ? gain < other.gain : tensor > other.tensor; }
    };
    std::priority_queue<step> steps;
    const auto offer = [&](std::size_t tensor, std::size_t option) {
        const auto& list = options[tensor];
        if (option >= list.size()) return;
        steps.push({(list[option - 1].error - list[option].error) / static_cast<double>(list[option].bytes - list[option - 1].bytes), tensor, option});
    };
    std::vector<std::size_t> chosen(free.size(), 0);
    for (std::size_t i = 0; i < free.size(); ++i) offer(i, 1);
    while (!steps.empty()) {
        const step best = steps.top();
        steps.pop();
        const auto& list = options[best.tensor];
        const std::uint64_t more = list[best.option].bytes - list[best.option - 1].bytes;
        if (more > budget - bytes) continue;
        bytes += more;
        chosen[best.tensor] = best.option;
        offer(best.tensor, best.option + 1);
    }
    for (std::size_t i = 0; i < free.size(); ++i) {
        auto& tensor = work.tensors[free[i]];
        if (auto ok = set_type(tensor, options[i][chosen[i]].type, mixture::copy); !ok) return ok;
        tensor.is_fallback = false;
    }
    return {};
}

}  // namespace colibri::quantize
