#include "colibri/eval/window_runner.hpp"

#include <doctest/doctest.h>

#include <mutex>
#include <vector>

#include "colibri/eval/imatrix_collector.hpp"
#include "colibri/eval/npy_writer.hpp"
#include "colibri/eval/perplexity.hpp"
#include "support/npy.hpp"
#include "support/running.hpp"
#include "support/scratch.hpp"
#include "support/tiny_models.hpp"

using namespace colibri;

namespace {

session_options sizes(std::uint32_t window, std::uint32_t sequences, std::uint32_t ubatch, std::uint32_t outputs) {
    session_options use;
    use.context = window;
    use.sequences = sequences;
    use.ubatch = ubatch;
    use.outputs = outputs;
    use.threads = 2;
    return use;
}

std::string long_text(std::size_t words) {
    std::string out;
    for (std::size_t i = 0; i < words; ++i) out += concat("word", i * i % 97, " ");
    return out;
}

eval::importance_matrix collect(const model& m, const eval::text_windows& text, const session_options& use, bool head, std::size_t stop_at,
                                eval::importance_matrix matrix = {}) {
    eval::imatrix_collector collector(m, head);
    eval::run_options how;
    how.on_product = collector.watch();
    auto run = eval::window_runner::make(m, use, how).value();
    const auto done = eval::collect_imatrix(run, collector, text, head, matrix, [&](std::size_t n) { return n != stop_at; });
    CHECK(done.has_value() == (stop_at == 0));
    return matrix;
}

void check_same(const eval::importance_matrix& a, const eval::importance_matrix& b) {
    REQUIRE(a.entries.size() == b.entries.size());
    for (const auto& pair : a.entries) {
        const auto& name = pair.first;
        const auto& entry = pair.second;
        CAPTURE(name);
        REQUIRE(b.find(name) != nullptr);
        CHECK(b.find(name)->sums == entry.sums);
        CHECK(b.find(name)->counts == entry.counts);
    }
}

}  // namespace

TEST_CASE("a text is cut into whole windows that begin with the token for the beginning") {
    const auto m = tiny::open("llama");
    const auto text = long_text(200);
    const auto all = m.tokenizer().encode(text, {.add_special = true});
    const auto windows = eval::text_windows::make(m.tokenizer(), text, 16);
    REQUIRE(windows);
    CHECK(windows->count == all.size() / 16);
    CHECK(windows->tokens.size() == windows->count * 16);
    REQUIRE(m.tokenizer().adds_bos());
    for (std::size_t w = 0; w < windows->count; ++w) {
        CHECK(windows->window(w)[0] == m.tokenizer().bos());
        for (std::size_t i = 1; i < 16; ++i) CHECK(windows->window(w)[i] == all[w * 16 + i]);
    }
    CHECK(windows->first_scored() == 8);
    CHECK(windows->scored() == 7);
    const auto two = eval::text_windows::make(m.tokenizer(), text, 16, 2).value();
    CHECK(two.count == 2);
    CHECK(two.hash() != windows->hash());
    CHECK(eval::text_windows::make(m.tokenizer(), text, 16, 2).value().hash() == two.hash());

    const auto none = eval::text_windows::make(m.tokenizer(), "short", 512);
    REQUIRE_FALSE(none);
    CHECK(none.error().code == errc::bad_count);
    CHECK(none.error().message.find("512") != std::string::npos);
    CHECK(eval::text_windows::make(m.tokenizer(), text, 3).error().code == errc::invalid_argument);
}

TEST_CASE("windows give the logits of a plain evaluation, however many run at once and whatever the steps") {
    const auto m = tiny::open("llama");
    const auto text = eval::text_windows::make(m.tokenizer(), long_text(60), 24, 5).value();
    evaluator_options plain;
    plain.context = 24;
    plain.ubatch = plain.outputs = 24;
    auto reference = evaluator::make(m, plain).value();
    for (const auto& use : {sizes(24, 1, 24, 24), sizes(24, 2, 32, 3), sizes(24, 5, 120, 1), sizes(24, 3, 7, 7)}) {
        auto run = eval::window_runner::make(m, use).value();
        CHECK(run.at_once() == use.sequences);
        std::size_t visited = 0;
        std::mutex lock;
        for (std::size_t first = 0; first < text.count; first += run.at_once()) {
            const std::size_t n = std::min<std::size_t>(run.at_once(), text.count - first);
            std::vector<golden::matrix> wanted;
            for (std::size_t i = 0; i < n; ++i) wanted.push_back(golden::run_all(reference, text.window(first + i), 24));
            std::size_t steps = 0, outputs = 0;
            const auto done = run.run(
                std::span(text.tokens).subspan(first * 24, n * 24), 24, 12, 23,
                [&](std::uint32_t s, std::uint32_t position, std::span<const float> logits) {
                    const std::lock_guard hold(lock);
                    CHECK(std::equal(logits.begin(), logits.end(), wanted[s].row(position)));
                    ++visited;
                },
                nullptr,
                [&](std::size_t count) {
                    ++steps;
                    outputs += count;
                    CHECK(count <= use.outputs);
                    return result<void>();
                });
            REQUIRE(done);
            CHECK(steps > 0);
            CHECK(outputs == n * 11);
        }
        CHECK(visited == text.count * 11);
    }
}

TEST_CASE("perplexity is exp of the mean negative log likelihood of the second halves") {
    const auto m = tiny::open("llama");
    const auto text = eval::text_windows::make(m.tokenizer(), long_text(60), 16).value();
    auto run = eval::window_runner::make(m, sizes(16, 2, 32, 32)).value();
    double sum = 0.0, squares = 0.0, count = 0.0;
    std::vector<golden::matrix> all;
    evaluator_options plain;
    plain.context = plain.ubatch = plain.outputs = 16;
    auto reference = evaluator::make(m, plain).value();
    for (std::size_t w = 0; w < text.count; ++w) {
        const auto rows = golden::run_all(reference, text.window(w), 16);
        for (std::size_t i = 8; i < 15; ++i) {
            double norm = 0.0;
            for (std::size_t t = 0; t < rows.columns; ++t) norm += std::exp(static_cast<double>(rows.row(i)[t]));
            const double nll = std::log(norm) - static_cast<double>(rows.row(i)[text.window(w)[i + 1]]);
            sum += nll;
            squares += nll * nll;
            count += 1.0;
        }
    }
    eval::perplexity_value value;
    std::size_t told = 0;
    REQUIRE(eval::measure_perplexity(run, text, value, [&](std::size_t n) {
        told = n;
        return true;
    }));
    CHECK(told == text.count);
    // exp here is float, 1 ulp of each term.
    CHECK(value.nll.mean() == doctest::Approx(sum / count).epsilon(1e-7));
    const double mean = sum / count;
    CHECK(value.error() == doctest::Approx(std::exp(mean) * std::sqrt((squares / count - mean * mean) / (count - 1.0))).epsilon(1e-5));

    eval::perplexity_value part;
    const auto stopped = eval::measure_perplexity(run, text, part, [](std::size_t n) { return n < 2; });
    REQUIRE_FALSE(stopped);
    CHECK(stopped.error().code == errc::canceled);
    CHECK(part.nll.count() == 2 * 7);
    cancel_flag cancel;
    cancel.request();
    CHECK(eval::measure_perplexity(run, text, part, {}, &cancel).error().code == errc::canceled);
}

TEST_CASE("importance: sums of squares of each product's input, once per tensor") {
    const auto m = tiny::open("llama");
    const auto text = eval::text_windows::make(m.tokenizer(), long_text(60), 16, 6).value();
    const auto matrix = collect(m, text, sizes(16, 2, 32, 32), true, 0);
    CHECK(matrix.chunks == 6);
    const auto& h = m.params();
    CHECK(matrix.entries.size() == std::size_t{h.layers} * 7 + 1);
    for (const auto& pair : matrix.entries) {
        const auto& name = pair.first;
        const auto& entry = pair.second;
        CAPTURE(name);
        CHECK(entry.counts == std::vector<double>{96.0});
    }
    CHECK(matrix.find("blk.0.attn_q.weight")->sums == matrix.find("blk.0.attn_v.weight")->sums);
    CHECK(matrix.find("blk.0.attn_q.weight")->columns() == h.hidden);
    CHECK(matrix.find("blk.0.ffn_down.weight")->columns() == h.feed_forward);
    // Queries of layer 0 take normed embeddings: the sum of all columns before the weights is hidden for each token, so here with weights.
    const auto& norm = m.tensors().vectors[0].attention_norm;
    double sum = 0.0;
    const auto means = matrix.mean("blk.0.attn_q.weight", h.hidden).value();
    for (std::size_t i = 0; i < means.size(); ++i) sum += static_cast<double>(means[i]) / (static_cast<double>(norm[i]) * static_cast<double>(norm[i]));
    CHECK(sum == doctest::Approx(static_cast<double>(h.hidden)).epsilon(0.02));  // a little less: epsilon in the norm
    const auto without = collect(m, text, sizes(16, 2, 32, 32), false, 0);
    CHECK(without.entries.size() == std::size_t{h.layers} * 7);

    // What was interrupted and saved goes on to the same bits.
    const scratch::folder folder;
    const auto path = folder.path() / "part.gguf";
    REQUIRE(eval::write_imatrix(collect(m, text, sizes(16, 2, 32, 32), true, 4), path));
    auto part = eval::read_imatrix(path).value();
    CHECK(part.chunks == 4);
    check_same(collect(m, text, sizes(16, 2, 32, 32), true, 0, std::move(part)), matrix);
}

TEST_CASE("importance: experts count the tokens that they were given") {
    const auto m = tiny::open("mixtral");
    const auto& h = m.params();
    REQUIRE(h.experts > 1);
    const auto text = eval::text_windows::make(m.tokenizer(), long_text(200), 32, 4).value();
    const auto matrix = collect(m, text, sizes(32, 2, 64, 64), false, 0);
    for (const char* part : {"gate", "up", "down"}) {
        const auto* entry = matrix.find(concat("blk.0.ffn_", part, "_exps.weight"));
        REQUIRE(entry != nullptr);
        REQUIRE(entry->counts.size() == h.experts);
        double tokens = 0.0;
        for (const double n : entry->counts) tokens += n;
        CHECK(tokens == 128.0 * h.experts_used);
    }
    CHECK(matrix.find("blk.0.ffn_gate_exps.weight")->sums == matrix.find("blk.0.ffn_up_exps.weight")->sums);
    CHECK(matrix.find("blk.0.ffn_gate_exps.weight")->counts == matrix.find("blk.0.ffn_down_exps.weight")->counts);
    // All experts together have seen each token `experts_used` times, so their sums are that of the router's input as often.
    const auto* router = matrix.find("blk.0.ffn_gate_inp.weight");
    const auto* experts = matrix.find("blk.0.ffn_gate_exps.weight");
    REQUIRE(router != nullptr);
    for (std::size_t c = 0; c < h.hidden; ++c) {
        double sum = 0.0;
        for (std::size_t e = 0; e < h.experts; ++e) sum += static_cast<double>(experts->sums[e * h.hidden + c]);
        CHECK(sum == doctest::Approx(static_cast<double>(router->sums[c]) * h.experts_used).epsilon(1e-5));
    }
}

TEST_CASE("exact products of F32 weights are the plain ones, in experts too") {
    for (const char* name : {"llama", "mixtral"}) {
        const auto m = tiny::open(name);
        const auto tokens = tiny::tokens(20, m.params().vocabulary);
        evaluator_options options;
        options.context = options.ubatch = options.outputs = 32;
        const auto plain = [&] {
            auto e = evaluator::make(m, options).value();
            return golden::run_all(e, tokens, 20);
        }();
        options.exact = true;
        auto e = evaluator::make(m, options).value();
        CHECK(golden::run_all(e, tokens, 20).values == plain.values);  // these models are F32
    }
}

TEST_CASE(".npy files are as NumPy wants them") {
    const scratch::folder folder;
    for (const std::size_t columns : {std::size_t{1}, std::size_t{3}, std::size_t{1000000}}) {
        const auto path = folder.path() / concat("m", columns, ".npy");
        std::vector<float> values(2 * columns);
        for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) * 0.25f;
        auto out = eval::npy_writer::create(path, 2, columns).value();
        REQUIRE(out.write(std::span(values).first(columns)));
        CHECK(out.finish().error().code == errc::invalid_argument);
        REQUIRE(out.write(std::span(values).subspan(columns)));
        REQUIRE(out.finish());
        CHECK((std::filesystem::file_size(path) - values.size() * 4) % 64 == 0);
        const auto back = golden::read_npy(path);
        CHECK(back.rows == 2);
        CHECK(back.columns == columns);
        CHECK(back.values == values);
    }
}
