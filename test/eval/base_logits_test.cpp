#include "colibri/eval/base_logits.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "colibri/eval/divergence.hpp"
#include "support/scratch.hpp"
#include "support/tiny_models.hpp"

using namespace colibri;

namespace {

eval::base_row through(const std::vector<float>& logits) {
    std::vector<std::byte> bytes(12 + 2 * logits.size());
    eval::pack_row(logits, bytes.data());
    eval::base_row out;
    REQUIRE(eval::unpack_row(bytes, out));
    return out;
}

struct sample {
    scratch::folder folder;
    std::filesystem::path path = folder.path() / "base";
    model m = tiny::open("llama");
    eval::text_windows text;
    eval::perplexity_value value;

    sample() {
        std::string words;
        for (int i = 0; i < 60; ++i) words += concat("text", i * i % 31, " ");
        text = eval::text_windows::make(m.tokenizer(), words, 16, 4).value();
        auto run = runner(m);
        auto out = eval::base_writer::create(path, m, text, false).value();
        CHECK(out.finish().error().code == errc::invalid_argument);
        REQUIRE(eval::save_base(run, text, out, value));
        REQUIRE(out.finish());
    }
    static eval::window_runner runner(const model& m) {
        session_options use;
        use.context = 16;
        use.sequences = 3;
        use.ubatch = 48;
        use.outputs = 20;
        return eval::window_runner::make(m, use).value();
    }
};

}  // namespace

TEST_CASE("a packed row keeps log probabilities to half a step and sums to 1") {
    std::vector<float> logits;
    for (int i = 0; i < 321; ++i) logits.push_back(static_cast<float>((i * 7919) % 1000) * 0.01f - 4.0f);
    logits[17] = 7.0f;
    logits[200] = -1000.0f;
    const auto row = through(logits);
    CHECK(row.likeliest == 17);
    double norm = 0.0, sum = 0.0;
    for (const float x : logits) norm += std::exp(static_cast<double>(x));
    for (std::size_t i = 0; i < logits.size(); ++i) {
        sum += std::exp(static_cast<double>(row.log_p[i]));
        if (i == 200) continue;
        CHECK(static_cast<double>(row.log_p[i]) == doctest::Approx(static_cast<double>(logits[i]) - std::log(norm)).epsilon(0.0001));
    }
    CHECK(sum == doctest::Approx(1.0).epsilon(1e-6));  // floats
    CHECK(static_cast<double>(row.log_p[200]) == doctest::Approx(static_cast<double>(row.log_p[17]) - 24.0).epsilon(1e-5));

    const auto flat = through(std::vector<float>(10, 3.0f));
    for (const float x : flat.log_p) CHECK(static_cast<double>(x) == doctest::Approx(-std::log(10.0)).epsilon(1e-6));
    CHECK(flat.likeliest == 0);
}

TEST_CASE("many rare tokens don't add up to a divergence") {
    std::vector<float> logits(200000, -40.0f);
    for (std::size_t i = 0; i < 1000; ++i) logits[i * 200] = -static_cast<float>(i % 100) * 0.2f;
    const auto row = through(logits);
    // Without care it would be 200000 e^-24 times 16: 1e-4. What is left is half the variance of a step's rounding, and of floats.
    CHECK(std::abs(eval::kl_of(row, logits, eval::log_norm(logits))) < 1e-6);
}

TEST_CASE("rows with impossible values are refused") {
    const auto problem = [](float top, float step, std::int32_t likeliest) {
        std::vector<std::byte> bytes(12 + 2 * 4);
        std::memcpy(bytes.data(), &top, 4);
        std::memcpy(bytes.data() + 4, &step, 4);
        std::memcpy(bytes.data() + 8, &likeliest, 4);
        eval::base_row out;
        return eval::unpack_row(bytes, out).has_value();
    };
    CHECK(problem(-1.0f, 0.0001f, 3));
    CHECK_FALSE(problem(1.0f, 0.0001f, 3));
    CHECK_FALSE(problem(std::nanf(""), 0.0001f, 3));
    CHECK_FALSE(problem(-1.0f, std::nanf(""), 3));
    CHECK_FALSE(problem(-1.0f, -0.1f, 3));
    CHECK_FALSE(problem(-1.0f, 0.0001f, 4));
    CHECK_FALSE(problem(-1.0f, 0.0001f, -1));
}

TEST_CASE("a base is written, read and compared with") {
    sample s;
    auto base = eval::base_reader::open(s.path).value();
    CHECK(base.text().tokens == s.text.tokens);
    CHECK(base.header().file_bytes() == std::filesystem::file_size(s.path));
    CHECK(base.header().title == s.m.title());
    CHECK_FALSE(base.header().exact);
    auto run = sample::runner(s.m);
    eval::divergence_value same;
    REQUIRE(eval::measure_divergence(run, base, same));
    CHECK(same.kl.size() == 4 * 7);
    CHECK(same.quantile(1.0) < 1e-6);  // half the variance of a step's rounding, and of floats
    CHECK(same.same_top.mean() == 1.0);
    CHECK(std::exp(same.nll.mean()) == doctest::Approx(s.value.value()).epsilon(1e-12));

    eval::divergence_value part;
    REQUIRE(eval::measure_divergence(run, base, part, {}, nullptr, 2));
    CHECK(part.kl.size() == 2 * 7);
    CHECK(part.kl[3] == same.kl[3]);

    // Another model of the same vocabulary is elsewhere; one of another vocabulary is refused.
    const auto other = tiny::open("llama-rope-linear");
    auto other_run = sample::runner(other);
    eval::divergence_value far;
    REQUIRE(eval::measure_divergence(other_run, base, far));
    CHECK(far.kl_mean.mean() > 1e-3);
    const auto stranger = tiny::open("mistral");
    auto stranger_run = sample::runner(stranger);
    CHECK_FALSE(eval::measure_divergence(stranger_run, base, far));
}

TEST_CASE("damaged files of base logits are refused before memory is taken") {
    sample s;
    const auto whole = scratch::read(s.path);
    const auto check = [&](std::string bytes, errc code) {
        const auto path = s.folder.put("bad", bytes);
        const auto opened = eval::base_reader::open(path);
        REQUIRE_FALSE(opened);
        CHECK_MESSAGE(opened.error().code == code, opened.error().text());
    };
    const auto with = [&](std::size_t at, std::uint64_t value, std::size_t bytes) {
        auto out = whole;
        std::memcpy(out.data() + at, &value, bytes);
        return out;
    };
    check("", errc::not_a_file);
    check("hello", errc::not_a_file);
    check(std::string(200, 'x'), errc::not_a_file);
    check(whole.substr(0, whole.size() - 1), errc::truncated);
    check(whole + "x", errc::truncated);
    check(with(8, 2, 4), errc::bad_version);
    check(with(12, 0, 4), errc::bad_count);
    check(with(12, 0xffffffff, 4), errc::bad_count);
    check(with(12, 1 << 24, 4), errc::truncated);
    check(with(16, 0, 4), errc::bad_count);
    check(with(16, 17, 4), errc::truncated);
    check(with(20, 9, 4), errc::bad_count);
    check(with(24, 0, 8), errc::bad_count);
    check(with(24, ~std::uint64_t{0}, 8), errc::truncated);
    check(with(24, 3, 8), errc::truncated);
    check(with(40, 1, 8), errc::bad_value);
    check(with(60, 0xffffffff, 4), errc::bad_count);
    check(with(60, 0, 4), errc::truncated);
    check(with(64 + s.m.title().size(), 0xffffffff, 4), errc::bad_value);
    CHECK(eval::base_reader::open(s.folder.path() / "none").error().code == errc::not_found);
    CHECK(eval::base_reader::open(s.folder.put("good", whole)));
}
