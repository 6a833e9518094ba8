// A sampler for a model: its vocabulary, its file's recommendations, and what the user asked for.
#pragma once

#include <cstdint>
#include <utility>

#include "colibri/model/model.hpp"
#include "colibri/sampling/metadata.hpp"
#include "colibri/sampling/sampler.hpp"

namespace colibri {

/// What sampling needs to know of the model's vocabulary.
[[nodiscard]] inline sampling::vocabulary_info vocabulary_of(const model& m) {
    const auto& tokenizer = m.tokenizer();
    sampling::vocabulary_info out;
    out.size = tokenizer.size();
    out.piece = [m](text::token_id id) { return m.tokenizer().bytes(id); };
    const auto ends = tokenizer.end_of_generation();
    out.end_tokens.assign(ends.begin(), ends.end());
    return out;
}

/// A sampler whose settings are `given`, else what the file recommends (general.sampling.*), else the defaults.
/// Errors: invalid_argument, bad_type and bad_value of the file's keys.
[[nodiscard]] inline result<sampling::sampler> make_sampler(const model& m, const sampling::params& given) {
    auto recommended = sampling::params_from(m.meta());
    if (!recommended) return std::move(recommended).error();
    return sampling::sampler::make(sampling::merged(given, *recommended), vocabulary_of(m));
}

}  // namespace colibri
