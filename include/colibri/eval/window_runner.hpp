// Runs a model over windows of text, several at once, and hands out logits.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "colibri/core/thread_pool.hpp"
#include "colibri/eval/text_windows.hpp"
#include "colibri/model/evaluator.hpp"
#include "colibri/session/session_plan.hpp"

namespace colibri::eval {

/// How windows are evaluated.
struct run_options {
    bool exact = false;          ///< products with F32 activations in all formats: the error of the weights alone
    product_watch on_product = {};
};

/// Sizes of a session for windows of `window` tokens whose logits are wanted or not: as many windows at once as one sweep over the
/// weights has room for, and logits of at most 256 MiB or an eighth of the budget. `header`: the model, opened for such a session of one
/// window.
[[nodiscard]] inline session_options window_sizes(const model& header, session_options use, std::uint32_t window, bool logits) {
    use.context = window;
    use.sequences = std::max<std::uint32_t>(1, std::min(header.memory().ubatch, use.batch) / window);
    if (use.ubatch == 0 && header.memory().how == weights::holding::streamed) use.ubatch = header.memory().ubatch;
    use.outputs = 1;
    if (logits) {
        const std::uint64_t room = std::min<std::uint64_t>(std::uint64_t{256} << 20, header.memory().budget / 8);
        const std::uint64_t row = std::uint64_t{header.params().vocabulary} * sizeof(float);
        use.outputs = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(room / row, 1, header.memory().ubatch));
    }
    return use;
}

/// Evaluates windows, each as a sequence that begins at position 0. One thread at a time; results have the same bits however many run
/// at once.
class window_runner {
public:
    /// `use`: of `window_sizes`. Errors: those of plan_session and evaluator::make.
    [[nodiscard]] static result<window_runner> make(const model& m, const session_options& use, run_options how = {}) {
        auto plan = plan_session(m, use);
        if (!plan) return std::move(plan).error();
        plan->evaluation.exact = how.exact;
        plan->evaluation.on_product = std::move(how.on_product);
        auto made = evaluator::make(m, plan->evaluation);
        if (!made) return std::move(made).error();
        window_runner out(*std::move(made));
        out.notes_ = std::move(plan->notes);
        try {
            out.pool_ = std::make_unique<thread_pool>(plan->evaluation.threads_batch, plan->evaluation.processors);
        } catch (const std::system_error&) {
            return error{errc::invalid_argument, concat("could not start ", plan->evaluation.threads_batch, " threads; ask for fewer")};
        }
        return out;
    }

    /// Windows that can be evaluated at once.
    [[nodiscard]] std::uint32_t at_once() const noexcept { return run_.options().sequences; }
    [[nodiscard]] const model& source() const noexcept { return run_.source(); }
    [[nodiscard]] thread_pool& pool() noexcept { return *pool_; }
    [[nodiscard]] const std::vector<std::string>& notes() const noexcept { return notes_; }
    [[nodiscard]] std::uint64_t scratch_bytes() const noexcept { return run_.scratch_bytes(); }

    /// Evaluates sequences of one length (at most at_once() of them, one behind the other in `tokens`) and calls
    /// visit(sequence, position, logits) for each token at positions [from, to), from several threads at once; what it writes must be a
    /// place of its own; then, in this thread, after(number of these) for the step that they were computed in, which may end the run with an
    /// error. `from` == `to`: no logits are computed. Errors: those of evaluator::step and of `after`; canceled.
    template <class Visit, class After>
    [[nodiscard]] result<void> run(std::span<const text::token_id> tokens, std::uint32_t length, std::uint32_t from, std::uint32_t to,
                                   Visit&& visit, const cancel_flag* cancel, After&& after) {
        const auto& o = run_.options();
        for (std::uint32_t s = 0; s < o.sequences; ++s) run_.kv().truncate(s, 0);
        std::vector<batch_token> step;
        for (std::size_t at = 0; at < tokens.size();) {
            step.clear();
            std::uint32_t outputs = 0;
            for (; at < tokens.size() && step.size() < o.ubatch; ++at) {
                const auto position = static_cast<std::uint32_t>(at % length);
                const bool output = position >= from && position < to;
                if (output && outputs == o.outputs) break;
                outputs += output ? 1 : 0;
                step.push_back({tokens[at], position, static_cast<std::uint32_t>(at / length), output});
            }
            if (auto ok = run_.step(step, cancel); !ok) return ok;
            wanted_.clear();
            for (const auto& token : step) {
                if (token.output) wanted_.push_back({token.sequence, token.position});
            }
            pool_->for_chunks(wanted_.size(), 1, [&](std::size_t begin, std::size_t end, unsigned) {
                for (std::size_t i = begin; i < end; ++i) visit(wanted_[i].first, wanted_[i].second, run_.logits(i));
            });
            if (auto ok = after(wanted_.size()); !ok) return ok;
        }
        return {};
    }
    template <class Visit>
    [[nodiscard]] result<void> run(std::span<const text::token_id> tokens, std::uint32_t length, std::uint32_t from, std::uint32_t to,
                                   Visit&& visit, const cancel_flag* cancel = nullptr) {
        return run(tokens, length, from, to, visit, cancel, [](std::size_t) { return result<void>(); });
    }

private:
    explicit window_runner(evaluator e) : run_(std::move(e)) {}

    evaluator run_;
    std::unique_ptr<thread_pool> pool_;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> wanted_;
    std::vector<std::string> notes_;
};

}  // namespace colibri::eval
