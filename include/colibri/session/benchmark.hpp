// Times a session's prompts and answers, repeatably: the tokens are the same each time, nothing is sampled.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

#include "colibri/core/cancel.hpp"
#include "colibri/model/prediction.hpp"
#include "colibri/model/roofline.hpp"
#include "colibri/session/session.hpp"

namespace colibri {

/// What is timed: a prompt, then tokens one after the other, both behind a context that is there already. In a session with
/// several sequences each gets its own prompt, one after the other, and tokens are decoded for all of them at once.
struct benchmark_case {
    std::uint32_t prompt = 0;    ///< tokens of the prompt; 0: none is timed
    std::uint32_t generate = 0;  ///< tokens decoded; 0: none
    std::uint32_t depth = 0;     ///< tokens in the context before, which aren't timed

    /// Tokens of context that it needs, at least 1.
    [[nodiscard]] std::uint64_t context() const noexcept {
        return std::max<std::uint64_t>(1, std::uint64_t{prompt} + generate + depth);
    }
};

namespace detail {

/// The token at a position of a sequence: spread over the vocabulary, the same in every run.
[[nodiscard]] inline text::token_id benchmark_token(std::uint32_t sequence, std::uint32_t position, std::uint32_t vocabulary) noexcept {
    return static_cast<text::token_id>((std::uint64_t{position} * 7919 + std::uint64_t{sequence} * 104729 + 13) % vocabulary);
}

}  // namespace detail

/// Runs one case once and returns the seconds it took. `cancel` ends it in the middle of a sweep too. What the timed part read
/// from files is added to `bytes_read`, if given.
/// Errors: those of session::prompt and advance; canceled.
[[nodiscard]] inline result<double> run_benchmark(session& s, const benchmark_case& what, const cancel_flag* cancel = nullptr,
                                                  std::uint64_t* bytes_read = nullptr) {
    const std::uint32_t vocabulary = s.source().params().vocabulary;
    const std::uint32_t sequences = s.options().sequences;
    std::vector<std::vector<text::token_id>> texts(sequences);
    for (std::uint32_t i = 0; i < sequences; ++i) {
        for (std::uint32_t t = 0; t < what.depth + what.prompt; ++t) texts[i].push_back(detail::benchmark_token(i, t, vocabulary));
    }
    const auto front = [&](std::uint32_t i, std::uint32_t count) { return std::span(texts[i]).first(count); };
    for (std::uint32_t i = 0; i < sequences; ++i) {
        if (what.depth == 0) s.clear(i);
        else if (auto ok = s.prompt(front(i, what.depth), i, {}, cancel); !ok) return std::move(ok).error();
    }
    std::vector<session::next_token> next(sequences);
    const std::uint64_t read_before = s.source().weights().statistics().bytes_read;
    const auto start = session::clock::now();
    for (std::uint32_t i = 0; i < sequences && what.prompt != 0; ++i) {
        if (auto ok = s.prompt(front(i, what.depth + what.prompt), i, {}, cancel); !ok) return std::move(ok).error();
    }
    for (std::uint32_t t = 0; t < what.generate; ++t) {
        if (cancel != nullptr && cancel->requested()) return error{errc::canceled, "the measurement was interrupted"};
        for (std::uint32_t i = 0; i < sequences; ++i) {
            next[i] = {i, detail::benchmark_token(i, what.depth + what.prompt + t, vocabulary)};
        }
        if (auto ok = s.advance(next, cancel); !ok) return std::move(ok).error();
    }
    const double seconds = std::chrono::duration<double>(session::clock::now() - start).count();
    if (bytes_read != nullptr) *bytes_read += s.source().weights().statistics().bytes_read - read_before;
    return seconds;
}

/// The least that the same case takes by the machine's limits, of its threads for one token and for several, and, where weights
/// are streamed, of its disk: bytes per second, 0 where that isn't known and so isn't a limit.
[[nodiscard]] inline work least_work(const session& s, const benchmark_case& what, const machine_limits& one,
                                     const machine_limits& several, double disk = 0.0) {
    const auto& o = s.options();
    const roofline prompts(s.source(), o.cache_k, o.cache_v, several);
    const roofline tokens(s.source(), o.cache_k, o.cache_v, o.sequences == 1 ? one : several);
    work sum;
    for (std::uint32_t i = 0; i < o.sequences && what.prompt != 0; ++i) sum += prompts.prompt(what.prompt, what.depth, o.ubatch);
    sum += tokens.decode(what.generate, what.depth + what.prompt, o.sequences);
    if (disk > 0.0 && s.source().memory().how == weights::holding::streamed) {
        session_options use;
        use.cache_k = o.cache_k;
        use.cache_v = o.cache_v;
        const speed_predictor predictor(s.source(), s.source().memory(), use, {one, several, disk});
        auto cost = predictor.decode_cost(what.generate, what.depth + what.prompt, o.sequences);
        for (std::uint32_t i = 0; i < o.sequences && what.prompt != 0; ++i) cost += predictor.prompt_cost(what.prompt, what.depth, o.ubatch);
        sum.seconds = cost.limit;
    }
    return sum;
}

/// The fewest threads whose speed is within 5 % of the best of a sweep; `threads` and `speeds` belong together. 0 of none.
[[nodiscard]] inline unsigned knee(std::span<const unsigned> threads, std::span<const double> speeds) noexcept {
    double best = 0.0;
    for (const double speed : speeds) best = std::max(best, speed);
    unsigned fewest = 0;
    for (std::size_t i = 0; i < threads.size() && i < speeds.size(); ++i) {
        if (speeds[i] >= 0.95 * best && (fewest == 0 || threads[i] < fewest)) fewest = threads[i];
    }
    return fewest;
}

}  // namespace colibri
