// What the value of `tokenizer.ggml.pre` stands for.
#pragma once

#include <span>
#include <string_view>

#include "colibri/text/split_rules.hpp"

namespace colibri::text {

/// A named way to prepare text for byte-level BPE. The flags hold what no other metadata key says.
struct pre_tokenizer {
    std::string_view name;
    std::span<const split_rule> rules;
    bool whole_words = false;  ///< a word that is in the vocabulary is taken without merging ("ignore_merges")
    bool adds_bos = false;     ///< unless `tokenizer.ggml.add_bos_token` says otherwise
    bool nfc = false;          ///< the published tokenizer normalises to NFC first
};

// clang-format off
/// The names in use.
inline constexpr pre_tokenizer pre_tokenizers[] = {
    {"default", split_rules::fallback},
    {"gpt-2", split_rules::gpt2}, {"mpt", split_rules::gpt2}, {"olmo", split_rules::gpt2}, {"jais", split_rules::gpt2},
    {"trillion", split_rules::gpt2}, {"granite-docling", split_rules::gpt2}, {"phi-2", split_rules::gpt2},
    {"jina-es", split_rules::gpt2}, {"jina-de", split_rules::gpt2}, {"jina-v2-es", split_rules::gpt2},
    {"jina-v2-de", split_rules::gpt2}, {"gigachat", split_rules::gpt2}, {"a.x-4.0", split_rules::gpt2},
    {"mellum", split_rules::gpt2}, {"modern-bert", split_rules::gpt2}, {"exaone4", split_rules::gpt2},
    {"jina-v1-en", split_rules::gpt2}, {"jina-v2-code", split_rules::gpt2}, {"roberta-bpe", split_rules::gpt2},
    {"starcoder", split_rules::starcoder}, {"refact", split_rules::starcoder}, {"command-r", split_rules::starcoder},
    {"smollm", split_rules::starcoder}, {"codeshell", split_rules::starcoder}, {"exaone", split_rules::starcoder},
    {"minerva-7b", split_rules::starcoder}, {"mellum2", split_rules::starcoder},
    {.name = "llama-bpe", .rules = split_rules::llama3, .whole_words = true, .adds_bos = true},
    {.name = "llama3", .rules = split_rules::llama3, .whole_words = true, .adds_bos = true},
    {.name = "llama-v3", .rules = split_rules::llama3, .whole_words = true, .adds_bos = true},
    {.name = "falcon3", .rules = split_rules::llama3, .whole_words = true, .adds_bos = true},
    {.name = "falcon-h1", .rules = split_rules::llama3, .whole_words = true, .adds_bos = true},
    {.name = "pixtral", .rules = split_rules::llama3, .whole_words = true, .adds_bos = true},
    {.name = "midm-2.0", .rules = split_rules::llama3, .whole_words = true, .adds_bos = true},
    {.name = "lfm2", .rules = split_rules::llama3, .whole_words = true, .adds_bos = true},
    {.name = "jina-v5-nano", .rules = split_rules::llama3, .whole_words = true, .adds_bos = true},
    {.name = "dbrx", .rules = split_rules::llama3, .whole_words = true},
    {.name = "smaug-bpe", .rules = split_rules::llama3, .whole_words = true},
    {.name = "chatglm-bpe", .rules = split_rules::llama3, .whole_words = true},
    {.name = "glm4", .rules = split_rules::llama3, .whole_words = true},
    {.name = "glm5", .rules = split_rules::llama3, .whole_words = true},
    {.name = "qwen2", .rules = split_rules::qwen2, .nfc = true},
    {"stablelm2", split_rules::qwen2}, {"hunyuan", split_rules::qwen2}, {"solar-open", split_rules::qwen2},
    {"deepseek-r1-qwen", split_rules::qwen2}, {"kormo", split_rules::qwen2}, {"f2llmv2", split_rules::qwen2},
    {"megrez", split_rules::qwen2}, {"grok-2", split_rules::qwen2},
    {.name = "qwen35", .rules = split_rules::qwen35, .nfc = true},
    {.name = "tekken", .rules = split_rules::tekken, .whole_words = true, .adds_bos = true},
    {"gpt-4o", split_rules::gpt4o}, {"llama4", split_rules::gpt4o}, {"kanana2", split_rules::gpt4o},
    {"talkie", split_rules::gpt4o}, {"minimax-m2", split_rules::gpt4o},
    {"deepseek-v3", split_rules::deepseek_v3}, {"hunyuan-dense", split_rules::deepseek_v3},
    {"joyai-llm", split_rules::deepseek_v3}, {"hy_v4", split_rules::deepseek_v3},
    {"deepseek-coder", split_rules::deepseek_coder},
    {"deepseek-llm", split_rules::deepseek_llm},
    {"falcon", split_rules::falcon},
    {"bloom", split_rules::bloom}, {"poro-chat", split_rules::bloom}, {"gpt3-finnish", split_rules::bloom},
    {"viking", split_rules::viking},
    {.name = "chameleon", .rules = split_rules::chameleon, .adds_bos = true},
    {"kimi-k2", split_rules::kimi_k2},
    {"bailingmoe", split_rules::bailing_moe}, {"bailingmoe2", split_rules::bailing_moe}, {"llada-moe", split_rules::bailing_moe},
    {"seed-coder", split_rules::seed_coder},
    {"exaone-moe", split_rules::exaone_moe},
    {"tiny_aya", split_rules::tiny_aya}, {"cohere2moe", split_rules::tiny_aya},
    {"jais-2", split_rules::jais2},
    {.name = "minicpm5", .rules = split_rules::minicpm5, .whole_words = true},
    {"ufakzeka", split_rules::ufakzeka},
    {"laguna", split_rules::laguna},
    {"superbpe", split_rules::superbpe},
    {.name = "youtu", .rules = split_rules::youtu, .whole_words = true},
};
// clang-format on

/// The pre-tokenizer of that name, or null.
[[nodiscard]] constexpr const pre_tokenizer* find_pre_tokenizer(std::string_view name) noexcept {
    for (const pre_tokenizer& one : pre_tokenizers) {
        if (one.name == name) return &one;
    }
    return nullptr;
}

}  // namespace colibri::text
