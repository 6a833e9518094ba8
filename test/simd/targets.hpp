// Runs a check once for every compiled target that this CPU can run; the others are reported, never passed silently.
#pragma once

#include <doctest/doctest.h>

#include <iostream>
#include <string>
#include <string_view>

#include "colibri/simd/targets.hpp"

namespace test {

/// Whether a target computes with fused multiply-adds, so that its bits are those of the scalar references.
inline bool is_fused(std::string_view target) { return target != "sse4" && target != "baseline"; }

/// Calls check() with each target forced in turn and goes back to the best one.
template <class Check>
void on_every_target(Check&& check) {
    int ran = 0;
    std::string best;
    for (const auto& target : colibri::simd::targets()) {
        if (!target.compiled || !target.runnable) {
            static std::string told;
            const std::string name(target.name);
            if (told.find(name + ";") == std::string::npos) {
                told += name + ";";
                std::cout << "simd: " << name << ": not run (" << (target.compiled ? "this CPU can't" : "not compiled") << ")\n";
            }
            continue;
        }
        if (best.empty()) best = target.name;
        REQUIRE(colibri::simd::force_target(target.name).has_value());
        INFO("target ", std::string(target.name));
        check(target.name);
        ++ran;
    }
    REQUIRE(ran > 0);
    REQUIRE(colibri::simd::force_target(best).has_value());
}

}  // namespace test
