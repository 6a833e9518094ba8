// colibri run: one prompt, one answer.
#include <nlohmann/json.hpp>

#include "colibri/core/concat.hpp"
#include "colibri/text/utf8.hpp"
#include "repl/answering.hpp"
#include "repl/commands.hpp"
#include "repl/figures.hpp"
#include "repl/json_value.hpp"
#include "repl/prompt_input.hpp"

namespace colibri::repl {
namespace {

using json = nlohmann::ordered_json;

template <class Number>
json or_null(const std::optional<Number>& number) {
    return number ? json(*number) : json(nullptr);
}

std::string as_json(const engine& e, const answer& said) {
    const auto& f = e.figures();
    const auto memory = e.memory();
    json out{{"answer", text::replace_ill_formed(said.text)}, {"finish_reason", name(said.how)}};
    out["tokens"] = {{"prompt", f.prompt_tokens}, {"cached", f.cached_tokens}, {"generated", f.generated_tokens}};
    out["timings"] = {{"prompt_seconds", f.prompt_seconds},
                      {"first_token_seconds", f.first_token_seconds},
                      {"generation_seconds", f.generation_seconds},
                      {"prompt_tokens_per_second", f.prompt_rate},
                      {"generated_tokens_per_second", f.generation_rate}};
    out["tokens_per_second"] = f.generation_rate > 0.0 ? json(f.generation_rate) : json(nullptr);
    out["predicted_tokens_per_second"] = or_null(f.predicted_rate);
    out["limit_tokens_per_second"] = or_null(f.limit_rate);
    out["bytes_read_per_token"] = or_null(f.bytes_per_token);
    out["disk_wait_seconds"] = or_null(f.wait_seconds);
    out["expert_hits"] = or_null(f.expert_hits);
    out["expert_misses"] = or_null(f.expert_misses);
    out["peak_rss"] = memory.peak;
    out["memory"] = {{"weights", memory.weights},
                     {"weights_mapped", memory.how == "mapped"},
                     {"weights_held", memory.how},
                     {"buffers", memory.buffers},
                     {"expert_cache", memory.cache},
                     {"read_per_sweep", memory.swept},
                     {"kv", memory.kv},
                     {"activations", memory.scratch},
                     {"rss", memory.resident}};
    out["seed"] = e.seed();
    out["model"] = text::replace_ill_formed(e.title());
    out["settings"] = {{"context", e.context()}, {"threads", e.threads()}, {"raw", e.raw()}};
    for (const auto& [key, value] : e.settings()) out["settings"][key] = json_value(value);
    return out.dump() + "\n";
}

}  // namespace

exit_code run_command(arguments args, output& out) {
    take_model(args);
    const auto& given = args.given;
    if (!given.model) {
        out.fail("a model is needed: colibri run MODEL");
        return exit_code::usage;
    }
    const auto input = read_prompt(args, true, out);
    if (input.failed != exit_code::ok) return input.failed;
    if (!input.text || (input.text->empty() && !given.prompt)) {
        out.fail("a prompt is needed: give -p TEXT, a FILE, or pipe one in");
        return exit_code::usage;
    }
    exit_code failed = exit_code::ok;
    auto opened = open_engine(given, engine_use::completion, out, failed);
    if (!opened) return failed;
    engine& e = *opened;
    greet(e, given, out);

    cancel_flag cancel;
    const interruptible interrupts(cancel);
    auto hooks = showing_hooks(out, cancel, given.show_prompt);
    if (given.json) hooks.piece = {};
    const auto said = e.complete(*input.text, hooks);
    if (!said) {
        out.end_line();  // of what came before the error
        if (said.error().code == errc::canceled) return exit_code::interrupted;
        out.fail(said.error().text());
        return exit_code_of(said.error());
    }
    if (given.json) out.print(as_json(e, *said));
    else out.end_line();
    if (out.write_failed()) return exit_code::io;
    if (given.verbose.value_or(out.err_is_terminal())) out.remark(figures_line(e));
    if (cancel.requested()) return exit_code::interrupted;
    if (said->how == answer_end::context) {
        out.fail(
            concat("the context of ", e.context(), " tokens is full, so the answer ends here; -c makes it larger"));
        return exit_code::context;
    }
    return exit_code::ok;
}

}  // namespace colibri::repl
