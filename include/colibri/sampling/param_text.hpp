// Sampling settings as text: set by name, shown to people.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "colibri/core/concat.hpp"
#include "colibri/core/error.hpp"
#include "colibri/core/escape.hpp"
#include "colibri/core/number.hpp"
#include "colibri/sampling/order.hpp"
#include "colibri/sampling/params.hpp"

namespace colibri::sampling {

/// A bias from "ID=BIAS", "ID+BIAS" or "ID-BIAS"; BIAS may be -inf or, for forbidding, "false". Errors:
/// invalid_argument.
[[nodiscard]] result<bias> parse_bias(std::string_view text);

/// Sets one setting by its name ('-' and '_' alike): all numbers (see fields.hpp), seed (-1: by chance), ignore_eos,
/// order (also: samplers), logit_bias (adds one). Errors: invalid_argument (no such setting, no such value, out of
/// range).
[[nodiscard]] result<void> set(params& p, std::string_view setting, std::string_view value);

/// Names that `set` knows.
[[nodiscard]] std::vector<std::string_view> setting_names();

/// The steps that will run with their numbers, in order, in one line: "top_k 40, top_p 0.95, min_p 0.05, temp 0.8, seed
/// 7".
[[nodiscard]] std::string describe(const settings& s);

namespace detail {

template <class T>
result<void> set_number(params& p, const number_field<T>& field, std::string_view text) {
    const auto number = parse_number<T>(text);
    if (!number) {
        return error{errc::invalid_argument,
                     concat("the sampling setting '", field.name, "' needs a ",
                            std::is_same_v<T, float> ? "number" : "whole number", ", not ", quoted(text))};
    }
    auto ok = check(field, *number);
    if (ok) p.*field.given = *number;
    return ok;
}

}  // namespace detail

inline result<bias> parse_bias(std::string_view text) {
    const std::size_t cut = text.find_first_of("=+-:", 1);
    const auto fail = [&] {
        return error{errc::invalid_argument,
                     concat("a logit bias is written ID=BIAS, for instance 15=-2.5, not ", quoted(text))};
    };
    if (cut == std::string_view::npos) return fail();
    const auto id = parse_number<std::int32_t>(text.substr(0, cut));
    std::string_view amount = text.substr(cut);
    if (amount.front() != '-' && amount.front() != '+') amount.remove_prefix(1);
    const auto number =
        amount == "false" ? std::optional(-std::numeric_limits<float>::infinity()) : parse_number<float>(amount);
    if (!id || *id < 0 || !number || std::isnan(*number)) return fail();
    return bias{*id, *number};
}

inline result<void> set(params& p, std::string_view setting, std::string_view value) {
    const std::string wanted = detail::plain_name(setting);
    std::optional<result<void>> done;
    for_each_number([&](const auto& field) {
        if (!wanted.empty() && (wanted == field.name || wanted == field.alias))
            done = detail::set_number(p, field, value);
    });
    if (done) return *done;
    if (wanted == "seed") {
        const auto number = parse_number<std::uint64_t>(value);
        if (!number && value != "-1") {
            return error{errc::invalid_argument,
                         concat("a seed is a whole number, or -1 for one by chance, not ", quoted(value))};
        }
        p.seed = number;
        return {};
    }
    if (wanted == "ignore_eos") {
        const std::string word = detail::plain_name(value);
        const bool yes = word == "true" || word == "on" || word == "1" || word == "yes";
        if (!yes && word != "false" && word != "off" && word != "0" && word != "no") {
            return error{errc::invalid_argument, concat("'ignore_eos' is on or off, not ", quoted(value))};
        }
        p.ignore_eos = yes;
        return {};
    }
    if (wanted == "order" || wanted == "samplers") {
        auto order = parse_order(value);
        if (!order) return std::move(order).error();
        p.order = std::move(*order);
        return {};
    }
    if (wanted == "logit_bias") {
        const auto one = parse_bias(value);
        if (!one) return one.error();
        p.logit_bias.push_back(*one);
        return {};
    }
    std::string known;
    for (const auto one : setting_names()) known += concat(known.empty() ? "" : ", ", one);
    return error{errc::invalid_argument,
                 concat("there is no sampling setting ", quoted(setting), "; there are ", known)};
}

inline std::vector<std::string_view> setting_names() {
    std::vector<std::string_view> out;
    for_each_number([&](const auto& field) { out.push_back(field.name); });
    for (const auto one : {"seed", "ignore_eos", "order", "logit_bias"}) out.emplace_back(one);
    return out;
}

inline std::string describe(const settings& s) {
    std::string out;
    const auto add = [&](const auto&... parts) { out += concat(out.empty() ? "" : ", ", parts...); };
    if (!s.logit_bias.empty())
        add("logit_bias of ", s.logit_bias.size(), s.logit_bias.size() == 1 ? " token" : " tokens");
    if (s.ignore_eos) add("ignore_eos");
    for (const step_kind kind : active_steps(s)) {
        switch (kind) {
            case step_kind::penalties:
                add("repeat_penalty ", s.repeat_penalty, " frequency ", s.frequency_penalty, " presence ",
                    s.presence_penalty, " over ",
                    s.repeat_last_n < 0 ? std::string("all") : concat("the last ", s.repeat_last_n), " tokens");
                break;
            case step_kind::dry:
                add("dry ", s.dry_multiplier, " base ", s.dry_base, " from length ", s.dry_allowed_length);
                break;
            case step_kind::top_n_sigma: add("top_n_sigma ", s.top_n_sigma); break;
            case step_kind::top_k: add("top_k ", s.top_k); break;
            case step_kind::typical: add("typical ", s.typical); break;
            case step_kind::top_p: add("top_p ", s.top_p); break;
            case step_kind::min_p: add("min_p ", s.min_p); break;
            case step_kind::xtc: add("xtc ", s.xtc_probability, " above ", s.xtc_threshold); break;
            case step_kind::temperature:
                add("temp ", s.temperature);
                if (s.dynamic_range > 0.0f) out += concat(" +- ", s.dynamic_range, " exponent ", s.dynamic_exponent);
                break;
        }
    }
    switch (choice_of(s)) {
        case choice_kind::greedy: add("greedy"); return out;
        case choice_kind::draw: break;
        case choice_kind::mirostat: add("mirostat tau ", s.mirostat_tau, " eta ", s.mirostat_eta); break;
        case choice_kind::mirostat_v2: add("mirostat 2 tau ", s.mirostat_tau, " eta ", s.mirostat_eta); break;
    }
    add("seed ", s.seed);
    return out;
}

}  // namespace colibri::sampling
