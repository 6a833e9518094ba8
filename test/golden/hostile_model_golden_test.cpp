// Corrupt and odd GGUF files of golden/hostile, opened as models to run: refused with a message that names the fault, or loaded and
// run; odd files that hold the same weights give the same bits.
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "colibri/model/evaluator.hpp"
#include "colibri/session/sampler_for.hpp"
#include "support/golden.hpp"
#include "support/processor_time.hpp"
#include "support/running.hpp"

using namespace colibri;
namespace fs = std::filesystem;

namespace {

std::string lower(std::string text) {
    for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    return text;
}

/// Logits after each of `tokens`, [tokens x vocabulary].
golden::matrix run(const model& m, const std::vector<text::token_id>& tokens) {
    evaluator_options options;
    options.context = 16;
    options.ubatch = 16;
    options.outputs = 16;
    options.cache_k = options.cache_v = kv_type::f32;
    auto made = evaluator::make(m, options);
    REQUIRE_MESSAGE(made, (made ? std::string() : made.error().text()));
    return golden::run_all(*made, tokens, tokens.size());
}

}  // namespace

TEST_CASE("hostile and odd GGUF files, loaded as a model to run") {
    const auto root = golden::folder("hostile");
    if (!root || !fs::exists(*root / "gguf" / "manifest.jsonl")) return;
    const auto folder = *root / "gguf";
    golden::tally tally("hostile/gguf as models");
    std::ifstream base(folder / "base_model_logits.json");
    const auto reference = nlohmann::json::parse(base);
    const auto tokens = reference["tokens"].get<std::vector<text::token_id>>();

    std::map<std::string, std::vector<float>> logits;
    std::map<std::string, std::string> same_as;
    std::ifstream manifest(folder / "manifest.jsonl");
    for (std::string line; std::getline(manifest, line);) {
        const auto info = nlohmann::json::parse(line);
        const auto file = info["file"].get<std::string>();
        const auto expect = info["expect"].get<std::string>();
        const bool model_level = info["level"] == "model";
        if (!model_level && expect != "refuse") continue;  // containers that are sound but no models (base_two.gguf, ...)
        CAPTURE(file);
        const double start = processor_seconds();
        const auto opened = model::open(folder / file);
        CHECK(processor_seconds() - start < 10.0);  // milliseconds; sanitizers and emulators take many times as long
        const std::string message = opened ? std::string() : opened.error().text();
        if (!opened && opened.error().code == errc::unsupported && message.find("not supported yet") != std::string::npos) {
            tally.not_yet(file);  // refused as well, but for what comes later
            continue;
        }
        tally.ran(expect);
        CHECK_MESSAGE(std::all_of(message.begin(), message.end(), [](char c) { return static_cast<unsigned char>(c) >= 32; }),
                      "a control character in the message");
        if (expect == "refuse") {
            CHECK_MESSAGE(!opened, "loaded, but should be refused: " << info["fault"].get<std::string>());
            if (model_level && !opened && info["detail"].is_string()) {
                CHECK_MESSAGE(lower(message).find(lower(info["detail"].get<std::string>())) != std::string::npos,
                              "not named: " << info["detail"].get<std::string>() << " in: " << message);
            }
            continue;
        }
        if (expect == "load") CHECK_MESSAGE(opened, "refused, but should load: " << message);
        if (!opened) continue;
        // Whatever loads must run, and sampling from it must not crash; weights with a NaN may make it an error.
        const auto ids = std::vector<text::token_id>(tokens.begin(), tokens.end());
        auto result = run(*opened, ids);
        auto sampler = make_sampler(*opened, {});
        if (sampler) {
            const auto sampled = sampler->next({result.row(result.rows - 1), result.columns});
            if (sampled) CHECK(opened->tokenizer().contains(*sampled));
        }
        static_cast<void>(opened->tokenizer().encode("a <s> b\n\xff", {.add_special = true, .parse_special = true}));
        logits[file] = std::move(result.values);
        if (info.contains("same_as") && info["same_as"].is_string()) same_as[file] = info["same_as"].get<std::string>();
    }
    for (const auto& pair : same_as) {
        const auto& [file, other] = pair;
        INFO("file := " << pair.first);
        CHECK(logits[file] == logits[other]);
        tally.ran("same bits");
    }
    const auto& ours = logits["base_model.gguf"];
    std::size_t i = 0;
    for (const auto& row : reference["logits"]) {
        for (const auto& value : row) {
            // Float32 rounding over about ten chained products of length 16 or less stays below 1e-7.
            REQUIRE(i < ours.size());
            CHECK(std::abs(ours[i++] - value.get<double>()) <= 1e-6);
        }
    }
    CHECK(i == ours.size());
}
