// Which tokens end an answer.
#pragma once

#include <algorithm>
#include <string_view>
#include <vector>

#include "colibri/text/vocabulary.hpp"

namespace colibri::text {

/// Ids that end a generation, sorted: end of sequence, turn and message by their keys, and control or user-defined
/// tokens by the texts that published models use for these. A normal token never counts by its text; `<eos>` and `</s>`
/// count if they are control tokens, a user-defined `</s>` only where `<s>` is control (so in Phi 3, not in Gemma 3,
/// where it is HTML).
[[nodiscard]] inline std::vector<token_id> end_tokens(const vocabulary& vocab) {
    // clang-format off
    constexpr std::string_view usual[] = {
        "<|eot_id|>", "<|eom_id|>", "<|eot|>", "<|eom|>", "<|end_of_text|>",        // Llama 3 and 4, Granite
        "<|im_end|>", "<|endoftext|>",                                              // ChatML, GPT-2
        "<|end|>", "<|return|>", "<|call|>", "<|calls|>", "<|flush|>",              // Phi 3, Harmony, Solar
        "<end_of_turn>", "<turn|>",                                                 // Gemma 2 to 4
        "<|end_of_turn|>", "<|END_OF_TURN_TOKEN|>", "[|endofturn|]", "<|endofturn|>",  // several chat models
        "<end_of_utterance>", "<EOT>", "_<EOT>", "<|EOT|>", "[EOT]", "[EOS]",       // SmolVLM, DeepSeek Coder, Kimi
        "<\xEF\xBD\x9C" "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>",       // DeepSeek
        "[e~["};                                                                    // MiniMax
    // clang-format on
    std::vector<token_id> out;
    const auto add = [&](token_id id) {
        if (id != no_token) out.push_back(id);
    };
    add(vocab.special.eos);
    add(vocab.special.eot);
    add(vocab.special.eom);
    token_id end = no_token, returns = no_token, calls = no_token, flush = no_token, slash_s = no_token;
    bool control_s = false;
    for (std::size_t i = 0; i < vocab.size(); ++i) {
        const bool control = vocab.types[i] == token_type::control;
        if (!control && vocab.types[i] != token_type::user_defined) continue;
        const auto id = static_cast<token_id>(i);
        const std::string_view text = vocab.bytes[i];
        if (std::ranges::find(usual, text) != std::ranges::end(usual)) add(id);
        if (control && (text == "</s>" || text == "<eos>")) add(id);
        if (text == "</s>") slash_s = id;
        control_s = control_s || (control && text == "<s>");
        if (text == "<|end|>") end = id;
        if (text == "<|return|>") returns = id;
        if (text == "<|call|>" || text == "<|calls|>") calls = id;
        if (text == "<|flush|>") flush = id;
    }
    if (control_s) add(slash_s);  // Phi 3 has <s> as control and </s> as user-defined
    // In Harmony's format <|end|> ends one message of several; <|return|> and <|call|> end the answer.
    const bool harmony = calls != no_token && (returns != no_token || flush != no_token);
    if (harmony && end != vocab.special.eos && end != vocab.special.eot && end != vocab.special.eom)
        std::erase(out, end);
    std::ranges::sort(out);
    out.erase(std::unique(out.begin(), out.end()), out.end());
    return out;
}

}  // namespace colibri::text
