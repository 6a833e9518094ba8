// colibri bench: speed beside the limits of the machine, measured in the same run.
#include <algorithm>
#include <ctime>
#include <map>

#include "colibri/core/concat.hpp"
#include "colibri/io/memory_limits.hpp"
#include "colibri/session/benchmark.hpp"
#include "colibri/simd/machine.hpp"
#include "repl/answering.hpp"
#include "repl/bench_plan.hpp"
#include "repl/bench_report.hpp"
#include "repl/commands.hpp"
#include "repl/machine_figures.hpp"
#include "repl/source.hpp"

namespace colibri::repl {
namespace {

// Reading more than this tells nothing new about memory, and every size below it is measured as it is.
constexpr std::uint64_t most_probed_bytes = std::uint64_t{1} << 30;

std::string utc_now() {
    const std::time_t now = std::time(nullptr);
    std::tm parts{};
    ::gmtime_r(&now, &parts);
    const auto two = [](int n) { return concat(n < 10 ? "0" : "", n); };
    return concat(parts.tm_year + 1900, "-", two(parts.tm_mon + 1), "-", two(parts.tm_mday), "T", two(parts.tm_hour), ":",
                  two(parts.tm_min), ":", two(parts.tm_sec), "Z");
}

// The machine's limits per number of threads. What else runs makes a limit look lower, so it is measured again beside each
// test, and the best counts.
class machine_probe {
public:
    explicit machine_probe(std::uint64_t bytes) : bytes_(std::min({bytes, most_probed_bytes, read_memory_limits().free() / 4})) {}

    /// From now on what was measured counts: streamed weights leave no memory for more.
    void freeze() noexcept { frozen_ = true; }

    [[nodiscard]] result<void> measure(unsigned threads, unsigned processors) {
        if (frozen_ && known_.count(threads) != 0) return {};
        auto& known = known_[threads];
        thread_pool pool(threads, processors);
        const auto bandwidth = simd::read_bandwidth(static_cast<std::size_t>(bytes_), pool);
        if (!bandwidth) return bandwidth.error();
        known.bandwidth = std::max(known.bandwidth, *bandwidth);
        known.integer_peak = std::max(known.integer_peak, simd::integer_peak(pool));
        known.float_peak = std::max(known.float_peak, simd::float_peak(pool));
        return {};
    }
    [[nodiscard]] const machine_limits& limits(unsigned threads) { return known_[threads]; }
    [[nodiscard]] double bytes() const noexcept { return static_cast<double>(bytes_); }

private:
    std::uint64_t bytes_;
    bool frozen_ = false;
    std::map<unsigned, machine_limits> known_;
};

// Runs a plan. `row` gets each measurement as it is complete; false stops.
class bench_runner {
public:
    /// `disk`: bytes per second, 0: unknown.
    bench_runner(model m, const bench_plan& plan, machine_probe probe, double disk, output& out, const cancel_flag& cancel)
        : model_(std::move(m)), plan_(plan), disk_(disk), out_(out), cancel_(cancel), probe_(std::move(probe)) {
        for (const auto& group : plan.groups) total_ += group.cases.size();
    }

    template <class Row>
    [[nodiscard]] result<void> run(Row&& row) {
        for (const auto& group : plan_.groups) {
            auto made = session::make(model_, group.session);
            if (!made) return std::move(made).error();
            for (const auto& note : made->notes()) tell(note);
            for (const auto& what : group.cases) {
                ++at_;
                bench_row r;
                r.what = what;
                r.asked = group.session;
                if (r.asked.ubatch == 0) r.asked.ubatch = model_.memory().ubatch;
                r.threads = made->options().threads;
                r.threads_batch = made->options().threads_batch;
                r.time = utc_now();
                auto done = measure(*made, r);
                if (r.seconds.empty()) return done;
                if (auto ok = finish(*made, r); !ok) return ok;
                out_.clear_progress();
                if (!row(r)) return {};
                if (!done) return done;
            }
        }
        return {};
    }

private:
    [[nodiscard]] result<void> measure(session& s, bench_row& r) {
        show(r, "limits of the machine");
        if (auto ok = limits(s, r); !ok) return ok;
        if (plan_.warm_up) {
            show(r, "warming up");
            auto what = r.what;
            what.generate = std::min<std::uint32_t>(what.generate, 8);
            if (auto ok = run_benchmark(s, what, &cancel_); !ok) return std::move(ok).error();
        }
        for (unsigned i = 0; i < plan_.repeat; ++i) {
            show(r, concat(i + 1, " of ", plan_.repeat));
            auto seconds = run_benchmark(s, r.what, &cancel_, &r.bytes_read);
            if (!seconds) return std::move(seconds).error();
            r.seconds.push_back(*seconds);
        }
        return {};
    }

    [[nodiscard]] result<void> limits(const session& s, const bench_row& r) {
        if (cancel_.requested()) return error{errc::canceled, "the measurement was interrupted"};
        if (auto ok = probe_.measure(r.threads, s.options().processors); !ok) return ok;
        if (r.threads_batch == r.threads) return {};
        return probe_.measure(r.threads_batch, s.options().processors);
    }

    [[nodiscard]] result<void> finish(const session& s, bench_row& r) {
        if (auto ok = limits(s, r); !ok && ok.error().code != errc::canceled) return ok;
        r.one = probe_.limits(r.threads);
        r.several = probe_.limits(r.threads_batch);
        r.probed_bytes = probe_.bytes();
        if (model_.weights().how() == weights::holding::streamed) r.disk = disk_;
        r.least = least_work(s, r.what, r.one, r.several, r.disk);
        return {};
    }

    void show(const bench_row& r, std::string_view what) {
        out_.progress(concat(at_, " of ", total_, ": ", r.name(), ", ", r.threads, r.threads == 1 ? " thread, " : " threads, ", what));
    }

    // Each note once, however many sessions have it.
    void tell(const std::string& note) {
        if (std::find(told_.begin(), told_.end(), note) != told_.end()) return;
        told_.push_back(note);
        out_.warn(note);
    }

    model model_;
    const bench_plan& plan_;
    double disk_;
    output& out_;
    const cancel_flag& cancel_;
    machine_probe probe_;
    std::size_t total_ = 0, at_ = 0;
    std::vector<std::string> told_;
};

// Measures the limits before the weights take the memory, if they are going to be streamed.
result<machine_probe> probe_for(const options& given, const session_options& use, const bench_plan& plan) {
    auto how = holding_options(given, use);
    if (!how) return std::move(how).error();
    how->on_experts = {};
    const auto header = model::open_header(given.model.value_or(""), *how);
    if (!header) return header.error();
    auto bytes = static_cast<std::uint64_t>(roofline(*header, kv_type::f16, kv_type::f16, {}).bytes_per_token());
    if (header->memory().how != weights::holding::streamed) return machine_probe(bytes);
    machine_probe probe(std::min(bytes, header->memory().budget / 2));
    for (const auto& group : plan.groups) {
        const auto sizes = plan_session(*header, group.session);
        if (!sizes) return sizes.error();
        for (const unsigned threads : {sizes->evaluation.threads, sizes->evaluation.threads_batch}) {
            if (auto ok = probe.measure(threads, sizes->evaluation.processors); !ok) return std::move(ok).error();
        }
    }
    probe.freeze();
    return probe;
}

}  // namespace

exit_code bench_command(const arguments& args, output& out) {
    auto given = args.given;
    auto name = only_name(args, "model", "colibri bench MODEL");
    if (!name) {
        out.fail(name.error().message);
        return exit_code::usage;
    }
    given.model = *std::move(name);
    const auto plan = plan_bench(given);
    if (!plan) {
        out.fail(plan.error().message);
        return exit_code::usage;
    }
    if (auto ok = choose_target(given); !ok) {
        out.fail(ok.error().message);
        return exit_code::usage;
    }
    // Memory is planned for the largest of all sessions.
    session_options use = plan->groups.front().session;
    for (const auto& group : plan->groups) {
        use.sequences = std::max(use.sequences, group.session.sequences);
        use.ubatch = std::max(use.ubatch, group.session.ubatch);
        if (row_bytes_of(group.session.cache_k, 32) > row_bytes_of(use.cache_k, 32)) use.cache_k = group.session.cache_k;
        if (row_bytes_of(group.session.cache_v, 32) > row_bytes_of(use.cache_v, 32)) use.cache_v = group.session.cache_v;
    }
    const auto refuse = [&](error problem) {
        out.fail(problem.text());
        return problem.code == errc::invalid_argument ? exit_code::usage : exit_code::model;
    };
    auto probe = probe_for(given, use, *plan);
    if (!probe) return refuse(std::move(probe).error());
    auto source = open_source(given, use);
    if (!source) return refuse(std::move(source).error());
    for (const auto& note : source->notes()) out.warn(note);

    cancel_flag cancel;
    const interruptible interrupts(cancel);
    const std::string format = given.format.value_or("md");
    bench_report report(format, subject_of(*source), *plan);
    out.print(report.head());
    const double disk = kept_figures(source->path(), 0, threads_of(given)).speed.disk;
    bench_runner runner(*source, *plan, *std::move(probe), disk, out, cancel);
    const auto done = runner.run([&](const bench_row& row) { return out.print(report.row(row)); });
    out.clear_progress();
    out.print(report.tail());
    if (format != "md") {
        for (const auto& line : report.knees()) out.remark(line);
    }
    if (done || out.closed()) return exit_code::ok;
    if (done.error().code == errc::canceled) {
        out.remark("interrupted: what was measured until then is all there is");
        return exit_code::interrupted;
    }
    out.fail(done.error().text());
    return exit_code_of(done.error());
}

}  // namespace colibri::repl
