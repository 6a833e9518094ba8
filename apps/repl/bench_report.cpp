#include "repl/bench_report.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "colibri/core/concat.hpp"
#include "colibri/core/statistics.hpp"
#include "colibri/gguf/listing.hpp"
#include "colibri/io/cpu_name.hpp"
#include "colibri/simd/targets.hpp"
#include "colibri/text/utf8.hpp"
#include "colibri/version.hpp"
#include "repl/figures.hpp"
#include "repl/format.hpp"

namespace colibri::repl {
namespace {

using json = nlohmann::ordered_json;

std::string size_name(std::uint64_t parameters) {
    const auto count = static_cast<double>(parameters);
    if (count >= 1e9) return concat(fixed(count / 1e9, 2), "B");
    if (count >= 1e6) return concat(fixed(count / 1e6, 1), "M");
    return concat(fixed(count / 1e3, 1), "K");
}

// Digits enough to see a difference of half a percent.
std::string rate(double value) { return fixed(value, value < 10.0 ? 2 : value < 1000.0 ? 1 : 0); }

std::string percent(double fraction) { return concat(fixed(100.0 * fraction, fraction < 0.0995 ? 1 : 0), " %"); }

std::string joined(const std::vector<std::string>& cells) {
    std::string out;
    for (const auto& cell : cells) out += concat("| ", cell, " ");
    return out + "|\n";
}

// Text that fills `width` columns.
std::string padded(std::string text, std::size_t width, bool right = false) {
    if (text.size() >= width) return text;
    return right ? concat(std::string(width - text.size(), ' '), text) : concat(text, std::string(width - text.size(), ' '));
}

std::string limits_text(unsigned threads, const machine_limits& m, double bytes) {
    return concat(counted(threads, "thread"), ": ", fixed(m.bandwidth / 1e9, 1), " GB/s read over ", fixed(bytes / 1e6, 0), " MB, ",
                  fixed(2.0 * m.integer_peak / 1e9, 0), " Gop/s of 8-bit codes, ", fixed(2.0 * m.float_peak / 1e9, 0),
                  " Gop/s of floats");
}

std::string csv_cell(const json& value) {
    std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    std::string out = "\"";
    for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
    return out + "\"";
}

json as_json(const bench_subject& subject, const bench_row& r, bool samples) {
    const auto rates = r.rates();
    std::vector<std::int64_t> nanoseconds;
    for (const double s : r.seconds) nanoseconds.push_back(std::llround(s * 1e9));
    const double middle = median(r.seconds);
    // The names and units that llama-bench made common, in its order; what it hasn't stands behind.
    json out{{"build_commit", version_string},
             {"build_number", 0},
             {"cpu_info", subject.cpu},
             {"gpu_info", ""},
             {"backends", "CPU"},
             {"model_filename", subject.file},
             {"model_type", subject.type},
             {"model_size", subject.bytes},
             {"model_n_params", subject.parameters},
             {"n_batch", r.asked.batch},
             {"n_ubatch", r.asked.ubatch},
             {"n_threads", r.threads},
             {"type_k", name(r.asked.cache_k)},
             {"type_v", name(r.asked.cache_v)},
             {"use_mmap", subject.how == "mapped"},
             {"n_prompt", r.what.prompt},
             {"n_gen", r.what.generate},
             {"n_depth", r.what.depth},
             {"test_time", r.time},
             {"avg_ns", std::llround(mean(r.seconds) * 1e9)},
             {"stddev_ns", std::llround(standard_deviation(r.seconds) * 1e9)},
             {"avg_ts", mean(rates)},
             {"stddev_ts", standard_deviation(rates)}};
    if (samples) {
        out["samples_ns"] = nanoseconds;
        out["samples_ts"] = rates;
    }
    out["test"] = r.name();
    out["simd"] = subject.simd;
    out["n_threads_batch"] = r.threads_batch;
    out["n_sequences"] = r.asked.sequences;
    out["weights"] = subject.how;
    out["median_ts"] = r.median_rate();
    out["p10_ts"] = quantile(rates, 0.1);
    out["p90_ts"] = quantile(rates, 0.9);
    out["limit_ts"] = r.limit_rate();
    out["fraction_of_limit"] = r.fraction_of_limit();
    // What is mapped is read by the kernel, which doesn't say.
    const double evaluated = r.tokens() * static_cast<double>(r.seconds.size());
    out["bytes_read_per_token"] = subject.how == "mapped" ? json(nullptr) : json(static_cast<double>(r.bytes_read) / evaluated);
    out["limit_disk_bandwidth"] = r.disk > 0.0 ? json(r.disk) : json(nullptr);
    out["bytes_per_second"] = r.least.bytes / middle;
    out["madds_per_second"] = (r.least.integer_madds + r.least.float_madds) / middle;
    out["bytes_per_run"] = r.least.bytes;
    out["integer_madds_per_run"] = r.least.integer_madds;
    out["float_madds_per_run"] = r.least.float_madds;
    const bool prompts = r.what.generate == 0 || r.asked.sequences > 1;
    const auto& machine = prompts ? r.several : r.one;
    out["limit_bandwidth"] = machine.bandwidth;
    out["limit_integer_madds"] = machine.integer_peak;
    out["limit_float_madds"] = machine.float_peak;
    return out;
}

}  // namespace

double bench_row::tokens() const noexcept {
    return (static_cast<double>(what.prompt) + what.generate) * asked.sequences;
}

std::vector<double> bench_row::rates() const {
    std::vector<double> out;
    for (const double s : seconds) out.push_back(tokens() / s);
    return out;
}

double bench_row::median_rate() const { return median(rates()); }
double bench_row::limit_rate() const noexcept { return tokens() / least.seconds; }
double bench_row::fraction_of_limit() const { return median_rate() / limit_rate(); }

std::string bench_row::name() const {
    std::string out;
    if (what.prompt != 0) out = concat("pp", what.prompt);
    if (what.generate != 0) out += concat(out.empty() ? "" : "+", "tg", what.generate);
    if (what.depth != 0) out += concat(" @ d", what.depth);
    return out;
}

bench_subject subject_of(const model& m) {
    const auto sum = gguf::summarize(m.file());
    bench_subject out;
    out.file = text::replace_ill_formed(m.path().string());
    out.type = concat(text::replace_ill_formed(m.params().architecture), " ", size_name(sum.parameters), " ",
                      sum.types.empty() ? "?" : name(sum.types.front().type));
    out.bytes = sum.data_bytes;
    out.parameters = sum.parameters;
    out.cpu = cpu_name();
    out.simd = simd::target_name();
    const auto held = m.weights().memory();
    out.how = weights::name(m.weights().how());
    out.how_text = weights_text({held.mapped + held.resident + held.cache, weights::name(m.weights().how()), held.buffers, held.cache,
                                 held.swept, 0, 0, 0, 0});
    return out;
}

bench_report::bench_report(std::string format, bench_subject subject, const bench_plan& plan)
    : format_(std::move(format)), subject_(std::move(subject)) {
    for (const auto& group : plan.groups) {
        const auto& s = group.session;
        with_batch_threads_ = with_batch_threads_ || s.threads_batch != 0;
        with_ubatch_ = with_ubatch_ || s.ubatch != session_options{}.ubatch;
        with_sequences_ = with_sequences_ || s.sequences != 1;
        with_types_ = with_types_ || s.cache_k != kv_type::f16 || s.cache_v != kv_type::f16;
    }
}

std::string bench_report::head() const {
    if (format_ == "json") return "[";
    if (format_ == "csv") {
        std::string names;
        bench_row any;
        any.seconds = {1.0};
        any.least.seconds = 1.0;
        const auto fields = as_json(subject_, any, false);
        for (const auto& field : fields.items()) names += concat(names.empty() ? "" : ",", field.key());
        return names + "\n";
    }
    if (format_ != "md") return {};
    std::vector<std::string> names = {padded("model", subject_.type.size()), "threads"};
    if (with_batch_threads_) names.emplace_back("tb");
    if (with_ubatch_) names.emplace_back("ubatch");
    if (with_sequences_) names.emplace_back("seqs");
    if (with_types_) names.emplace_back("keys, values");
    names.insert(names.end(), {padded("test", 16), padded("tok/s", 8, true), padded("10-90 %", 17, true), "   limit", "of limit",
                               "  GB/s", "  Gop/s"});
    std::string rule = "|";
    for (const auto& name : names) {
        const bool text = name.starts_with("model") || name.starts_with("test") || name.starts_with("keys");
        rule += concat(" ", std::string(name.size() - 1, '-'), text ? "-" : ":", " |");
    }
    return concat(joined(names), rule, "\n");
}

std::string bench_report::table_row(const bench_row& r) const {
    const auto rates = r.rates();
    const double middle = median(r.seconds);
    std::vector<std::string> cells = {subject_.type, padded(concat(r.threads), 7, true)};
    if (with_batch_threads_) cells.push_back(padded(concat(r.threads_batch), 2, true));
    if (with_ubatch_) cells.push_back(padded(concat(r.asked.ubatch), 6, true));
    if (with_sequences_) cells.push_back(padded(concat(r.asked.sequences), 4, true));
    if (with_types_) cells.push_back(padded(concat(colibri::name(r.asked.cache_k), ", ", colibri::name(r.asked.cache_v)), 12));
    cells.push_back(padded(r.name(), 16));
    cells.push_back(padded(rate(r.median_rate()), 8, true));
    cells.push_back(padded(concat(rate(quantile(rates, 0.1)), " - ", rate(quantile(rates, 0.9))), 17, true));
    cells.push_back(padded(rate(r.limit_rate()), 8, true));
    cells.push_back(padded(percent(r.fraction_of_limit()), 8, true));
    cells.push_back(padded(fixed(r.least.bytes / middle / 1e9, 2), 6, true));
    cells.push_back(padded(fixed(2.0 * (r.least.integer_madds + r.least.float_madds) / middle / 1e9, 1), 7, true));
    return joined(cells);
}

std::string bench_report::row(const bench_row& r) {
    const bool first = rows_.empty();
    rows_.push_back(r);
    if (format_ == "md") return table_row(r);
    const auto all = as_json(subject_, r, format_ != "csv");
    if (format_ == "jsonl") return all.dump() + "\n";
    if (format_ == "json") return concat(first ? "\n" : ",\n", all.dump(2));
    std::string line;
    for (const auto& field : all.items()) line += concat(line.empty() ? "" : ",", csv_cell(field.value()));
    return line + "\n";
}

std::string bench_report::tail() const {
    if (format_ == "json") return rows_.empty() ? "]\n" : "\n]\n";
    if (format_ != "md" || rows_.empty()) return {};
    std::string out = concat("\n", subject_.cpu.empty() ? "" : concat(subject_.cpu, ", "), subject_.simd, ", colibri ",
                             version_string, "; ", bytes_text(subject_.bytes), " of weights, ", subject_.how_text, ". Measured limits:\n");
    for (const auto& line : limits()) out += concat("- ", line, "\n");
    if (subject_.how == "streamed") {
        const auto& last = rows_.back();
        out += last.disk > 0.0 ? concat("- disk: ", fixed(last.disk / 1e9, 2), " GB/s, as `colibri plan --probe` kept it\n")
                               : "- disk: unknown, so the limit is that of memory alone; `colibri plan --probe` measures it\n";
    }
    const auto found = knees();
    for (const auto& line : found) out += concat(&line == &found.front() ? "\n- " : "- ", line, "\n");
    return out;
}

std::vector<std::string> bench_report::limits() const {
    std::vector<std::string> out;
    std::vector<unsigned> told;
    // The last row of a number of threads knows the most: limits are measured again and again.
    for (auto r = rows_.rbegin(); r != rows_.rend(); ++r) {
        for (const auto& [threads, machine] : {std::pair(r->threads, r->one), std::pair(r->threads_batch, r->several)}) {
            if (std::find(told.begin(), told.end(), threads) != told.end()) continue;
            told.push_back(threads);
            out.insert(out.begin(), limits_text(threads, machine, r->probed_bytes));
        }
    }
    return out;
}

std::vector<std::string> bench_report::knees() const {
    std::vector<std::string> out;
    std::vector<bool> seen(rows_.size());
    for (std::size_t i = 0; i < rows_.size(); ++i) {
        if (seen[i]) continue;
        std::vector<unsigned> threads;
        std::vector<double> speeds;
        double best = 0.0;
        for (std::size_t k = i; k < rows_.size(); ++k) {
            const auto& a = rows_[i];
            const auto& b = rows_[k];
            if (a.name() != b.name() || a.asked.sequences != b.asked.sequences || a.asked.ubatch != b.asked.ubatch ||
                a.asked.cache_k != b.asked.cache_k || a.asked.cache_v != b.asked.cache_v) {
                continue;
            }
            seen[k] = true;
            const bool batch = b.what.generate == 0 || b.asked.sequences > 1;
            threads.push_back(batch ? b.threads_batch : b.threads);
            speeds.push_back(b.median_rate());
            best = std::max(best, speeds.back());
        }
        if (threads.size() < 2) continue;
        std::string shares;
        for (std::size_t k = 0; k < threads.size(); ++k) {
            shares += concat(k == 0 ? "" : ", ", threads[k], ": ", percent(speeds[k] / best));
        }
        std::string which = rows_[i].name();
        if (with_sequences_) which += concat(", ", counted(rows_[i].asked.sequences, "sequence"));
        if (with_ubatch_) which += concat(", ubatch ", rows_[i].asked.ubatch);
        if (with_types_) which += concat(", ", colibri::name(rows_[i].asked.cache_k), " and ", colibri::name(rows_[i].asked.cache_v));
        out.push_back(concat("Knee of ", which, ": ", counted(knee(threads, speeds), "thread"),
                             ", the fewest within 5 % of the best (", shares, ")"));
    }
    return out;
}

}  // namespace colibri::repl
