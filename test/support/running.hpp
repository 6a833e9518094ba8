// Running token sequences through an evaluator, and comparing logits.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "colibri/model/evaluator.hpp"
#include "support/npy.hpp"

namespace golden {

/// Logits of every token of a sequence, evaluated from an empty cache in steps of `chunk` tokens.
inline matrix run_all(colibri::evaluator& e, std::span<const colibri::text::token_id> tokens, std::size_t chunk,
                      std::uint32_t sequence = 0) {
    e.kv().truncate(sequence, 0);
    matrix out;
    out.columns = e.source().params().vocabulary;
    for (std::size_t at = 0; at < tokens.size(); at += chunk) {
        std::vector<colibri::batch_token> batch;
        for (std::size_t i = at; i < std::min(tokens.size(), at + chunk); ++i) {
            batch.push_back({tokens[i], static_cast<std::uint32_t>(i), sequence, true});
        }
        const auto done = e.step(batch);
        REQUIRE_MESSAGE(done, (done ? std::string() : done.error().text()));
        for (std::size_t i = 0; i < batch.size(); ++i) {
            const auto logits = e.logits(i);
            out.values.insert(out.values.end(), logits.begin(), logits.end());
            ++out.rows;
        }
    }
    return out;
}

inline std::size_t largest(const float* x, std::size_t n) {
    return static_cast<std::size_t>(std::max_element(x, x + n) - x);
}

/// Distance of one matrix's rows to rows of a reference.
struct distance {
    double max = 0.0;
    double rms = 0.0;
    std::size_t flips = 0;  ///< rows with another largest value although the reference's margin is over the limit given
};

/// Compares `ours` with the rows of `reference` from `first_row` on. NaN counts as infinitely far.
inline distance compare(const matrix& ours, const matrix& reference, std::size_t first_row, double margin_limit) {
    distance out;
    REQUIRE(ours.columns == reference.columns);
    REQUIRE(first_row + ours.rows <= reference.rows);
    double squares = 0.0;
    for (std::size_t r = 0; r < ours.rows; ++r) {
        const float* a = ours.row(r);
        const float* b = reference.row(first_row + r);
        for (std::size_t i = 0; i < ours.columns; ++i) {
            const double d = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
            out.max = std::isfinite(d) ? std::max(out.max, d) : HUGE_VAL;
            squares += d * d;
        }
        const std::size_t best = largest(b, ours.columns);
        float second = -HUGE_VALF;
        for (std::size_t i = 0; i < ours.columns; ++i) {
            if (i != best) second = std::max(second, b[i]);
        }
        if (b[best] - second > margin_limit && largest(a, ours.columns) != best) ++out.flips;
    }
    out.rms = std::sqrt(squares / static_cast<double>(ours.rows * ours.columns));
    return out;
}

/// The `count` tokens that follow `tokens` when the largest logit is taken each time; with the cache token by token, or
/// (`recompute`) by evaluating everything again for each.
inline std::vector<colibri::text::token_id> greedy(colibri::evaluator& e, std::vector<colibri::text::token_id> tokens,
                                                   std::size_t count, bool recompute) {
    std::vector<colibri::text::token_id> out;
    e.kv().truncate(0, 0);
    while (out.size() < count) {
        if (recompute) e.kv().truncate(0, 0);
        while (e.kv().length(0) < tokens.size()) {
            std::vector<colibri::batch_token> batch;
            for (std::uint32_t i = e.kv().length(0); i < tokens.size() && batch.size() < e.options().ubatch; ++i) {
                batch.push_back({tokens[i], i, 0, i + 1 == tokens.size()});
            }
            REQUIRE(e.step(batch));
        }
        const auto logits = e.logits(0);
        const auto best = static_cast<colibri::text::token_id>(largest(logits.data(), logits.size()));
        out.push_back(best);
        tokens.push_back(best);
    }
    return out;
}

}  // namespace golden
