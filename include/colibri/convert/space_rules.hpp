// What a tokenizer.json in the manner of SentencePiece does to a text before it is merged: nothing but to its spaces.
#pragma once

#include <string_view>
#include <utility>

#include "colibri/convert/json.hpp"
#include "colibri/convert/pre_rules.hpp"

namespace colibri::convert {

/// What happens to spaces.
struct space_rules {
    bool replaced = false;   ///< each becomes "▁"
    bool prepended = false;  ///< one is put in front of a text
};

/// Reads the members "normalizer" and "pre_tokenizer". Errors: unsupported (quotes a rule that does anything else).
[[nodiscard]] inline result<space_rules> read_space_rules(const json& normalizer, const json& pre_tokenizer);

namespace detail {

inline constexpr std::string_view shown_space = "\xe2\x96\x81";

[[nodiscard]] inline bool is_one_space(const json& rule) {
    const auto pattern = rule.find("pattern");
    return pattern != rule.end() && pattern->is_object() && text_of(*pattern, "String") == " ";
}

[[nodiscard]] inline result<void> add_space_rule(const json& rule, space_rules& out, unsigned depth) {
    if (rule.is_null()) return {};
    if (!rule.is_object() || depth > 8) return error{errc::bad_type, "a rule of tokenizer.json is no object, or rules are nested too deeply"};
    const auto type = text_of(rule, "type");
    if (type == "Sequence") {
        for (const std::string_view key : {"normalizers", "pretokenizers"}) {
            const auto list = rule.find(key);
            if (list == rule.end()) continue;
            if (!list->is_array()) return unknown_rule(rule, "it has no list of rules");
            for (const auto& one : *list) {
                if (auto ok = add_space_rule(one, out, depth + 1); !ok) return ok;
            }
        }
        return {};
    }
    if (type == "Prepend" && text_of(rule, "prepend") == shown_space) {
        out.prepended = true;
        return {};
    }
    if (type == "Replace" && is_one_space(rule) && text_of(rule, "content") == shown_space) {
        out.replaced = true;
        return {};
    }
    if (type == "Metaspace" && (text_of(rule, "replacement") == shown_space || !rule.contains("replacement"))) {
        if (truth_of(rule, "split", true)) return unknown_rule(rule, "it cuts texts at spaces as well");
        out.replaced = true;
        out.prepended = text_of(rule, "prepend_scheme") != "never" && truth_of(rule, "add_prefix_space", true);
        return {};
    }
    if (type == "Split" && is_one_space(rule) && out.replaced) return {};  // none is left by now
    return unknown_rule(rule, "vocabularies in the manner of SentencePiece only change spaces");
}

}  // namespace detail

inline result<space_rules> read_space_rules(const json& normalizer, const json& pre_tokenizer) {
    space_rules out;
    for (const json* rule : {&normalizer, &pre_tokenizer}) {
        if (auto ok = detail::add_space_rule(*rule, out, 0); !ok) return std::move(ok).error();
    }
    if (!out.replaced) return detail::unknown_rule(normalizer, "it leaves spaces as they are");
    return out;
}

}  // namespace colibri::convert
