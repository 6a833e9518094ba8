// The table of sampling settings from which merging, checking, reading by name and showing follow.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "colibri/core/concat.hpp"
#include "colibri/core/error.hpp"
#include "colibri/sampling/params.hpp"
#include "colibri/sampling/random.hpp"

namespace colibri::sampling {

/// A number among the settings: its name, another name in use, the key `general.sampling.<key>` in files (empty: none),
/// where it is kept, and the smallest and largest value that make sense.
template <class T>
struct number_field {
    std::string_view name;
    std::string_view alias;
    std::string_view key;
    std::optional<T> params::*given;
    T settings::*value;
    T least;
    T most;
};

/// Calls visit(field) for every number_field.
template <class Visit>
void for_each_number(Visit&& visit) {
    using real = number_field<float>;
    using whole = number_field<std::int32_t>;
    using p = params;
    using s = settings;
    constexpr float big = 1e6f;
    constexpr std::int32_t many = std::numeric_limits<std::int32_t>::max();
    visit(real{"temp", "temperature", "temp", &p::temperature, &s::temperature, 0.0f, big});
    visit(real{"dynatemp_range", "dynamic_range", "", &p::dynamic_range, &s::dynamic_range, 0.0f, big});
    visit(real{"dynatemp_exp", "dynamic_exponent", "", &p::dynamic_exponent, &s::dynamic_exponent, 0.0f, big});
    visit(whole{"top_k", "", "top_k", &p::top_k, &s::top_k, -1, many});
    visit(real{"top_p", "", "top_p", &p::top_p, &s::top_p, 0.0f, 1.0f});
    visit(real{"min_p", "", "min_p", &p::min_p, &s::min_p, 0.0f, 1.0f});
    visit(real{"typical", "typical_p", "", &p::typical, &s::typical, 0.0f, 1.0f});
    visit(real{"top_n_sigma", "", "", &p::top_n_sigma, &s::top_n_sigma, -1.0f, big});
    visit(real{"xtc_probability", "", "xtc_probability", &p::xtc_probability, &s::xtc_probability, 0.0f, 1.0f});
    visit(real{"xtc_threshold", "", "xtc_threshold", &p::xtc_threshold, &s::xtc_threshold, 0.0f, 1.0f});
    visit(whole{"repeat_last_n", "penalty_last_n", "penalty_last_n", &p::repeat_last_n, &s::repeat_last_n, -1, many});
    visit(
        real{"repeat_penalty", "penalty_repeat", "penalty_repeat", &p::repeat_penalty, &s::repeat_penalty, 1e-3f, big});
    visit(real{"frequency_penalty", "", "", &p::frequency_penalty, &s::frequency_penalty, -1e3f, 1e3f});
    visit(real{"presence_penalty", "", "", &p::presence_penalty, &s::presence_penalty, -1e3f, 1e3f});
    visit(real{"dry_multiplier", "", "", &p::dry_multiplier, &s::dry_multiplier, 0.0f, big});
    visit(real{"dry_base", "", "", &p::dry_base, &s::dry_base, 1.0f, big});
    visit(whole{"dry_allowed_length", "", "", &p::dry_allowed_length, &s::dry_allowed_length, 0, many});
    visit(whole{"dry_penalty_last_n", "dry_last_n", "", &p::dry_last_n, &s::dry_last_n, -1, many});
    visit(whole{"mirostat", "", "mirostat", &p::mirostat, &s::mirostat, 0, 2});
    visit(real{"mirostat_ent", "mirostat_tau", "mirostat_tau", &p::mirostat_tau, &s::mirostat_tau, 0.0f, 1e3f});
    visit(real{"mirostat_lr", "mirostat_eta", "mirostat_eta", &p::mirostat_eta, &s::mirostat_eta, 0.0f, 1e3f});
    visit(whole{"min_keep", "", "", &p::min_keep, &s::min_keep, 0, many});
}

/// Whether the value is in the field's range. Errors: invalid_argument.
template <class T>
[[nodiscard]] result<void> check(const number_field<T>& field, T value) {
    if (value >= field.least && value <= field.most) return {};
    const auto range = field.most == std::numeric_limits<T>::max() ? concat("at least ", field.least)
                                                                   : concat(field.least, " to ", field.most);
    return error{errc::invalid_argument,
                 concat("the sampling setting '", field.name, "' is ", value, "; it must be ", range)};
}

inline params merged(const params& first, const params& second) {
    params out = first;
    const auto fill = [](auto& to, const auto& from) {
        if (!to) to = from;
    };
    for_each_number([&](const auto& field) { fill(out.*field.given, second.*field.given); });
    fill(out.dry_breakers, second.dry_breakers);
    fill(out.seed, second.seed);
    fill(out.ignore_eos, second.ignore_eos);
    fill(out.order, second.order);
    out.logit_bias.insert(out.logit_bias.end(), second.logit_bias.begin(), second.logit_bias.end());
    return out;
}

inline result<settings> resolve(const params& given) {
    settings out;
    result<void> ok;
    for_each_number([&](const auto& field) {
        if (!ok || !(given.*field.given)) return;
        ok = check(field, *(given.*field.given));
        out.*field.value = *(given.*field.given);
    });
    if (!ok) return std::move(ok).error();
    for (const auto& one : given.logit_bias) {
        if (std::isnan(one.amount)) {
            return error{errc::invalid_argument, concat("the logit bias of token ", one.id, " is not a number")};
        }
    }
    if (given.dry_breakers) out.dry_breakers = *given.dry_breakers;
    if (given.ignore_eos) out.ignore_eos = *given.ignore_eos;
    if (given.order) out.order = *given.order;
    out.logit_bias = given.logit_bias;
    out.seed = given.seed ? *given.seed : random_seed();
    return out;
}

}  // namespace colibri::sampling
