// The results of `colibri bench` as text: a table in Markdown, CSV, JSON, or JSON line by line.
#pragma once

#include <string>
#include <vector>

#include "colibri/session/benchmark.hpp"
#include "repl/bench_plan.hpp"

namespace colibri::repl {

/// One measurement.
struct bench_row {
    benchmark_case what;
    session_options asked;            ///< batch, ubatch, sequences and cache as they were asked for
    unsigned threads = 0;             ///< for one token
    unsigned threads_batch = 0;       ///< for several
    std::vector<double> seconds;      ///< of each repetition, at least one
    work least;                       ///< by the limits below
    machine_limits one, several;      ///< with `threads` and with `threads_batch`
    double probed_bytes = 0.0;        ///< size of the buffer that the bandwidth was measured over
    double disk = 0.0;                ///< bytes per second of the disk that count in the limit; 0: it doesn't
    std::uint64_t bytes_read = 0;     ///< from files, in all repetitions together
    std::string time;                 ///< when it began, UTC: "2026-11-30T12:54:28Z"

    /// Tokens that one repetition evaluates.
    [[nodiscard]] double tokens() const noexcept;
    /// Tokens per second: of each repetition, in the middle, and at the limit.
    [[nodiscard]] std::vector<double> rates() const;
    [[nodiscard]] double median_rate() const;
    [[nodiscard]] double limit_rate() const noexcept;
    [[nodiscard]] double fraction_of_limit() const;
    /// "pp512", "tg128", "pp512+tg128", "tg128 @ d4096".
    [[nodiscard]] std::string name() const;
};

/// What is the same in all rows.
struct bench_subject {
    std::string file;        ///< the model's path
    std::string type;        ///< "llama 135M Q4_K"
    std::uint64_t bytes = 0;
    std::uint64_t parameters = 0;
    std::string cpu;
    std::string simd;
    std::string how;         ///< "mapped", "resident", "streamed"
    std::string how_text;    ///< the same with sizes
};

[[nodiscard]] bench_subject subject_of(const model& m);

/// Writes rows as they come: head() + row() for each + tail() is the whole text.
class bench_report {
public:
    /// `format` is md, csv, json or jsonl.
    bench_report(std::string format, bench_subject subject, const bench_plan& plan);

    [[nodiscard]] std::string head() const;
    [[nodiscard]] std::string row(const bench_row& r);
    [[nodiscard]] std::string tail() const;

    /// Sentences about all rows: the limits that were measured (in md only), and the knees of a thread sweep.
    [[nodiscard]] std::vector<std::string> limits() const;
    [[nodiscard]] std::vector<std::string> knees() const;

private:
    [[nodiscard]] std::string table_row(const bench_row& r) const;

    std::string format_;
    bench_subject subject_;
    bool with_batch_threads_ = false, with_ubatch_ = false, with_sequences_ = false, with_types_ = false;
    std::vector<bench_row> rows_;
};

}  // namespace colibri::repl
