// An answer as a range of text pieces.
#pragma once

#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "colibri/sampling/sampler.hpp"
#include "colibri/session/piece_iterator.hpp"
#include "colibri/session/session.hpp"
#include "colibri/session/text_filter.hpp"

namespace colibri {

/// Why an answer ended.
enum class finish_reason : std::uint8_t {
    none,      ///< it hasn't
    end,       ///< the model ended it (end of sequence, turn or message)
    stop,      ///< a stop string came
    length,    ///< max_tokens were generated
    context,   ///< the context is full
    canceled,  ///< on request
    failed,    ///< an error, which `next` returned
};

/// Name for JSON output and messages.
[[nodiscard]] constexpr std::string_view name(finish_reason reason) noexcept {
    switch (reason) {
        case finish_reason::none: return "none";
        case finish_reason::end: return "end";
        case finish_reason::stop: return "stop";
        case finish_reason::length: return "length";
        case finish_reason::context: return "context";
        case finish_reason::canceled: return "canceled";
        case finish_reason::failed: return "failed";
    }
    return "?";
}

struct generation_options {
    std::uint32_t max_tokens = 0;      ///< 0: until the model ends or the context is full
    std::vector<std::string> stops = {};  ///< texts that end the answer; not part of it
    bool render_special = false;       ///< show the text of control tokens
    const cancel_flag* cancel = nullptr;  ///< asked before each token, each layer, and while the disk is waited for
};

/// Generates from where `session::prompt` left the sequence: samples, evaluates, gives out text. An input range of string_view
/// (each valid until the next); or call `next`. The session and the sampler outlive it, and nobody else uses them meanwhile.
class generation {
public:
    generation(session& s, sampling::sampler& sampler, generation_options options, std::uint32_t sequence = 0)
        : session_(&s), sampler_(&sampler), options_(std::move(options)), filter_(options_.stops), sequence_(sequence) {}

    /// The next piece of text, never empty and never cut inside a UTF-8 character, or nothing at the end (see `reason`).
    /// Errors: those of the weights' store and of the sampler; the answer has then ended.
    [[nodiscard]] result<std::optional<std::string_view>> next() {
        while (reason_ == finish_reason::none) {
            if (auto ok = sample_one(); !ok) {
                reason_ = finish_reason::failed;
                return std::move(ok).error();
            }
            if (!piece_.empty()) return std::optional<std::string_view>(piece_);
        }
        return std::optional<std::string_view>();
    }

    [[nodiscard]] finish_reason reason() const noexcept { return reason_; }
    /// Tokens generated so far, an end token not included.
    [[nodiscard]] const std::vector<text::token_id>& tokens() const noexcept { return tokens_; }
    /// Ends the answer where it is: `next` gives nothing more.
    void cancel() noexcept {
        if (reason_ == finish_reason::none) reason_ = finish_reason::canceled;
    }

    /// Advancing throws `exception` on an error.
    [[nodiscard]] piece_iterator<generation> begin() { return piece_iterator<generation>(this); }
    [[nodiscard]] std::default_sentinel_t end() const noexcept { return {}; }

private:
    /// Samples a token (evaluating the one before first) and puts what can be shown into `piece_`.
    [[nodiscard]] result<void> sample_one() {
        piece_.clear();
        if (options_.cancel != nullptr && options_.cancel->requested()) return finish(finish_reason::canceled);
        if (options_.max_tokens != 0 && tokens_.size() >= options_.max_tokens) return finish(finish_reason::length);
        if (pending_) {
            if (session_->used(sequence_) >= session_->context()) return finish(finish_reason::context);
            const session::next_token next{sequence_, *pending_};
            if (auto ok = session_->advance({&next, 1}, options_.cancel); !ok) {
                return ok.error().code == errc::canceled ? finish(finish_reason::canceled) : std::move(ok);
            }
            pending_.reset();
        }
        auto sampled = sampler_->next(session_->logits());
        if (!sampled) return std::move(sampled).error();
        count(*sampled);
        const auto& vocabulary = session_->source().tokenizer();
        if (vocabulary.is_end_of_generation(*sampled)) return finish(finish_reason::end);
        tokens_.push_back(*sampled);
        pending_ = *sampled;
        if (options_.render_special || !vocabulary.is_control(*sampled)) piece_ = filter_.push(vocabulary.bytes(*sampled));
        if (filter_.stopped()) reason_ = finish_reason::stop;
        return {};
    }

    [[nodiscard]] result<void> finish(finish_reason reason) {
        reason_ = reason;
        piece_ = filter_.flush();
        return {};
    }

    void count(text::token_id token) {
        sampler_->accept(token);
        auto& statistics = session_->statistics();
        const auto now = session::clock::now();
        if (statistics.generated_tokens++ == 0) {
            session_->first_sampled = now;
            statistics.first_token_seconds = std::chrono::duration<double>(now - session_->prompt_began).count();
        } else {
            statistics.generation_seconds = std::chrono::duration<double>(now - session_->first_sampled).count();
        }
    }

    session* session_;
    sampling::sampler* sampler_;
    generation_options options_;
    text_filter filter_;
    std::uint32_t sequence_;
    std::vector<text::token_id> tokens_;
    std::optional<text::token_id> pending_;  ///< sampled, not evaluated yet
    std::string piece_;
    finish_reason reason_ = finish_reason::none;
};

}  // namespace colibri
