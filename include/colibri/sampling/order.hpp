// The steps of sampling by name, and which of them run.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "colibri/core/concat.hpp"
#include "colibri/core/error.hpp"
#include "colibri/core/escape.hpp"
#include "colibri/sampling/params.hpp"

namespace colibri::sampling {

/// Name of a step, as in orders and listings.
[[nodiscard]] std::string_view name(step_kind kind) noexcept;

/// Steps from a list of names with ';' or ',' between, "top_k;temperature" (names as by `name` or in use elsewhere:
/// temp, typ_p, typical_p, top-k; the letters e d s k y p m x t in one word mean the same). Errors: invalid_argument.
[[nodiscard]] result<std::vector<step_kind>> parse_order(std::string_view text);

/// How the token is chosen in the end.
enum class choice_kind : std::uint8_t { greedy, draw, mirostat, mirostat_v2 };

[[nodiscard]] inline choice_kind choice_of(const settings& s) noexcept {
    if (s.temperature <= 0.0f) return choice_kind::greedy;
    return s.mirostat == 1 ? choice_kind::mirostat : s.mirostat == 2 ? choice_kind::mirostat_v2 : choice_kind::draw;
}

/// The steps that do something with these settings, in their order.
[[nodiscard]] std::vector<step_kind> active_steps(const settings& s);

namespace detail {

struct step_name {
    step_kind kind;
    char letter;
    std::string_view name;
    std::string_view alias;
};

inline constexpr std::array<step_name, 9> step_names{{
    {step_kind::penalties, 'e', "penalties", "penalties"},
    {step_kind::dry, 'd', "dry", "dry"},
    {step_kind::top_n_sigma, 's', "top_n_sigma", "top_n_sigma"},
    {step_kind::top_k, 'k', "top_k", "top_k"},
    {step_kind::typical, 'y', "typical", "typ_p"},
    {step_kind::top_p, 'p', "top_p", "nucleus"},
    {step_kind::min_p, 'm', "min_p", "min_p"},
    {step_kind::xtc, 'x', "xtc", "xtc"},
    {step_kind::temperature, 't', "temperature", "temp"},
}};

/// The name with '_' for '-', in lower case.
[[nodiscard]] inline std::string plain_name(std::string_view text) {
    std::string out;
    for (const char c : text) {
        if (c == ' ') continue;
        out += c == '-' ? '_' : c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    }
    return out;
}

}  // namespace detail

inline std::string_view name(step_kind kind) noexcept {
    for (const auto& one : detail::step_names) {
        if (one.kind == kind) return one.name;
    }
    return "?";
}

inline result<std::vector<step_kind>> parse_order(std::string_view text) {
    std::vector<step_kind> out;
    const auto add = [&](const auto& matches) {
        for (const auto& one : detail::step_names) {
            if (!matches(one)) continue;
            out.push_back(one.kind);
            return true;
        }
        return false;
    };
    const bool is_list = text.find_first_of(";,") != std::string_view::npos;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find_first_of(";,"), text.size());
        const std::string word = detail::plain_name(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
        if (word.empty()) continue;
        if (add([&](const auto& one) { return word == one.name || word == one.alias; })) continue;
        if (word == "typical_p" || word == "typ") {
            out.push_back(step_kind::typical);
            continue;
        }
        bool letters = !is_list;
        for (const char letter : word) letters = letters && add([&](const auto& one) { return letter == one.letter; });
        if (!letters) {
            std::string known;
            for (const auto& one : detail::step_names) known += concat(known.empty() ? "" : ", ", one.name);
            return error{errc::invalid_argument,
                         concat("there is no sampling step ", quoted(word), "; there are ", known)};
        }
    }
    return out;
}

inline std::vector<step_kind> active_steps(const settings& s) {
    const choice_kind choice = choice_of(s);
    const auto runs = [&](step_kind kind) {
        const bool removes = choice == choice_kind::draw;
        switch (kind) {
            case step_kind::penalties:
                return s.repeat_last_n != 0 &&
                       (s.repeat_penalty != 1.0f || s.frequency_penalty != 0.0f || s.presence_penalty != 0.0f);
            case step_kind::dry: return s.dry_multiplier != 0.0f && s.dry_last_n != 0;
            case step_kind::top_n_sigma: return removes && s.top_n_sigma > 0.0f;
            case step_kind::top_k: return removes && s.top_k > 0;
            case step_kind::typical: return removes && s.typical < 1.0f;
            case step_kind::top_p: return removes && s.top_p < 1.0f;
            case step_kind::min_p: return removes && s.min_p > 0.0f;
            case step_kind::xtc: return removes && s.xtc_probability > 0.0f && s.xtc_threshold <= 0.5f;
            case step_kind::temperature:
                return choice != choice_kind::greedy && (s.temperature != 1.0f || s.dynamic_range > 0.0f);
        }
        return false;
    };
    std::vector<step_kind> out;
    for (const step_kind kind : s.order) {
        if (runs(kind)) out.push_back(kind);
    }
    return out;
}

}  // namespace colibri::sampling
