// How far a model's predictions are from those of another one of the same vocabulary.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "colibri/core/statistics.hpp"
#include "colibri/eval/base_logits.hpp"
#include "colibri/eval/perplexity.hpp"

namespace colibri::eval {

/// What scored tokens say of a model beside its base.
struct divergence_value {
    std::vector<double> kl;         ///< Kullback-Leibler divergence from the base of each scored token, natural logarithm
    running_mean kl_mean;
    running_mean nll, base_nll;     ///< negative log likelihoods of the text
    running_mean nll_change;        ///< nll - base_nll: the logarithm of the ratio of perplexities
    running_mean p_change;          ///< change of the right token's probability, -1 to 1
    running_mean p_change_squared;
    running_mean same_top;          ///< 1 where both find the same token likeliest, else 0

    [[nodiscard]] double quantile(double q) const { return colibri::quantile(kl, q); }
    [[nodiscard]] double rms_p_change() const noexcept { return std::sqrt(p_change_squared.mean()); }
    [[nodiscard]] double rms_p_change_error() const noexcept {
        const double rms = rms_p_change();
        return rms > 0.0 ? 0.5 * p_change_squared.error() / rms : 0.0;
    }
};

/// Kullback-Leibler divergence of the probabilities of `logits` from those of the base; what the base has as rare is left out. `norm`: of
/// log_norm.
[[nodiscard]] inline double kl_of(const base_row& base, std::span<const float> logits, double norm) {
    std::vector<float> p(base.log_p.size());
    simd::exp(base.log_p.data(), p.data(), p.size());
    double kl = 0.0;
    for (std::size_t t = 0; t < p.size(); ++t) {
        if (base.log_p[t] <= base.floor) continue;
        kl += static_cast<double>(p[t]) * (static_cast<double>(base.log_p[t]) - (static_cast<double>(logits[t]) - norm));
    }
    return kl;
}

/// Evaluates the text and writes the model's log probabilities as a base; its perplexity is found on the way. Errors: those of
/// window_runner::run and base_writer::write; canceled; bad_value.
[[nodiscard]] inline result<void> save_base(window_runner& run, const text_windows& text, base_writer& out, perplexity_value& value,
                                            const window_watch& watch = {}, const cancel_flag* cancel = nullptr) {
    const std::size_t row = static_cast<std::size_t>(out.header().row_bytes());
    std::vector<std::byte> rows(run.outputs() * row);
    std::vector<double> nll(std::size_t{run.at_once()} * text.scored());
    std::size_t written = 0;
    return score_windows(
        run, text, cancel,
        [&](std::size_t window, std::uint32_t i, text::token_id next, std::span<const float> logits) {
            const std::size_t at = window % run.at_once() * text.scored() + i;
            nll[at] = log_norm(logits) - static_cast<double>(logits[static_cast<std::size_t>(next)]);
            if (std::isfinite(nll[at])) pack_row(logits, rows.data() + (window * text.scored() + i - written) * row);
        },
        [&](std::size_t n) {
            written += n;
            return out.write(std::span(rows).first(n * row));
        },
        [&](std::size_t first, std::size_t n) -> result<void> {
            for (std::size_t i = 0; i < n * text.scored(); ++i) {
                if (!std::isfinite(nll[i])) return detail::not_finite(first + i / text.scored());
                value.nll.add(nll[i]);
            }
            if (watch && !watch(first + n)) return detail::stopped();
            return {};
        });
}

/// Evaluates the base's text and compares. `out` is right for the windows that `watch` was told of, also after an error. Errors: those of
/// base_reader::check and read and of window_runner::run; canceled; bad_value.
[[nodiscard]] inline result<void> measure_divergence(window_runner& run, base_reader& base, divergence_value& out,
                                                     const window_watch& watch = {}, const cancel_flag* cancel = nullptr,
                                                     std::size_t most_windows = 0) {
    if (auto ok = base.check(run.source()); !ok) return ok;
    auto text = base.text();
    if (most_windows != 0 && most_windows < text.count) {
        text.count = most_windows;
        text.tokens.resize(text.count * text.size);
    }
    struct scores {
        double kl = 0.0, nll = 0.0, base_nll = 0.0;
        bool same = false;
        std::optional<error> problem;
    };
    const std::size_t row = static_cast<std::size_t>(base.header().row_bytes());
    std::vector<scores> all(std::size_t{run.at_once()} * text.scored());
    return score_windows(
        run, text, cancel,
        [&](std::size_t window, std::uint32_t i, text::token_id next, std::span<const float> logits) {
            auto& s = all[window % run.at_once() * text.scored() + i];
            s = {};
            base_row b;
            std::vector<std::byte> bytes(row);
            if (auto ok = base.read(window * text.scored() + i, bytes); !ok) s.problem = std::move(ok).error();
            else if (auto sound = unpack_row(bytes, b); !sound) s.problem = std::move(sound).error();
            if (s.problem) return;
            const double norm = log_norm(logits);
            const auto right = static_cast<std::size_t>(next);
            s = {kl_of(b, logits, norm), norm - static_cast<double>(logits[right]), -static_cast<double>(b.log_p[right]),
                 static_cast<text::token_id>(simd::argmax(logits.data(), logits.size())) == b.likeliest, {}};
        },
        [](std::size_t) { return result<void>(); },
        [&](std::size_t first, std::size_t n) -> result<void> {
            for (std::size_t i = 0; i < n * text.scored(); ++i) {
                const auto& s = all[i];
                if (s.problem) return *s.problem;
                if (!std::isfinite(s.kl) || !std::isfinite(s.nll)) return detail::not_finite(first + i / text.scored());
                const double change = std::exp(-s.nll) - std::exp(-s.base_nll);
                out.kl.push_back(s.kl);
                out.kl_mean.add(s.kl);
                out.nll.add(s.nll);
                out.base_nll.add(s.base_nll);
                out.nll_change.add(s.nll - s.base_nll);
                out.p_change.add(change);
                out.p_change_squared.add(change * change);
                out.same_top.add(s.same ? 1.0 : 0.0);
            }
            if (watch && !watch(first + n)) return detail::stopped();
            return {};
        });
}

}  // namespace colibri::eval
