// Tokenizers of all forms that folders have them in.
#include "colibri/convert/tokenizer_keys.hpp"

#include "convert/support.hpp"

using namespace colibri;
using folders::copy;
using folders::has_note;
using folders::json;
using folders::opened;
using folders::refused;
namespace fs = std::filesystem;

namespace {

text::tokenizer tokenizer_of(const convert::conversion& made) {
    auto out = text::tokenizer::open(made.meta());
    REQUIRE_MESSAGE(out, (out ? std::string() : out.error().text()));
    return *std::move(out);
}
std::string text_of(const convert::conversion& made, const std::string& key) {
    return made.meta().get_or<std::string>(key, "").value();
}
std::uint32_t number_of(const convert::conversion& made, const std::string& key) {
    return made.meta().get_or<std::uint32_t>(key, 999999u).value();
}

constexpr std::string_view texts[] = {"The story of an hour, and the one that is there.",
                                      "  two  spaces\n\nlines\t",
                                      "caf\xC3\xA9 \xE6\xBC\xA2\xE5\xAD\x97 \xF0\x9F\x98\x80",
                                      "there is \x01 <s> in it",
                                      "return values[i] == 1.25;",
                                      ""};

}  // namespace

TEST_CASE("tokenizers: SentencePiece without its own file gives the same ids") {
    for (const std::string name : {"mistral", "mixtral", "gemma2", "gemma3"}) {
        CAPTURE(name);
        const copy hf(name);
        const auto with = tokenizer_of(opened(hf.path()));
        fs::rename(hf.path() / "tokenizer.model", hf.path() / "model.away");
        const auto made = opened(hf.path());
        const auto without = tokenizer_of(made);
        CHECK(without.kind() == text::vocabulary_kind::spm);
        CHECK(without.adds_space_prefix() == with.adds_space_prefix());
        for (const auto one : texts) CHECK(without.encode(one) == with.encode(one));
        for (text::token_id id = 0; id < 384; ++id) {
            CHECK(without.type(id) == with.type(id));
            CHECK(without.bytes(id) == with.bytes(id));
        }
        fs::rename(hf.path() / "model.away", hf.path() / "tokenizer.model");
        fs::remove(hf.path() / "tokenizer.json");
        const auto alone = tokenizer_of(opened(hf.path()));
        for (const auto one : texts) CHECK(alone.encode(one) == with.encode(one));
    }
}

TEST_CASE("tokenizers: added tokens, and merges in both forms") {
    const copy hf("llama");
    const auto before = tokenizer_of(opened(hf.path()));
    hf.change("tokenizer.json", [](json& t) {
        for (auto& merge : t["model"]["merges"]) merge = merge[0].get<std::string>() + " " + merge[1].get<std::string>();
        t["added_tokens"].push_back({{"id", 310}, {"content", "<tool>"}, {"special", false}, {"lstrip", true}});
        t["added_tokens"].push_back({{"id", 311}, {"content", "<hidden>"}, {"special", true}});
    });
    const auto made = opened(hf.path());
    const auto after = tokenizer_of(made);
    CHECK(has_note(made, "white space"));
    CHECK(after.type(310) == text::token_type::user_defined);
    CHECK(after.type(311) == text::token_type::control);
    CHECK(after.type(309) == text::token_type::unused);
    CHECK(made.meta().find("tokenizer.ggml.tokens")->text_at(309) == "[PAD309]");
    CHECK(after.encode("x<tool>") == std::vector<text::token_id>{301, after.find("x"), 310});
    for (const auto one : texts) CHECK(after.encode(one) == before.encode(one));
}

TEST_CASE("tokenizers: tokens beyond the embedding are left out with a note") {
    const copy hf("llama");
    hf.change("tokenizer.json", [](json& t) {
        t["added_tokens"].push_back({{"id", 325}, {"content", "<far>"}, {"special", true}});
    });
    const auto made = opened(hf.path());
    CHECK(has_note(made, "6 tokens"));
    CHECK(made.meta().find("tokenizer.ggml.tokens")->size() == 320);
}

TEST_CASE("tokenizers: begin and end") {
    const copy hf("llama");
    CHECK(tokenizer_of(opened(hf.path())).adds_bos());
    hf.change("tokenizer.json", [](json& t) {
        auto& single = t["post_processor"]["processors"][1]["single"];
        single.erase(0);
        single.push_back({{"SpecialToken", {{"id", "<|endoftext|>"}, {"type_id", 0}}}});
    });
    const auto made = opened(hf.path());
    const auto tokenizer = tokenizer_of(made);
    CHECK(!tokenizer.adds_bos());
    CHECK(tokenizer.adds_eos());
    CHECK(tokenizer.eos() == 300);  // what the tokenizer itself puts there
    CHECK(tokenizer.eot() == 303);  // and what the configuration calls the end
    // Without names in tokenizer_config.json the ids of config.json count; of several the first.
    hf.change("tokenizer.json", [](json& t) { t["post_processor"] = nullptr; });
    hf.change("tokenizer_config.json", [](json& t) {
        t.erase("eos_token");
        t["bos_token"] = {{"content", "<|im_start|>"}};
    });
    hf.change("config.json", [](json& c) { c["eos_token_id"] = {302, 303}; });
    const auto other = opened(hf.path());
    CHECK(number_of(other, "tokenizer.ggml.eos_token_id") == 302);
    CHECK(number_of(other, "tokenizer.ggml.bos_token_id") == 302);
    CHECK(!other.meta().contains("tokenizer.ggml.add_sep_token"));
}

TEST_CASE("tokenizers: chat templates in every place") {
    const copy hf("llama");
    hf.change("tokenizer_config.json", [](json& t) {
        t["chat_template"] = {{{"name", "default"}, {"template", "D"}}, {{"name", "tool_use"}, {"template", "T"}}};
    });
    const auto list = opened(hf.path());
    CHECK(text_of(list, "tokenizer.chat_template") == "D");
    CHECK(text_of(list, "tokenizer.chat_template.tool_use") == "T");
    CHECK(list.meta().find("tokenizer.chat_templates")->text_at(0) == "tool_use");
    scratch::write(hf.path() / "chat_template.jinja", "J\n");
    CHECK(text_of(opened(hf.path()), "tokenizer.chat_template") == "J\n");
    fs::create_directory(hf.path() / "additional_chat_templates");
    scratch::write(hf.path() / "additional_chat_templates" / "rag.jinja", "R");
    CHECK(text_of(opened(hf.path()), "tokenizer.chat_template.rag") == "R");
    scratch::write(hf.path() / "chat_template.jinja", "\xff");
    CHECK(refused(hf.path()).code == errc::bad_utf8);
    fs::remove(hf.path() / "chat_template.jinja");
    hf.change("tokenizer_config.json", [](json& t) { t["chat_template"] = 7; });
    CHECK(refused(hf.path()).code == errc::bad_type);
}

TEST_CASE("tokenizers: unknown rules are quoted, and --pre goes over them") {
    const copy hf("llama");
    hf.change("tokenizer.json",
              [](json& t) { t["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "\\p{N}{1,7}|[^\\p{N}]+"; });
    const auto e = refused(hf.path());
    CHECK(e.code == errc::unsupported);
    CHECK_MESSAGE(e.text().find("p{N}{1,7}") != std::string::npos, e.text());
    CHECK(e.text().find("--pre") != std::string::npos);
    convert::convert_options options;
    options.pre = "qwen2";
    CHECK(text_of(opened(hf.path(), options), "tokenizer.ggml.pre") == "qwen2");
    options.pre = "qwen22";
    CHECK(refused(hf.path(), options).code == errc::invalid_argument);
    const copy other("llama");
    other.change("tokenizer.json", [](json& t) { t["normalizer"] = {{"type", "Lowercase"}}; });
    CHECK(refused(other.path()).text().find("Lowercase") != std::string::npos);
    other.change("tokenizer.json", [](json& t) { t["normalizer"] = {{"type", "NFC"}}; });
    CHECK(has_note(opened(other.path()), "NFC"));
}

TEST_CASE("tokenizers: what else than spaces SentencePiece's own rules would change is refused") {
    const copy hf("mistral");
    fs::remove(hf.path() / "tokenizer.model");
    const json space = {{"String", " "}};
    const json replace = {{"type", "Replace"}, {"pattern", space}, {"content", "\xe2\x96\x81"}};
    const auto with_rules = [&](const json& normalizer, const json& pre) {
        hf.change("tokenizer.json", [&](json& t) {
            t["normalizer"] = normalizer;
            t["pre_tokenizer"] = pre;
        });
    };
    const auto prefix = [&] { return tokenizer_of(opened(hf.path())).adds_space_prefix(); };

    with_rules(replace, nullptr);
    CHECK(!prefix());
    with_rules(replace, {{"type", "Split"}, {"pattern", space}, {"behavior", "MergedWithPrevious"}, {"invert", false}});
    CHECK(!prefix());
    for (const auto& [scheme, expected] : {std::pair{"first", true}, {"always", true}, {"never", false}}) {
        with_rules(nullptr, {{"type", "Metaspace"}, {"replacement", "\xe2\x96\x81"}, {"prepend_scheme", scheme}, {"split", false}});
        CHECK(prefix() == expected);
    }

    const std::pair<json, std::string> unknown[] = {
        {{{"type", "Sequence"}, {"normalizers", {{{"type", "NFKC"}}, replace}}}, "NFKC"},
        {{{"type", "Prepend"}, {"prepend", "_"}}, "Prepend"},
        {nullptr, "leaves spaces"}};
    for (const auto& [normalizer, quoted] : unknown) {
        with_rules(normalizer, nullptr);
        const auto e = refused(hf.path());
        CHECK(e.code == errc::unsupported);
        CHECK_MESSAGE(e.text().find(quoted) != std::string::npos, e.text());
        CHECK(e.text().find("--pre") != std::string::npos);
    }
    with_rules(nullptr, {{"type", "Metaspace"}, {"prepend_scheme", "always"}});
    CHECK(refused(hf.path()).text().find("cuts texts at spaces") != std::string::npos);
    with_rules(replace, {{"type", "Digits"}, {"individual_digits", true}});
    CHECK(refused(hf.path()).text().find("Digits") != std::string::npos);
    convert::convert_options options;
    options.pre = "default";
    CHECK(has_note(opened(hf.path(), options), "--pre"));
}

TEST_CASE("tokenizers: a way to take words that no name has is only taken where it doesn't matter") {
    const copy hf("llama");
    hf.change("tokenizer.json", [](json& t) { t["model"]["ignore_merges"] = false; });
    CHECK(text_of(opened(hf.path()), "tokenizer.ggml.pre") == "llama-bpe");  // merging makes every token of this vocabulary
    hf.change("tokenizer.json", [](json& t) { t["model"]["merges"].erase(t["model"]["merges"].size() - 1); });
    CHECK(refused(hf.path()).text().find("ignore_merges") != std::string::npos);
    hf.change("tokenizer.json", [](json& t) { t["model"]["ignore_merges"] = true; });
    CHECK(text_of(opened(hf.path()), "tokenizer.ggml.pre") == "llama-bpe");
}

TEST_CASE("tokenizers: broken files are refused") {
    const copy hf("llama");
    const auto original = scratch::read(hf.path() / "tokenizer.json");
    const auto code = [&](const std::function<void(json&)>& edit) {
        scratch::write(hf.path() / "tokenizer.json", original);
        hf.change("tokenizer.json", edit);
        return refused(hf.path()).code;
    };
    CHECK(code([](json& t) { t.erase("model"); }) == errc::bad_type);
    CHECK(code([](json& t) { t["model"]["vocab"] = json::object(); }) == errc::bad_count);
    CHECK(code([](json& t) { t["model"]["vocab"]["odd"] = -1; }) == errc::bad_type);
    CHECK(code([](json& t) { t["model"]["vocab"]["odd"] = "x"; }) == errc::bad_type);
    CHECK(code([](json& t) { t["model"]["vocab"]["odd"] = 7; }) == errc::duplicate);
    CHECK(code([](json& t) { t["model"]["vocab"]["odd"] = 4000000; }) == errc::bad_value);
    CHECK(code([](json& t) { t["model"]["vocab"]["odd"] = 4000000000000u; }) == errc::bad_value);
    CHECK(code([](json& t) {
              t["model"]["vocab"] = json::array({json::array({"a", -1.5})});
              t["model"]["type"] = "Unigram";
          }) == errc::unsupported);
    CHECK(code([](json& t) { t["model"]["type"] = "WordPiece"; }) == errc::unsupported);
    CHECK(code([](json& t) { t["model"]["merges"][0] = {"a"}; }) == errc::bad_type);
    CHECK(code([](json& t) { t["model"]["merges"][0] = {"a", "b", "c"}; }) == errc::bad_type);
    CHECK(code([](json& t) { t["model"]["merges"][0] = 7; }) == errc::bad_type);
    CHECK(code([](json& t) { t["model"]["merges"][0] = "ab"; }) == errc::bad_value);
    CHECK(code([](json& t) { t["added_tokens"][0]["id"] = -1; }) == errc::bad_type);
    CHECK(code([](json& t) { t["added_tokens"][0].erase("content"); }) == errc::bad_type);
    scratch::write(hf.path() / "tokenizer.json", original.substr(0, original.size() / 2));
    CHECK(refused(hf.path()).code == errc::bad_value);
    fs::remove(hf.path() / "tokenizer.json");
    CHECK(refused(hf.path()).code == errc::not_found);
    scratch::write(hf.path() / "tokenizer.model", "nonsense");
    CHECK(!refused(hf.path()).message.empty());
}
