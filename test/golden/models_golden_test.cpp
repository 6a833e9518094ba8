// golden/models: tiny models of every architecture against reference logits, greedy tokens and token ids.
#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "colibri/model/evaluator.hpp"
#include "support/golden.hpp"
#include "support/running.hpp"

namespace fs = std::filesystem;
using colibri::text::token_id;

namespace {

nlohmann::json read_json(const fs::path& path) {
    std::ifstream in(path);
    return nlohmann::json::parse(in);
}

colibri::evaluator open_evaluator(const colibri::model& model, std::uint32_t ubatch, unsigned threads, colibri::kv_type k,
                                  colibri::kv_type v) {
    colibri::evaluator_options options;
    options.context = std::min(512u, model.params().trained_context);
    options.ubatch = ubatch;
    options.outputs = ubatch;
    options.threads = threads;
    options.cache_k = k;
    options.cache_v = v;
    return colibri::evaluator::make(model, options).value();
}

/// Whether the refusal means: an architecture, type or feature that comes later.
bool is_not_yet(const colibri::error& e) { return e.code == colibri::errc::unsupported; }

colibri::result<colibri::model> open_mapped(const fs::path& file) {
    colibri::model_options options;
    options.holding = colibri::weights::holding::mapped;
    return colibri::model::open(file, options);
}

/// The same file with weights in memory of our own.
colibri::model open_resident(const fs::path& file) {
    colibri::model_options options;
    options.holding = colibri::weights::holding::resident;
    return colibri::model::open(file, options).value();
}

void run_model(const fs::path& folder, const nlohmann::json& info, const std::string& file, golden::tally& tally) {
    const auto opened = open_mapped(folder / file);
    if (!opened && is_not_yet(opened.error())) {
        tally.not_yet(folder.filename().string() + "/" + file);
        return;
    }
    REQUIRE_MESSAGE(opened, (opened ? std::string() : opened.error().text()));
    const auto& model = *opened;
    const std::string suffix = file == "model.gguf" ? "" : file.substr(5, file.size() - 10);  // "-f16"
    const auto own = folder / ("logits" + suffix + ".npy");
    const auto reference = golden::read_npy(fs::exists(own) ? own : folder / "logits.npy");
    // With F32 activations and cache only the order of sums differs, whatever float type holds the weights. Other types take
    // 8-bit activations, which costs what it costs the other engine (7 % of the spread).
    const bool exact = file == "model.gguf" || info["files"][file] == "F16" || info["files"][file] == "BF16";
    const double bound = exact ? info["bound"].get<double>() : 0.07 * info["spread"].get<double>();

    const std::uint32_t longest = [&] {
        std::size_t n = 0;
        for (const auto& sequence : info["sequences"]) n = std::max(n, sequence["tokens"].size());
        return static_cast<std::uint32_t>(n);
    }();
    auto whole = open_evaluator(model, longest, 1, colibri::kv_type::f32, colibri::kv_type::f32);
    auto threaded = open_evaluator(model, longest, 2, colibri::kv_type::f32, colibri::kv_type::f32);
    auto small = open_evaluator(model, 7, 1, colibri::kv_type::f32, colibri::kv_type::f32);
    auto resident = open_evaluator(open_resident(folder / file), longest, 2, colibri::kv_type::f32, colibri::kv_type::f32);
    for (const auto& sequence : info["sequences"]) {
        const auto tokens = sequence["tokens"].get<std::vector<token_id>>();
        const auto first_row = sequence["first_row"].get<std::size_t>();
        const auto one_piece = golden::run_all(whole, tokens, tokens.size());
        const auto d = golden::compare(one_piece, reference, first_row, 2 * bound);
        CHECK_MESSAGE(d.max <= bound, "max difference " << d.max << ", bound " << bound);
        CHECK(d.flips == 0);
        // Not only within the bound: chunks, single tokens, threads and resident weights give the same bits.
        CHECK(golden::run_all(small, tokens, 7).values == one_piece.values);
        CHECK(golden::run_all(small, tokens, 1).values == one_piece.values);
        CHECK(golden::run_all(threaded, tokens, tokens.size()).values == one_piece.values);
        CHECK(golden::run_all(resident, tokens, tokens.size()).values == one_piece.values);
        if (sequence.contains("text")) {
            CHECK(model.tokenizer().encode(sequence["text"].get<std::string>()) == tokens);
            tally.ran("texts");
        }
        tally.ran("sequences");
    }
    if (exact) {
        const auto& g = info["greedy"];
        auto prompt = info["sequences"][g["sequence"].get<std::size_t>()]["tokens"].get<std::vector<token_id>>();
        const auto expected = g["tokens"].get<std::vector<token_id>>();
        // A step whose margin is below twice the bound may go either way; such cases are compared up to there.
        std::size_t sure = 0;
        while (sure < expected.size() && g["margins"][sure].get<double>() > 2 * bound) ++sure;
        for (const bool recompute : {false, true}) {
            auto got = golden::greedy(whole, prompt, expected.size(), recompute);
            if (file == "model.gguf") CHECK(got == expected);
            got.resize(sure);
            if (suffix.empty() || !fs::exists(own)) CHECK(std::equal(got.begin(), got.end(), expected.begin()));
            tally.ran("greedy");
        }
    }
    tally.ran("files");
}

}  // namespace

TEST_CASE("golden models") {
    const auto folder = golden::folder("models");
    if (!folder) return;
    golden::tally tally("models");
    std::set<fs::path> entries;
    for (const auto& entry : fs::directory_iterator(*folder)) {
        if (fs::exists(entry.path() / "case.json")) entries.insert(entry.path());
    }
    for (const auto& path : entries) {
        const auto info = read_json(path / "case.json");
        CAPTURE(path.filename().string());
        if (info.value("kind", "") == "embedding") {
            tally.not_yet(path.filename().string() + " (embedding)");
            continue;
        }
        for (const auto& entry : info["files"].items()) {
            const std::string file = entry.key();
            CAPTURE(file);
            run_model(path, info, file, tally);
        }
    }
}

TEST_CASE("golden models of quantised weights") {
    const auto folder = golden::folder("models/quant");
    if (!folder) return;
    golden::tally tally("models/quant");
    for (const auto& info : read_json(*folder / "cases.json")) {
        const auto file = info["file"].get<std::string>();
        CAPTURE(file);
        const auto opened = open_mapped(*folder / file);
        if (!opened && is_not_yet(opened.error())) {
            tally.not_yet(file);
            continue;
        }
        REQUIRE_MESSAGE(opened, (opened ? std::string() : opened.error().text()));
        const auto reference = golden::read_npy(*folder / info["logits"].get<std::string>());
        const auto tokens = info["tokens"].get<std::vector<token_id>>();
        auto evaluator = open_evaluator(*opened, static_cast<std::uint32_t>(tokens.size()), 2, colibri::kv_type::f32,
                                        colibri::kv_type::f32);
        const auto ours = golden::run_all(evaluator, tokens, tokens.size());
        const auto resident_model = open_resident(*folder / file);
        CHECK(resident_model.weights().memory().mapped == 0);
        auto resident = open_evaluator(resident_model, static_cast<std::uint32_t>(tokens.size()), 2, colibri::kv_type::f32,
                                       colibri::kv_type::f32);
        CHECK(golden::run_all(resident, tokens, tokens.size()).values == ours.values);
        CHECK(golden::run_all(resident, tokens, 1).values == ours.values);
        bool floats = true;
        for (const auto& type : info["tensor_types"]) {
            floats = floats && (type == "F32" || type == "F16" || type == "BF16");
        }
        const double peer_max = info["llama_cpp"]["max_abs_diff"];
        const double peer_rms = info["llama_cpp"]["rms_diff"];
        const auto d = golden::compare(ours, reference, 0, 2 * peer_max);
        if (floats) {
            // F32 activations: only the order of sums differs.
            CHECK(d.max <= 1e-3 * info["spread"].get<double>());
        } else {
            // 8-bit activations: the noise is chaotic, so an equally good engine lands on either side of the peer's figure.
            CHECK_MESSAGE(d.rms <= 1.25 * peer_rms, "rms " << d.rms << ", peer " << peer_rms);
            CHECK(d.flips == 0);
        }
        MESSAGE(file << ": rms " << d.rms << " (peer " << peer_rms << "), max " << d.max << " (peer " << peer_max << ")");
        tally.ran(floats ? "floats" : "quantised");
    }
}

TEST_CASE("golden KV caches") {
    const auto folder = golden::folder("models/kv");
    if (!folder) return;
    golden::tally tally("models/kv");
    const auto type_of = [](std::string name) {
        std::transform(name.begin(), name.end(), name.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
        return colibri::parse_kv_type(name);
    };
    for (const auto& info : read_json(*folder / "cases.json")) {
        const auto logits = info["logits"].get<std::string>();
        CAPTURE(logits);
        const auto k = type_of(info["type_k"]);
        const auto v = type_of(info["type_v"]);
        const auto opened = open_mapped(*folder / ".." / info["model"].get<std::string>());
        if (!k || !v || (!opened && is_not_yet(opened.error()))) {
            tally.not_yet(logits);
            continue;
        }
        REQUIRE_MESSAGE(opened, (opened ? std::string() : opened.error().text()));
        const auto reference = golden::read_npy(*folder / logits);
        const auto tokens = info["tokens"].get<std::vector<token_id>>();
        auto evaluator = open_evaluator(*opened, static_cast<std::uint32_t>(tokens.size()), 2, *k, *v);
        const auto ours = golden::run_all(evaluator, tokens, tokens.size());
        const auto d = golden::compare(ours, reference, 0, 1e30);
        if (*k == colibri::kv_type::f32 && *v == colibri::kv_type::f32) {
            CHECK(d.max <= 1e-3 * info["spread"].get<double>());
        } else {
            // Our query is exact, so what remains against a reference with the same rounded rows is a tie that rounds the other way.
            CHECK_MESSAGE(d.max <= 0.25 * info["from_exact"]["max_abs_diff"].get<double>(), "max difference " << d.max);
        }
        MESSAGE(logits << ": max " << d.max << ", rms " << d.rms);
        tally.ran("caches");
    }
}
