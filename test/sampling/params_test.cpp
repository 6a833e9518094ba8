#include "colibri/sampling/params.hpp"

#include <doctest/doctest.h>

#include <limits>

#include "colibri/sampling/metadata.hpp"
#include "colibri/sampling/order.hpp"
#include "colibri/sampling/param_text.hpp"

using namespace colibri;
using namespace colibri::sampling;

namespace {

TEST_CASE("the defaults and their order") {
    const settings s = resolve({}).value();
    CHECK(s.temperature == 0.8f);
    CHECK(s.top_k == 40);
    CHECK(s.top_p == 0.95f);
    CHECK(s.min_p == 0.05f);
    using enum step_kind;
    CHECK(s.order ==
          std::vector<step_kind>{penalties, dry, top_n_sigma, top_k, typical, top_p, min_p, xtc, temperature});
    CHECK(active_steps(s) == std::vector<step_kind>{top_k, top_p, min_p, temperature});
    CHECK(choice_of(s) == choice_kind::draw);
}

TEST_CASE("all steps on, greedy, mirostat") {
    params p{.dynamic_range = 0.1f,
             .typical = 0.9f,
             .top_n_sigma = 1.0f,
             .xtc_probability = 0.5f,
             .repeat_penalty = 1.1f,
             .dry_multiplier = 0.8f,
             .seed = 1};
    CHECK(active_steps(resolve(p).value()) == default_order());
    using enum step_kind;
    p.mirostat = 2;
    CHECK(active_steps(resolve(p).value()) == std::vector<step_kind>{penalties, dry, temperature});
    p.temperature = 0.0f;
    const auto greedy = resolve(p).value();
    CHECK(active_steps(greedy) == std::vector<step_kind>{penalties, dry});
    CHECK(choice_of(greedy) == choice_kind::greedy);
    CHECK(describe(greedy) ==
          "repeat_penalty 1.1 frequency 0 presence 0 over the last 64 tokens, "
          "dry 0.8 base 1.75 from length 2, greedy");
}

TEST_CASE("a file's values replace defaults, given ones replace both") {
    gguf::metadata meta;
    meta.set("general.sampling.temp", 0.6f);
    meta.set("general.sampling.top_k", std::int32_t{20});
    meta.set("general.sampling.top_p", 0.9f);
    meta.set("general.sampling.min_p", 0.0f);
    meta.set("general.sampling.xtc_probability", 0.5f);
    meta.set("general.sampling.xtc_threshold", 0.2f);
    meta.set("general.sampling.penalty_last_n", std::uint64_t{32});
    meta.set("general.sampling.penalty_repeat", 1.05f);
    meta.set("general.sampling.mirostat", std::int32_t{0});
    meta.set("general.sampling.mirostat_tau", 4.0f);
    meta.set("general.sampling.mirostat_eta", 0.2f);
    meta.set("general.sampling.sequence", "temperature;top_k;typ_p");
    const params from_file = params_from(meta).value();
    const settings s = resolve(merged({.top_k = 7, .seed = 9}, from_file)).value();
    CHECK(s.temperature == 0.6f);
    CHECK(s.top_k == 7);
    CHECK(s.top_p == 0.9f);
    CHECK(s.min_p == 0.0f);
    CHECK(s.xtc_probability == 0.5f);
    CHECK(s.xtc_threshold == 0.2f);
    CHECK(s.repeat_last_n == 32);
    CHECK(s.repeat_penalty == 1.05f);
    CHECK(s.mirostat_tau == 4.0f);
    CHECK(s.mirostat_eta == 0.2f);
    CHECK(s.typical == 1.0f);
    CHECK(s.order == std::vector<step_kind>{step_kind::temperature, step_kind::top_k, step_kind::typical});
    CHECK(s.seed == 9);
    CHECK(params_from(gguf::metadata()).value().order == std::nullopt);
}

TEST_CASE("bad values in a file are refused by key") {
    const auto refused = [](auto value, std::string_view key) {
        gguf::metadata meta;
        meta.set(key, value);
        const auto got = params_from(meta);
        REQUIRE(!got);
        INFO(got.error().text());
        CHECK(got.error().text().find(key) != std::string::npos);
    };
    refused(-1.0f, "general.sampling.temp");
    refused(std::numeric_limits<float>::quiet_NaN(), "general.sampling.top_p");
    refused(1.5f, "general.sampling.min_p");
    refused(2.5f, "general.sampling.top_k");
    refused(std::uint64_t{1} << 40, "general.sampling.top_k");
    refused("much", "general.sampling.temp");
    refused("top_k;dance", "general.sampling.sequence");
    refused(3.0f, "general.sampling.sequence");
}

TEST_CASE("every number has a range and says so") {
    for_each_number([]<class T>(const number_field<T>& field) {
        INFO(field.name);
        params p;
        p.*field.given = field.least;
        CHECK(resolve(p));
        p.*field.given = field.most;
        CHECK(resolve(p));
        std::vector<T> bad;
        if (field.least > std::numeric_limits<T>::lowest()) bad.push_back(static_cast<T>(field.least - 1));
        if (field.most < std::numeric_limits<T>::max()) bad.push_back(static_cast<T>(field.most * 2 + 1));
        if constexpr (std::is_same_v<T, float>) {
            bad.push_back(std::numeric_limits<float>::quiet_NaN());
            bad.push_back(std::numeric_limits<float>::infinity());
        }
        for (const T value : bad) {
            p.*field.given = value;
            const auto got = resolve(p);
            REQUIRE(!got);
            CHECK(got.error().code == errc::invalid_argument);
            CHECK(got.error().message.find(field.name) != std::string::npos);
        }
        // The default is in the range, and merging takes the first.
        const settings defaults;
        const T initial = defaults.*field.value;
        CHECK(check(field, initial));
        params other;
        other.*field.given = field.most;
        p.*field.given = field.least;
        CHECK(merged(p, other).*field.given == field.least);
        CHECK(merged({}, other).*field.given == field.most);
    });
    CHECK(resolve({.top_p = 2.0f}).error().message == "the sampling setting 'top_p' is 2; it must be 0 to 1");
    params p;
    p.logit_bias = {{3, std::numeric_limits<float>::quiet_NaN()}};
    CHECK(!resolve(p));
}

TEST_CASE("settings by name") {
    params p;
    CHECK(set(p, "temp", "0.5"));
    CHECK(set(p, "top-k", "12"));
    CHECK(set(p, "Typical-P", "0.9"));
    CHECK(set(p, "mirostat_lr", "0.3"));
    CHECK(set(p, "seed", "18446744073709551615"));
    CHECK(set(p, "ignore-eos", "on"));
    CHECK(set(p, "samplers", "kt"));
    CHECK(set(p, "logit-bias", "15=-2.5"));
    CHECK(set(p, "logit-bias", "16-inf"));
    CHECK(set(p, "logit-bias", "17=false"));
    CHECK(set(p, "logit-bias", "18+1"));
    CHECK(p.temperature == 0.5f);
    CHECK(p.top_k == 12);
    CHECK(p.typical == 0.9f);
    CHECK(p.mirostat_eta == 0.3f);
    CHECK(p.seed == 18446744073709551615u);
    CHECK(p.ignore_eos == true);
    CHECK(p.order == std::vector<step_kind>{step_kind::top_k, step_kind::temperature});
    constexpr float forbidden = -std::numeric_limits<float>::infinity();
    CHECK(p.logit_bias == std::vector<bias>{{15, -2.5f}, {16, forbidden}, {17, forbidden}, {18, 1.0f}});
    CHECK(set(p, "seed", "-1"));
    CHECK(p.seed == std::nullopt);
    const std::vector<std::pair<std::string, std::string>> refused{{"temp", "warm"},
                                                                   {"temp", "1,5"},
                                                                   {"temp", ""},
                                                                   {"temp", "-0.1"},
                                                                   {"top_k", "1.5"},
                                                                   {"seed", "-2"},
                                                                   {"samplers", "kz"},
                                                                   {"logit_bias", "5"},
                                                                   {"logit_bias", "x=1"},
                                                                   {"top_k", "99999999999"},
                                                                   {"logit_bias", ""},
                                                                   {"tempo", "1"},
                                                                   {"", "1"},
                                                                   {"logit_bias", "-5=1"},
                                                                   {"ignore_eos", "maybe"},
                                                                   {"logit_bias", "5=nan"}};
    for (const auto& one : refused) {
        INFO(one.first, "=", one.second);
        const auto got = set(p, one.first, one.second);
        REQUIRE(!got);
        CHECK(got.error().code == errc::invalid_argument);
    }
    CHECK(p.temperature == 0.5f);
    for (const auto name : setting_names()) {
        INFO(name);
        params any;
        CHECK(!set(any, name, "?!"));  // known by name: the error is about the value
        CHECK(set(any, name, "?!").error().message.find("there is no sampling setting") == std::string::npos);
    }
}

TEST_CASE("names of steps") {
    for (const step_kind kind : default_order()) {
        CHECK(parse_order(name(kind)).value() == std::vector<step_kind>{kind});
    }
    CHECK(parse_order("edskypmxt").value() == default_order());
    CHECK(parse_order("top-k; temp").value() == std::vector<step_kind>{step_kind::top_k, step_kind::temperature});
    CHECK(parse_order("").value().empty());
    CHECK(!parse_order("k;?"));
    CHECK(describe(resolve({.seed = 5}).value()) == "top_k 40, top_p 0.95, min_p 0.05, temp 0.8, seed 5");
}

}  // namespace
