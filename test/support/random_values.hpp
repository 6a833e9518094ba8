// Numbers and bytes that look random and are the same with every standard library.
#pragma once

#include <cstddef>
#include <random>
#include <string>
#include <vector>

namespace test_support {

/// n values, near enough to a normal distribution around 0: sums of four uniform values, with a standard deviation of 0.58 times `scale`.
inline std::vector<float> bell_values(std::size_t n, unsigned seed, float scale = 1.0f) {
    std::mt19937 bits(seed);
    std::vector<float> out(n);
    for (auto& v : out) {
        float sum = 0;
        for (int i = 0; i < 4; ++i) sum += static_cast<float>(bits() >> 8) * 0x1p-24f - 0.5f;
        v = sum * scale;
    }
    return out;
}

/// n values, uniform between -1.5 and 1.5.
inline std::vector<float> uniform_values(std::size_t n, unsigned seed) {
    std::mt19937 bits(seed);
    std::vector<float> out(n);
    for (auto& v : out) v = (static_cast<float>(bits() >> 8) * 0x1p-24f - 0.5f) * 3.0f;
    return out;
}

inline std::string random_text(std::size_t size, unsigned seed) {
    std::mt19937 random(seed);
    std::string out(size, '\0');
    for (char& c : out) c = static_cast<char>(random());
    return out;
}

}  // namespace test_support
