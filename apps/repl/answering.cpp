#include "repl/answering.hpp"

#include <chrono>
#include <memory>

#include "colibri/core/concat.hpp"
#include "repl/display.hpp"
#include "repl/format.hpp"

namespace colibri::repl {
namespace {

// A prompt that takes longer than this shows how far it is.
constexpr std::chrono::milliseconds quiet_time{500};

std::string rate_text(double rate) { return rate > 0.0 ? concat(", ", fixed(rate, 1), " tok/s") : std::string(); }

std::string weights_text(const memory_figures& memory) {
    return concat(bytes_text(memory.weights), memory.weights_mapped ? " mapped" : " resident");
}

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
        if (std::chrono::steady_clock::now() - begin > quiet_time && p.done < p.total) {
            out.progress(concat("reading: ", p.done, " of ", p.total, " tokens"));
        } else {
            out.clear_progress();
        }
        return true;
    };
    hooks.cancel = &cancel;
    return hooks;
}

std::string figures_line(const engine& e) {
    const auto& f = e.figures();
    const auto memory = e.memory();
    return concat(counted(f.generated_tokens, "token"), rate_text(f.generation_rate), " | prompt ", f.prompt_tokens,
                  f.cached_tokens > 0 ? concat(" (", f.cached_tokens, " known)") : "", rate_text(f.prompt_rate),
                  " | TTFT ", fixed(f.first_token_seconds, 2), " s | context ", e.used(), " of ", e.context(),
                  " | weights ", weights_text(memory), ", KV ", bytes_text(memory.kv), ", RSS ",
                  bytes_text(memory.resident));
}

std::string figures_text(const engine& e) {
    const auto& f = e.figures();
    const auto memory = e.memory();
    return concat("answer        ", counted(f.generated_tokens, "token"), rate_text(f.generation_rate), ", ",
                  fixed(f.generation_seconds, 2), " s after the first\n", "prompt        ",
                  counted(f.prompt_tokens, "token"), ", ", f.cached_tokens, " known before", rate_text(f.prompt_rate),
                  ", ", fixed(f.prompt_seconds, 2), " s\n", "TTFT          ", fixed(f.first_token_seconds, 2),
                  " s to the first token\n", "context       ", e.used(), " of ", e.context(), " tokens used\n",
                  "weights       ", weights_text(memory), "\n", "KV cache      ", bytes_text(memory.kv), "\n",
                  "activations   ", bytes_text(memory.scratch), "\n", "RSS           ", bytes_text(memory.resident));
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
