// colibri imatrix: which columns of the weights matter.
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "colibri/core/concat.hpp"
#include "colibri/core/escape.hpp"
#include "colibri/eval/imatrix_collector.hpp"
#include "colibri/eval/imatrix_statistics.hpp"
#include "colibri/text/utf8.hpp"
#include "repl/commands.hpp"
#include "repl/files.hpp"
#include "repl/format.hpp"
#include "repl/measuring.hpp"

namespace colibri::repl {
namespace {

using json = nlohmann::ordered_json;

std::string padded(std::string text, std::size_t width) {
    text.insert(0, text.size() < width ? width - text.size() : 0, ' ');
    return text;
}

std::string statistics_text(const eval::importance_matrix& matrix) {
    std::string out = concat(counted(matrix.entries.size(), "tensor"), ", ", counted(matrix.chunks, "window"), " of ", matrix.chunk_size, " tokens");
    for (const auto& text : matrix.datasets) out += concat(", ", quoted(text));
    out += "\n\n      sum        least      most       mean       deviation  active  entropy  > dev.  likeness  tensor\n";
    for (const auto& [tensor, entry] : matrix.entries) {
        const auto f = eval::figures_of(matrix, tensor, entry);
        for (const double x : {f.sum, f.least, f.most, f.mean, f.deviation}) out += concat(padded(fixed(x, 4), 11));
        out += concat(padded(fixed(100.0 * f.active, 1), 7), "%", padded(fixed(f.entropy, 3), 9), padded(fixed(100.0 * f.outstanding, 1), 7), "%",
                      padded(f.likeness ? fixed(*f.likeness, 4) : std::string("-"), 10), "  ", escaped(tensor));
        if (f.unused != 0) out += concat(" (", f.unused, " of ", entry.matrices(), " experts never used)");
        out += "\n";
    }
    return out;
}

json statistics_json(const eval::importance_matrix& matrix) {
    auto all = json::array();
    for (const auto& [tensor, entry] : matrix.entries) {
        const auto f = eval::figures_of(matrix, tensor, entry);
        all.push_back({{"tensor", text::replace_ill_formed(tensor)}, {"columns", f.columns}, {"experts", entry.matrices()},
                       {"unused_experts", f.unused}, {"sum", f.sum}, {"least", f.least}, {"most", f.most}, {"mean", f.mean},
                       {"deviation", f.deviation}, {"active", f.active}, {"entropy", f.entropy}, {"outstanding", f.outstanding},
                       {"likeness", f.likeness ? json(*f.likeness) : json(nullptr)}});
    }
    return all;
}

// One command line of imatrix.
class collecting {
public:
    collecting(const options& given, output& out) : given_(given), out_(out) {}

    exit_code run();

private:
    bool check();
    bool read_others();
    bool fits(const model& m);
    bool begin_or_resume(const model& m, const eval::text_windows& text);
    exit_code collect();
    bool save(bool whole);
    void report(double seconds);

    const options& given_;
    output& out_;
    cancel_flag cancel_;
    interruptible interrupts_{cancel_};
    exit_code failed_ = exit_code::usage;
    eval::importance_matrix matrix_;               // what this run collects, and --resume's
    std::vector<eval::importance_matrix> others_;  // those of --in-file
};

bool collecting::check() {
    const auto refuse = [&](std::string_view why) {
        out_.fail(why);
        return false;
    };
    if (!given_.prompt_file) {
        if (given_.in_files.empty()) return refuse("a text is needed: -f FILE; or matrices to add or show: --in-file FILE");
        if (given_.resume) return refuse("--resume does nothing without a text (-f)");
        if (given_.model) return refuse("-m does nothing without a text (-f)");
        if (!given_.output_file && !given_.show_statistics) return refuse("say what to do with it: -o FILE, or --show-statistics");
    } else {
        if (!given_.model) return refuse("a model is needed: colibri imatrix -m MODEL -f TEXT -o OUT");
        if (!given_.output_file) return refuse("an output file is needed: -o FILE");
    }
    if (!given_.output_file) return true;
    if (given_.resume && given_.force) return refuse("--resume goes on with the output and --force replaces it; give one of them");
    auto given = given_;
    given.force = given_.force || given_.resume;  // what is there is read before it is replaced
    const auto may = may_write(*given_.output_file, given, out_);
    if (may != exit_code::ok) failed_ = may;
    return may == exit_code::ok;
}

bool collecting::read_others() {
    const auto window = static_cast<std::uint32_t>(given_.context.value_or(default_window));
    for (const auto& path : given_.in_files) {
        auto other = eval::read_imatrix(expand_home(path), window);
        if (!other) {
            out_.fail(other.error().text());
            failed_ = exit_code::io;
            return false;
        }
        if (!others_.empty()) {  // all must fit before the work begins
            auto first = others_.front();
            if (auto ok = first.merge(*other); !ok) {
                out_.fail(concat("--in-file ", quoted(path), ": ", ok.error().message));
                return false;
            }
        }
        others_.push_back(*std::move(other));
    }
    return true;
}

// What is going to be added must be of this model, which is found out before the work.
bool collecting::fits(const model& m) {
    for (std::size_t i = 0; i < others_.size(); ++i) {
        for (const auto& [tensor, entry] : others_[i].entries) {
            const auto* info = m.file().find(tensor);
            if (info != nullptr && entry.fits(static_cast<std::size_t>(info->dims[0]), static_cast<std::size_t>(info->dims[2] * info->dims[3]))) continue;
            out_.fail(concat("--in-file ", quoted(given_.in_files[i]), ": its entry ", quoted(tensor), " doesn't fit this model; it belongs to another one"));
            return false;
        }
    }
    return true;
}

bool collecting::begin_or_resume(const model& m, const eval::text_windows& text) {
    const std::uint64_t parts[] = {eval::hash_of(m.file()), text.hash(), given_.exact ? 1u : 0u, given_.process_output ? 1u : 0u};
    const std::uint64_t hash = eval::hash_bytes(std::as_bytes(std::span(parts)));
    std::error_code problem;
    if (given_.resume && std::filesystem::exists(*given_.output_file, problem)) {
        auto old = eval::read_imatrix(*given_.output_file);
        if (!old) {
            out_.fail(old.error().text());
            failed_ = exit_code::io;
            return false;
        }
        if (old->run_hash != hash) {
            out_.fail(concat("--resume: ", quoted(*given_.output_file), " wasn't begun with this model, text and options, or other matrices were "
                             "added to it; give another output file"));
            return false;
        }
        matrix_ = *std::move(old);
        if (matrix_.chunks >= text.count) out_.remark("all windows are done already");
        else out_.remark(concat("going on behind window ", matrix_.chunks, " of ", text.count));
        return true;
    }
    matrix_.run_hash = hash;
    matrix_.chunk_size = text.size;
    matrix_.datasets = {*given_.prompt_file};
    return true;
}

bool collecting::save(bool whole) {
    auto all = matrix_;
    if (whole) {
        for (const auto& other : others_) {
            if (auto ok = all.merge(other); !ok) {
                out_.clear_progress();
                out_.fail(ok.error().text());
                failed_ = exit_code::model;
                return false;
            }
        }
    }
    if (auto ok = eval::write_imatrix(all, *given_.output_file); !ok) {
        failed_ = tell(ok.error(), out_);
        return false;
    }
    return true;
}

exit_code collecting::collect() {
    const auto window = static_cast<std::uint32_t>(given_.context.value_or(default_window));
    const auto bytes = read_text_file(*given_.prompt_file, out_);
    if (!bytes) return exit_code::io;
    session_options use;
    const auto opened = open_for_windows(given_, window, given_.process_output, use, out_, failed_);
    if (!opened) return failed_;
    auto text = eval::text_windows::make(opened->tokenizer(), *bytes, window, static_cast<std::size_t>(given_.chunks.value_or(0)));
    if (!text) return tell(text.error(), out_);
    if (!fits(*opened) || !begin_or_resume(*opened, *text)) return failed_;
    eval::imatrix_collector collector(*opened, given_.process_output);
    eval::run_options how;
    how.exact = given_.exact;
    how.on_product = collector.watch();
    auto run = eval::window_runner::make(*opened, use, std::move(how));
    if (!run) return tell(run.error(), out_);
    for (const auto& note : run->notes()) out_.warn(note);
    window_progress progress(out_, text->count, matrix_.chunks);
    const auto each = static_cast<std::uint32_t>(std::min<std::int64_t>(given_.save_frequency.value_or(10), 1 << 30));
    std::uint32_t saved = matrix_.chunks;
    const auto done = eval::collect_imatrix(
        *run, collector, *text, given_.process_output, matrix_,
        [&](std::size_t n) {
            progress.show(n, {});
            if (matrix_.chunks - saved < each || n == text->count) return true;
            saved = matrix_.chunks;
            return save(false);
        },
        &cancel_);
    out_.clear_progress();
    if (!done && done.error().code != errc::canceled) return tell(done.error(), out_);
    if (!done && !cancel_.requested()) return failed_;  // saving failed, which is told
    if (!done) {
        if (matrix_.chunks > saved && !save(false)) return failed_;
        out_.remark(matrix_.chunks == 0 ? concat("interrupted; nothing was written")
                                        : concat("interrupted; ", counted(matrix_.chunks, "window"), " of ", text->count, " are saved in ",
                                                 quoted(*given_.output_file), ", and --resume goes on"));
        return exit_code::interrupted;
    }
    if (!save(true)) return failed_;
    for (auto& other : others_) {
        if (auto ok = matrix_.merge(other); !ok) return tell(ok.error(), out_);  // `save` has merged them before
    }
    report(progress.seconds());
    return out_.write_failed() ? exit_code::io : exit_code::ok;
}

void collecting::report(double seconds) {
    std::size_t partial = 0;
    for (const auto& [tensor, entry] : matrix_.entries) {
        partial += std::any_of(entry.counts.begin(), entry.counts.end(), [](double n) { return n == 0.0; }) ? 1 : 0;
    }
    if (partial != 0) {
        out_.warn(concat(counted(partial, "tensor"), partial == 1 ? " has" : " have",
                         " experts that the text never used; a longer or more varied text reaches more of them"));
    }
    if (given_.json) {
        json all{{"entries", matrix_.entries.size()}, {"windows", matrix_.chunks}, {"window", matrix_.chunk_size},
                 {"partial_entries", partial}, {"seconds", seconds}};
        if (given_.output_file) all["file"] = text::replace_ill_formed(*given_.output_file);
        if (given_.show_statistics) all["statistics"] = statistics_json(matrix_);
        out_.print(all.dump() + "\n");
        return;
    }
    if (given_.show_statistics) out_.print(statistics_text(matrix_));
    if (given_.output_file) {
        out_.print(concat(counted(matrix_.entries.size(), "tensor"), ", ", counted(matrix_.chunks, "window"), " of ", matrix_.chunk_size,
                          " tokens: ", quoted(*given_.output_file), "\n"));
    }
}

exit_code collecting::run() {
    if (!check() || !read_others()) return failed_;
    if (given_.prompt_file) return collect();
    for (std::size_t i = 0; i < others_.size(); ++i) {
        if (i == 0) {
            matrix_ = others_[0];
            if (others_.size() > 1) matrix_.run_hash = 0;
        } else if (auto ok = matrix_.merge(others_[i]); !ok) {
            return tell(ok.error(), out_);
        }
    }
    others_.clear();
    if (given_.output_file && !save(true)) return failed_;
    report(0.0);
    return out_.write_failed() ? exit_code::io : exit_code::ok;
}

}  // namespace

exit_code imatrix_command(const arguments& args, output& out) {
    if (!args.names.empty()) {
        out.fail(concat(quoted(args.names[0]), " is neither an option nor a value: colibri imatrix -m MODEL -f TEXT -o OUT"));
        return exit_code::usage;
    }
    return collecting(args.given, out).run();
}

}  // namespace colibri::repl
