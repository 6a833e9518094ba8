// Small vocabularies made by hand.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "colibri/gguf/metadata.hpp"
#include "colibri/text/byte_alphabet.hpp"
#include "colibri/text/utf8.hpp"

namespace text_test {

using namespace colibri;

struct token {
    std::string text;
    std::int32_t type = 1;
    float score = 0;
};

inline std::string spelled(std::string_view bytes) {
    std::string out;
    for (const char c : bytes) text::append_utf8(out, text::byte_alphabet[static_cast<unsigned char>(c)]);
    return out;
}

inline void put_tokens(gguf::metadata& meta, const std::vector<token>& tokens, bool with_scores) {
    std::vector<std::string> texts;
    std::vector<std::int32_t> types;
    std::vector<float> scores;
    for (const token& one : tokens) {
        texts.push_back(one.text);
        types.push_back(one.type);
        scores.push_back(one.score);
    }
    meta.set("tokenizer.ggml.tokens", gguf::value::strings(texts));
    meta.set("tokenizer.ggml.token_type", gguf::value::array(std::span<const std::int32_t>(types)));
    if (with_scores) meta.set("tokenizer.ggml.scores", gguf::value::array(std::span<const float>(scores)));
}

/// Byte-level BPE: the 256 bytes (ids 0 to 255), then `more`, with `merges` in GPT-2's spelling.
inline gguf::metadata bpe(const std::vector<token>& more, const std::vector<std::string>& merges,
                          const char* pre = "gpt-2") {
    std::vector<token> tokens;
    for (int byte = 0; byte < 256; ++byte) tokens.push_back({spelled(std::string(1, static_cast<char>(byte)))});
    tokens.insert(tokens.end(), more.begin(), more.end());
    gguf::metadata meta;
    meta.set("tokenizer.ggml.model", "gpt2");
    if (pre != nullptr) meta.set("tokenizer.ggml.pre", pre);
    put_tokens(meta, tokens, false);
    meta.set("tokenizer.ggml.merges", gguf::value::strings(merges));
    return meta;
}

/// SentencePiece: <unk> <s> </s> (ids 0 to 2), the 256 bytes (3 to 258), then `more`.
inline gguf::metadata spm(const std::vector<token>& more) {
    constexpr std::string_view hex = "0123456789ABCDEF";
    std::vector<token> tokens = {{"<unk>", 2}, {"<s>", 3}, {"</s>", 3}};
    for (std::size_t byte = 0; byte < 256; ++byte) {
        tokens.push_back({std::string("<0x") + hex[byte / 16] + hex[byte % 16] + ">", 6});
    }
    tokens.insert(tokens.end(), more.begin(), more.end());
    gguf::metadata meta;
    meta.set("tokenizer.ggml.model", "llama");
    put_tokens(meta, tokens, true);
    meta.set("tokenizer.ggml.bos_token_id", std::uint32_t{1});
    meta.set("tokenizer.ggml.eos_token_id", std::uint32_t{2});
    return meta;
}

}  // namespace text_test
