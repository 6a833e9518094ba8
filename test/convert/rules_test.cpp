#include "colibri/convert/pre_rules.hpp"

#include "convert/made_files.hpp"

using namespace colibri;
using convert::code_set;
using folders::json;

namespace {

json split(const std::string& pattern, const std::string& behavior = "Isolated", bool invert = false) {
    return {{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", behavior}, {"invert", invert}};
}
json sequence(const std::vector<json>& rules) { return {{"type", "Sequence"}, {"pretokenizers", rules}}; }
const json bytes{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};

/// The first name that cuts so; empty: none.
std::string recognised(const json& rule) {
    const auto read = convert::read_pre_rules(rule);
    REQUIRE_MESSAGE(read, (read ? std::string() : read.error().text()));
    const auto found = convert::matching_pre_tokenizers(*read);
    return found.empty() ? std::string() : std::string(found[0]->name);
}
error refused(const json& rule) {
    const auto read = convert::read_pre_rules(rule);
    REQUIRE(!read);
    CHECK(read.error().code == errc::unsupported);
    return read.error();
}

const std::string llama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

std::string changed(std::string text, const std::string& from, const std::string& to) {
    const auto at = text.find(from);
    REQUIRE(at != std::string::npos);
    return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("code sets: one form for each set") {
    using namespace text::classes;
    CHECK((code_set('a', 'f') | code_set('g', 'k')) == code_set('a', 'k'));
    CHECK((code_set('a', 'k') - code_set('c', 'd')) == (code_set('a', 'b') | code_set('e', 'k')));
    CHECK((code_set('a', 'k') & code_set('g', 'z')) == code_set('g', 'k'));
    CHECK(~~code_set::with(letter) == code_set::with(letter));
    CHECK((code_set::with(lu) | code_set::with(ll)) == code_set::with(lu | ll));
    CHECK((~code_set()) == code_set(0, code_set::last_code));
    CHECK(code_set::with(any) == ~code_set());
    for (const auto* set :
         {&text::split_rules::sets::symbols, &text::split_rules::sets::bloom_text, &text::split_rules::sets::word_characters}) {
        const auto all = code_set::of(*set);
        for (char32_t code = 0; code < 0x3000; ++code) CHECK((code_set(code, code) & all).empty() != set->contains(code));
    }
}

TEST_CASE("rules: what means the same is recognised") {
    CHECK(recognised(sequence({split(llama3), bytes})) == "llama-bpe");
    CHECK(recognised(sequence({split(changed(llama3, "{1,3}", "")), bytes})) == "qwen2");
    CHECK(recognised(sequence({split(changed(llama3, R"(\p{N}{1,3})", R"(\p{N}{1,1})")), bytes})) == "qwen2");
    CHECK(recognised(sequence({split(changed(llama3, "[^\\r\\n\\p{L}\\p{N}]?", "[^\\n\\p{N}\\p{L}\\x0d]?+")), bytes})) ==
          "llama-bpe");
    CHECK(recognised(sequence({split(changed(llama3, "\\s*[\\r\\n]+", "\\s*[\\r\\n]")), bytes})) == "llama-bpe");
    CHECK(recognised(sequence({split(llama3, "Removed", true), bytes})) == "llama-bpe");  // matches cover everything
    CHECK(recognised({{"type", "ByteLevel"}, {"add_prefix_space", false}}) == "gpt-2");
    CHECK(recognised(sequence({json{{"type", "Digits"}, {"individual_digits", true}}, json{{"type", "ByteLevel"}}})) ==
          "starcoder");
    const json falcon_digits = split("[0-9][0-9][0-9]");
    CHECK(recognised(sequence({json{{"type", "Punctuation"}, {"behavior", "Contiguous"}}, json{{"type", "ByteLevel"}},
                               falcon_digits})) == "falcon");
    CHECK(recognised(sequence({split("[0-9]{3}"), json{{"type", "ByteLevel"}}})).empty());  // in another order
}

TEST_CASE("rules: what cuts otherwise is not") {
    for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{{"{1,3}", "{1,4}"},
                                                                                   {"{1,3}", "{2,3}"},
                                                                                   {"(?i:", "(?:"},
                                                                                   {"[\\r\\n]*", "[\\r\\n]+"},
                                                                                   {"[\\r\\n]*", ""},
                                                                                   {" ?[^", "[^"},
                                                                                   {"\\p{L}+", "\\p{Lu}+"},
                                                                                   {"[^\\r\\n\\p{L}", "[^\\n\\p{L}"},
                                                                                   {"\\s+(?!\\S)|\\s+", "\\s+"},
                                                                                   {"'ll|'d", "'ll"}}) {
        CAPTURE(to);
        const auto read = convert::read_pre_rules(sequence({split(changed(llama3, from, to)), bytes}));
        if (read) CHECK(convert::matching_pre_tokenizers(*read).empty());
        else CHECK(read.error().code == errc::unsupported);
    }
    const auto one = convert::read_pre_rules(sequence({split(llama3), split(llama3), bytes}));
    CHECK(convert::matching_pre_tokenizers(one.value()).empty());
}

TEST_CASE("rules: what isn't known is quoted") {
    CHECK(refused(split("(?<=a)b")).text().find("(?<=a)b") != std::string::npos);
    CHECK(refused(split("\\w+")).text().find("w+") != std::string::npos);
    for (const char* pattern : {"[", "[a", "a{", "a{2", "a{3,1}", "\\", "\\p", "\\p{", "\\p{Nonsense}",
                                "[[[[[[[[[[[[a]]]]]]]]]]]]", "(", ")", "a+?", "\\x{110000}", "[b-a]"}) {
        CAPTURE(pattern);
        CHECK(!refused(split(pattern)).message.empty());
    }
    CHECK(refused(split(llama3, "MergedWithPrevious")).text().find("MergedWithPrevious") != std::string::npos);
    CHECK(refused(split("\\p{N}", "Removed", true)).text().find("Removed") !=
          std::string::npos);  // what lies between would be lost
    CHECK(refused({{"type", "UnicodeScripts"}}).text().find("UnicodeScripts") != std::string::npos);
    CHECK(refused({{"type", "ByteLevel"}, {"add_prefix_space", true}}).text().find("add_prefix_space") != std::string::npos);
    CHECK(refused(sequence({bytes, json{{"type", "Digits"}}})).text().find("Digits") != std::string::npos);
    CHECK(!refused(split(std::string(20000, 'a'))).message.empty());
    CHECK(convert::read_pre_rules(json("text")).error().code == errc::bad_type);
    json deep = bytes;
    for (int i = 0; i < 20; ++i) deep = sequence({deep});
    CHECK(!convert::read_pre_rules(deep));
}
