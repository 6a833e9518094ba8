// What `colibri bench` measures: the lists of its options multiplied out.
#pragma once

#include <cstdint>
#include <vector>

#include "colibri/session/benchmark.hpp"
#include "repl/options.hpp"

namespace colibri::repl {

/// Measurements that share one session, and thus its memory.
struct bench_group {
    session_options session;  ///< with room for the largest of the cases
    std::vector<benchmark_case> cases;
};

/// All measurements in the order in which they are made: threads change last but one, cases last.
struct bench_plan {
    std::vector<bench_group> groups;
    unsigned repeat = 5;
    bool warm_up = true;
};

/// Errors: invalid_argument (nothing to measure, more context than can be counted).
[[nodiscard]] result<bench_plan> plan_bench(const options& given);

}  // namespace colibri::repl
