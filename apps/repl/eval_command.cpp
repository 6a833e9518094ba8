// colibri eval: perplexity, divergence and logits of a text.
#include <nlohmann/json.hpp>

#include <memory>
#include <optional>
#include <utility>

#include "colibri/core/concat.hpp"
#include "colibri/core/number.hpp"
#include "colibri/eval/divergence.hpp"
#include "colibri/eval/npy_writer.hpp"
#include "colibri/text/utf8.hpp"
#include "repl/commands.hpp"
#include "repl/format.hpp"
#include "repl/measuring.hpp"

namespace colibri::repl {
namespace {

using json = nlohmann::ordered_json;

std::string with_error(double value, double error, int digits) { return concat(fixed(value, digits), " +/- ", fixed(error, digits)); }

json number_and_error(double value, double error) { return {{"value", value}, {"error", error}}; }

// One command line of eval.
class evaluation {
public:
    evaluation(const options& given, output& out) : given_(given), out_(out) {}

    exit_code perplexity();
    exit_code divergence();
    exit_code logits();

private:
    // Opens the model and cuts the text of -f into windows.
    bool open_text(std::uint32_t window);
    bool open_runner();
    // What all results say of the run.
    json about(std::size_t windows) const;
    exit_code save(const std::string& path);
    exit_code compare(const std::string& path);
    std::string divergence_text(const eval::divergence_value& v, const eval::base_header& base) const;
    json divergence_json(const eval::divergence_value& v, const eval::base_header& base) const;
    // Tells how a measurement ended; `known`: what has been found until then.
    exit_code finish(const result<void>& done, std::string_view known);
    // The tokens of eval logits.
    bool find_tokens(std::vector<text::token_id>& tokens);

    const options& given_;
    output& out_;
    cancel_flag cancel_;
    interruptible interrupts_{cancel_};
    exit_code failed_ = exit_code::usage;
    session_options use_;
    std::optional<model> model_;
    std::optional<eval::text_windows> text_;
    std::optional<eval::window_runner> run_;
    std::optional<window_progress> progress_;
};

bool evaluation::open_text(std::uint32_t window) {
    if (!given_.prompt_file) {
        out_.fail("a text is needed: -f FILE");
        return false;
    }
    const auto bytes = read_text_file(*given_.prompt_file, out_);
    if (!bytes) {
        failed_ = exit_code::io;
        return false;
    }
    model_ = open_for_windows(given_, window, true, use_, out_, failed_);
    if (!model_) return false;
    auto text = eval::text_windows::make(model_->tokenizer(), *bytes, window, static_cast<std::size_t>(given_.chunks.value_or(0)));
    if (!text) {
        failed_ = tell(text.error(), out_);
        return false;
    }
    text_ = *std::move(text);
    return true;
}

bool evaluation::open_runner() {
    eval::run_options how;
    how.exact = given_.exact;
    auto made = eval::window_runner::make(*model_, use_, std::move(how));
    if (!made) {
        failed_ = tell(made.error(), out_);
        return false;
    }
    for (const auto& note : made->notes()) out_.warn(note);
    run_.emplace(*std::move(made));
    return true;
}

json evaluation::about(std::size_t windows) const {
    return {{"model", text::replace_ill_formed(model_->title())},
            {"window", text_->size},
            {"windows", windows},
            {"tokens_scored", windows * text_->scored()},
            {"exact", given_.exact},
            {"seconds", progress_->seconds()}};
}

exit_code evaluation::finish(const result<void>& done, std::string_view known) {
    out_.clear_progress();
    if (done) return out_.write_failed() ? exit_code::io : exit_code::ok;
    if (done.error().code == errc::canceled) {
        out_.remark(concat("interrupted", known.empty() ? "" : "; until then: ", known));
        return exit_code::interrupted;
    }
    return tell(done.error(), out_);
}

exit_code evaluation::perplexity() {
    if (!open_text(static_cast<std::uint32_t>(given_.context.value_or(default_window))) || !open_runner()) return failed_;
    eval::perplexity_value value;
    progress_.emplace(out_, text_->count);
    std::size_t windows = 0;
    const auto done = eval::measure_perplexity(
        *run_, *text_, value,
        [&](std::size_t n) {
            windows = n;
            progress_->show(n, concat("perplexity ", fixed(value.value(), 4)));
            return true;
        },
        &cancel_);
    const std::string line = concat("perplexity ", with_error(value.value(), value.error(), 4), " (", counted(windows, "window"), " of ",
                                    text_->size, " tokens, ", value.nll.count(), " scored)");
    if (done) {
        out_.clear_progress();
        if (given_.json) {
            json all = about(windows);
            all["perplexity"] = number_and_error(value.value(), value.error());
            all["nll"] = number_and_error(value.nll.mean(), value.nll.error());
            out_.print(all.dump() + "\n");
        } else {
            out_.print(line + "\n");
        }
    }
    return finish(done, windows == 0 ? "" : line);
}

exit_code evaluation::divergence() {
    if (given_.base.has_value() == given_.save_base.has_value()) {
        out_.fail("divergence needs either --save-base FILE, with the base model, or --base FILE, with a model to compare");
        return exit_code::usage;
    }
    return given_.base ? compare(*given_.base) : save(*given_.save_base);
}

exit_code evaluation::save(const std::string& path) {
    if (const auto may = may_write(path, given_, out_); may != exit_code::ok) return may;
    if (!open_text(static_cast<std::uint32_t>(given_.context.value_or(default_window))) || !open_runner()) return failed_;
    auto file = eval::base_writer::create(path, *model_, *text_, given_.exact);
    if (!file) return tell(file.error(), out_);
    eval::perplexity_value value;
    progress_.emplace(out_, text_->count);
    const auto watch = [&](std::size_t n) {
        progress_->show(n, concat("perplexity ", fixed(value.value(), 4)));
        return true;
    };
    auto done = eval::save_base(*run_, *text_, *file, value, watch, &cancel_);
    if (done) done = file->finish();
    if (!done) return finish(done, "nothing was written");
    out_.clear_progress();
    if (given_.json) {
        json all = about(text_->count);
        all["perplexity"] = number_and_error(value.value(), value.error());
        all["base"] = text::replace_ill_formed(path);
        all["base_bytes"] = file->header().file_bytes();
        out_.print(all.dump() + "\n");
    } else {
        out_.print(concat("perplexity ", with_error(value.value(), value.error(), 4), "; base logits of ", value.nll.count(), " tokens in ",
                          bytes_text(file->header().file_bytes()), "\n"));
    }
    return finish({}, {});
}

exit_code evaluation::compare(const std::string& path) {
    auto base = eval::base_reader::open(path);
    if (!base) {
        out_.fail(base.error().text());
        return exit_code::io;
    }
    const auto window = base->text().size;
    if (given_.context && *given_.context != window) {
        out_.fail(concat("the base logits are of windows of ", window, " tokens, so -c ", *given_.context, " can't be; leave it out"));
        return exit_code::usage;
    }
    if (given_.prompt_file) {  // not needed, as the base holds the tokens; but then it must be the same
        if (!open_text(window)) return failed_;
        const auto& mine = text_->tokens;
        const auto& its = base->text().tokens;
        if (mine.size() > its.size() || (!given_.chunks && mine.size() != its.size()) || !std::equal(mine.begin(), mine.end(), its.begin())) {
            out_.fail(concat("the base logits are of another text than ", quoted(*given_.prompt_file), "; leave out -f to use theirs"));
            return exit_code::usage;
        }
    } else {
        model_ = open_for_windows(given_, window, true, use_, out_, failed_);
        if (!model_) return failed_;
        text_ = base->text();
    }
    if (auto ok = base->check(*model_); !ok) {
        out_.fail(ok.error().text());
        return exit_code::model;
    }
    if (!open_runner()) return failed_;
    const std::size_t most = static_cast<std::size_t>(given_.chunks.value_or(0));
    const std::size_t total = most == 0 ? base->text().count : std::min(most, base->text().count);
    eval::divergence_value value;
    progress_.emplace(out_, total);
    const auto watch = [&](std::size_t n) {
        progress_->show(n, concat("mean divergence ", fixed(value.kl_mean.mean(), 6)));
        return true;
    };
    const auto done = eval::measure_divergence(*run_, *base, value, watch, &cancel_, most);
    if (!done) {
        const std::string known = concat("mean divergence ", with_error(value.kl_mean.mean(), value.kl_mean.error(), 6), " of ",
                                         value.kl.size(), " tokens");
        return finish(done, value.kl.empty() ? "" : known);
    }
    out_.clear_progress();
    out_.print(given_.json ? divergence_json(value, base->header()).dump() + "\n" : divergence_text(value, base->header()));
    return finish({}, {});
}

std::string evaluation::divergence_text(const eval::divergence_value& v, const eval::base_header& base) const {
    const auto row = [](std::string_view name, std::string_view value) {
        return concat(name, std::string(name.size() < 26 ? 26 - name.size() : 1, ' '), value, "\n");
    };
    const double base_ppl = std::exp(v.base_nll.mean()), ratio = std::exp(v.nll_change.mean());
    std::string out = row("base", concat(base.title, base.exact ? ", F32 activations" : ""));
    out += row("tokens scored", concat(v.kl.size()));
    out += row("perplexity", with_error(std::exp(v.nll.mean()), std::exp(v.nll.mean()) * v.nll.error(), 4));
    out += row("perplexity of the base", with_error(base_ppl, base_ppl * v.base_nll.error(), 4));
    out += row("ratio", with_error(ratio, ratio * v.nll_change.error(), 6));
    out += row("KL divergence: mean", with_error(v.kl_mean.mean(), v.kl_mean.error(), 6));
    out += row("  median", fixed(v.quantile(0.5), 6));
    out += row("  99 %", fixed(v.quantile(0.99), 6));
    out += row("  99.9 %", fixed(v.quantile(0.999), 6));
    out += row("  max", fixed(v.quantile(1.0), 6));
    out += row("change of p: mean", concat(with_error(100.0 * v.p_change.mean(), 100.0 * v.p_change.error(), 3), " %"));
    out += row("  RMS", concat(with_error(100.0 * v.rms_p_change(), 100.0 * v.rms_p_change_error(), 3), " %"));
    out += row("same top token", concat(with_error(100.0 * v.same_top.mean(), 100.0 * v.same_top.error(), 3), " %"));
    return out;
}

json evaluation::divergence_json(const eval::divergence_value& v, const eval::base_header& base) const {
    const double ppl = std::exp(v.nll.mean()), base_ppl = std::exp(v.base_nll.mean()), ratio = std::exp(v.nll_change.mean());
    json all = about(v.kl.size() / text_->scored());
    all["base_model"] = text::replace_ill_formed(base.title);
    all["base_exact"] = base.exact;
    all["same_file"] = base.model_hash == eval::hash_of(model_->file());
    all["perplexity"] = number_and_error(ppl, ppl * v.nll.error());
    all["base_perplexity"] = number_and_error(base_ppl, base_ppl * v.base_nll.error());
    all["perplexity_ratio"] = number_and_error(ratio, ratio * v.nll_change.error());
    all["kl"] = {{"mean", v.kl_mean.mean()},       {"error", v.kl_mean.error()},    {"median", v.quantile(0.5)},
                 {"p99", v.quantile(0.99)},        {"p999", v.quantile(0.999)},     {"max", v.quantile(1.0)}};
    all["p_change"] = number_and_error(v.p_change.mean(), v.p_change.error());
    all["rms_p_change"] = number_and_error(v.rms_p_change(), v.rms_p_change_error());
    all["same_top"] = number_and_error(v.same_top.mean(), v.same_top.error());
    return all;
}

bool evaluation::find_tokens(std::vector<text::token_id>& tokens) {
    if (given_.prompt_file.has_value() == given_.token_list.has_value()) {
        out_.fail("logits needs either -f FILE or --tokens LIST");
        return false;
    }
    // The tokens come before the sizes, so the vocabulary is read on its own.
    const auto file = gguf::file::open(given_.model.value_or(""));
    auto vocabulary = file ? text::tokenizer::open(file->meta()) : result<text::tokenizer>(file.error());
    if (!vocabulary) {
        out_.fail(vocabulary.error().text());
        failed_ = exit_code::model;
        return false;
    }
    if (given_.prompt_file) {
        const auto bytes = read_text_file(*given_.prompt_file, out_);
        if (!bytes) {
            failed_ = exit_code::io;
            return false;
        }
        tokens = vocabulary->encode(*bytes, {.add_special = true, .parse_special = false});
    } else {
        std::string_view left = *given_.token_list;
        while (!left.empty()) {
            const auto word = left.substr(0, left.find_first_of(", "));
            const auto id = parse_number<text::token_id>(word);
            if (!word.empty() && (!id || *id < 0)) {
                out_.fail(concat("--tokens: ", quoted(word), " is no token's id"));
                return false;
            }
            if (id) tokens.push_back(*id);
            left.remove_prefix(std::min(word.size() + 1, left.size()));
        }
    }
    if (tokens.empty()) out_.fail("there are no tokens, so there are no logits; give a text or ids");
    return !tokens.empty();
}

exit_code evaluation::logits() {
    if (!given_.output_file) {
        out_.fail("an output file is needed: -o FILE.npy");
        return exit_code::usage;
    }
    std::vector<text::token_id> tokens;
    if (const auto may = may_write(*given_.output_file, given_, out_); may != exit_code::ok) return may;
    if (!find_tokens(tokens)) return failed_;
    const auto count = static_cast<std::uint32_t>(tokens.size());
    auto given = given_;
    given.context.reset();
    model_ = open_for_windows(given, count, true, use_, out_, failed_);
    if (!model_) return failed_;
    use_.sequences = 1;
    if (!open_runner()) return failed_;
    const std::size_t vocabulary = model_->params().vocabulary;
    auto file = eval::npy_writer::create(*given_.output_file, count, vocabulary);
    if (!file) return tell(file.error(), out_);
    // Rows of a step come from several threads; behind the step they are written in order.
    std::vector<float> rows(std::size_t{std::min(use_.outputs, count)} * vocabulary);
    std::size_t written = 0;
    auto done = run_->run(
        tokens, count, 0, count,
        [&](std::uint32_t, std::uint32_t position, std::span<const float> row) {
            std::copy(row.begin(), row.end(), rows.begin() + static_cast<std::ptrdiff_t>((position - written) * vocabulary));
        },
        &cancel_,
        [&](std::size_t n) {
            written += n;
            return file->write(std::span(rows).first(n * vocabulary));
        });
    if (done) done = file->finish();
    if (!done) return finish(done, "nothing was written");
    if (given_.json) {
        out_.print(json{{"model", text::replace_ill_formed(model_->title())}, {"tokens", tokens}, {"rows", count}, {"columns", vocabulary},
                        {"exact", given_.exact}, {"file", text::replace_ill_formed(*given_.output_file)}}
                       .dump() +
                   "\n");
    } else {
        out_.print(concat(counted(count, "row"), " of ", vocabulary, " logits\n"));
    }
    return finish({}, {});
}

// An option that does nothing with this word is refused.
std::optional<std::string> misplaced(const options& given, std::string_view what) {
    const bool divergence = what == "divergence", logits = what == "logits";
    if (given.base && !divergence) return "--base belongs to divergence";
    if (given.save_base && !divergence) return "--save-base belongs to divergence";
    if (given.token_list && !logits) return "--tokens belongs to logits";
    if (given.output_file && !logits) return "--output-file belongs to logits";
    if (given.chunks && logits) return "--chunks does nothing in logits, which evaluates one sequence";
    if (given.context && logits) return "--ctx-size does nothing in logits: the window is the text";
    if (given.force && !logits && !given.save_base) return "--force does nothing here, as no file is written";
    return std::nullopt;
}

}  // namespace

exit_code eval_command(const arguments& args, output& out) {
    constexpr std::string_view usage = "colibri eval perplexity|divergence|logits -m MODEL";
    const std::string what = args.names.empty() ? std::string() : args.names.front();
    if (what != "perplexity" && what != "divergence" && what != "logits") {
        out.fail(what.empty() ? concat("say what to measure: ", usage) : concat(quoted(what), " can't be measured: ", usage));
        return exit_code::usage;
    }
    arguments rest = args;
    rest.names.erase(rest.names.begin());
    auto given = args.given;
    const auto name = only_name(rest, "model", concat("colibri eval ", what, " -m MODEL"));
    if (!name) {
        out.fail(name.error().message);
        return exit_code::usage;
    }
    given.model = *name;
    if (const auto wrong = misplaced(given, what)) {
        out.fail(*wrong);
        return exit_code::usage;
    }
    evaluation e(given, out);
    if (what == "perplexity") return e.perplexity();
    return what == "divergence" ? e.divergence() : e.logits();
}

}  // namespace colibri::repl
