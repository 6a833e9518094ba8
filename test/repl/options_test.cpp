#include "repl/options.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>

#include "colibri/core/concat.hpp"
#include "colibri/sampling/order.hpp"
#include "repl/lists.hpp"

using namespace colibri;
using namespace colibri::repl;

namespace {

std::string problem(std::string_view name, std::string_view value) {
    options o;
    const auto* row = find_option(name);
    REQUIRE(row != nullptr);
    const auto done = set_option(o, *row, value);
    return done ? "" : done.error().message;
}

}  // namespace

TEST_CASE("options: names are unique, and every row can be found and has its help") {
    for (const unsigned command : {for_chat, for_run, for_tokenize, for_inspect, for_plan, for_bench, for_eval, for_imatrix, for_convert}) {
        std::set<std::string_view> names, shorts;
        for (const auto& row : all_options()) {
            if ((row.commands & command) == 0) continue;
            CAPTURE(row.name);
            CHECK(names.insert(row.name).second);
            if (!row.short_name.empty()) CHECK(shorts.insert(row.short_name).second);
        }
    }
    for (const auto& row : all_options()) {
        CAPTURE(row.name);
        CHECK(find_option(row.name, row.commands) == &row);
        CHECK(!row.help.empty());
        CHECK(!row.help.ends_with('.'));
        CHECK(row.commands != 0);
        CHECK(!group_of(row).empty());
        CHECK(given_values(options{}, row).empty());
    }
    CHECK(find_option("top_k") == find_option("top-k"));
    CHECK(find_option("top_k") != nullptr);
    CHECK(find_option("nonsense") == nullptr);
}

TEST_CASE("options: the flags that people know are there") {
    for (const auto* name : {"model",
                             "prompt",
                             "file",
                             "predict",
                             "ctx-size",
                             "threads",
                             "threads-batch",
                             "batch-size",
                             "ubatch-size",
                             "seed",
                             "temp",
                             "top-k",
                             "top-p",
                             "min-p",
                             "typical",
                             "top-n-sigma",
                             "xtc-probability",
                             "xtc-threshold",
                             "dry-multiplier",
                             "dry-base",
                             "dry-allowed-length",
                             "mirostat",
                             "mirostat-lr",
                             "mirostat-ent",
                             "repeat-penalty",
                             "repeat-last-n",
                             "presence-penalty",
                             "frequency-penalty",
                             "logit-bias",
                             "stop",
                             "ignore-eos",
                             "system",
                             "chat-template",
                             "show-prompt",
                             "raw",
                             "weights",
                             "mmap",
                             "no-mmap",
                             "mlock",
                             "no-mlock",
                             "cache-type-k",
                             "cache-type-v",
                             "json",
                             "color",
                             "verbose"}) {
        CAPTURE(name);
        const auto* row = find_option(name);
        REQUIRE(row != nullptr);
        CHECK((row->commands & for_run) != 0);
        if (std::string_view(name) != "json") CHECK((row->commands & for_chat) != 0);
    }
}

TEST_CASE("options: the defaults that help shows are the library's") {
    const sampling::settings defaults;
    options given;
    for (const auto& row : all_options()) {
        if (!std::holds_alternative<sampling_target>(row.target) || row.default_text.empty()) continue;
        CAPTURE(row.name);
        REQUIRE(set_option(given, row, row.default_text));
    }
    CHECK(!given.sampling.seed);
    CHECK(given.sampling.order == sampling::default_order());
    CHECK(given.sampling.ignore_eos == defaults.ignore_eos);
    int compared = 0;
    sampling::for_each_number([&](const auto& field) {
        if (field.name == "min_keep") return;  // not an option
        CAPTURE(field.name);
        REQUIRE((given.sampling.*field.given).has_value());
        CHECK(*(given.sampling.*field.given) == defaults.*field.value);
        ++compared;
    });
    CHECK(compared == 21);
}

TEST_CASE("options: numbers") {
    CHECK(problem("threads", "4").empty());
    CHECK(problem("threads", "abc") == "a whole number from 0 to 1024 or auto is needed, not 'abc'");
    CHECK(problem("threads", "-1") == "a whole number from 0 to 1024 or auto is needed, not '-1'");
    CHECK(problem("threads", "").find("not ''") != std::string::npos);
    CHECK(problem("threads", "auto").empty());
    CHECK(problem("threads-batch", "auto").empty());
    CHECK(problem("predict", "auto") != "");
    CHECK(problem("predict", "-1").empty());
    CHECK(problem("predict", "-2") == "a whole number of at least -1 is needed, not '-2'");
    CHECK(problem("ctx-size", "4096x").find("'4096x'") != std::string::npos);
    CHECK(problem("ctx-size", "99999999999999999999").find("whole number") != std::string::npos);
    CHECK(problem("batch-size", "0").find("at least 1") != std::string::npos);
    CHECK(problem("temp", "0.7").empty());
    CHECK(problem("temp", "0,7").find("'0,7'") != std::string::npos);
    CHECK(problem("temp", "-1").find("temp") != std::string::npos);
    CHECK(problem("temp", "nan") != "");
    CHECK(problem("top-p", "1.5") != "");
    CHECK(problem("seed", "18446744073709551615").empty());
    CHECK(problem("seed", "-1").empty());
    CHECK(problem("seed", "-2") != "");
    CHECK(problem("mirostat", "3") != "");
}

TEST_CASE("options: words") {
    CHECK(problem("color", "always").empty());
    CHECK(problem("color", "sometimes") == "one of auto always never is needed, not 'sometimes'");
    CHECK(problem("cache-type-k", "q8_0").empty());
    CHECK(problem("cache-type-k", "q9") == "one of f32 f16 bf16 q8_0 q4_0 is needed, not 'q9'");
    CHECK(problem("verbose", "on").empty());
    CHECK(problem("verbose", "maybe") == "on or off is needed, not 'maybe'");
    CHECK(problem("logit-bias", "15043=-1.5").empty());
    CHECK(problem("logit-bias", "2=-inf").empty());
    CHECK(problem("logit-bias", "word=1") != "");
    CHECK(problem("stop", "") != "");
}

TEST_CASE("options: what was given is given back as text, and can be taken back") {
    const std::pair<const char*, const char*> cases[] = {
        {"model", "a file.gguf"},
        {"predict", "-1"},
        {"seed", "18446744073709551615"},
        {"temp", "0.7"},
        {"top-k", "0"},
        {"ignore-eos", "on"},
        {"logit-bias", "7=-inf"},
        {"samplers", "top_k;temperature"},
        {"stop", "\n\n"},
        {"verbose", "off"},
        {"raw", "on"},
    };
    for (const auto& each : cases) {
        const std::string name = each.first, value = each.second;
        CAPTURE(name);
        options o;
        const auto& row = *find_option(name);
        REQUIRE(set_option(o, row, value));
        CHECK(given_values(o, row) == std::vector<std::string>{value});
        unset_option(o, row);
        CHECK(given_values(o, row).empty());
    }
    options o;
    const auto& stop = *find_option("stop");
    REQUIRE(set_option(o, stop, "a"));
    REQUIRE(set_option(o, stop, "[b,c]"));
    CHECK(given_values(o, stop) == std::vector<std::string>{"a", "[b,c]"});
}

TEST_CASE("options: lists") {
    const auto numbers = [](std::string_view text) { return numbers_of(text, 0, 1024, true).value_or(std::vector<std::int64_t>{}); };
    using list = std::vector<std::int64_t>;
    CHECK(numbers("4") == list{4});
    CHECK(numbers("1,2,4") == list{1, 2, 4});
    CHECK(numbers("1-4") == list{1, 2, 3, 4});
    CHECK(numbers("1-8+2") == list{1, 3, 5, 7});
    CHECK(numbers("1-16*2") == list{1, 2, 4, 8, 16});
    CHECK(numbers("3-20*3,auto,5") == list{3, 9, 0, 5});
    CHECK(numbers("7-7") == list{7});
    for (const auto* wrong : {"", ",", "1,", "x", "-1", "1025", "1-", "-", "4-1", "1-8+0", "1-8*1", "0-8*2", "1-8+", "1-8+x", "1-2-3",
                              "1-8*2+1", "1.5", "auto-4", "99999999999999999999"}) {
        CAPTURE(wrong);
        CHECK(!numbers_of(wrong, 0, 1024, true));
    }
    CHECK(!numbers_of("auto", 0, 10, false));
    CHECK(!numbers_of("1-100000", 0, 0xffffffff, false));  // more values than anybody measures
    CHECK(words_of("f16,q8_0", "f32 f16 q8_0").value() == std::vector<std::string>{"f16", "q8_0"});
    for (const auto* wrong : {"", "f16,", "f16 q8_0", "f1", "q9"}) CHECK(!words_of(wrong, "f32 f16 q8_0"));
    CHECK(pair_of("512,128").value() == std::pair(512u, 128u));
    CHECK(pair_of("0,1"));
    for (const auto* wrong : {"", "5", "0,0", "1,2,3", "a,1", "-1,1"}) CHECK(!pair_of(wrong));
    // bench's options of other commands' names are lists.
    options o;
    const auto& threads = *find_option("threads", for_bench);
    REQUIRE(set_option(o, threads, "1,2"));
    CHECK(o.thread_list == "1,2");
    CHECK(!o.threads);
    CHECK(!set_option(o, *find_option("cache-type-k", for_bench), "f16,f17"));
    CHECK(!set_option(o, *find_option("prompt-gen", for_bench), "5"));
    CHECK(!set_option(o, *find_option("depth", for_bench), "auto"));
}
