#include "colibri/text/splitter.hpp"

#include <doctest/doctest.h>

#include <random>
#include <string>
#include <vector>

#include "colibri/text/pre_tokenizer.hpp"
#include "support/processor_time.hpp"

using namespace colibri::text;

namespace {

using words = std::vector<std::string>;

words cut(std::string_view pre, std::string_view text) {
    words out;
    split(find_pre_tokenizer(pre)->rules, text, [&](std::string_view word) { out.emplace_back(word); });
    return out;
}

}  // namespace

TEST_CASE("words are cut as the families do") {
    CHECK(cut("gpt-2", "") == words{});
    CHECK(cut("gpt-2", "I've  been\n\n here!?") == words{"I", "'ve", " ", " been", "\n\n", " here", "!?"});
    CHECK(cut("gpt-2", "I'VE") == words{"I", "'", "VE"});
    CHECK(cut("llama-bpe", "I'VE 12345 (x)\n\n y") == words{"I", "'VE", " ", "123", "45", " (", "x", ")\n\n", " y"});
    CHECK(cut("qwen2", "a12") == words{"a", "1", "2"});
    CHECK(cut("tekken", "camelCase HTTPServer") == words{"camel", "Case", " HTTPServer"});
    CHECK(cut("gpt-4o", "don't DON'T") == words{"don't", " DON'T"});
    CHECK(cut("jais-2", std::string(7, ' ') + "x") == words{"    ", "  ", " x"});
    CHECK(cut("superbpe", "1234567") == words{"1", "234", "567"});
    CHECK(cut("tiny_aya", "n=1234567 1234x") == words{"n", "=", "1", "234", "567", " ", "123", "4", "x"});
    CHECK(cut("exaone-moe", "to be or not") == words{"to be or not"});
    CHECK(cut("chameleon", "aIMGIMGABZb    \t c") == words{"a", "IMGIMGABZ", "b", "    ", "\t", " c"});
    CHECK(cut("chameleon", "<sentinel:12>") == words{"<", "sentinel", ":", "1", "2", ">"});  // later rules cut on
    CHECK(find_pre_tokenizer("no such thing") == nullptr);
}

TEST_CASE("a long s is an s") {
    CHECK(cut("llama-bpe", "it'\u017f") == words{"it", "'\u017f"});
    CHECK(cut("gpt-2", "it'\u017f") == words{"it", "'", "\u017f"});
}

TEST_CASE("bytes that are not UTF-8 count as a symbol and stay") {
    CHECK(cut("gpt-2", "ab\xFF\xC3 c") == words{"ab", "\xFF\xC3", " c"});
}

TEST_CASE("the words joined are the text, whatever it is") {
    std::mt19937 random(7);
    const std::string_view parts[] = {"a",          "B",
                                      "1",          " ",
                                      "  ",         "\n",
                                      "\r\n",       "'",
                                      "'s",         "\xE4\xB8\xAD",
                                      "\xCC\x81",   "\xFF",
                                      "\xE2\x80",   ".",
                                      "/",          "\xC2\xB2",
                                      "\xD9\xA3",   "\xE3\x80\x80",
                                      "<sentinel:", "IMGIMGA",
                                      "Z",          "\xF0\x9F\x98\x80"};
    for (int round = 0; round < 300; ++round) {
        std::string text;
        for (auto i = random() % 60; i > 0; --i) text += parts[random() % std::size(parts)];
        for (const pre_tokenizer& pre : pre_tokenizers) {
            std::string joined;
            split(pre.rules, text, [&](std::string_view word) {
                REQUIRE(!word.empty());
                joined += word;
            });
            CAPTURE(pre.name);
            REQUIRE(joined == text);
        }
    }
}

TEST_CASE("time grows with the text, not faster") {
    // What could go wrong: looking at the rest of a run again from each place in it. 2^18 bytes take a few
    // milliseconds; looked at again and again they would take over half a minute. The limit leaves room for sanitizers
    // and emulation.
    const std::string_view runs[] = {
        "a",  "A",  " ",   "\n",           "1",           "'",        "<",  "\xCC\x81", "aA",
        "A ", "1a", " \n", "\xE4\xB8\xAD", "<sentinel:1", "\xD9\xA3", "\t", "\xFF"};
    for (std::size_t i = 0; i < 2 * std::size(runs); ++i) {
        const std::string_view run = runs[i / 2];
        std::string text;
        while (text.size() < (std::size_t{1} << 18)) text += run;
        text += i % 2 == 0 ? "x" : "1";
        const pre_tokenizer* last = nullptr;
        for (const pre_tokenizer& pre : pre_tokenizers) {
            if (last != nullptr && last->rules.data() == pre.rules.data()) continue;
            last = &pre;
            std::size_t bytes = 0;
            const double start = processor_seconds();
            split(pre.rules, text, [&](std::string_view word) { bytes += word.size(); });
            const double took = processor_seconds() - start;
            CAPTURE(pre.name);
            CAPTURE(run);
            CHECK(bytes == text.size());
            CHECK(took < 10.0);
        }
    }
}
