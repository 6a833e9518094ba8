// colibri plan: what a model will take of memory and disk, and how fast it will be; no weights are read.
#include <algorithm>
#include <utility>

#include "colibri/core/concat.hpp"
#include "repl/commands.hpp"
#include "repl/files.hpp"
#include "repl/format.hpp"
#include "repl/plan_report.hpp"
#include "repl/source.hpp"

namespace colibri::repl {
namespace {

// Why no amount of memory would do; empty if some does.
std::string unfit_cache(const plan_facts& facts) {
    const auto& h = facts.source.params();
    const auto& use = facts.request.use;
    for (const auto& [type, width] : {std::pair(use.cache_k, h.head_k), std::pair(use.cache_v, h.head_v)}) {
        if (width % block_size_of(type) == 0) continue;
        return concat("heads of ", width, " values can't be kept in ", name(type), ", whose blocks have ",
                      block_size_of(type), "; take f16 or bf16");
    }
    return {};
}

// Why memory is too small; empty if it isn't. The plan's own error names a smallest budget that is an estimate.
std::string shortage(const memory_request& request, const result<memory_plan>& plan) {
    if (!plan) {
        const std::string budget = request.memory != 0 ? bytes_text(request.memory) : std::string("what is free");
        return concat("a memory budget of ", budget, " is too small for this model",
                      request.use.context != 0 ? concat(" with a context of ", request.use.context, " tokens") : "");
    }
    if (can_run(*plan)) return {};
    return concat("resident weights take ", bytes_text(plan->resident_bytes), " and ", bytes_text(plan->weights),
                  " are left of ", bytes_text(plan->budget));
}

// The newest steps of what --record-heat wrote: half of them warm the caches, half are counted.
constexpr std::size_t replayed_steps = 1024;

result<void> read_recording(plan_facts& facts, const std::string& path) {
    const auto& h = facts.source.params();
    if (h.experts == 0) return error{errc::bad_value, concat("--heat ", quoted(path), ": this model has no experts")};
    weights::recent_heat newest(replayed_steps * h.layers);
    auto ok = weights::read_heat(expand_home(path), h.layers, h.experts, newest);
    if (!ok) return std::move(ok).error().within("--heat");
    facts.heat = newest.lines();
    return {};
}

exit_code usage_error(output& out, std::string_view message) {
    out.fail(message);
    return exit_code::usage;
}

// Everything but what is measured. The model's own plan isn't used: it would end with an error where memory is too
// small.
result<plan_facts> make_facts(const options& given, const model_options& how) {
    model_options header;
    header.holding = weights::holding::mapped;
    header.pre_tokenizer = how.pre_tokenizer;
    auto source = model::open_header(*given.model, header);
    if (!source) {
        auto problem = std::move(source).error();
        if (problem.code == errc::invalid_argument) problem.code = errc::bad_value;  // not the caller's: the file's
        return problem;
    }
    plan_facts facts{
        *std::move(source), {how.holding, how.memory, how.use, how.streaming}, {}, 0, {}, threads_of(given), {}, {}, {}};
    facts.request.use.threads = facts.threads.one;
    facts.request.use.threads_batch = facts.threads.several;
    facts.reason = unfit_cache(facts);
    if (!facts.runs()) return facts;
    const auto plan = plan_memory(facts.source, facts.request);
    if (!plan && plan.error().code != errc::out_of_memory) return plan.error();
    facts.reason = shortage(facts.request, plan);
    if (!facts.runs()) {
        facts.smallest = smallest_budget(facts.source, facts.request);
        // Another run of the program may itself take a little more.
        if (facts.smallest != 0) facts.smallest += std::uint64_t{1} << 20;
        return facts;
    }
    facts.plan = *plan;
    if (given.heat) {
        if (auto ok = read_recording(facts, *given.heat); !ok) return std::move(ok).error();
    }
    facts.changes = plan_changes(facts.source, facts.request, *plan);
    return facts;
}

}  // namespace

exit_code plan_command(const arguments& args, output& out) {
    auto given = args.given;
    auto name = only_name(args, "model", "colibri plan -m MODEL");
    if (!name) return usage_error(out, name.error().message);
    given.model = *std::move(name);
    machine_figures asked;  // before anything takes time
    if (auto ok = use_given_figures(asked, given); !ok) return usage_error(out, ok.error().message);
    if (auto ok = choose_target(given); !ok) return usage_error(out, ok.error().message);
    const auto how = holding_options(given, sizes_of(given));
    if (!how) return usage_error(out, how.error().message);
    auto facts = make_facts(given, *how);
    if (!facts) {
        out.fail(facts.error().text());
        return facts.error().code == errc::io ? exit_code::io : exit_code::model;
    }
    if (!facts->runs()) {
        if (given.json) out.print(plan_json(*facts));
        const std::string least = concat("; the smallest budget that works is --memory ", facts->smallest >> 20, "M");
        out.fail(concat(facts->reason, facts->smallest != 0 ? least : ""));
        return exit_code::cannot_run;
    }
    const auto bytes = static_cast<std::uint64_t>(
        roofline(facts->source, how->use.cache_k, how->use.cache_v, {1.0, 1.0, 1.0}).bytes_per_token());
    const auto parts = facts->source.file().parts();
    const auto smaller = [](const auto& a, const auto& b) { return a.size < b.size; };
    const auto& largest = std::max_element(parts.begin(), parts.end(), smaller)->path;
    facts->machine = kept_figures(largest, bytes, facts->threads);
    if (given.probe) measure_figures(facts->machine, largest, bytes, facts->threads);
    if (auto ok = use_given_figures(facts->machine, given); !ok) return usage_error(out, ok.error().message);
    for (const auto& note : facts->source.notes()) out.warn(note);
    for (const auto& note : facts->plan->notes) out.warn(note);
    for (const auto& note : facts->machine.notes) out.warn(note);
    out.print(given.json ? plan_json(*facts) : plan_text(*facts));
    return exit_code::ok;
}

}  // namespace colibri::repl
