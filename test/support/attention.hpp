// Attention of one query row, written down as docs/numerics.md has it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <string_view>
#include <vector>

#include "colibri/simd/ops.hpp"

namespace attention_reference {

inline std::vector<float> numbers(std::size_t n, unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    std::vector<float> out(n);
    for (auto& v : out) v = normal(random);
    return out;
}

/// What a row asks, and how the target computes.
struct query {
    const float* row;     ///< head_k floats
    std::size_t head_k;
    std::size_t head_v;
    float scale;
    float softcap;        ///< 0: off
    bool fused;           ///< multiply-adds round once
};

inline float multiply(float a, float b) {
    volatile float product = a * b;  // no flag lets a compiler fuse this
    return product;
}
inline float multiply_add(bool fused, float a, float b, float c) { return fused ? std::fma(a, b, c) : multiply(a, b) + c; }
inline float exponential(float x) {
    colibri::simd::exp(&x, &x, 1);
    return x;
}

inline float tree(float (&lanes)[16]) {
    for (std::size_t apart = 8; apart > 0; apart /= 2) {
        for (std::size_t i = 0; i < apart; ++i) lanes[i] += lanes[i + apart];
    }
    return lanes[0];
}

/// What a span makes of a row.
struct part {
    float maximum = -std::numeric_limits<float>::infinity();
    float sum = 0.0f;
    std::vector<float> values;
};

/// Positions begin..end-1 of a span whose rows start at `keys` and `values`.
inline part over_span(const query& q, const float* keys, const float* values, std::size_t begin, std::size_t end) {
    part out;
    out.values.assign(q.head_v, 0.0f);
    std::vector<float> weights(end);
    for (std::size_t j = begin; j < end; ++j) {
        float dot = 0.0f;
        for (std::size_t d = 0; d < q.head_k; ++d) dot = multiply_add(q.fused, keys[j * q.head_k + d], q.row[d], dot);
        weights[j] = multiply(dot, q.scale);
        if (q.softcap > 0.0f) colibri::simd::softcap(&weights[j], q.softcap, 1);
        out.maximum = std::max(out.maximum, weights[j]);
    }
    float lanes[16] = {};
    for (std::size_t j = begin; j < end; ++j) {
        weights[j] = exponential(weights[j] - out.maximum);
        lanes[j % 16] += weights[j];
        for (std::size_t d = 0; d < q.head_v; ++d) {
            out.values[d] = multiply_add(q.fused, weights[j], values[j * q.head_v + d], out.values[d]);
        }
    }
    out.sum = tree(lanes);
    return out;
}

/// Positions begin..end-1 of a sequence, span by span.
inline std::vector<float> attend(const query& q, const float* keys, const float* values, std::size_t begin, std::size_t end) {
    part all;
    all.values.assign(q.head_v, 0.0f);
    for (std::size_t start = begin / 256 * 256; start < end; start += 256) {
        const part span = over_span(q, keys + start * q.head_k, values + start * q.head_v, std::max(begin, start) - start,
                                    std::min(end - start, std::size_t{256}));
        const float top = std::max(all.maximum, span.maximum);
        const float a = exponential(all.maximum - top);
        const float b = exponential(span.maximum - top);
        all.maximum = top;
        all.sum = multiply_add(q.fused, span.sum, b, multiply(all.sum, a));
        for (std::size_t d = 0; d < q.head_v; ++d) {
            all.values[d] = multiply_add(q.fused, span.values[d], b, multiply(all.values[d], a));
        }
    }
    for (auto& v : all.values) v = multiply(v, 1.0f / all.sum);
    return all.values;
}

}  // namespace attention_reference
