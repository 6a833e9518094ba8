// Sequences of tokens with a cache: prompts in ubatches, prefixes reused, one token after the other.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "colibri/core/cancel.hpp"
#include "colibri/core/progress.hpp"
#include "colibri/model/evaluator.hpp"
#include "colibri/session/session_plan.hpp"

namespace colibri {

/// What a session has done with its last prompt and the answer to it. Times in seconds.
struct session_statistics {
    std::uint32_t prompt_tokens = 0;     ///< tokens of the prompt
    std::uint32_t cached_tokens = 0;     ///< of these, found in the cache
    std::uint32_t generated_tokens = 0;  ///< tokens sampled since the prompt, an end token included
    double prompt_seconds = 0.0;         ///< evaluating the prompt
    double first_token_seconds = 0.0;    ///< from the start of the prompt to the first sampled token (TTFT)
    double generation_seconds = 0.0;     ///< from the first sampled token to the last

    /// Tokens evaluated per second of the prompt; 0 if nothing was.
    [[nodiscard]] double prompt_rate() const noexcept {
        return prompt_seconds > 0.0 ? (prompt_tokens - cached_tokens) / prompt_seconds : 0.0;
    }
    /// Tokens per second after the first one; 0 before the second.
    [[nodiscard]] double generation_rate() const noexcept {
        return generation_seconds > 0.0 && generated_tokens > 1 ? (generated_tokens - 1) / generation_seconds : 0.0;
    }
};

/// Bytes by group.
struct session_memory {
    std::uint64_t weights_mapped = 0;    ///< file bytes mapped; the kernel decides what stays in memory
    std::uint64_t weights_resident = 0;  ///< weights in memory of our own
    std::uint64_t kv = 0;                ///< the cache at its full length
    std::uint64_t scratch = 0;           ///< activations and logits
};

/// One or several sequences over one model. Move-only; one thread at a time (a cancel flag may be set from anywhere).
class session {
public:
    using clock = std::chrono::steady_clock;

    /// Plans (see plan_session) and allocates. Errors: invalid_argument, bad_shape (cache format), out_of_memory.
    [[nodiscard]] static result<session> make(model m, const session_options& options = {}) {
        auto plan = plan_session(m, options);
        if (!plan) return std::move(plan).error();
        auto made = evaluator::make(std::move(m), plan->evaluation);
        if (!made) return std::move(made).error();
        return session(*std::move(made), std::move(plan->notes));
    }

    /// Makes the sequence consist of exactly `tokens` and leaves the logits of the last one in `logits()`. What the cache holds of
    /// their beginning is kept; only the rest (at least the last token) is evaluated, in ubatches. `watch` is told of evaluated
    /// tokens after each ubatch and, where one takes long, in between by its share of layers; it and `cancel` can end the work at
    /// each layer. After an error the cache holds a prefix of `tokens`.
    /// Errors: invalid_argument (no tokens), context_full (with both numbers), canceled, those of the weights.
    [[nodiscard]] inline result<void> prompt(std::span<const text::token_id> tokens, std::uint32_t sequence = 0,
                                             const progress_fn& watch = {}, const cancel_flag* cancel = nullptr);

    /// Appends one token to each of some sequences in one sweep; `logits(i)` are then those of the i-th.
    struct next_token {
        std::uint32_t sequence = 0;
        text::token_id token = 0;
    };
    /// Preconditions: each sequence at most once, at most `outputs` of them. After an error the sequences are as before.
    /// Errors: context_full, canceled (in the middle of the sweep), those of the weights.
    [[nodiscard]] inline result<void> advance(std::span<const next_token> tokens, const cancel_flag* cancel = nullptr);

    /// Logits after `prompt` (i = 0) or of the i-th token of `advance`. May be changed in place; valid until the next evaluation.
    [[nodiscard]] std::span<float> logits(std::size_t i = 0) noexcept { return evaluator_.logits(i); }

    /// Tokens that a sequence consists of.
    [[nodiscard]] std::span<const text::token_id> tokens(std::uint32_t sequence = 0) const noexcept { return tokens_[sequence]; }
    /// Forgets a sequence.
    void clear(std::uint32_t sequence = 0) noexcept {
        evaluator_.kv().truncate(sequence, 0);
        tokens_[sequence].clear();
    }
    /// Makes a sequence a copy of another's first `count` tokens (fewer, down to none, if windows have lost them); returns how many.
    std::uint32_t fork(std::uint32_t from, std::uint32_t to, std::uint32_t count) {
        auto& kv = evaluator_.kv();
        count = kv.reusable(from, count);
        kv.copy(from, to, count);
        if (from != to) tokens_[to].assign(tokens_[from].begin(), tokens_[from].begin() + count);
        else tokens_[to].resize(count);
        return count;
    }

    [[nodiscard]] std::uint32_t context() const noexcept { return evaluator_.options().context; }
    [[nodiscard]] std::uint32_t used(std::uint32_t sequence = 0) const noexcept {
        return static_cast<std::uint32_t>(tokens_[sequence].size());
    }
    [[nodiscard]] const model& source() const noexcept { return evaluator_.source(); }
    [[nodiscard]] const evaluator_options& options() const noexcept { return evaluator_.options(); }
    [[nodiscard]] session_statistics& statistics() noexcept { return statistics_; }
    [[nodiscard]] const session_statistics& statistics() const noexcept { return statistics_; }
    [[nodiscard]] session_memory memory() const noexcept {
        const auto weights = source().weights().memory();
        return {weights.mapped, weights.resident, evaluator_.kv().bytes(), evaluator_.scratch_bytes()};
    }
    /// What was decided in the caller's place and should be told ("context 2048 instead of 8192: ...").
    [[nodiscard]] const std::vector<std::string>& notes() const noexcept { return notes_; }

    /// When the last prompt began, and when the last token was sampled (kept by whoever samples).
    clock::time_point prompt_began{};
    clock::time_point first_sampled{};

private:
    session(evaluator made, std::vector<std::string> notes)
        : evaluator_(std::move(made)), notes_(std::move(notes)), tokens_(evaluator_.options().sequences) {
        batch_.reserve(evaluator_.options().ubatch);
    }

    evaluator evaluator_;
    std::vector<std::string> notes_;
    std::vector<std::vector<text::token_id>> tokens_;
    std::vector<batch_token> batch_;
    session_statistics statistics_;
};

inline result<void> session::prompt(std::span<const text::token_id> tokens, std::uint32_t sequence, const progress_fn& watch,
                                    const cancel_flag* cancel) {
    prompt_began = clock::now();
    statistics_ = {};
    if (sequence >= tokens_.size()) {
        return error{errc::invalid_argument, concat("sequence ", sequence, " of ", tokens_.size())};
    }
    if (tokens.empty()) return error{errc::invalid_argument, "the prompt has no tokens; there is nothing to go on from"};
    if (tokens.size() > context()) {
        return error{errc::context_full, concat("the prompt has ", tokens.size(), " tokens and the context holds ", context(),
                                                "; use a larger context or a shorter prompt")};
    }
    auto& held = tokens_[sequence];
    const auto differs = std::mismatch(tokens.begin(), tokens.end() - 1, held.begin(), held.end()).first;
    auto kept = static_cast<std::uint32_t>(differs - tokens.begin());
    kept = evaluator_.kv().truncate(sequence, kept);
    held.resize(kept);
    statistics_.prompt_tokens = static_cast<std::uint32_t>(tokens.size());
    statistics_.cached_tokens = kept;
    while (held.size() < tokens.size()) {
        if (cancel != nullptr && cancel->requested()) return error{errc::canceled, "the prompt was interrupted"};
        const std::size_t n = std::min<std::size_t>(evaluator_.options().ubatch, tokens.size() - held.size());
        batch_.clear();
        for (std::size_t i = 0; i < n; ++i) {
            const auto position = static_cast<std::uint32_t>(held.size() + i);
            batch_.push_back({tokens[position], position, sequence, position + 1 == tokens.size()});
        }
        const std::size_t before = held.size() - kept;
        auto told = clock::now();
        const auto layers = [&](const progress& done) {
            // A sweep can take minutes where weights are streamed.
            if (!watch || clock::now() - told < std::chrono::milliseconds(250)) return true;
            told = clock::now();
            return watch({before + n * done.done / done.total, tokens.size() - kept});
        };
        if (auto ok = evaluator_.step(batch_, cancel, layers); !ok) return ok;
        held.insert(held.end(), tokens.begin() + static_cast<std::ptrdiff_t>(held.size()),
                    tokens.begin() + static_cast<std::ptrdiff_t>(held.size() + n));
        if (watch && !watch({held.size() - kept, tokens.size() - kept}) && held.size() < tokens.size()) {
            return error{errc::canceled, "the prompt was interrupted"};
        }
    }
    statistics_.prompt_seconds = std::chrono::duration<double>(clock::now() - prompt_began).count();
    return {};
}

inline result<void> session::advance(std::span<const next_token> tokens, const cancel_flag* cancel) {
    batch_.clear();
    for (const auto& next : tokens) {
        if (next.sequence >= tokens_.size()) {
            return error{errc::invalid_argument, concat("sequence ", next.sequence, " of ", tokens_.size())};
        }
        batch_.push_back({next.token, used(next.sequence), next.sequence, true});
    }
    if (auto ok = evaluator_.step(batch_, cancel); !ok) return ok;
    for (const auto& next : tokens) tokens_[next.sequence].push_back(next.token);
    return {};
}

}  // namespace colibri
