// The tokens of a vocabulary as a GGUF file lists them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "colibri/convert/sentencepiece.hpp"
#include "colibri/convert/tokenizer_json.hpp"
#include "colibri/gguf/metadata.hpp"

namespace colibri::convert {

/// Tokens by id, and the merges of byte-level BPE.
struct token_list {
    std::vector<std::string> texts;
    std::vector<text::token_type> types;
    std::vector<float> scores;                         ///< SentencePiece only
    const std::vector<std::string>* merges = nullptr;  ///< byte-level BPE only

    [[nodiscard]] std::size_t size() const noexcept { return texts.size(); }

    /// The id of a text; special tokens first. Linear.
    [[nodiscard]] text::token_id find(std::string_view wanted) const {
        text::token_id out = text::no_token;
        for (std::size_t i = 0; i < size(); ++i) {
            if (texts[i] != wanted || types[i] == text::token_type::unused) continue;
            if (types[i] != text::token_type::normal) return static_cast<text::token_id>(i);
            if (out == text::no_token) out = static_cast<text::token_id>(i);
        }
        return out;
    }
    void set(std::size_t id, std::string token, text::token_type type, float score) {
        while (size() <= id) add_unused();
        texts[id] = std::move(token);
        types[id] = type;
        if (!scores.empty()) scores[id] = score;
    }
    /// Makes the list exactly `count` long: unused tokens "[PADn]" behind the last one, or the last ones gone (how many).
    std::size_t resize(std::size_t count) {
        const std::size_t gone = size() > count ? size() - count : 0;
        while (size() < count) add_unused();
        texts.resize(count);
        types.resize(count);
        if (!scores.empty()) scores.resize(count);
        return gone;
    }

private:
    void add_unused() {
        texts.push_back(concat("[PAD", size(), "]"));
        types.push_back(text::token_type::unused);
        if (!scores.empty()) scores.push_back(-10000.0f);
    }
};

/// Byte-level BPE.
[[nodiscard]] inline token_list byte_level_tokens(const tokenizer_json& from) {
    token_list out;
    for (const auto& text : from.vocab) {
        if (text.empty()) out.set(out.size(), concat("[PAD", out.size(), "]"), text::token_type::unused, 0.0f);
        else out.set(out.size(), text, text::token_type::normal, 0.0f);
    }
    out.merges = &from.merges;
    return out;
}

/// SentencePiece from its own file.
[[nodiscard]] inline token_list piece_tokens(const sentencepiece_model& from) {
    token_list out;
    for (const auto& piece : from.pieces) {
        out.texts.push_back(piece.text);
        out.types.push_back(piece.type);
        out.scores.push_back(piece.score);
    }
    return out;
}

/// SentencePiece from a tokenizer.json made of it. Its merges stand in the order of the pieces' scores, so the scores count down
/// in this order; what no merge makes comes behind.
[[nodiscard]] inline token_list merged_tokens(const tokenizer_json& from) {
    token_list out;
    std::unordered_map<std::string_view, std::size_t> ids;
    ids.reserve(from.vocab.size());
    for (std::size_t i = 0; i < from.vocab.size(); ++i) {
        const auto& text = from.vocab[i];
        if (!text.empty()) ids.emplace(text, i);
        const auto type = text.empty()                                ? text::token_type::unused
                          : text::detail::byte_token_value(text) >= 0 ? text::token_type::byte
                                                                      : text::token_type::normal;
        out.texts.push_back(text.empty() ? concat("[PAD", i, "]") : text);
        out.types.push_back(type);
        out.scores.push_back(-static_cast<float>(from.merges.size() + i));
        if (type == text::token_type::byte) out.scores.back() = 0.0f;
    }
    std::vector<bool> scored(out.size());
    float score = 0.0f;
    std::string joined;
    for (const auto& merge : from.merges) {
        const auto space = merge.find(' ', 1);
        if (space == std::string::npos) continue;
        joined.assign(merge, 0, space);
        joined.append(merge, space + 1);
        const auto at = ids.find(joined);
        if (at == ids.end() || scored[at->second]) continue;
        scored[at->second] = true;
        out.scores[at->second] = score;
        score -= 1.0f;
    }
    const json& unknown = from.model("unk_token");
    if (unknown.is_string()) {
        if (const auto at = ids.find(unknown.get_ref<const std::string&>()); at != ids.end()) {
            out.types[at->second] = text::token_type::unknown;
            out.scores[at->second] = 0.0f;
        }
    }
    return out;
}

/// Puts added tokens in: special ones become control tokens, the others user-defined.
inline void put_added(token_list& tokens, const std::vector<added_token>& added) {
    using text::token_type;
    const bool spm = !tokens.scores.empty();
    for (const auto& one : added) {
        if (one.text.empty()) continue;
        const bool known = one.id < tokens.size() && tokens.types[one.id] != token_type::unused;
        const auto before = known ? tokens.types[one.id] : token_type::unused;
        if (before == token_type::control || before == token_type::unknown || before == token_type::byte) continue;
        std::string text = one.text;
        if (spm && !one.special) {  // such a token's text is taken as it is, with real spaces
            text.clear();
            text::detail::append_with_spaces(text, one.text);
        }
        const bool keeps_score = spm && known;
        const float score = keeps_score ? tokens.scores[one.id] : -1000.0f;
        tokens.set(one.id, std::move(text), one.special ? token_type::control : token_type::user_defined, score);
    }
}

/// Writes the keys of the list itself.
inline void write_tokens(const token_list& tokens, gguf::metadata& out) {
    namespace keys = text::detail::keys;
    out.set(keys::tokens, gguf::value::strings(tokens.texts));
    if (!tokens.scores.empty()) out.set(keys::scores, gguf::value::array(std::span<const float>(tokens.scores)));
    std::vector<std::int32_t> types;
    types.reserve(tokens.size());
    for (const auto type : tokens.types) types.push_back(static_cast<std::int32_t>(type));
    out.set(keys::types, gguf::value::array(std::span<const std::int32_t>(types)));
    if (tokens.merges != nullptr) out.set(keys::merges, gguf::value::strings(*tokens.merges));
}

}  // namespace colibri::convert
