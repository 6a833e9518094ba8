#include "colibri/text/vocabulary.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>

#include "colibri/text/tokenizer.hpp"
#include "text/support.hpp"

using namespace colibri;
using namespace text_test;
using gguf::value;

namespace {

/// Opening must fail with `code` and a message that names `named`.
void refuses(const gguf::metadata& meta, errc code, const std::string& named) {
    const auto opened = text::tokenizer::open(meta);
    REQUIRE_FALSE(opened);
    CAPTURE(opened.error().text());
    CHECK(name(opened.error().code) == name(code));
    CHECK(opened.error().message.find(named) != std::string::npos);
}

template <class T>
value array(std::vector<T> numbers) {
    return value::array(std::span<const T>(numbers));
}

}  // namespace

TEST_CASE("the model's kind decides, unknown and later ones are told apart") {
    auto meta = bpe({}, {});
    CHECK(text::tokenizer::open(meta));
    meta.set("tokenizer.ggml.model", "bert");
    refuses(meta, errc::unsupported, "WordPiece");
    meta.set("tokenizer.ggml.model", "t5");
    refuses(meta, errc::unsupported, "Unigram");
    meta.set("tokenizer.ggml.model", "\x1b[31mwild");
    refuses(meta, errc::bad_value, "'\\x1b[31mwild'");
    meta.set("tokenizer.ggml.model", 7);
    refuses(meta, errc::bad_type, "tokenizer.ggml.model");
    meta.remove("tokenizer.ggml.model");
    refuses(meta, errc::missing_key, "tokenizer.ggml.model");
}

TEST_CASE("counts and types are checked") {
    const auto with = [](const char* key, value v) {
        auto meta = spm({});
        meta.set(key, std::move(v));
        return meta;
    };
    const std::string tokens = "tokenizer.ggml.tokens", types = "tokenizer.ggml.token_type",
                      scores = "tokenizer.ggml.scores";
    refuses(with("tokenizer.ggml.tokens", value::strings(std::vector<std::string>{})), errc::bad_count, tokens);
    refuses(with("tokenizer.ggml.tokens", value::strings(std::vector<std::string>{"a"})), errc::bad_count, tokens);
    refuses(with("tokenizer.ggml.tokens", array<std::uint32_t>({1, 2})), errc::bad_type, tokens);
    refuses(with("tokenizer.ggml.tokens", value::of(std::string_view("a"))), errc::bad_type, tokens);
    refuses(with("tokenizer.ggml.token_type", array<std::int32_t>({1, 2})), errc::bad_count, types);
    refuses(with("tokenizer.ggml.token_type", array<std::int32_t>(std::vector<std::int32_t>(259, 7))), errc::bad_value,
            types);
    refuses(with("tokenizer.ggml.token_type", array<std::int32_t>(std::vector<std::int32_t>(259, -1))), errc::bad_value,
            types);
    refuses(with("tokenizer.ggml.scores", array<float>({1, 2})), errc::bad_count, scores);
    refuses(with("tokenizer.ggml.scores", array<float>(std::vector<float>(259, std::nanf("")))), errc::bad_value,
            scores);
    refuses(with("tokenizer.ggml.scores", value::of(std::string_view("high"))), errc::bad_type, scores);
    auto meta = spm({});
    meta.remove("tokenizer.ggml.scores");
    refuses(meta, errc::missing_key, scores);
    meta = spm({{"<0xZZ>", 6}});
    refuses(meta, errc::bad_value, "<0xZZ>");
}

TEST_CASE("ids with a meaning are checked") {
    auto meta = spm({});
    meta.set("tokenizer.ggml.eos_token_id", std::uint32_t{259});
    refuses(meta, errc::bad_value, "tokenizer.ggml.eos_token_id");
    meta.set("tokenizer.ggml.eos_token_id", "two");
    refuses(meta, errc::bad_type, "tokenizer.ggml.eos_token_id");
    meta.set("tokenizer.ggml.eos_token_id", std::int32_t{-7});
    refuses(meta, errc::bad_value, "tokenizer.ggml.eos_token_id");
    meta = spm({});
    meta.set("tokenizer.ggml.bos_token_id",
             std::uint32_t{0xFFFFFFFF});  // some writers' "none"; the <s> is found by its text
    const auto opened = text::tokenizer::open(meta);
    REQUIRE(opened);
    CHECK(opened->bos() == 1);
    CHECK(opened->special().unknown == 0);

    meta = bpe({}, {});
    meta.set("tokenizer.ggml.add_bos_token", true);
    refuses(meta, errc::missing_key, "tokenizer.ggml.bos_token_id");
    meta.set("tokenizer.ggml.add_bos_token", 1);
    refuses(meta, errc::bad_type, "tokenizer.ggml.add_bos_token");
    meta = bpe({}, {});
    meta.set("tokenizer.ggml.add_eos_token", true);
    refuses(meta, errc::missing_key, "tokenizer.ggml.eos_token_id");
    meta = bpe({}, {}, "llama-bpe");  // adds BOS by default, but only if there is one
    REQUIRE(text::tokenizer::open(meta));
    CHECK_FALSE(text::tokenizer::open(meta)->adds_bos());
}

TEST_CASE("merges are checked") {
    for (const char* merge : {"", "a", " ", "a ", " b"}) {
        CAPTURE(merge);
        refuses(bpe({}, {merge}), errc::bad_value, "tokenizer.ggml.merges");
    }
    auto meta = bpe({}, {});
    meta.set("tokenizer.ggml.merges", array<std::uint32_t>({1}));
    refuses(meta, errc::bad_type, "tokenizer.ggml.merges");
    meta.remove("tokenizer.ggml.merges");
    refuses(meta, errc::missing_key, "tokenizer.ggml.merges");
    meta = bpe({{"ab"}}, {"a b", "a b", "x yz", "ab \xFF"});  // twice, unknown parts, no UTF-8: odd, but usable
    const auto opened = text::tokenizer::open(meta);
    REQUIRE(opened);
    CHECK(opened->encode("ab") == std::vector<text::token_id>{256});
}

TEST_CASE("merges through symbols that are no tokens work") {
    const auto opened = text::tokenizer::open(bpe({{"abc"}}, {"a b", "ab c", "ab x"}));
    REQUIRE(opened);
    CHECK(opened->encode("abc") == std::vector<text::token_id>{256});
    CHECK(opened->encode("abd") == std::vector<text::token_id>{'a', 'b', 'd'});
    CHECK(opened->encode("abx") == std::vector<text::token_id>{'a', 'b', 'x'});
}

TEST_CASE("pre-tokenizers: named, missing, unknown, chosen by the caller") {
    auto named = text::tokenizer::open(bpe({}, {}, "smollm"));
    REQUIRE(named);
    CHECK(named->pre() == "smollm");
    CHECK_FALSE(named->pre_is_guessed());
    auto missing = text::tokenizer::open(bpe({}, {}, nullptr));
    REQUIRE(missing);
    CHECK(missing->pre() == "default");
    CHECK(missing->pre_is_guessed());
    auto unknown = text::tokenizer::open(bpe({}, {}, "brand-new"));
    REQUIRE_FALSE(unknown);
    CHECK(unknown.error().code == errc::unsupported);
    CHECK(unknown.error().message.find("'brand-new'") != std::string::npos);
    auto chosen = text::tokenizer::open(bpe({}, {}, "brand-new"), {.pre = "qwen2"});
    REQUIRE(chosen);
    CHECK(chosen->pre() == "qwen2");
}

TEST_CASE("odd vocabularies that must load") {
    const auto same_text = text::tokenizer::open(bpe({{"ab"}, {"ab"}, {""}, {""}}, {"a b"}));
    REQUIRE(same_text);
    CHECK(same_text->encode("ab") == std::vector<text::token_id>{256});
    CHECK(same_text->bytes(257) == "ab");
    CHECK(same_text->bytes(258).empty());
    const auto long_token = text::tokenizer::open(spm({{std::string(6000, 'a')}, {"\xFF\xFE"}}));
    REQUIRE(long_token);
    CHECK(long_token->bytes(259).size() == 6000);
    auto no_types = bpe({{"ab"}}, {"a b"});
    no_types.remove("tokenizer.ggml.token_type");
    REQUIRE(text::tokenizer::open(no_types));
    CHECK(text::tokenizer::open(no_types)->encode("ab") == std::vector<text::token_id>{256});
    auto scores = bpe({}, {});
    scores.set("tokenizer.ggml.scores", array<std::int32_t>({1, 2, 3}));  // BPE doesn't use them
    CHECK(text::tokenizer::open(scores));
}
