// SentencePiece's BPE: text to tokens by merging whatever gives the token with the highest score.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "colibri/text/merging.hpp"
#include "colibri/text/utf8.hpp"
#include "colibri/text/vocabulary.hpp"

namespace colibri::text {

/// Encodes stretches of text that hold no special token. Immutable after `make`; threads may share it.
///
/// SentencePiece merges across a whole text. No merge can join two bytes that no token has side by side, though, so the
/// text is cut at such places first (before nearly every space) and each part is merged by itself: the same ids,
/// sooner.
class spm_encoder {
public:
    /// What one caller uses again from call to call.
    struct memory {
        merge_memory merging;
        std::vector<merge_symbol> symbols;
        std::string text;
    };

    /// `space_prefix`: put a space before each stretch of text.
    [[nodiscard]] static spm_encoder make(const vocabulary& vocab, bool space_prefix);

    /// Appends the ids of `text`; a literal U+2581 counts as a space. Characters without a token, and bytes that are
    /// not UTF-8, become byte tokens; where there are none, the unknown token stands for each character, or nothing.
    void encode(const vocabulary& vocab, std::string_view text, std::vector<token_id>& out, memory& work) const;

private:
    void encode_part(const vocabulary& vocab, std::string_view text, std::vector<token_id>& out, memory& work) const;
    [[nodiscard]] static std::size_t pair_of(char left, char right) noexcept {
        return std::size_t{static_cast<std::uint8_t>(left)} * 256 + static_cast<std::uint8_t>(right);
    }

    bool space_prefix_ = true;
    std::size_t longest_ = 0;           // bytes of the longest token that merging may produce
    std::vector<std::uint32_t> ranks_;  // by token: the higher the score the lower
    std::array<token_id, 256> byte_tokens_{};
    std::array<token_id, 128> ascii_{};  // tokens of single characters
    std::vector<bool> side_by_side_;     // pairs of bytes that some token contains
};

inline spm_encoder spm_encoder::make(const vocabulary& vocab, bool space_prefix) {
    spm_encoder out;
    out.space_prefix_ = space_prefix;
    out.byte_tokens_.fill(no_token);
    out.side_by_side_.resize(65536);
    out.ranks_.reserve(vocab.size());
    for (std::size_t i = 0; i < vocab.size(); ++i) {
        // The bits of a float, made to grow with its value; then turned round. Both zeros are the same score.
        const float score = vocab.scores[i] == 0.0f ? 0.0f : vocab.scores[i];
        const auto bits = std::bit_cast<std::uint32_t>(score);
        out.ranks_.push_back(~((bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u));
        const std::string_view text = vocab.bytes[i];
        if (vocab.types[i] == token_type::byte) {
            token_id& place = out.byte_tokens_[static_cast<std::uint8_t>(text[0])];
            if (place == no_token) place = static_cast<token_id>(i);
        }
        if (!vocab.is_word(static_cast<token_id>(i))) continue;
        out.longest_ = std::max(out.longest_, text.size());
        for (std::size_t k = 1; k < text.size(); ++k) out.side_by_side_[pair_of(text[k - 1], text[k])] = true;
    }
    for (unsigned c = 0; c < 128; ++c) {
        const char text = static_cast<char>(c);
        out.ascii_[c] = vocab.find_word({&text, 1});
    }
    return out;
}

inline void spm_encoder::encode(const vocabulary& vocab, std::string_view text, std::vector<token_id>& out,
                                memory& work) const {
    if (text.empty()) return;
    if (space_prefix_ || text.find(detail::space_mark) != std::string_view::npos) {
        work.text.assign(space_prefix_ ? 1 : 0, ' ');
        detail::append_with_spaces(work.text, text);
        text = work.text;
    }
    constexpr std::size_t longest = std::size_t{1} << 30;  // symbols count bytes with 32 bits
    std::size_t begin = 0;
    for (std::size_t i = 1; i < text.size(); ++i) {
        const bool inside_character = (static_cast<std::uint8_t>(text[i]) & 0xC0) == 0x80;
        if ((inside_character || side_by_side_[pair_of(text[i - 1], text[i])]) && i - begin < longest) continue;
        encode_part(vocab, text.substr(begin, i - begin), out, work);
        begin = i;
    }
    encode_part(vocab, text.substr(begin), out, work);
}

inline void spm_encoder::encode_part(const vocabulary& vocab, std::string_view text, std::vector<token_id>& out,
                                     memory& work) const {
    auto& symbols = work.symbols;
    symbols.clear();
    for (std::size_t at = 0; at < text.size();) {
        const auto byte = static_cast<std::uint8_t>(text[at]);
        const code_point read = byte < 0x80 ? code_point{byte, 1, true} : decode_utf8(text, at);
        const auto begin = static_cast<std::uint32_t>(at);
        if (byte < 0x80) {
            symbols.push_back({begin, 1, ascii_[byte]});
        } else if (read.valid) {
            symbols.push_back({begin, read.size, vocab.find_word(text.substr(at, read.size))});
        } else {
            for (std::uint32_t i = 0; i < read.size; ++i) symbols.push_back({begin + i, 1, no_token});
        }
        at += read.size;
    }
    merge_all(symbols, work.merging, [&](const merge_symbol& left, const merge_symbol& right) -> merge {
        const std::size_t size = std::size_t{left.size} + right.size;
        if (size > longest_) return {};
        const token_id id = vocab.find_word(text.substr(left.begin, size));
        return id == no_token ? merge{} : merge{ranks_[static_cast<std::size_t>(id)], id};
    });
    for (const merge_symbol& one : symbols) {
        if (one.id != no_token) {
            out.push_back(one.id);
            continue;
        }
        bool whole = true;
        for (const char c : text.substr(one.begin, one.size))
            whole = whole && byte_tokens_[static_cast<std::uint8_t>(c)] != no_token;
        if (whole) {
            for (const char c : text.substr(one.begin, one.size))
                out.push_back(byte_tokens_[static_cast<std::uint8_t>(c)]);
        } else if (vocab.special.unknown != no_token) {
            out.push_back(vocab.special.unknown);
        }
    }
}

}  // namespace colibri::text
