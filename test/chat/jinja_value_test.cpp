// Values as C++ makes and reads them; JSON in and out; dates.
#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <string>

#include "colibri/chat/jinja/json.hpp"
#include "colibri/chat/jinja/machine.hpp"
#include "colibri/chat/jinja/strftime.hpp"
#include "colibri/chat/jinja/tojson.hpp"
#include "colibri/chat/jinja/value.hpp"

using colibri::errc;
using colibri::origin;
using colibri::jinja::civil_time;
using colibri::jinja::format_time;
using colibri::jinja::kind;
using colibri::jinja::parse_json;
using colibri::jinja::to_json;
using colibri::jinja::value;

TEST_CASE("value: kinds and what is in them") {
    CHECK(value().is_none());
    CHECK(value::none().is_none());
    CHECK(value(true).as_bool());
    CHECK(value(7).as_int() == 7);
    CHECK(value(std::size_t{7}).as_int() == 7);
    CHECK(value(1.5).as_real() == 1.5);
    CHECK(value("text").text() == "text");
    CHECK(value(std::string("text")).is_string());
    CHECK_FALSE(value(1).text());
    // An integer that 64 signed bits can't hold is a real number, not another integer.
    CHECK(value(~std::uint64_t{0}).is(kind::real));
    const value list = value::list({1, "a", {}});
    REQUIRE(list.is_list());
    CHECK(list.items().size() == 3);
    CHECK(list.items()[2].is_none());
}

TEST_CASE("value: text is untrusted unless the program says otherwise") {
    CHECK(value("a").as_string().origin_at(0) == origin::untrusted);
    CHECK(value(std::string("a")).as_string().origin_at(0) == origin::untrusted);
    CHECK(value::trusted("a").as_string().origin_at(0) == origin::trusted);
    CHECK(value::object({{"k", "v"}}).find("k")->as_string().origin_at(0) == origin::untrusted);
    CHECK(value::object({{"k", "v"}}).members()[0].first.as_string().origin_at(0) == origin::untrusted);
    CHECK(parse_json(R"("a")").value().as_string().origin_at(0) == origin::untrusted);
    CHECK(parse_json(R"("a")", origin::trusted).value().as_string().origin_at(0) == origin::trusted);
}

TEST_CASE("value: dicts keep their order and find their members") {
    const value few = value::object({{"b", 1}, {"a", 2}, {"b", 3}});
    REQUIRE(few.members().size() == 2);
    CHECK(few.members()[0].first.text() == "b");
    CHECK(few.find("b")->as_int() == 3);
    CHECK(few.find("c") == nullptr);
    CHECK(value(1).find("c") == nullptr);
    std::vector<value::pair> many;  // enough for the hash table
    for (int i = 0; i < 1000; ++i) many.emplace_back(std::to_string(i), i);
    for (int i = 0; i < 1000; ++i) many.emplace_back(i, -i);
    const value big = value::dict(std::move(many));
    REQUIRE(big.members().size() == 2000);
    for (int i = 0; i < 1000; ++i) {
        REQUIRE(big.find(std::to_string(i)) != nullptr);
        CHECK(big.find(std::to_string(i))->as_int() == i);
        REQUIRE(big.as_dict().find(value(i)) != nullptr);
        CHECK(big.as_dict().find(value(i))->as_int() == -i);
        CHECK(big.as_dict().find(value(static_cast<double>(i)))->as_int() == -i);
    }
    CHECK(big.find("1000") == nullptr);
    CHECK(big.as_dict().find(value(0.5)) == nullptr);
    CHECK(big.as_dict().find(value::list({})) == nullptr);
}

TEST_CASE("json: what is read") {
    const value v = parse_json(R"( {"a": [1, -2, 1.0, 1e2, true, false, null, "x\u00e9\ud83d\ude00\n\/"], "b": {}, "a b": []} )").value();
    const auto& items = v.find("a")->items();
    REQUIRE(items.size() == 8);
    CHECK(items[0].is(kind::integer));
    CHECK(items[1].as_int() == -2);
    CHECK(items[2].is(kind::real));
    CHECK(items[3].as_real() == 100);
    CHECK(items[4].as_bool());
    CHECK(items[6].is_none());
    CHECK(items[7].text() == "xé😀\n/");
    CHECK(v.members()[2].first.text() == "a b");
    CHECK(parse_json("9223372036854775807").value().as_int() == std::numeric_limits<std::int64_t>::max());
    CHECK(parse_json("-9223372036854775808").value().as_int() == std::numeric_limits<std::int64_t>::min());
    CHECK(parse_json("-0").value().as_int() == 0);
    CHECK(parse_json(R"({"a": 1, "a": 2})").value().find("a")->as_int() == 2);
    CHECK(parse_json(std::string(99, '[') + std::string(99, ']')).has_value());
}

TEST_CASE("json: what is refused, and where") {
    struct refused {
        std::string text;
        errc code;
        std::uint64_t offset;
    };
    const refused cases[] = {
        {"", errc::bad_value, 0},           {"  ", errc::bad_value, 2},          {"{", errc::bad_value, 1},
        {"[1,]", errc::bad_value, 3},       {"[1", errc::bad_value, 2},          {"{\"a\":1,}", errc::bad_value, 7},
        {"{a:1}", errc::bad_value, 1},      {"{\"a\" 1}", errc::bad_value, 5},   {"01", errc::bad_value, 0},
        {"1.", errc::bad_value, 2},         {".5", errc::bad_value, 0},          {"1e", errc::bad_value, 2},
        {"+1", errc::bad_value, 0},         {"nul", errc::bad_value, 0},         {"NaN", errc::bad_value, 0},
        {"'a'", errc::bad_value, 0},        {"\"a", errc::bad_value, 2},         {"\"\n\"", errc::bad_value, 1},
        {"\"\\q\"", errc::bad_value, 2},    {"\"\\u12\"", errc::bad_value, 3},   {"\"\\ud800\"", errc::bad_utf8, 7},
        {"\"\\udc00\"", errc::bad_utf8, 7}, {"\"\xff\"", errc::bad_utf8, 1},     {"1 2", errc::bad_value, 2},
        {"9223372036854775808", errc::bad_value, 0},                             {"1e999", errc::bad_value, 0},
        {std::string(101, '['), errc::limit, 100},
    };
    for (const refused& each : cases) {
        CAPTURE(each.text);
        const auto got = parse_json(each.text);
        REQUIRE_FALSE(got.has_value());
        CHECK(got.error().code == each.code);
        CHECK(got.error().offset == each.offset);
    }
}

TEST_CASE("json: what is written reads back the same") {
    const char* texts[] = {R"({"a": [1, 1.0, -0.0, 1e+20, 1e-07, 0.1], "b": "x\"\\\n\u0001é", "c": {}, "d": [], "e": null})",
                           "[]", "\"\"", "true", "[[[[1]]]]"};
    for (const char* text : texts) {
        CHECK(to_json(parse_json(text).value()).value() == text);
        CHECK(to_json(parse_json(to_json(parse_json(text).value(), 2).value()).value()).value() == text);
    }
    CHECK(to_json(value::object({{"a", value::list({1, 2})}}), 2).value() == "{\n  \"a\": [\n    1,\n    2\n  ]\n}");
}

TEST_CASE("strftime: days of the week and of the year, weeks") {
    const civil_time saturday{2026, 7, 4, 15, 6, 7};
    CHECK(format_time("%A %a %B %b %d %j %Y %y %H %I %p %M %S", saturday) == "Saturday Sat July Jul 04 185 2026 26 15 03 PM 06 07");
    CHECK(format_time("%-d/%-m/%e|%U %W %V %G %u %w", saturday) == "4/7/ 4|26 26 27 2026 6 6");
    CHECK(format_time("%F %T %D %R %c", saturday) == "2026-07-04 15:06:07 07/04/26 15:06 Sat Jul  4 15:06:07 2026");
    CHECK(format_time("%Y-%j %A", {2024, 12, 31, 0, 0, 0}) == "2024-366 Tuesday");
    CHECK(format_time("%G-%V %A", {2021, 1, 3, 0, 0, 0}) == "2020-53 Sunday");
    CHECK(format_time("%G-%V", {2024, 12, 30, 0, 0, 0}) == "2025-01");
    CHECK(format_time("%I %p", {2024, 1, 1, 0, 0, 0}) == "12 AM");
    CHECK(format_time("100%% %", saturday) == "100% %");
    const civil_time now = colibri::jinja::local_time_now();
    CHECK(now.year >= 2024);
    CHECK(now.month >= 1);
    CHECK(now.month <= 12);
}
