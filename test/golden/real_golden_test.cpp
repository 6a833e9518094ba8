// golden/real: two published models against reference logits and greedy text.
#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "colibri/model/evaluator.hpp"
#include "support/golden.hpp"
#include "support/models.hpp"
#include "support/running.hpp"

namespace fs = std::filesystem;
using colibri::kv_type;
using colibri::text::token_id;

namespace {

/// Longest sequence that is run where the machine is slow.
constexpr std::size_t short_limit = 64;

struct squares {
    double sum = 0.0;
    std::size_t count = 0;
    void add(double d) {
        sum += std::isfinite(d) ? d * d : HUGE_VAL;
        ++count;
    }
    [[nodiscard]] double rms() const { return std::sqrt(sum / static_cast<double>(count)); }
};

/// One case with one cache type. `factor`: how much of the peer's distance is allowed.
void run_case(const colibri::model& model, const fs::path& folder, const std::string& model_name, const nlohmann::json& peer,
              const nlohmann::json& info, kv_type kv, double factor, golden::tally& tally) {
    const auto ids = info["ids"].get<std::vector<token_id>>();
    const auto greedy = info["greedy"].get<std::vector<token_id>>();
    const auto name = info["name"].get<std::string>();
    CAPTURE(name);
    CAPTURE(colibri::name(kv));
    if (models::short_cases_only() && ids.size() > short_limit) return;

    colibri::evaluator_options options;
    options.context = static_cast<std::uint32_t>(ids.size() + greedy.size());
    options.ubatch = 64;
    options.outputs = 64;
    options.threads = 2;
    options.cache_k = options.cache_v = kv;
    auto evaluator = colibri::evaluator::make(model, options).value();

    // All listed positions, and the whole vocabulary at the last one.
    const auto logits = golden::run_all(evaluator, ids, 64);
    double worst = 0.0;
    for (std::size_t p = 0; p < info["position_index"].size(); ++p) {
        const auto position = info["position_index"][p].get<std::size_t>();
        const auto& reference = info["positions"][p];
        squares distance;
        for (std::size_t i = 0; i < reference["top"].size(); ++i) {
            const float ours = logits.row(position)[reference["top"][i].get<std::size_t>()];
            distance.add(static_cast<double>(ours) - reference["logits"][i].get<double>());
        }
        worst = std::max(worst, distance.rms());
        tally.ran("positions");
    }
    CHECK_MESSAGE(worst <= factor * peer["top8_rms"].get<double>(), "worst RMS of the listed logits " << worst);
    double whole = 0.0;
    if (const auto path = folder / (model_name + "-" + name + ".npy"); fs::exists(path)) {
        const auto reference = golden::read_npy(path);
        squares distance;
        for (std::size_t i = 0; i < reference.columns; ++i) {
            distance.add(static_cast<double>(logits.row(ids.size() - 1)[i]) - reference.values[i]);
        }
        whole = distance.rms();
        CHECK_MESSAGE(whole <= factor * peer["rms"].get<double>(), "RMS of a whole position " << whole);
        tally.ran("whole positions");
    }
    MESSAGE(model_name << " " << name << " " << colibri::name(kv) << ": listed " << worst << " (peer "
                       << peer["top8_rms"].get<double>() << "), whole " << whole << " (peer " << peer["rms"].get<double>() << ")");

    // Fed with the reference's own tokens, the largest logit agrees wherever the reference is sure.
    const std::size_t steps = models::short_cases_only() ? std::min<std::size_t>(4, greedy.size()) : greedy.size();
    auto forced = ids;
    forced.insert(forced.end(), greedy.begin(), greedy.begin() + static_cast<std::ptrdiff_t>(steps) - 1);
    const auto all = golden::run_all(evaluator, forced, 64);
    for (std::size_t i = 0; i < steps; ++i) {
        if (info["margins"][i].get<double>() < 1.0) continue;
        CHECK(golden::largest(all.row(ids.size() - 1 + i), all.columns) == static_cast<std::size_t>(greedy[i]));
        tally.ran("sure steps");
    }
    // On its own, it says the same until the reference is unsure for the first time.
    const std::size_t free_run = std::min(steps, info["free_run"].get<std::size_t>());
    const auto own = golden::greedy(evaluator, ids, free_run, false);
    CHECK(std::equal(own.begin(), own.end(), greedy.begin()));
    tally.ran("free tokens", free_run);
    if (info["text"].is_string()) {
        CHECK(model.tokenizer().encode(info["text"].get<std::string>(), {.add_special = true, .parse_special = true}) == ids);
        tally.ran("texts");
    }
}

}  // namespace

TEST_CASE("golden real models") {
    const auto folder = golden::folder("real");
    if (!folder) return;
    golden::tally tally("real");
    for (const auto& entry : fs::directory_iterator(*folder)) {
        if (entry.path().extension() != ".json") continue;
        const auto model_name = entry.path().stem().string();
        const auto path = models::file(model_name);
        if (!path) {
            tally.not_yet(model_name + " (model file absent)");
            continue;
        }
        const auto opened = colibri::model::open(*path);
        REQUIRE_MESSAGE(opened, (opened ? std::string() : opened.error().text()));
        std::ifstream in(entry.path());
        const auto info = nlohmann::json::parse(in);
        for (const auto& one : info["cases"]) {
            run_case(*opened, *folder, model_name, info["peer_distance"], one, kv_type::f32, 1.25, tally);
            if (models::short_cases_only()) continue;
            run_case(*opened, *folder, model_name, info["peer_distance"], one, kv_type::f16, 1.25, tally);
            run_case(*opened, *folder, model_name, info["peer_distance"], one, kv_type::q8_0, 1.5, tally);
        }
    }
}
