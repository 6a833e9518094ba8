#include "simd/targets.hpp"

#include <doctest/doctest.h>

#include <cstdlib>

#include "colibri/simd/ops.hpp"

using namespace colibri;

TEST_CASE("the target in use is the best one that runs here, unless the environment names another") {
    const auto all = simd::targets();
    REQUIRE(!all.empty());
    if (std::getenv("COLIBRI_SIMD") != nullptr) {
        CHECK(simd::target_name() == std::getenv("COLIBRI_SIMD"));
        return;
    }
    for (const auto& target : all) {
        if (!target.compiled || !target.runnable) continue;
        CHECK(simd::target_name() == target.name);
        break;
    }
}

TEST_CASE("forcing a target") {
    std::string_view best;
    for (const auto& target : simd::targets()) {
        INFO("target ", std::string(target.name));
        const auto forced = simd::force_target(target.name);
        CHECK(forced.has_value() == (target.compiled && target.runnable));
        if (forced) {
            if (best.empty()) best = target.name;
            CHECK(simd::target_name() == target.name);
            float x[3] = {1.0f, 2.0f, 3.0f};
            simd::scale(x, 2.0f, 3);
            CHECK(x[2] == 6.0f);
        } else {
            CHECK(forced.error().code == errc::unsupported);
            CHECK(forced.error().message.find(std::string(target.name)) != std::string::npos);
        }
    }
    CHECK(simd::force_target(best).has_value());
}

TEST_CASE("an unknown target is refused with the known names") {
    const std::string before(simd::target_name());
    const auto forced = simd::force_target("mmx\x1b[2J");
    REQUIRE(!forced);
    CHECK(forced.error().code == errc::invalid_argument);
    CHECK(forced.error().message.find('\x1b') == std::string::npos);
    for (const auto& target : simd::targets()) CHECK(forced.error().message.find(std::string(target.name)) != std::string::npos);
    CHECK(simd::target_name() == before);
}

TEST_CASE("COLIBRI_SIMD is obeyed, and a wrong value is an error") {
    const char* set = std::getenv("COLIBRI_SIMD");
    const std::string before = set != nullptr ? set : "";
    std::string_view last;
    std::string_view best;
    for (const auto& target : simd::targets()) {
        if (!target.compiled || !target.runnable) continue;
        if (best.empty()) best = target.name;
        last = target.name;
    }
    ::setenv("COLIBRI_SIMD", std::string(last).c_str(), 1);
    CHECK(simd::force_target_from_environment().has_value());
    CHECK(simd::target_name() == last);
    ::setenv("COLIBRI_SIMD", "avx9000", 1);
    const auto wrong = simd::force_target_from_environment();
    REQUIRE(!wrong);
    CHECK(wrong.error().code == errc::invalid_argument);
    CHECK(wrong.error().text().find("COLIBRI_SIMD") != std::string::npos);
    ::setenv("COLIBRI_SIMD", "", 1);
    CHECK(simd::force_target_from_environment().has_value());
    if (before.empty()) ::unsetenv("COLIBRI_SIMD");
    else ::setenv("COLIBRI_SIMD", before.c_str(), 1);
    CHECK(simd::force_target(before.empty() ? best : std::string_view(before)).has_value());
}
