// Texts become the published ids, ids the published bytes, and words are cut where the published rules cut.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "colibri/gguf/file.hpp"
#include "colibri/text/pre_tokenizer.hpp"
#include "colibri/text/tokenizer.hpp"
#include "support/golden.hpp"
#include "support/models.hpp"

namespace {

namespace fs = std::filesystem;
using namespace colibri;
using nlohmann::json;

std::string bytes_of(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    REQUIRE_MESSAGE(file, "can't open " << path.string());
    return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<json> lines_of(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    REQUIRE_MESSAGE(file, "can't open " << path.string());
    std::vector<json> out;
    for (std::string line; std::getline(file, line);) {
        if (!line.empty()) out.push_back(json::parse(line));
    }
    return out;
}

std::string from_hex(const std::string& hex) {
    std::string out;
    for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
        out += static_cast<char>(static_cast<unsigned char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
    }
    return out;
}

/// The bytes under NAME, or NAME_hex.
std::optional<std::string> text_of(const json& line, const std::string& name) {
    if (line.contains(name)) return line[name].get<std::string>();
    if (line.contains(name + "_hex")) return from_hex(line[name + "_hex"].get<std::string>());
    return std::nullopt;
}

std::vector<text::token_id> ids_of(const json& ids) { return ids.get<std::vector<text::token_id>>(); }

/// `text` cut into pieces of one to five bytes, all with the same trust.
std::vector<text::piece> in_pieces(const std::string& text, bool trusted) {
    std::vector<text::piece> out;
    for (std::size_t at = 0, size = 1; at < text.size(); at += size, size = size % 5 + 1) {
        out.push_back({std::string_view(text).substr(at, size), trusted});
    }
    return out;
}

bool has_all_bytes(const text::tokenizer& tokens) {
    bool found[256] = {};
    for (text::token_id id = 0; tokens.contains(id); ++id) {
        if (!tokens.is_control(id) && tokens.bytes(id).size() == 1)
            found[static_cast<unsigned char>(tokens.bytes(id)[0])] = true;
    }
    return std::ranges::all_of(found, [](bool one) { return one; });
}

/// One vocabulary with all that the folder has about it.
class vocabulary_test {
public:
    vocabulary_test(const fs::path& folder, std::string name, golden::tally& count)
        : folder_(folder), name_(std::move(name)), count_(count) {}

    /// False if Colibri can't use this kind of vocabulary yet; nothing is counted then.
    bool open(const fs::path& gguf, const json& entry) {
        auto file = gguf::file::open(gguf);
        REQUIRE_MESSAGE(file, gguf.string() << ": " << file.error().text());
        gguf::metadata meta = file->meta();
        if (entry.contains("override")) {
            for (const auto& [key, value] : entry["override"].items()) meta.set(key, value.get<std::string>());
        }
        auto opened = text::tokenizer::open(meta);
        if (!opened && opened.error().code == errc::unsupported) return false;
        REQUIRE_MESSAGE(opened, name_ << ": " << opened.error().text());
        tokens_.emplace(std::move(*opened));
        CHECK(tokens_->size() == entry["tokens"].get<std::size_t>());
        CHECK(tokens_->adds_bos() == entry["add_bos"].get<bool>());
        CHECK(tokens_->adds_eos() == entry["add_eos"].get<bool>());
        return true;
    }

    void run() {
        each_line("cases", [&](const json& line) { check_case(line); });
        each_line("decode", [&](const json& line) { check_decoding(line); });
        each_line("differences", [&](const json& line) { check_difference(line); });
        const bool round_trip = has_all_bytes(*tokens_) && tokens_->pre() != "qwen2" && tokens_->pre() != "qwen35";
        each_line("invalid_utf8", [&](const json& line) {
            const std::string bytes = from_hex(line["text_hex"]);
            const auto ids = tokens_->encode(bytes, {.add_special = false, .parse_special = false});
            for (const auto id : ids) CHECK(tokens_->contains(id));
            if (round_trip) CHECK(tokens_->decode(ids) == bytes);
            count_.ran("invalid UTF-8");
        });
        check_pieces();
    }

private:
    template <class Check>
    void each_line(const std::string& kind, Check&& check) {
        const auto path = folder_ / kind / (name_ + ".jsonl");
        if (!fs::exists(path)) return;
        for (const json& line : lines_of(path)) {
            CAPTURE(name_);
            CAPTURE(line.dump());
            check(line);
        }
    }

    void check_case(const json& line) {
        const auto text = text_of(line, "text").value();
        const auto ids = ids_of(line["ids"]);
        const bool add_special = line["add_special"], parse_special = line["parse_special"];
        CHECK(tokens_->encode(text, {add_special, parse_special}) == ids);
        CHECK(tokens_->encode(in_pieces(text, parse_special), add_special) == ids);
        count_.ran("ids");
        if (name_ == "bert-bge") return;
        const auto decoded = text_of(line, "decoded").value_or(text);
        CHECK(tokens_->decode(ids) == decoded);
        if (!line.value("decoded_skip_unknown", false)) {
            CHECK(tokens_->decode(ids, false) == text_of(line, "decoded_skip").value_or(decoded));
        }
        count_.ran("texts");
    }

    void check_decoding(const json& line) {
        const auto ids = ids_of(line["ids"]);
        CHECK(tokens_->decode(ids) == from_hex(line["hex"]));
        if (line.contains("hex_skip")) CHECK(tokens_->decode(ids, false) == from_hex(line["hex_skip"]));
        count_.ran("decodings");
    }

    /// The rule that the folder's README suggests where its oracles disagree.
    void check_difference(const json& line) {
        static const std::map<std::string, std::string> chosen = {{"nfc", "hf"},
                                                                  {"combining-marks", "hf"},
                                                                  {"special-by-text", "hf"},
                                                                  {"sentencepiece-only", "hf"},
                                                                  {"bert-100-chars", "hf"},
                                                                  {"bert-unicode", "hf"},
                                                                  {"gguf-type", "llama_cpp"}};
        const auto ids = tokens_->encode(line["text"].get<std::string>(), {line["add_special"], line["parse_special"]});
        const auto found = chosen.find(line["why"].get<std::string>());
        if (found != chosen.end()) CHECK(ids == ids_of(line[found->second]));
        count_.ran(found != chosen.end() ? "differences decided" : "differences free");
    }

    void check_pieces() {
        const auto record = [&](text::token_id id) {
            const auto bytes = tokens_->bytes(id);
            std::string out;
            out += static_cast<char>(bytes.size() & 0xFF);
            out += static_cast<char>(bytes.size() >> 8);
            return out.append(bytes);
        };
        if (const auto path = folder_ / "pieces" / (name_ + ".bin"); fs::exists(path)) {
            std::string all;
            for (text::token_id id = 0; tokens_->contains(id); ++id) all += record(id);
            CHECK_MESSAGE(all == bytes_of(path), name_ << ": bytes of tokens");
            count_.ran("bytes of tokens", tokens_->size());
        }
        if (const auto path = folder_ / "pieces" / (name_ + ".fnv"); fs::exists(path)) {
            std::ifstream file(path);
            text::token_id id = 0;
            for (std::string first, hash; file >> first >> hash;) {
                REQUIRE(std::to_string(id) == first);
                std::uint64_t fnv = 0xcbf29ce484222325;
                for (int i = 0; i < 1024 && tokens_->contains(id); ++i, ++id) {
                    for (const char c : record(id)) fnv = (fnv ^ static_cast<unsigned char>(c)) * 0x100000001b3;
                }
                CHECK_MESSAGE(fnv == std::stoull(hash, nullptr, 16), name_ << ": bytes of tokens from " << first);
            }
            CHECK(static_cast<std::size_t>(id) == tokens_->size());
            count_.ran("bytes of tokens", tokens_->size());
        }
    }

    fs::path folder_;
    std::string name_;
    golden::tally& count_;
    std::optional<text::tokenizer> tokens_;
};

std::vector<std::size_t> cuts(const text::pre_tokenizer& pre, const std::string& text) {
    std::vector<std::size_t> lens;
    text::split(pre.rules, text, [&](std::string_view word) { lens.push_back(word.size()); });
    return lens;
}

}  // namespace

TEST_CASE("golden: vocabularies") {
    const auto folder = golden::folder("tokenizers");
    if (!folder) return;
    if (!fs::exists(*folder / "index.json")) {
        std::cout << "golden: tokenizers/index.json: absent\n";
        return;
    }
    for (const char* kind : {"cases", "decode", "differences", "invalid_utf8", "pieces"}) {
        if (!fs::exists(*folder / kind)) std::cout << "golden: tokenizers/" << kind << ": absent\n";
    }
    golden::tally count("tokenizers");
    const json index = json::parse(bytes_of(*folder / "index.json"));
    for (const auto& item : index.items()) {
        const std::string name = item.key();
        const json& entry = item.value();
        const std::string vocab = entry["vocab"];
        std::optional<fs::path> file = *folder / "vocab" / vocab;
        if (vocab == "@smollm2-135m-instruct") file = models::file("smollm2");
        if (vocab == "@gemma-3-270m") file = models::file("gemma3");
        if (!file) {
            std::cout << "golden: tokenizers: " << name << ": not run: model file absent\n";
            continue;
        }
        vocabulary_test test(*folder, name, count);
        if (test.open(*file, entry)) {
            test.run();
            count.ran("vocabularies");
        } else {
            count.not_yet(name);
        }
    }
}

TEST_CASE("golden: where pre-tokenizers cut") {
    const auto folder = golden::folder("tokenizers/pre");
    if (!folder) return;
    golden::tally count("tokenizers/pre");
    const json index = json::parse(bytes_of(*folder / "index.json"));
    for (const auto& item : index.items()) {
        const std::string name = item.key();
        const json& entry = item.value();
        CAPTURE(name);
        const text::pre_tokenizer* pre = text::find_pre_tokenizer(name);
        if (pre == nullptr) {
            count.not_yet(name);
            continue;
        }
        for (const std::string alias : entry["aliases"]) {
            const text::pre_tokenizer* other = text::find_pre_tokenizer(alias);
            if (other == nullptr) {
                count.not_yet(alias);
                continue;
            }
            CHECK_MESSAGE(other->rules.data() == pre->rules.data(), alias << " must cut as " << name);
            count.ran("aliases");
        }
        for (const json& line : lines_of(*folder / (name + ".jsonl"))) {
            CAPTURE(line.dump());
            CHECK(cuts(*pre, line["text"]) == line["lens"].get<std::vector<std::size_t>>());
            count.ran("cuts");
        }
        const auto differences = *folder / "differences" / (name + ".jsonl");
        if (!fs::exists(differences)) continue;
        for (const json& line : lines_of(differences)) {  // the two regex engines differ on newly assigned characters
            CAPTURE(line.dump());
            const auto got = cuts(*pre, line["text"]);
            const bool either =
                got == line["lens"].get<std::vector<std::size_t>>() ||
                (line.contains("lens_regex") && got == line["lens_regex"].get<std::vector<std::size_t>>());
            CHECK(either);
            count.ran("differences");
        }
    }
}
