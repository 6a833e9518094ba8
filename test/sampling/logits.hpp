// Logits for sampling tests, the same on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "colibri/sampling/random.hpp"

namespace sampling_test {

/// `count` logits in steps of 1/64 between -8 and 8; each value occurs often, so equal ones are tested too.
inline std::vector<float> logits(std::size_t count, std::uint64_t seed) {
    colibri::sampling::generator random(seed);
    std::vector<float> out(count);
    for (auto& one : out) one = static_cast<float>(random.below(1025)) / 64.0f - 8.0f;
    return out;
}

}  // namespace sampling_test
