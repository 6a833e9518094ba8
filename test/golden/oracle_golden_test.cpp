// The oracle itself against the golden models: what the engine is compared with must be right first.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "oracle/model.hpp"
#include "support/golden.hpp"
#include "support/models.hpp"
#include "support/npy.hpp"

using nlohmann::json;
namespace fs = std::filesystem;

namespace {

/// The folders' bounds are for engines in single precision with their own order of operations. The oracle computes in
/// double, so only the references' rounding is left: at most 0.7 % of the bound when this was written.
constexpr double closer = 50.0;

json read_json(const fs::path& path) {
    std::ifstream in(path);
    REQUIRE_MESSAGE(in, "can't read " << path.string());
    return json::parse(in);
}

/// How far logits are from reference rows `first_row` on.
struct distance {
    double largest = 0.0;
    double squares = 0.0;
    std::size_t values = 0;
    std::size_t flips = 0;  ///< positions with another largest logit although the reference's margin is over `margin`

    [[nodiscard]] double rms() const { return std::sqrt(squares / static_cast<double>(values)); }
    void add(const oracle::matrix<double>& got, const golden::matrix& reference, std::size_t first_row, double margin) {
        REQUIRE(static_cast<std::size_t>(got.cols()) == reference.columns);
        REQUIRE(first_row + static_cast<std::size_t>(got.rows()) <= reference.rows);
        for (Eigen::Index t = 0; t < got.rows(); ++t) {
            const float* expected = reference.row(first_row + static_cast<std::size_t>(t));
            for (Eigen::Index i = 0; i < got.cols(); ++i) {
                const double off = std::abs(got(t, i) - static_cast<double>(expected[i]));
                largest = std::max(largest, std::isfinite(off) ? off : INFINITY);
                squares += off * off;
                ++values;
            }
            Eigen::Index best = 0;
            got.row(t).maxCoeff(&best);
            const auto columns = static_cast<std::ptrdiff_t>(reference.columns);
            const auto reference_best = std::max_element(expected, expected + columns) - expected;
            float second = -INFINITY;
            for (std::ptrdiff_t i = 0; i < columns; ++i) {
                if (i != reference_best) second = std::max(second, expected[i]);
            }
            const double gap = static_cast<double>(expected[reference_best]) - static_cast<double>(second);
            if (best != reference_best && gap > margin) ++flips;
        }
    }
};

std::vector<std::int32_t> tokens_of(const json& from) { return from.get<std::vector<std::int32_t>>(); }

bool has_types_we_decode(const json& tensor_types) {
    for (const std::string name : tensor_types) {
        const bool known = std::any_of(colibri::dtype_table.begin(), colibri::dtype_table.end(), [&](const auto& one) {
            bool usable = false;
            if (one.name == name) {
                colibri::quant::for_each_format(colibri::quant::weight_formats{}, [&]<class F>(std::type_identity<F>) {
                    usable = usable || F::type == one.type;
                });
            }
            return usable;
        });
        if (!known) return false;
    }
    return true;
}

/// Rounds a head as a cache of that type does, in blocks of 32.
std::function<void(std::span<double>)> rounding_to(const std::string& type) {
    for (const auto& one : colibri::dtype_table) {
        if (one.name != type) continue;
        return [dtype = one.type](std::span<double> head) {
            std::vector<float> values(head.begin(), head.end());
            std::vector<std::byte> bytes(colibri::quant::row_bytes(dtype, values.size()).value());
            colibri::quant::encode_row(dtype, values, bytes).value();
            colibri::quant::decode_row(dtype, bytes, values).value();
            std::copy(values.begin(), values.end(), head.begin());
        };
    }
    FAIL("no type " << type);
    return {};
}

}  // namespace

TEST_CASE("the oracle matches the golden models") {
    const auto models = golden::folder("models");
    if (!models) return;
    golden::tally tally("oracle on models");
    std::vector<fs::path> folders;
    for (const auto& entry : fs::directory_iterator(*models)) {
        if (fs::exists(entry.path() / "case.json")) folders.push_back(entry.path());
    }
    std::sort(folders.begin(), folders.end());
    for (const auto& folder : folders) {
        const json one = read_json(folder / "case.json");
        const std::string name = folder.filename().string();
        if (!oracle::knows(one["arch"]) || one.value("kind", "") == "embedding") {
            tally.not_yet(name);
            continue;
        }
        const auto bound = one["bound"].get<double>();
        for (const auto& item : one["files"].items()) {
            const std::string& file = item.key();
            INFO(name, "/", file);
            const oracle::model<double> model(folder / file);
            // Rounded weights have references of their own where rounding changed them.
            fs::path logits = folder / "logits.npy";
            const std::string stem = fs::path(file).stem().string();  // model, model-f16, model-bf16
            const fs::path rounded = folder / ("logits" + stem.substr(std::string("model").size()) + ".npy");
            if (fs::exists(rounded)) logits = rounded;
            const auto reference = golden::read_npy(logits);
            distance off;
            for (const auto& sequence : one["sequences"]) {
                off.add(model.logits(tokens_of(sequence["tokens"])), reference, sequence["first_row"], 2 * bound);
            }
            CHECK(off.largest <= bound / closer);
            CHECK(off.flips == 0);
            std::cout << "golden: oracle: " << name << "/" << file << ": " << off.largest / bound << " of the bound\n";
            if (file == "model.gguf") {
                const auto greedy = tokens_of(one["greedy"]["tokens"]);
                CHECK(model.greedy(tokens_of(one["sequences"][0]["tokens"]), greedy.size()) == greedy);
            }
            tally.ran(one["arch"].get<std::string>());
        }
    }
}

TEST_CASE("the oracle matches the quantised golden models") {
    const auto folder = golden::folder("models/quant");
    if (!folder) return;
    golden::tally tally("oracle on models/quant");
    for (const auto& one : read_json(*folder / "cases.json")) {
        const std::string name = one["file"];
        if (!has_types_we_decode(one["tensor_types"])) {
            tally.not_yet(name);
            continue;
        }
        INFO(name);
        const oracle::model<double> model(*folder / name);
        const double bound = 1e-3 * one["spread"].get<double>();  // the folder's own bound for exact activations
        distance off;
        off.add(model.logits(tokens_of(one["tokens"])), golden::read_npy(*folder / one["logits"].get<std::string>()), 0,
                2 * bound);
        CHECK(off.largest <= bound / closer);
        CHECK(off.flips == 0);
        std::cout << "golden: oracle: " << name << ": " << off.largest / bound << " of the bound\n";
        tally.ran(one["arch"].get<std::string>());
    }
}

TEST_CASE("the oracle with a rounded cache matches the golden caches") {
    const auto folder = golden::folder("models/kv");
    if (!folder) return;
    golden::tally tally("oracle on models/kv");
    for (const auto& one : read_json(*folder / "cases.json")) {
        const std::string type_k = one["type_k"];
        const std::string type_v = one["type_v"];
        INFO(one["logits"].get<std::string>());
        const oracle::model<double> model(*folder / ".." / one["model"].get<std::string>());
        oracle::run_options<double> options;
        options.store_k = rounding_to(type_k);
        options.store_v = rounding_to(type_v);
        // The folder's own bounds: with an exact query a quarter of what the rounding does (a tie may round the other
        // way).
        const double bound = type_k == "F32" && type_v == "F32" ? 1e-3 * one["spread"].get<double>()
                                                                : one["from_exact"]["max_abs_diff"].get<double>() / 4;
        distance off;
        off.add(model.logits(tokens_of(one["tokens"]), options),
                golden::read_npy(*folder / one["logits"].get<std::string>()), 0, 2 * bound);
        CHECK(off.largest <= bound);
        std::cout << "golden: oracle: cache " << type_k << " " << type_v << ": " << off.largest / bound
                  << " of the bound\n";
        tally.ran(type_k + "/" + type_v);
    }
}

TEST_CASE("in single precision the oracle is as close as another engine") {
    const auto folder = golden::folder("models/llama");
    if (!folder) return;
    const json one = read_json(*folder / "case.json");
    const oracle::model<float> model(*folder / "model.gguf");
    const auto tokens = tokens_of(one["sequences"][0]["tokens"]);
    const oracle::matrix<double> got = model.logits(tokens).cast<double>();
    distance off;
    off.add(got, golden::read_npy(*folder / "logits.npy"), one["sequences"][0]["first_row"], 0.0);
    CHECK(off.largest <= one["bound"].get<double>());
}

TEST_CASE("the oracle matches real models") {
    const auto folder = golden::folder("real");
    if (!folder || models::short_cases_only()) return;
    for (const std::string name : {"smollm2", "gemma3"}) {
        const auto path = models::file(name);
        if (!path) continue;
        const json reference = read_json(*folder / (name + ".json"));
        const oracle::model<float> model(*path);
        for (const auto& one : reference["cases"]) {
            if (one["name"] != "fact") continue;  // the shortest; the oracle is slow
            INFO(name);
            const auto logits = model.logits(tokens_of(one["ids"]));
            double worst = 0.0;
            for (std::size_t p = 0; p < one["positions"].size(); ++p) {
                const auto& position = one["positions"][p];
                const auto at = one["position_index"][p].get<Eigen::Index>();
                for (std::size_t i = 0; i < position["top"].size(); ++i) {
                    const double off = static_cast<double>(logits(at, position["top"][i].get<Eigen::Index>())) -
                                       position["logits"][i].get<double>();
                    worst = std::max(worst, std::abs(off));
                }
            }
            // Both sides compute in float32 on the same decoded weights: 2.5e-5 apart when this was written.
            CHECK(worst <= 5e-4);
            std::cout << "golden: oracle: " << name << ": " << worst << " from the reference\n";
        }
    }
}
