// The settings of sampling: what may be given, the defaults, and how one replaces the other.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "colibri/core/error.hpp"
#include "colibri/sampling/penalties.hpp"

namespace colibri::sampling {

/// The steps whose order can be chosen.
enum class step_kind : std::uint8_t {
    penalties,
    dry,
    top_n_sigma,
    top_k,
    typical,
    top_p,
    min_p,
    xtc,
    temperature,
};

/// The order in which steps run unless another one is given.
[[nodiscard]] inline std::vector<step_kind> default_order() {
    using enum step_kind;
    return {penalties, dry, top_n_sigma, top_k, typical, top_p, min_p, xtc, temperature};
}

/// Settings somebody gave: flags of a program, keys of a file, fields of a request. What is not given comes from
/// elsewhere. What the numbers mean stands in `settings`, their ranges in fields.hpp.
struct params {
    std::optional<float> temperature = {};
    std::optional<float> dynamic_range = {};
    std::optional<float> dynamic_exponent = {};
    std::optional<std::int32_t> top_k = {};
    std::optional<float> top_p = {};
    std::optional<float> min_p = {};
    std::optional<float> typical = {};
    std::optional<float> top_n_sigma = {};
    std::optional<float> xtc_probability = {};
    std::optional<float> xtc_threshold = {};
    std::optional<std::int32_t> repeat_last_n = {};
    std::optional<float> repeat_penalty = {};
    std::optional<float> frequency_penalty = {};
    std::optional<float> presence_penalty = {};
    std::optional<float> dry_multiplier = {};
    std::optional<float> dry_base = {};
    std::optional<std::int32_t> dry_allowed_length = {};
    std::optional<std::int32_t> dry_last_n = {};
    std::optional<std::vector<std::string>> dry_breakers = {};
    std::optional<std::int32_t> mirostat = {};
    std::optional<float> mirostat_tau = {};
    std::optional<float> mirostat_eta = {};
    std::optional<std::int32_t> min_keep = {};
    std::optional<std::uint64_t> seed = {};
    std::optional<bool> ignore_eos = {};
    std::optional<std::vector<step_kind>> order = {};
    std::vector<bias> logit_bias = {};  ///< biases of both sides add up when merged
};

/// All settings with values; the initial ones are the defaults. The seed is chosen by chance if none was given.
struct settings {
    float temperature = 0.8f;    ///< 0: greedy; the best token after biases, penalties and DRY, no other step runs
    float dynamic_range = 0.0f;  ///< temperature +- this by entropy; 0: off
    float dynamic_exponent = 1.0f;
    std::int32_t top_k = 40;          ///< 0 or less: off
    float top_p = 0.95f;              ///< 1: off
    float min_p = 0.05f;              ///< 0: off
    float typical = 1.0f;             ///< 1: off
    float top_n_sigma = 0.0f;         ///< 0 or less: off
    float xtc_probability = 0.0f;     ///< 0: off
    float xtc_threshold = 0.1f;       ///< above 0.5: off
    std::int32_t repeat_last_n = 64;  ///< tokens that penalties look at; 0: off, -1: all
    float repeat_penalty = 1.0f;      ///< 1: off
    float frequency_penalty = 0.0f;   ///< 0: off
    float presence_penalty = 0.0f;    ///< 0: off
    float dry_multiplier = 0.0f;      ///< 0: off
    float dry_base = 1.75f;
    std::int32_t dry_allowed_length = 2;
    std::int32_t dry_last_n = -1;  ///< tokens that DRY looks at; 0: off, -1: all
    std::vector<std::string> dry_breakers = {"\n", ":", "\"", "*"};
    std::int32_t mirostat = 0;  ///< 1 or 2: that algorithm chooses; it takes the place of all steps that remove tokens
    float mirostat_tau = 5.0f;  ///< wanted surprise, bits
    float mirostat_eta = 0.1f;
    std::int32_t min_keep = 1;  ///< tokens that top-p, min-p, typical and XTC leave at least
    std::uint64_t seed = 0;
    bool ignore_eos = false;  ///< forbids the tokens that end an answer
    std::vector<step_kind> order = default_order();
    std::vector<bias> logit_bias = {};
};

/// Everything of `first`; of `second` what `first` doesn't have.
[[nodiscard]] params merged(const params& first, const params& second);

/// The defaults, replaced by what is given. Errors: invalid_argument, naming the setting, its value and its range.
[[nodiscard]] result<settings> resolve(const params& given);

}  // namespace colibri::sampling

#include "colibri/sampling/fields.hpp"
