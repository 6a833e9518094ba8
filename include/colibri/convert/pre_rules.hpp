// Which pre-tokenizer a tokenizer.json has: its own rules compared with those that the engine implements.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "colibri/convert/json.hpp"
#include "colibri/convert/rule_pattern.hpp"
#include "colibri/text/pre_tokenizer.hpp"

namespace colibri::convert {

/// What a tokenizer does to a text before byte-level BPE.
struct pre_rules {
    std::vector<rule_shapes> rules;
    bool byte_level = false;
};

/// Reads the member "pre_tokenizer". Errors: unsupported (quotes the rule that isn't known), bad_type.
[[nodiscard]] inline result<pre_rules> read_pre_rules(const json& pre_tokenizer);

/// Pre-tokenizers that cut as these rules do, in the order of their table.
[[nodiscard]] inline std::vector<const text::pre_tokenizer*> matching_pre_tokenizers(const pre_rules& rules);

namespace detail {

inline constexpr std::string_view gpt2_pattern =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

[[nodiscard]] inline error unknown_rule(const json& rule, std::string_view why) {
    return error{errc::unsupported, concat("tokenizer.json cuts words by a rule that is not known here (", why,
                                           "): ", quoted(rule.dump(-1, ' ', false, json::error_handler_t::replace), 1000),
                                           "; if one of the known ways cuts alike, name it with --pre")};
}

[[nodiscard]] inline std::string text_of(const json& object, std::string_view key) {
    const auto at = object.find(key);
    return at != object.end() && at->is_string() ? at->get<std::string>() : std::string();
}
[[nodiscard]] inline bool truth_of(const json& object, std::string_view key, bool otherwise) {
    const auto at = object.find(key);
    return at != object.end() && at->is_boolean() ? at->get<bool>() : otherwise;
}

/// Whether every character begins a match, so that nothing lies between matches.
[[nodiscard]] inline bool covers_all(const rule_shapes& rule) {
    code_set all;
    for (const auto& one : rule.alternatives) {
        if (one.kind == text::form::spaces) all = all | code_set::with(text::classes::white_space);
        if (one.kind == text::form::run && one.least == 1 && !one.needs_prefix) all = all | one.body;
        if (one.kind == text::form::word_lower || one.kind == text::form::word_upper) all = all | one.body;
    }
    return (~all).empty();
}

[[nodiscard]] inline result<void> add_split(const json& rule, pre_rules& out) {
    const auto pattern = rule.find("pattern");
    if (pattern == rule.end() || !pattern->is_object()) return unknown_rule(rule, "it has no pattern");
    std::string text = text_of(*pattern, "Regex");
    if (text.empty()) {  // a text that stands for itself
        for (const char c : text_of(*pattern, "String")) {
            constexpr std::string_view special = "\\()[]{}|?*+^$.";
            if (special.find(c) != std::string_view::npos) text += '\\';
            text += c;
        }
    }
    if (text.empty()) return unknown_rule(rule, "its pattern is empty");
    auto read = read_pattern(text);
    if (!read) return unknown_rule(rule, read.error().message);
    const auto behavior = text_of(rule, "behavior");
    const bool invert = truth_of(rule, "invert", false);
    // Keeping the matches alone is the same where there is nothing else.
    const bool same = (behavior == "Isolated" && !invert) || (behavior == "Removed" && invert && covers_all(*read));
    if (!same) return unknown_rule(rule, concat("its behavior is ", quoted(behavior), invert ? ", inverted" : ""));
    for (const auto& one : read->alternatives) {
        const bool plain = one.kind == text::form::run && !one.prefix && !one.tail && (one.body - code_set(0x21, 0x7E)).empty();
        if (out.byte_level && !plain) return unknown_rule(rule, "it follows ByteLevel");
    }
    out.rules.push_back(std::move(*read));
    return {};
}

[[nodiscard]] inline result<void> add_pre_rule(const json& rule, pre_rules& out, unsigned depth) {
    if (rule.is_null()) return {};
    if (!rule.is_object() || depth > 8) return error{errc::bad_type, "the member 'pre_tokenizer' of tokenizer.json is no rule"};
    const auto type = text_of(rule, "type");
    if (type == "Sequence") {
        const auto list = rule.find("pretokenizers");
        if (list == rule.end() || !list->is_array()) return unknown_rule(rule, "it has no list of rules");
        for (const auto& one : *list) {
            if (auto ok = add_pre_rule(one, out, depth + 1); !ok) return ok;
        }
        return {};
    }
    // Behind ByteLevel a rule sees bytes spelled as characters; only plain ASCII is the same there.
    if (out.byte_level && type != "Split") return unknown_rule(rule, "it follows ByteLevel");
    if (type == "ByteLevel") {
        if (truth_of(rule, "add_prefix_space", false)) return unknown_rule(rule, "it puts a space in front of a text");
        out.byte_level = true;
        if (truth_of(rule, "use_regex", true)) out.rules.push_back(*read_pattern(gpt2_pattern));
        return {};
    }
    if (type == "Split") return add_split(rule, out);
    const auto numbers = code_set::with(text::classes::number);
    if (type == "Digits") {
        const bool single = truth_of(rule, "individual_digits", false);
        out.rules.push_back({{{.body = numbers, .most = single ? 1 : endless}}});
        return {};
    }
    if (type == "Punctuation") {
        const auto behavior = text_of(rule, "behavior");
        if (!behavior.empty() && behavior != "Isolated" && behavior != "Contiguous")
            return unknown_rule(rule, concat("its behavior is ", quoted(behavior)));
        const auto marks = code_set::of(text::split_rules::sets::punctuation_ascii);
        out.rules.push_back({{{.body = marks, .most = behavior == "Contiguous" ? endless : 1}}});
        return {};
    }
    return unknown_rule(rule, concat("its type is ", quoted(type, 40)));
}

[[nodiscard]] inline bool same_rules(const std::vector<rule_shapes>& read, std::span<const text::split_rule> known) {
    return std::equal(read.begin(), read.end(), known.begin(), known.end(), [](const rule_shapes& a, const text::split_rule& b) {
        return a.cut == b.cut &&
               std::equal(a.alternatives.begin(), a.alternatives.end(), b.alternatives.begin(), b.alternatives.end(), same_shape);
    });
}

}  // namespace detail

inline result<pre_rules> read_pre_rules(const json& pre_tokenizer) {
    pre_rules out;
    if (auto ok = detail::add_pre_rule(pre_tokenizer, out, 0); !ok) return std::move(ok).error();
    return out;
}

inline std::vector<const text::pre_tokenizer*> matching_pre_tokenizers(const pre_rules& rules) {
    std::vector<const text::pre_tokenizer*> out;
    std::vector<std::pair<const text::split_rule*, bool>> tried;  // most names share their rules with others
    for (const auto& one : text::pre_tokenizers) {
        auto known = std::ranges::find(tried, one.rules.data(), &std::pair<const text::split_rule*, bool>::first);
        if (known == tried.end()) {
            tried.emplace_back(one.rules.data(), detail::same_rules(rules.rules, one.rules));
            known = tried.end() - 1;
        }
        if (known->second) out.push_back(&one);
    }
    return out;
}

}  // namespace colibri::convert
