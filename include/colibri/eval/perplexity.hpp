// Perplexity of a text under a model.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "colibri/core/progress.hpp"
#include "colibri/eval/log_softmax.hpp"
#include "colibri/eval/window_runner.hpp"

namespace colibri::eval {

/// Mean of numbers and the standard error of that mean, number by number.
class running_mean {
public:
    void add(double x) noexcept {
        // Welford's way keeps the digits that sums of squares lose.
        const double delta = x - mean_;
        mean_ += delta / static_cast<double>(++count_);
        squares_ += delta * (x - mean_);
    }
    [[nodiscard]] std::uint64_t count() const noexcept { return count_; }
    [[nodiscard]] double mean() const noexcept { return mean_; }
    /// 0 of fewer than two.
    [[nodiscard]] double error() const noexcept {
        const auto n = static_cast<double>(count_);
        return count_ < 2 ? 0.0 : std::sqrt(squares_ / n / (n - 1.0));
    }

private:
    std::uint64_t count_ = 0;
    double mean_ = 0.0;
    double squares_ = 0.0;
};

/// A perplexity as far as it is known.
struct perplexity_value {
    running_mean nll;  ///< negative log likelihood of a token, natural logarithm

    [[nodiscard]] double value() const noexcept { return std::exp(nll.mean()); }
    [[nodiscard]] double error() const noexcept { return value() * nll.error(); }
};

/// Called after some windows with the number that are done; false stops.
using window_watch = std::function<bool(std::size_t windows)>;

namespace detail {

[[nodiscard]] inline error not_finite(std::size_t window) {
    return {errc::bad_value, concat("the logits of window ", window + 1, " aren't finite numbers; the model is damaged or can't compute this text")};
}
[[nodiscard]] inline error stopped() { return {errc::canceled, "stopped before all windows were evaluated"}; }

}  // namespace detail

/// Evaluates all windows in order; `score(window, index of the scored token, next token, logits)` is called for each scored token from
/// several threads, then `done(first window, number)` for the group in this thread; false stops. Errors: those of window_runner::run;
/// canceled.
template <class Score, class Done>
[[nodiscard]] result<void> score_windows(window_runner& run, const text_windows& text, const cancel_flag* cancel, Score&& score,
                                         Done&& done) {
    for (std::size_t first = 0; first < text.count; first += run.at_once()) {
        const std::size_t n = std::min<std::size_t>(run.at_once(), text.count - first);
        const auto tokens = std::span(text.tokens).subspan(first * text.size, n * text.size);
        const auto visit = [&](std::uint32_t s, std::uint32_t position, std::span<const float> logits) {
            score(first + s, position - text.first_scored(), tokens[s * text.size + position + 1], logits);
        };
        if (auto ok = run.run(tokens, text.size, text.first_scored(), text.size - 1, visit, cancel); !ok) return ok;
        if (auto ok = done(first, n); !ok) return std::move(ok).error();
        if (cancel != nullptr && cancel->requested() && first + n < text.count) return detail::stopped();
    }
    return {};
}

/// exp of the mean negative log likelihood of the scored tokens. `out` is right for the windows that `watch` was told of, also after an
/// error. Errors: those of window_runner::run; canceled; bad_value (logits that aren't finite).
[[nodiscard]] inline result<void> measure_perplexity(window_runner& run, const text_windows& text, perplexity_value& out,
                                                     const window_watch& watch = {}, const cancel_flag* cancel = nullptr) {
    std::vector<double> nll(std::size_t{run.at_once()} * text.scored());
    return score_windows(
        run, text, cancel,
        [&](std::size_t window, std::uint32_t i, text::token_id next, std::span<const float> logits) {
            nll[window % run.at_once() * text.scored() + i] = log_norm(logits) - static_cast<double>(logits[static_cast<std::size_t>(next)]);
        },
        [&](std::size_t first, std::size_t n) -> result<void> {
            for (std::size_t i = 0; i < n * text.scored(); ++i) {
                if (!std::isfinite(nll[i])) return detail::not_finite(first + i / text.scored());
                out.nll.add(nll[i]);
            }
            if (watch && !watch(first + n)) return detail::stopped();
            return {};
        });
}

}  // namespace colibri::eval
