#include "repl/answering.hpp"

#include <chrono>
#include <memory>

#include "colibri/core/concat.hpp"
#include "repl/display.hpp"
#include "repl/figures.hpp"
#include "repl/format.hpp"

namespace colibri::repl {
namespace {

// A prompt that takes longer than this shows how far it is.
constexpr std::chrono::milliseconds quiet_time{500};

std::string start_line(const engine& e) {
    return concat(e.title(), " | context ", e.context(), " | ", counted(e.threads(), "thread"), " | seed ", e.seed());
}

// Shows how far the weights are read, some times a second.
progress_fn loading_progress(output& out) {
    using clock = std::chrono::steady_clock;
    return [&out, next = clock::now() + quiet_time](const progress& p) mutable {
        if (const auto now = clock::now(); now > next) {
            out.progress(concat("reading weights: ", bytes_text(p.done), " of ", bytes_text(p.total)));
            next = now + quiet_time / 5;
        }
        return true;
    };
}

}  // namespace

answer_hooks showing_hooks(output& out, const cancel_flag& cancel, bool show_prompt) {
    answer_hooks hooks;
    hooks.piece = [&out](std::string_view text) { return out.answer(text); };
    if (show_prompt) {
        hooks.prompt = [&out](std::string_view text) {
            out.remark(out.err_is_terminal() ? without_controls(text) : std::string(text));
        };
    }
    hooks.progress = [&out, begin = std::chrono::steady_clock::now()](const progress& p) {
        const auto taken = std::chrono::steady_clock::now() - begin;
        if (taken > quiet_time && p.done < p.total) {
            out.progress(reading_text(p, std::chrono::duration<double>(taken).count()));
        } else {
            out.clear_progress();
        }
        return true;
    };
    hooks.cancel = &cancel;
    return hooks;
}

void greet(const engine& e, const options& given, output& out, std::string_view behind) {
    out.remark(concat(start_line(e), behind));
    if (given.verbose.value_or(false)) out.remark(concat(e.description(), "\nsampling      ", e.sampling_text()));
}

exit_code exit_code_of(const error& e) noexcept {
    switch (e.code) {
        case errc::context_full: return exit_code::context;
        case errc::canceled: return exit_code::interrupted;
        case errc::invalid_argument: return exit_code::usage;
        default: return exit_code::model;
    }
}

std::optional<engine> open_engine(const options& given, engine_use use, output& out, exit_code& failed) {
    auto opened = engine::open(given, use, loading_progress(out));
    out.clear_progress();
    if (!opened) {
        out.fail(opened.error().text());
        // A wrong value is the caller's; whatever else goes wrong here is about the model.
        failed = opened.error().code == errc::invalid_argument ? exit_code::usage : exit_code::model;
        return std::nullopt;
    }
    for (const auto& note : opened->notes()) out.warn(note);
    return std::move(*opened);
}

}  // namespace colibri::repl
