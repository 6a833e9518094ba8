#include "colibri/core/error.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <set>
#include <string>

#include "colibri/core/cancel.hpp"

using namespace colibri;

TEST_CASE("an error's text has context, message and place") {
    CHECK(error{errc::io, "went wrong"}.text() == "went wrong");
    CHECK(error{errc::io, "went wrong", 7}.text() == "went wrong (at byte 7)");
    CHECK(error{errc::io, "went wrong", 7, "file"}.text() == "file: went wrong (at byte 7)");
    CHECK(error{errc::io, "went wrong"}.within("a").within("b").text() == "b: a: went wrong");
}

TEST_CASE("every kind of error has a name of its own") {
    std::set<std::string> names;
    const auto last = static_cast<int>(errc::limit);
    for (int code = 0; code <= last; ++code) names.insert(std::string(name(static_cast<errc>(code))));
    CHECK(names.size() == static_cast<std::size_t>(last) + 1);
    CHECK(names.count("unknown") == 0);
    CHECK(name(static_cast<errc>(last + 1)) == "unknown");
}

TEST_CASE("a result is a value or an error") {
    result<int> good = 5;
    CHECK(good);
    CHECK(*good == 5);
    CHECK(good.value() == 5);
    CHECK(good.value_or(1) == 5);
    result<int> bad = error{errc::bad_value, "no"};
    CHECK(!bad);
    CHECK(bad.error().code == errc::bad_value);
    CHECK(bad.value_or(1) == 1);
    CHECK_THROWS_AS((void)bad.value(), exception);
    try {
        (void)bad.value();
    } catch (const exception& e) {
        CHECK(std::string(e.what()) == "no");
        CHECK(e.error().code == errc::bad_value);
    }
    result<std::unique_ptr<int>> moved = std::make_unique<int>(3);
    std::unique_ptr<int> out = *std::move(moved);
    CHECK(*out == 3);
    result<std::string> text = std::string("x");
    CHECK(text->size() == 1);
    CHECK(std::move(text).value() == "x");
}

TEST_CASE("a result without a value") {
    result<void> good;
    CHECK(good);
    CHECK_NOTHROW(good.value());
    result<void> bad = error{errc::canceled, "stopped"};
    CHECK(!bad);
    CHECK_THROWS_AS(bad.value(), exception);
}

TEST_CASE("a cancel flag is set until it is reset") {
    cancel_flag flag;
    CHECK(!flag.requested());
    flag.request();
    flag.request();
    CHECK(flag.requested());
    flag.reset();
    CHECK(!flag.requested());
}
