// Runs a check once for every compiled target that this CPU can run; the others are reported, never passed silently.
#pragma once

#include <doctest/doctest.h>

#include <functional>
#include <iostream>
#include <set>
#include <string>
#include <string_view>

#include "colibri/simd/targets.hpp"

namespace test {

/// Whether a target computes with fused multiply-adds, so that its bits are those of the scalar references.
inline bool is_fused(std::string_view target) { return target != "sse4" && target != "baseline"; }

/// Tells once that a target is left out.
inline void report_not_run(const colibri::simd::target_info& target) {
    static std::set<std::string, std::less<>> told;
    if (!told.emplace(target.name).second) return;
    std::cout << "simd: " << target.name << ": not run (" << (target.compiled ? "this CPU can't" : "not compiled") << ")\n";
}

/// Calls check(name) with each target forced in turn and goes back to the best one.
template <class Check>
void on_every_target(Check&& check) {
    int ran = 0;
    std::string best;
    for (const auto& target : colibri::simd::targets()) {
        if (!target.compiled || !target.runnable) {
            report_not_run(target);
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
