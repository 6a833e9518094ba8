// How strongly each column of a weight matrix is used: the importance matrix of a model.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "colibri/core/error.hpp"
#include "colibri/core/escape.hpp"

namespace colibri::eval {

/// What was seen of the activations that one weight tensor is multiplied with.
struct importance {
    std::vector<float> sums;     ///< sum of x^2 per column; of a stack of experts one matrix behind the other
    std::vector<double> counts;  ///< vectors that the sums were made of: one for all, or one per matrix of a stack

    /// Number of matrices that have a count of their own.
    [[nodiscard]] std::size_t matrices() const noexcept { return counts.size(); }
    /// Columns of each of these.
    [[nodiscard]] std::size_t columns() const noexcept { return counts.empty() ? 0 : sums.size() / counts.size(); }

    /// Whether it can be of a tensor of `stack` matrices (1: no stack) of `columns` columns. Files may keep one count for a whole stack.
    [[nodiscard]] bool fits(std::size_t columns, std::size_t stack = 1) const noexcept {
        return columns != 0 && sums.size() / columns == stack && sums.size() % columns == 0 &&
               (counts.size() == 1 || counts.size() == stack);
    }

    /// Vectors that went through matrix `i` of the stack; 0: its sums tell nothing.
    [[nodiscard]] double count(std::size_t i) const noexcept { return counts.size() == 1 ? counts[0] : counts[i]; }

    /// Mean of x^2 for each column of matrix `i`; all 1 for a matrix that was never used. Preconditions: fits(out.size(), stack),
    /// i < stack.
    void mean(std::size_t i, std::span<float> out) const noexcept {
        const double n = count(i);
        const float* from = sums.data() + i * out.size();
        for (std::size_t c = 0; c < out.size(); ++c) out[c] = n > 0.0 ? static_cast<float>(static_cast<double>(from[c]) / n) : 1.0f;
    }
};

/// An importance matrix: entries by the names of weight tensors, and where they come from.
struct importance_matrix {
    std::map<std::string, importance, std::less<>> entries;
    std::vector<std::string> datasets;  ///< names of the texts
    std::uint32_t chunks = 0;           ///< windows of text that were evaluated
    std::uint32_t chunk_size = 0;       ///< tokens of each; 0: unknown
    std::uint64_t text_hash = 0;        ///< text_windows::hash of the text that the chunks are the first windows of; 0: unknown

    /// The entry of a tensor, or null.
    [[nodiscard]] const importance* find(std::string_view tensor) const {
        const auto at = entries.find(tensor);
        return at == entries.end() ? nullptr : &at->second;
    }

    /// Mean of x^2 per column of matrix `expert` of a tensor (0 where it is no stack), all 1 for an expert that was never used.
    /// Errors: missing_tensor, bad_shape (other columns or fewer matrices), naming the tensor.
    [[nodiscard]] result<std::vector<float>> mean(std::string_view tensor, std::size_t columns, std::size_t stack = 1,
                                                  std::size_t expert = 0) const {
        const auto* found = find(tensor);
        if (found == nullptr) {
            return error{errc::missing_tensor, concat("the importance matrix has no entry for ", quoted(tensor))};
        }
        if (!found->fits(columns, stack) || expert >= stack) {
            return error{errc::bad_shape, concat("the importance matrix has ", found->sums.size(), " values for ", quoted(tensor),
                                                 ", which has ", columns, " columns",
                                                 stack == 1 ? std::string() : concat(" and ", stack, " experts"),
                                                 "; it belongs to another model")};
        }
        std::vector<float> out(columns);
        found->mean(expert, out);
        return out;
    }

    /// Adds what another matrix has seen of the same model. Entries that only one has are kept. On an error nothing is changed.
    /// Errors: bad_shape, naming the tensor.
    [[nodiscard]] inline result<void> merge(const importance_matrix& other);
};

inline result<void> importance_matrix::merge(const importance_matrix& other) {
    for (const auto& [tensor, entry] : other.entries) {
        const auto* mine = find(tensor);
        if (mine == nullptr) continue;
        if (mine->sums.size() != entry.sums.size() ||
            (mine->counts.size() != entry.counts.size() && mine->counts.size() != 1 && entry.counts.size() != 1)) {
            return error{errc::bad_shape, concat("the tensor ", quoted(tensor), " has ", mine->sums.size(), " values of ",
                                                 mine->counts.size(), " matrices in one importance matrix and ", entry.sums.size(),
                                                 " of ", entry.counts.size(), " in the other; they are of different models")};
        }
    }
    for (const auto& [tensor, entry] : other.entries) {
        const auto [at, fresh] = entries.try_emplace(tensor, entry);
        if (fresh) continue;
        auto& mine = at->second;
        if (mine.counts.size() == 1) mine.counts.resize(entry.counts.size(), mine.counts[0]);
        for (std::size_t i = 0; i < mine.sums.size(); ++i) mine.sums[i] += entry.sums[i];
        for (std::size_t i = 0; i < mine.counts.size(); ++i) mine.counts[i] += entry.count(i);
    }
    for (const auto& text : other.datasets) {
        if (std::find(datasets.begin(), datasets.end(), text) == datasets.end()) datasets.push_back(text);
    }
    if (chunk_size == 0) chunk_size = other.chunk_size;
    text_hash = 0;  // no longer of one text
    // Windows are counted in this matrix's size.
    const std::uint64_t tokens = std::uint64_t{other.chunks} * (other.chunk_size != 0 ? other.chunk_size : chunk_size);
    const std::uint64_t more = chunk_size != 0 ? tokens / chunk_size : other.chunks;
    chunks = static_cast<std::uint32_t>(std::min<std::uint64_t>(chunks + more, 0xffffffff));
    return {};
}

}  // namespace colibri::eval
