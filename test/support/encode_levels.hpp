// The levels of the encoders that this CPU has.
#pragma once

#include <doctest/doctest.h>

#include <vector>

#include "colibri/quant/encode_levels.hpp"

namespace test_support {

/// In ascending order; says so if only the lowest can be run.
inline std::vector<colibri::quant::detail::encode_level> encode_levels() {
    using colibri::quant::detail::encode_level;
    std::vector<encode_level> out;
    for (const auto level : {encode_level::baseline, encode_level::avx2, encode_level::avx512}) {
        if (level <= colibri::quant::detail::highest_level()) out.push_back(level);
    }
    if (out.size() == 1) MESSAGE("not run: levels above the lowest, which this CPU doesn't have");
    return out;
}

}  // namespace test_support
