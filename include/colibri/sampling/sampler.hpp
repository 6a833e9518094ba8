// Chooses the next token of one text by settings known at run time.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "colibri/core/error.hpp"
#include "colibri/sampling/chain.hpp"
#include "colibri/sampling/order.hpp"
#include "colibri/sampling/params.hpp"

namespace colibri::sampling {

/// What sampling needs to know of a vocabulary; read while a sampler is made, not kept.
struct vocabulary_info {
    std::size_t size = 0;  ///< tokens; logits beyond are not sampled. 0: as many as there are logits
    piece_fn piece = {};   ///< bytes of a token; only DRY's breakers need it, and without it there are none
    std::vector<token_id> end_tokens = {};  ///< tokens that end an answer, for ignore_eos
};

/// The steps that `s` asks for: biases, then the active steps in their order, then the choice.
[[nodiscard]] step_list make_steps(const settings& s, const vocabulary_info& vocabulary);

/// Samples tokens one by one: `next` chooses, `accept` tells what the text goes on with (the prompt's tokens too, for
/// penalties and DRY). The same settings, seed, logits and accepted tokens give the same choices on every machine.
/// Allocates for the first token of a text, not for every one. Not thread-safe; one sampler per sequence.
class sampler {
public:
    explicit sampler(settings s, const vocabulary_info& vocabulary = {})
        : settings_(std::move(s)), size_(vocabulary.size), steps_(make_steps(settings_, vocabulary)) {}

    /// A sampler with the defaults, replaced by what is given. Errors: invalid_argument (see resolve).
    [[nodiscard]] static result<sampler> make(const params& given, const vocabulary_info& vocabulary = {}) {
        auto s = resolve(given);
        if (!s) return std::move(s).error();
        return sampler(std::move(*s), vocabulary);
    }

    /// The next token, one logit per token of the vocabulary (which must stay until the next call). NaN and minus
    /// infinity are never chosen. Errors: bad_value (no logit is a number above minus infinity, or biases forbid every
    /// token).
    [[nodiscard]] result<token_id> next(std::span<const float> logits);

    /// The text goes on with `token`.
    void accept(token_id token) {
        if (token >= 0 && (size_ == 0 || static_cast<std::size_t>(token) < size_)) steps_.accept(token);
    }
    void accept(std::span<const token_id> tokens) {
        for (const token_id token : tokens) accept(token);
    }

    /// The token that `next` chose last, with its logit and probability among those that remained; id -1 before.
    [[nodiscard]] const candidate& chosen() const noexcept { return candidates_.choice(); }
    /// What remained for the last choice, probabilities set, best first.
    [[nodiscard]] candidates& remaining() {
        candidates_.sort();
        candidates_.normalize();
        return candidates_;
    }

    /// Back to the start: no text, the seed's first random number.
    void reset() { steps_.reset(); }
    /// Starts the random numbers over with another seed; the text stays.
    void reseed(std::uint64_t seed) {
        settings_.seed = seed;
        steps_.reseed(seed);
    }
    /// Forgets the text (to accept another one after it was edited); the random numbers go on.
    void forget_text() { steps_.forget_text(); }

    [[nodiscard]] std::uint64_t seed() const noexcept { return settings_.seed; }
    [[nodiscard]] const settings& used() const noexcept { return settings_; }

private:
    settings settings_;
    std::size_t size_;
    step_list steps_;
    candidates candidates_;
};

inline step_list make_steps(const settings& s, const vocabulary_info& vocabulary) {
    step_list out;
    std::vector<bias> biases = s.logit_bias;
    if (s.ignore_eos) {
        for (const token_id id : vocabulary.end_tokens) biases.push_back({id, -std::numeric_limits<float>::infinity()});
    }
    if (!biases.empty()) out.add(logit_bias(biases));
    const auto keep = static_cast<std::size_t>(std::max(s.min_keep, 1));
    for (const step_kind kind : active_steps(s)) {
        switch (kind) {
            case step_kind::penalties:
                out.add(penalties(s.repeat_last_n, s.repeat_penalty, s.frequency_penalty, s.presence_penalty));
                break;
            case step_kind::dry: {
                dry_breakers breakers;
                if (vocabulary.piece) breakers = dry_breakers(s.dry_breakers, vocabulary.size, vocabulary.piece);
                out.add(dry({s.dry_multiplier, s.dry_base, s.dry_allowed_length, s.dry_last_n}, std::move(breakers)));
                break;
            }
            case step_kind::top_n_sigma: out.add(top_n_sigma{s.top_n_sigma}); break;
            case step_kind::top_k: out.add(top_k{s.top_k}); break;
            case step_kind::typical: out.add(typical{s.typical, keep}); break;
            case step_kind::top_p: out.add(top_p{s.top_p, keep}); break;
            case step_kind::min_p: out.add(min_p{s.min_p, keep}); break;
            case step_kind::xtc: out.add(xtc(s.xtc_probability, s.xtc_threshold, keep, s.seed)); break;
            case step_kind::temperature:
                if (s.dynamic_range > 0.0f) {
                    out.add(dynamic_temperature{s.temperature, s.dynamic_range, s.dynamic_exponent});
                } else {
                    out.add(temperature{s.temperature});
                }
                break;
        }
    }
    switch (choice_of(s)) {
        case choice_kind::greedy: out.add(greedy{}); break;
        case choice_kind::draw: out.add(draw(s.seed)); break;
        case choice_kind::mirostat: out.add(mirostat(s.mirostat_tau, s.mirostat_eta, s.seed)); break;
        case choice_kind::mirostat_v2: out.add(mirostat_v2(s.mirostat_tau, s.mirostat_eta, s.seed)); break;
    }
    return out;
}

inline result<token_id> sampler::next(std::span<const float> logits) {
    if (size_ != 0 && logits.size() > size_) logits = logits.first(size_);
    candidates_.load(logits);
    steps_(candidates_);
    if (candidates_.chosen()) return candidates_.choice().id;
    const bool any = std::any_of(logits.begin(), logits.end(),
                                 [](float logit) { return logit > -std::numeric_limits<float>::infinity(); });
    if (any) {
        return error{errc::bad_value,
                     concat("every one of the ", logits.size(), " tokens is forbidden by a logit bias")};
    }
    return error{errc::bad_value,
                 concat("none of the ", logits.size(),
                        " logits is a number that can be compared; the model's weights are damaged or a "
                        "computation with them overflowed")};
}

}  // namespace colibri::sampling
