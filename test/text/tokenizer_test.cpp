#include "colibri/text/tokenizer.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "text/support.hpp"

using namespace colibri;
using namespace text_test;
using text::piece;
using text::token_id;
using ids = std::vector<token_id>;

namespace {

constexpr token_id im_start = 256, im_end = 257, tool = 258, longer = 259, he = 260, llo = 261, hello = 262;

/// A chat vocabulary: control tokens, two user-defined ones of which one begins the other, some merges.
text::tokenizer chat() {
    auto meta = bpe({{"<|im_start|>", 3}, {"<|im_end|>", 3}, {"<tool>", 4}, {"<tool>>", 4}, {"he"}, {"llo"}, {"hello"}},
                    {"h e", "l l", "ll o", "he llo"});
    meta.set("tokenizer.ggml.bos_token_id", std::uint32_t{256});
    meta.set("tokenizer.ggml.eos_token_id", std::uint32_t{257});
    return text::tokenizer::open(meta).value();
}

ids plain_bytes(std::string_view text) {
    ids out;
    for (const char c : text) out.push_back(static_cast<unsigned char>(c));
    return out;
}

std::string random_text(std::mt19937& random, std::size_t most) {
    static const std::string_view parts[] = {"the ",
                                             "hello",
                                             "hell",
                                             " ",
                                             "\n",
                                             "Hello",
                                             "123",
                                             "\xC3\xA9",
                                             "e\xCC\x81",
                                             "\xE4\xB8\xAD\xE6\x96\x87",
                                             "\xF0\x9F\x98\x80",
                                             "<|im_end|>",
                                             "<tool>",
                                             "<|im_",
                                             "\xFF",
                                             "\xE2\x96",
                                             "\xE2\x96\x81",
                                             "'s",
                                             "{",
                                             "\0x"};
    std::string out;
    while (out.size() < most) {
        if (random() % 3 == 0) {
            out += static_cast<char>(random() % 256);
        } else {
            out += parts[random() % std::size(parts)];
        }
        if (random() % 8 == 0) break;
    }
    return out;
}

}  // namespace

TEST_CASE("control tokens need parse_special, user-defined ones don't") {
    const auto tokens = chat();
    CHECK(tokens.encode("hello") == ids{hello});
    CHECK(tokens.encode("hello<|im_end|>", {.parse_special = true}) == ids{hello, im_end});
    auto as_text = tokens.encode("<|im_end|>");
    CHECK(as_text == plain_bytes("<|im_end|>"));
    CHECK(tokens.encode("x<tool>") == ids{'x', tool});
    CHECK(tokens.encode("<tool>>") == ids{longer});  // the longest
    CHECK(tokens.encode("<tool><tool>>x") == ids{tool, longer, 'x'});
}

TEST_CASE("what a user types never becomes a control token") {
    const auto tokens = chat();
    const auto from = [&](std::vector<piece> pieces) { return tokens.encode(pieces, false); };
    CHECK(from({{"<|im_start|>", true}, {"hello", false}, {"<|im_end|>", true}}) == ids{im_start, hello, im_end});
    ids attack = {im_start};
    for (const token_id id : plain_bytes("<|im_end|>")) attack.push_back(id);
    attack.push_back(im_end);
    CHECK(from({{"<|im_start|>", true}, {"<|im_end|>", false}, {"<|im_end|>", true}}) == attack);
    // Part typed, part from the template: not all of it is trusted.
    CHECK(from({{"<|im_", true}, {"end|>", false}}) == plain_bytes("<|im_end|>"));
    CHECK(from({{"<|im_end", false}, {"|>", true}}) == plain_bytes("<|im_end|>"));
    CHECK(from({{"<|im_", true}, {"", false}, {"end|>", true}}) == ids{im_end});  // nothing was typed between
    CHECK(from({{"<|im_", true}, {"end|>", true}}) == ids{im_end});
    CHECK(from({{"<to", false}, {"ol>", true}}) == ids{tool});  // user-defined: everywhere
    CHECK(from({}) == ids{});
}

TEST_CASE("words span pieces") {
    const auto tokens = chat();
    const std::vector<piece> pieces = {{"he", true}, {"l", false}, {"lo", true}};
    CHECK(tokens.encode(pieces, false) == ids{hello});
}

TEST_CASE("pieces give the ids of the whole text when nothing special is typed") {
    const auto tokens = chat();
    std::mt19937 random(11);
    for (int round = 0; round < 400; ++round) {
        std::vector<std::string> texts;
        std::string whole;
        std::vector<piece> pieces;
        for (int i = 0; i < 6; ++i) {
            texts.push_back(random_text(random, 30));
            std::erase_if(texts.back(), [](char c) { return c == '<'; });
        }
        for (std::size_t i = 0; i < texts.size(); ++i) {
            const bool trusted = i % 2 == 0;
            if (trusted) texts[i] = "<|im_start|>" + texts[i] + "<|im_end|>";
            whole += texts[i];
            pieces.push_back({texts[i], trusted});
        }
        REQUIRE(tokens.encode(pieces, true) == tokens.encode(whole, {.add_special = true, .parse_special = true}));
    }
}

TEST_CASE("any bytes come back") {
    std::mt19937 random(5);
    auto meta = bpe({{"<|im_end|>", 3}, {"<tool>", 4}, {"he"}, {"ll"}, {spelled(" t")}, {spelled("\xC3\xA9")}},
                    {"h e", "l l", spelled(" ") + " t", spelled("\xC3") + " " + spelled("\xA9")});
    for (const char* pre : {"gpt-2", "llama-bpe", "tekken", "deepseek-v3", "default", "kimi-k2"}) {
        meta.set("tokenizer.ggml.pre", pre);
        const auto tokens = text::tokenizer::open(meta).value();
        for (int round = 0; round < 300; ++round) {
            const std::string text = random_text(random, 400);
            REQUIRE(tokens.decode(tokens.encode(text)) == text);
            REQUIRE(tokens.decode(tokens.encode(text, {.parse_special = true})) == text);
        }
    }
    // SentencePiece: a literal U+2581 is a space, all else comes back too.
    const auto sentence =
        text::tokenizer::open(spm({{"\xE2\x96\x81", 1, -1}, {"he", 1, -2}, {"\xE2\x96\x81he", 1, -3}, {"ll", 1, -4}}))
            .value();
    for (int round = 0; round < 500; ++round) {
        std::string text = random_text(random, 400);
        for (std::size_t at; (at = text.find("\xE2\x96\x81")) != std::string::npos;) text.replace(at, 3, " ");
        REQUIRE(sentence.decode(sentence.encode(text, {.add_special = false})) == text);
    }
}

TEST_CASE("SentencePiece: scores, bytes, spaces") {
    const token_id first = 259;
    auto meta = spm({{"\xE2\x96\x81", 1, -10},
                     {"a", 1, -20},
                     {"b", 1, -21},
                     {"ab", 1, -5},
                     {"\xE2\x96\x81"
                      "a",
                      1, -3},
                     {"ba", 1, -4},
                     {"[X]", 4},
                     {"gone", 5},
                     {"<m>", 3}});
    const token_id space = first, a = first + 1, b = first + 2, ab = first + 3, space_a = first + 4, ba = first + 5,
                   x = first + 6;
    auto tokens = text::tokenizer::open(meta).value();
    CHECK(tokens.encode("ab") == ids{1, space_a, b});
    CHECK(tokens.encode("bab", {.add_special = false}) == ids{space, ba, b});
    CHECK(tokens.encode("\xC3\xA9", {.add_special = false}) == ids{space, 3 + 0xC3, 3 + 0xA9});
    CHECK(tokens.encode("\xFF", {.add_special = false}) == ids{space, 3 + 0xFF});
    CHECK(tokens.encode("", {.add_special = false}) == ids{});
    CHECK(tokens.encode("a[X]a", {.add_special = false}) ==
          ids{space_a, x, space_a});                   // the prefix again behind a token
    CHECK(tokens.encode("gone").size() == 1 + 1 + 4);  // an unused token is never used
    CHECK(tokens.bytes(first + 7).empty());
    CHECK(tokens.decode(ids{1, space_a, b}, false) == "ab");
    CHECK(tokens.decode(ids{1, space_a, b}) == "<s> ab");
    CHECK(tokens.decode(ids{space_a, first + 8, 0}, false) == "a");
    CHECK(tokens.adds_bos());
    meta.set("tokenizer.ggml.add_space_prefix", false);
    meta.set("tokenizer.ggml.add_bos_token", false);
    meta.set("tokenizer.ggml.add_eos_token", true);
    tokens = text::tokenizer::open(meta).value();
    CHECK(tokens.encode("ab") == ids{ab, 2});
    CHECK(tokens.decode(ids{space_a}) == " a");
    CHECK(tokens.encode("a\xE2\x96\x81"
                        "a") == ids{a, space_a, 2});
}

TEST_CASE("SentencePiece without byte tokens") {
    gguf::metadata meta;
    meta.set("tokenizer.ggml.model", "llama");
    put_tokens(meta, {{"<unk>", 2}, {"a", 1, -1}, {"\xE2\x96\x81", 1, -2}}, true);
    meta.set("tokenizer.ggml.add_space_prefix", false);
    const auto tokens = text::tokenizer::open(meta).value();
    CHECK(tokens.encode("a\xE4\xB8\xAD"
                        "a\n") == ids{1, 0, 1, 0});  // one unknown token a character
}

TEST_CASE("Phi 3's control tokens swallow white space by the model's name") {
    std::vector<token> many(31742 + 8, token{"x"});
    many[0] = {"a", 1, -1};
    many[31741] = {"<|endoftext|>", 3};  // id 32000
    many[31742] = {"<|user|>", 3};
    many[31743] = {"<|end|>", 3};
    auto meta = spm(many);
    meta.set("tokenizer.ggml.add_space_prefix", false);
    const text::encode_options special{.add_special = false, .parse_special = true};
    const token_id a = 259, space = 3 + ' ', newline = 3 + '\n';
    CHECK(text::tokenizer::open(meta)->encode("<|user|>\n a", special) == ids{32001, newline, space, a});
    meta.set("general.name", "Phi-3 Mini 4k Instruct");
    const auto phi = text::tokenizer::open(meta).value();
    CHECK(phi.encode("<|user|>\n \xE3\x80\x80"
                     "a<|end|> ",
                     special) == ids{32001, a, 32002});
    CHECK(phi.encode("</s> a", special) == ids{2, a});
    CHECK(phi.encode("<|endoftext|> a", special) == ids{32000, space, a});
    CHECK(phi.is_end_of_generation(32002));
}

TEST_CASE("Qwen's text is normalised to NFC, other models' is not") {
    auto meta = bpe({{spelled("\xC3\xA9")}}, {spelled("\xC3") + " " + spelled("\xA9")}, "qwen2");
    CHECK(text::tokenizer::open(meta)->encode("e\xCC\x81") == ids{256});
    meta.set("tokenizer.ggml.pre", "llama-bpe");
    CHECK(text::tokenizer::open(meta)->encode("e\xCC\x81") == ids{'e', 0xCC, 0x81});
}

TEST_CASE("a word of the vocabulary is taken whole where the model does so") {
    auto meta = bpe({{"xyz"}}, {"y z"}, "llama-bpe");
    CHECK(text::tokenizer::open(meta)->encode("xyz") == ids{256});
    meta.set("tokenizer.ggml.pre", "gpt-2");
    CHECK(text::tokenizer::open(meta)->encode("xyz") == ids{'x', 'y', 'z'});
}

TEST_CASE("looking up tokens") {
    const auto tokens = chat();
    CHECK(tokens.size() == 263);
    CHECK(tokens.find("<|im_end|>") == im_end);
    CHECK(tokens.find("hello") == hello);
    CHECK(tokens.find("he") == he);
    CHECK(tokens.find("llo") == llo);
    CHECK(tokens.find("<|im_end") == text::no_token);
    CHECK(tokens.find("") == text::no_token);
    CHECK(tokens.type(im_end) == text::token_type::control);
    CHECK(tokens.is_control(im_start));
    CHECK_FALSE(tokens.is_control(tool));
    for (const token_id outside : {-1, 263, 1 << 30}) {
        CHECK(tokens.bytes(outside).empty());
        CHECK(tokens.type(outside) == text::token_type::undefined);
        CHECK_FALSE(tokens.is_end_of_generation(outside));
    }
    CHECK(tokens.decode(ids{-1, hello, 9999}) == "hello");
}

TEST_CASE("what ends an answer") {
    const auto ends = [](const std::vector<token>& more, const std::vector<std::pair<const char*, int>>& keys = {}) {
        auto meta = bpe(more, {});
        for (const auto& [key, id] : keys) meta.set(std::string("tokenizer.ggml.") + key, id);
        const auto tokens = text::tokenizer::open(meta).value();
        return ids(tokens.end_of_generation().begin(), tokens.end_of_generation().end());
    };
    CHECK(ends({}) == ids{});
    CHECK(ends({{"a1", 3}, {"a2", 3}, {"a3", 3}},
               {{"eos_token_id", 256}, {"eot_token_id", 257}, {"eom_token_id", 258}}) == ids{256, 257, 258});
    CHECK(ends({{"<|eot_id|>", 3}, {"<|im_end|>", 4}, {"<|endoftext|>"}}) ==
          ids{256, 257});                 // a normal token is just text
    CHECK(ends({{"</s>", 4}}) == ids{});  // HTML
    CHECK(ends({{"</s>", 3}}) == ids{256});
    CHECK(ends({{"<|end|>", 3}}) == ids{256});
    CHECK(ends({{"<|end|>", 3}, {"<|return|>", 3}, {"<|call|>", 3}}) == ids{257, 258});  // one message of several
}

TEST_CASE("long words and runs take a moment, not minutes") {
    const auto tokens = chat();
    for (const std::string_view run : {"a", "hello", "<", " ", "<tool>", "<|im_"}) {
        std::string text;
        while (text.size() < (1u << 20)) text += run;
        CHECK(tokens.decode(tokens.encode(text)) == text);
    }
}
