// Byte-level BPE: words to tokens by merges in the order of their ranks.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "colibri/text/merging.hpp"
#include "colibri/text/nfc.hpp"
#include "colibri/text/pre_tokenizer.hpp"
#include "colibri/text/vocabulary.hpp"

namespace colibri::text {

/// Merges by the pair they join. Fixed size after `reserve`.
class merge_table {
public:
    void reserve(std::size_t count) { slots_.assign(std::bit_ceil(count * 2 + 2), slot{}); }
    /// Keeps what is there already for the same pair.
    void insert(std::int32_t left, std::int32_t right, merge value) noexcept {
        slot& here = slots_[place(key(left, right))];
        if (here.value.rank == merge::never) here = {key(left, right), value};
    }
    [[nodiscard]] merge find(std::int32_t left, std::int32_t right) const noexcept {
        return slots_[place(key(left, right))].value;
    }

private:
    struct slot {
        std::uint64_t key = 0;
        merge value;
    };
    [[nodiscard]] static std::uint64_t key(std::int32_t left, std::int32_t right) noexcept {
        return (std::uint64_t{static_cast<std::uint32_t>(left)} << 32) | static_cast<std::uint32_t>(right);
    }
    [[nodiscard]] std::size_t place(std::uint64_t wanted) const noexcept {
        const std::size_t mask = slots_.size() - 1;
        std::size_t i = static_cast<std::size_t>((wanted * 0x9E3779B97F4A7C15u) >> 20) & mask;
        while (slots_[i].value.rank != merge::never && slots_[i].key != wanted) i = (i + 1) & mask;
        return i;
    }

    std::vector<slot> slots_ = std::vector<slot>(2);
};

/// Encodes stretches of text that hold no special token. Immutable after `read`; threads may share it.
class bpe_encoder {
public:
    /// What one caller uses again from call to call.
    struct memory {
        merge_memory merging;
        std::vector<merge_symbol> symbols;
    };

    /// Reads `tokenizer.ggml.merges`. Parts and results that are no tokens may be merged further; what is left of them
    /// in the end is written byte by byte. Errors: missing_key, bad_type, bad_value (each names the key), limit.
    [[nodiscard]] static result<bpe_encoder> read(const gguf::metadata& meta, const vocabulary& vocab,
                                                  const pre_tokenizer& pre);

    /// Appends the ids of `text`. Bytes for which the vocabulary has no token are left out.
    void encode(const vocabulary& vocab, std::string_view text, std::vector<token_id>& out, memory& work) const {
        if (pre_.nfc && !is_surely_nfc(text)) {
            encode_prepared(vocab, to_nfc(text), out, work);
        } else {
            encode_prepared(vocab, text, out, work);
        }
    }

private:
    void encode_prepared(const vocabulary& vocab, std::string_view text, std::vector<token_id>& out,
                         memory& work) const {
        split(pre_.rules, text, [&](std::string_view word) { encode_word(vocab, word, out, work); });
    }
    void encode_word(const vocabulary& vocab, std::string_view word, std::vector<token_id>& out, memory& work) const;
    /// Number of the symbol with these bytes: a token, or one made up behind the last token.
    [[nodiscard]] std::int32_t number_of(const vocabulary& vocab, std::string_view bytes);

    pre_tokenizer pre_{};
    merge_table merges_;
    std::array<std::int32_t, 256> byte_symbols_{};  // where merging starts
    std::array<token_id, 256> byte_tokens_{};       // what stands for a byte in the end, or no_token
    std::int32_t tokens_ = 0;
    text_pool extra_;  // bytes of the symbols tokens_, tokens_ + 1, ...
    text_index extra_index_;
};

inline std::int32_t bpe_encoder::number_of(const vocabulary& vocab, std::string_view bytes) {
    if (const token_id known = vocab.find_word(bytes); known != no_token) return known;
    if (const std::int32_t made_up = extra_index_.find(extra_, bytes); made_up != text_index::none)
        return tokens_ + made_up;
    extra_.add(bytes);
    const auto number = static_cast<std::int32_t>(extra_.size() - 1);
    extra_index_.insert(extra_, number);
    return tokens_ + number;
}

inline result<bpe_encoder> bpe_encoder::read(const gguf::metadata& meta, const vocabulary& vocab,
                                             const pre_tokenizer& pre) {
    namespace keys = detail::keys;
    auto found = detail::text_array(meta, keys::merges);
    if (!found) return std::move(found).error();
    const gguf::value& texts = **found;
    if (texts.size() >= merge::never / 4) {
        return error{errc::limit, concat("the metadata key ", quoted(keys::merges), " has ", texts.size(),
                                         " elements, more than Colibri can hold")};
    }
    bpe_encoder out;
    out.pre_ = pre;
    out.tokens_ = static_cast<std::int32_t>(vocab.size());
    out.merges_.reserve(texts.size());
    for (unsigned byte = 0; byte < 256; ++byte) {
        const char text = static_cast<char>(static_cast<unsigned char>(byte));
        out.byte_symbols_[byte] = out.number_of(vocab, {&text, 1});
        out.byte_tokens_[byte] = out.byte_symbols_[byte] < out.tokens_ ? out.byte_symbols_[byte] : no_token;
    }
    for (std::size_t i = 0; i < vocab.size(); ++i) {
        if (vocab.types[i] != token_type::byte) continue;
        token_id& place = out.byte_tokens_[static_cast<std::uint8_t>(vocab.bytes[i][0])];
        if (place == no_token) place = static_cast<token_id>(i);
    }
    std::string joined;
    for (std::size_t i = 0; i < texts.size(); ++i) {
        const std::string_view text = texts.text_at(i);
        const std::size_t space = text.find(' ', 1);
        if (text.empty() || space == std::string_view::npos || space + 1 == text.size()) {
            return error{errc::bad_value, concat("element ", i, " of ", quoted(keys::merges), " is ", quoted(text, 40),
                                                 ", not two parts with a space between them")};
        }
        joined.clear();
        append_spelled_bytes(joined, text.substr(0, space));
        const std::size_t middle = joined.size();
        append_spelled_bytes(joined, text.substr(space + 1));
        if (!out.extra_.fits(joined.size() * 2)) {
            return error{errc::limit, concat("the texts under ", quoted(keys::merges), " are larger than 4 GiB")};
        }
        const std::string_view whole = joined;
        const std::int32_t left = out.number_of(vocab, whole.substr(0, middle));
        const std::int32_t right = out.number_of(vocab, whole.substr(middle));
        out.merges_.insert(left, right, {static_cast<std::uint32_t>(i), out.number_of(vocab, whole)});
    }
    return out;
}

inline void bpe_encoder::encode_word(const vocabulary& vocab, std::string_view word, std::vector<token_id>& out,
                                     memory& work) const {
    constexpr std::size_t longest = std::size_t{1} << 30;  // symbols count bytes with 32 bits
    if (word.size() > longest) {
        encode_word(vocab, word.substr(0, longest), out, work);
        return encode_word(vocab, word.substr(longest), out, work);
    }
    if (pre_.whole_words) {
        if (const token_id whole = vocab.find_word(word); whole != no_token) {
            out.push_back(whole);
            return;
        }
    }
    auto& symbols = work.symbols;
    symbols.resize(word.size());
    for (std::uint32_t i = 0; i < word.size(); ++i)
        symbols[i] = {i, 1, byte_symbols_[static_cast<std::uint8_t>(word[i])]};
    merge_all(symbols, work.merging,
              [&](const merge_symbol& left, const merge_symbol& right) { return merges_.find(left.id, right.id); });
    for (const merge_symbol& one : symbols) {
        if (one.id < tokens_) {
            out.push_back(one.id);
            continue;
        }
        for (const char c : word.substr(one.begin, one.size)) {
            if (const token_id id = byte_tokens_[static_cast<std::uint8_t>(c)]; id != no_token) out.push_back(id);
        }
    }
}

}  // namespace colibri::text
