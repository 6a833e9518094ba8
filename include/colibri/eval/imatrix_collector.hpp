// Collects an importance matrix while a model runs.
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "colibri/core/thread_pool.hpp"
#include "colibri/eval/imatrix_file.hpp"
#include "colibri/eval/perplexity.hpp"
#include "colibri/eval/window_runner.hpp"

namespace colibri::eval {

/// Sums the squares of what weight matrices are multiplied with. Sums are taken in double precision within the windows that run at
/// once and rounded to float, as files have them, behind these: so it doesn't matter where a run was interrupted.
class imatrix_collector {
public:
    /// `head`: also of the output matrix. `m` outlives it.
    imatrix_collector(const model& m, bool head) : model_(m), head_(head) {}
    imatrix_collector(const imatrix_collector&) = delete;
    imatrix_collector& operator=(const imatrix_collector&) = delete;

    /// For run_options::on_product; refers to this object.
    [[nodiscard]] product_watch watch() {
        return [this](const product_input& input) { add(input); };
    }
    /// Threads to sum with; without it, the calling one.
    void use(thread_pool& pool) noexcept { pool_ = &pool; }

    /// Adds what was seen since the last call to `matrix`. Errors: bad_value (sums that aren't finite), naming the tensor.
    [[nodiscard]] result<void> move_to(importance_matrix& matrix) {
        for (auto& [first, seen] : seen_) {
            for (const auto tensor : seen.tensors) {
                const auto& name = model_.file().tensors()[tensor].name;
                auto& entry = matrix.entries[name];
                if (entry.counts.empty()) {
                    entry.sums.resize(seen.sums.size());
                    entry.counts.resize(seen.counts.size());
                }
                if (entry.sums.size() != seen.sums.size() || entry.counts.size() != seen.counts.size()) {
                    return error{errc::bad_shape, concat("the importance matrix to go on with has other sizes for ", quoted(name))};
                }
                for (std::size_t i = 0; i < seen.sums.size(); ++i) {
                    entry.sums[i] = static_cast<float>(static_cast<double>(entry.sums[i]) + seen.sums[i]);
                    if (!std::isfinite(entry.sums[i])) {
                        return error{errc::bad_value, concat("the activations in front of ", quoted(name),
                                                             " aren't finite; the model is damaged or can't compute this text")};
                    }
                }
                for (std::size_t i = 0; i < seen.counts.size(); ++i) entry.counts[i] += seen.counts[i];
            }
            std::fill(seen.sums.begin(), seen.sums.end(), 0.0);
            std::fill(seen.counts.begin(), seen.counts.end(), 0.0);
        }
        return {};
    }

private:
    struct sums_of {
        std::vector<weights::tensor_id> tensors;  ///< all take the same activations
        std::vector<double> sums, counts;
    };

    void add(const product_input& input) {
        const auto first = input.tensors.front();
        const auto& tensors = model_.tensors();
        if (!head_ && first == tensors.groups[tensors.head].tensors.front()) return;
        const auto& x = *input.x;
        const std::size_t k = x.k();
        auto& seen = seen_[first];
        if (seen.counts.empty()) {
            const auto& info = model_.file().tensors()[first];
            seen.tensors.assign(input.tensors.begin(), input.tensors.end());
            seen.counts.resize(static_cast<std::size_t>(info.dims[2] * info.dims[3]));
            seen.sums.resize(seen.counts.size() * k);
        }
        const bool all = input.columns.data() == nullptr;
        const std::size_t n = all ? x.columns() : input.columns.size();
        double* sums = seen.sums.data() + input.matrix * k;
        seen.counts[input.matrix] += static_cast<double>(n);
        const auto sum = [&](std::size_t begin, std::size_t end, unsigned) {
            for (std::size_t t = 0; t < n; ++t) {
                const float* row = x.data() + (all ? t : input.columns[t]) * x.stride();
                for (std::size_t i = begin; i < end; ++i) sums[i] += static_cast<double>(row[i]) * static_cast<double>(row[i]);
            }
        };
        if (pool_ == nullptr) sum(0, k, 0);
        else pool_->for_chunks(k, 128, sum);
    }

    const model& model_;
    bool head_;
    thread_pool* pool_ = nullptr;
    std::map<weights::tensor_id, sums_of> seen_;
};

/// Evaluates the windows that `matrix` doesn't have yet (from number matrix.chunks on) and adds them; `watch` is told of windows after
/// each group and may save `matrix`, which is complete then. `collector.watch()` is the runner's on_product. Logits are computed only with
/// `head`. Errors: those of window_runner::run and imatrix_collector::move_to; canceled.
[[nodiscard]] inline result<void> collect_imatrix(window_runner& run, imatrix_collector& collector, const text_windows& text, bool head,
                                                  importance_matrix& matrix, const window_watch& watch = {},
                                                  const cancel_flag* cancel = nullptr) {
    collector.use(run.pool());
    for (std::size_t first = matrix.chunks; first < text.count; first = matrix.chunks) {
        const std::size_t n = std::min<std::size_t>(run.at_once(), text.count - first);
        const auto tokens = std::span(text.tokens).subspan(first * text.size, n * text.size);
        const auto nothing = [](std::uint32_t, std::uint32_t, std::span<const float>) {};
        if (auto ok = run.run(tokens, text.size, 0, head ? text.size : 0, nothing, cancel); !ok) return ok;
        if (auto ok = collector.move_to(matrix); !ok) return ok;
        matrix.chunks += static_cast<std::uint32_t>(n);
        if (watch && !watch(matrix.chunks)) return detail::stopped();
        if (cancel != nullptr && cancel->requested() && matrix.chunks < text.count) return detail::stopped();
    }
    return {};
}

}  // namespace colibri::eval
