// golden/tiny: perplexity and importance of a small trained model; golden/models/quant: what F32 activations give.
#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "colibri/eval/divergence.hpp"
#include "colibri/eval/imatrix_collector.hpp"
#include "colibri/quantize/job.hpp"
#include "support/golden.hpp"
#include "support/models.hpp"
#include "support/running.hpp"
#include "support/scratch.hpp"

namespace fs = std::filesystem;
using namespace colibri;

namespace {

nlohmann::json read_json(const fs::path& path) {
    std::ifstream in(path);
    return nlohmann::json::parse(in);
}

/// A text without one final line end, as the tool that made the figures takes it.
std::string read_text(const fs::path& path) {
    auto out = scratch::read(path);
    if (out.ends_with('\n')) out.pop_back();
    return out;
}

constexpr std::uint32_t window = 256;  // the figures' windows

session_options sizes() {
    session_options use;
    use.context = window;
    use.sequences = 2;
    use.ubatch = use.outputs = 512;
    return use;
}

}  // namespace

// Whole texts take minutes where a machine is slow, and less than a whole text can't be compared.
TEST_CASE("the perplexity of the tiny model is the reference's" * doctest::skip(models::short_cases_only())) {
    const auto folder = golden::folder("tiny");
    if (!folder) return;
    golden::tally tally("tiny/perplexity");
    const auto m = model::open(*folder / "tiny.gguf").value();
    const auto wanted = read_json(*folder / "results.json")["f16"];
    const auto text = eval::text_windows::make(m.tokenizer(), read_text(*folder / "eval.txt"), window).value();
    CHECK(text.count == wanted["chunks"].get<std::size_t>());
    for (const bool exact : {false, true}) {
        eval::run_options how;
        how.exact = exact;
        auto run = eval::window_runner::make(m, sizes(), how).value();
        eval::perplexity_value value;
        REQUIRE(eval::measure_perplexity(run, text, value));
        CHECK(value.nll.count() == text.count * 127);
        // The reference rounds activations, which moves the fourth digit.
        CHECK(value.value() == doctest::Approx(wanted["ppl"].get<double>()).epsilon(0.001));
        CHECK(value.error() == doctest::Approx(wanted["error"].get<double>()).epsilon(0.01));
        MESSAGE("perplexity " << value.value() << " +/- " << value.error());
    }
    tally.ran("perplexity");
}

TEST_CASE("the tiny model diverges from its own base by the base's rounding alone") {
    const auto folder = golden::folder("tiny");
    if (!folder) return;
    const scratch::folder out;
    const auto m = model::open(*folder / "tiny.gguf").value();
    const auto text = eval::text_windows::make(m.tokenizer(), read_text(*folder / "eval.txt"), window, 4).value();
    auto run = eval::window_runner::make(m, sizes()).value();
    auto file = eval::base_writer::create(out.path() / "base", m, text, false).value();
    eval::perplexity_value value;
    REQUIRE(eval::save_base(run, text, file, value));
    REQUIRE(file.finish());
    auto base = eval::base_reader::open(out.path() / "base").value();
    CHECK(base.header().model_hash == eval::hash_of(m.file()));
    eval::divergence_value d;
    REQUIRE(eval::measure_divergence(run, base, d));
    CHECK(d.kl.size() == 4 * 127);
    // Log probabilities are off by up to half a step of at most 24 / 65535, 1.83e-4; a divergence is half the error's variance: at most
    // 1.7e-8, and never below 0 but for the rounding of floats, 1e-7 of each logarithm.
    CHECK(d.quantile(1.0) < 1e-6);
    CHECK(d.quantile(0.0) > -1e-6);
    CHECK(d.same_top.mean() == 1.0);
    CHECK(d.rms_p_change() < 2e-4);
    CHECK(std::exp(d.nll.mean()) == doctest::Approx(value.value()).epsilon(1e-12));
    CHECK(std::exp(d.base_nll.mean()) == doctest::Approx(value.value()).epsilon(1e-4));
}

TEST_CASE("the tiny model's importance matrix is the reference's" * doctest::skip(models::short_cases_only())) {
    const auto folder = golden::folder("tiny");
    if (!folder) return;
    golden::tally tally("tiny/imatrix");
    const auto wanted = eval::read_imatrix(*folder / "imatrix.gguf").value();
    const auto m = model::open(*folder / "tiny.gguf").value();
    const auto text = eval::text_windows::make(m.tokenizer(), read_text(*folder / "calibration.txt"), wanted.chunk_size).value();
    REQUIRE(text.count == wanted.chunks);
    eval::imatrix_collector collector(m, false);
    eval::run_options how;
    how.on_product = collector.watch();
    auto run = eval::window_runner::make(m, sizes(), how).value();
    eval::importance_matrix ours;
    REQUIRE(eval::collect_imatrix(run, collector, text, false, ours));
    CHECK(ours.chunks == wanted.chunks);
    CHECK(ours.entries.size() == wanted.entries.size());
    double worst = 0.0;
    for (const auto& pair : wanted.entries) {
        const auto& name = pair.first;
        const auto& entry = pair.second;
        CAPTURE(name);
        const auto mine = ours.mean(name, entry.columns());
        REQUIRE(mine);
        CHECK(ours.find(name)->counts == entry.counts);
        const auto its = wanted.mean(name, entry.columns()).value();
        for (std::size_t i = 0; i < its.size(); ++i) worst = std::max(worst, std::abs(static_cast<double>((*mine)[i] / its[i]) - 1.0));
        tally.ran("tensors");
    }
    MESSAGE("worst column: " << 100.0 * worst << " %");
    CHECK(worst < 0.01);
}

TEST_CASE("our quantisations of the tiny model diverge no more than the reference's" * doctest::skip(models::short_cases_only())) {
    const auto folder = golden::folder("tiny");
    if (!folder) return;
    golden::tally tally("tiny/quantised");
    const scratch::folder out;
    const auto source = *folder / "tiny.gguf";
    const auto base_file = out.path() / "base";
    {
        const auto m = model::open(source).value();
        const auto text = eval::text_windows::make(m.tokenizer(), read_text(*folder / "eval.txt"), window).value();
        auto run = eval::window_runner::make(m, sizes()).value();
        auto file = eval::base_writer::create(base_file, m, text, false).value();
        eval::perplexity_value value;
        REQUIRE(eval::save_base(run, text, file, value));
        REQUIRE(file.finish());
    }
    thread_pool pool(2);
    const auto results = read_json(*folder / "results.json");
    for (const auto& entry : results["types"].items()) {
        const std::string name = entry.key();
        const auto& columns = entry.value();
        for (const bool with_importance : {false, true}) {
            const auto& wanted = columns[with_importance ? "importance" : "plain"];
            CAPTURE(name);
            CAPTURE(with_importance);
            quantize::request asked;
            asked.input = source;
            asked.output = out.path() / "made.gguf";
            asked.force = true;
            asked.types.kind = quantize::parse_mixture(name).value();
            if (with_importance) {
                asked.importance = quantize::importance_weights::of(eval::read_imatrix(*folder / "imatrix.gguf").value(), "imatrix.gguf");
            }
            const auto job = quantize::job::prepare(std::move(asked), pool);
            if (wanted.contains("refused")) {
                CHECK_FALSE(job);
                tally.ran("refusals");
                continue;
            }
            REQUIRE_MESSAGE(job, (job ? std::string() : job.error().text()));
            REQUIRE(job->write(pool));
            const auto m = model::open(out.path() / "made.gguf").value();
            auto base = eval::base_reader::open(base_file).value();
            auto run = eval::window_runner::make(m, sizes()).value();
            eval::divergence_value d;
            REQUIRE(eval::measure_divergence(run, base, d));
            const double ratio = d.kl_mean.mean() / wanted["kld_mean"].get<double>();
            MESSAGE(concat(name, with_importance ? ", importance: " : ": ") << ratio << " of the reference's divergence");
            // As the golden data's README says: figures of two searches that are alike scatter by some percent, and with 6 and 8 bits most
            // of the figure is rounding of activations.
            CHECK(ratio <= (name == "Q8_0" || name == "Q6_K" ? 1.15 : 1.03));
            tally.ran("divergences");
        }
    }
}

TEST_CASE("golden models of quantised weights: with F32 activations only the weights' error is left") {
    const auto folder = golden::folder("models/quant");
    if (!folder) return;
    golden::tally tally("models/quant exact");
    for (const auto& info : read_json(*folder / "cases.json")) {
        const auto file = info["file"].get<std::string>();
        CAPTURE(file);
        const auto reference = golden::read_npy(*folder / info["logits"].get<std::string>());
        const auto tokens = info["tokens"].get<std::vector<text::token_id>>();
        std::vector<float> first;
        for (const auto how : {weights::holding::mapped, weights::holding::resident}) {
            model_options holding;
            holding.holding = how;
            const auto opened = model::open(*folder / file, holding);
            if (!opened && opened.error().code == errc::unsupported) {
                tally.not_yet(file);
                break;
            }
            REQUIRE_MESSAGE(opened, (opened ? std::string() : opened.error().text()));
            evaluator_options options;
            options.context = 512;
            options.ubatch = options.outputs = static_cast<std::uint32_t>(tokens.size());
            options.threads = 2;
            options.cache_k = options.cache_v = kv_type::f32;
            options.exact = true;
            auto e = evaluator::make(*opened, options).value();
            const auto ours = golden::run_all(e, tokens, tokens.size());
            CHECK(golden::compare(ours, reference, 0, 0.0).max <= 1e-3 * info["spread"].get<double>());
            if (how == weights::holding::mapped) {
                first = ours.values;
                tally.ran("exact");
            } else {
                CHECK(ours.values == first);
                CHECK(golden::run_all(e, tokens, 1).values == first);
            }
        }
    }
}
