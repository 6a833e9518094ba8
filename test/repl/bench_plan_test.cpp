#include "repl/bench_plan.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "repl/bench_report.hpp"
#include "support/tiny_models.hpp"

using namespace colibri;
using namespace colibri::repl;

namespace {

options with(std::initializer_list<std::pair<std::string_view, std::string_view>> values) {
    options o;
    for (const auto& [name, value] : values) REQUIRE(set_option(o, *find_option(name, for_bench), value));
    return o;
}

}  // namespace

TEST_CASE("bench: without options a prompt of 512 and 128 tokens, five times, with the default threads") {
    const auto plan = plan_bench({});
    REQUIRE(plan);
    CHECK(plan->repeat == 5);
    CHECK(plan->warm_up);
    REQUIRE(plan->groups.size() == 1);
    const auto& group = plan->groups[0];
    CHECK(group.session.context == 512);
    CHECK(group.session.threads == 0);
    REQUIRE(group.cases.size() == 2);
    CHECK(group.cases[0].prompt == 512);
    CHECK(group.cases[0].generate == 0);
    CHECK(group.cases[1].prompt == 0);
    CHECK(group.cases[1].generate == 128);
}

TEST_CASE("bench: lists multiply, values given twice count once") {
    const auto plan = plan_bench(with({{"prompt-tokens", "0,32"}, {"gen-tokens", "8"}, {"prompt-gen", "16,4"}, {"depth", "0,100"},
                                       {"threads", "1,2,2"}, {"ubatch-size", "64,512"}, {"cache-type-k", "f16,q8_0"},
                                       {"sequences", "1,3"}, {"repeat", "2"}}));
    REQUIRE(plan);
    CHECK(plan->repeat == 2);
    CHECK(plan->groups.size() == 2 * 2 * 2 * 2);
    for (const auto& group : plan->groups) {
        CHECK(group.cases.size() == 6);
        CHECK(group.session.context == 132);
        CHECK(group.session.cache_v == kv_type::f16);
    }
    CHECK(plan->groups[0].session.threads == 1);
    CHECK(plan->groups[1].session.threads == 2);
}

TEST_CASE("bench: what can't be measured is refused") {
    const auto nothing = plan_bench(with({{"prompt-tokens", "0"}, {"gen-tokens", "0"}}));
    REQUIRE(!nothing);
    CHECK(nothing.error().code == errc::invalid_argument);
    CHECK(!plan_bench(with({{"depth", "4294967295"}})));
    CHECK(plan_bench(with({{"prompt-tokens", "0"}, {"gen-tokens", "0"}, {"prompt-gen", "1,1"}})));
}

TEST_CASE("bench: rates, limits and knees") {
    const auto m = tiny::open("llama");
    const auto plan = plan_bench(with({{"threads", "1-4"}}));
    REQUIRE(plan);
    for (const std::string format : {"md", "csv", "json", "jsonl"}) {
        CAPTURE(format);
        bench_report report(format, subject_of(m), *plan);
        std::string all = report.head();
        for (const unsigned threads : {1u, 2u, 3u, 4u}) {
            bench_row r;
            r.what = {0, 10, 5};
            r.threads = r.threads_batch = threads;
            r.seconds = {0.5 / threads, 0.25 / threads, 1.0 / threads};
            if (threads == 4) r.seconds = {0.17};
            r.least = {.bytes = 4e9, .integer_madds = 1e9, .float_madds = 0.0, .seconds = 0.1};
            r.one = r.several = {1e9, 2e9, 3e9};
            CHECK(r.name() == "tg10 @ d5");
            if (threads == 2) {
                CHECK(r.median_rate() == 40.0);
                CHECK(r.limit_rate() == 100.0);
                CHECK(r.fraction_of_limit() == 0.4);
            }
            all += report.row(r);
        }
        all += report.tail();
        CHECK(all.find("tg10 @ d5") != std::string::npos);
        const auto knees = report.knees();
        REQUIRE(knees.size() == 1);
        CHECK(knees[0] == "Knee of tg10 @ d5: 3 threads, the fewest within 5 % of the best (1: 33 %, 2: 67 %, 3: 100 %, 4: 98 %)");
        if (format == "md") {
            CHECK(all.find(knees[0]) != std::string::npos);
            CHECK(all.find("| llama") != std::string::npos);
        }
        if (format == "json") {
            const auto parsed = nlohmann::json::parse(all);
            REQUIRE(parsed.size() == 4);
            const auto& row = parsed[1];
            CHECK(row["n_gen"] == 10);
            CHECK(row["n_depth"] == 5);
            CHECK(row["samples_ns"] == nlohmann::json{250000000, 125000000, 500000000});
            CHECK(row["avg_ts"].get<double>() == doctest::Approx((40.0 + 80.0 + 20.0) / 3));
            CHECK(row["median_ts"] == 40.0);
            CHECK(row["limit_ts"] == 100.0);
            CHECK(row["fraction_of_limit"] == 0.4);
        }
    }
}

TEST_CASE("bench: with nothing measured every form is still whole") {
    const auto m = tiny::open("llama");
    const auto plan = plan_bench({});
    bench_report json("json", subject_of(m), *plan);
    CHECK(nlohmann::json::parse(json.head() + json.tail()).empty());
    bench_report csv("csv", subject_of(m), *plan);
    CHECK(csv.head().find("build_commit,") == 0);
    CHECK(csv.tail().empty());
}
