#include "repl/plan_report.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "colibri/core/concat.hpp"
#include "colibri/io/memory_limits.hpp"
#include "colibri/text/utf8.hpp"
#include "repl/format.hpp"

namespace colibri::repl {
namespace {

using json = nlohmann::ordered_json;

// Speeds are told for a prompt of this many tokens, and for an answer's token behind this many others.
constexpr std::uint32_t usual_prompt = 512;
constexpr std::uint32_t usual_past = 64;  // as `colibri bench -n 128` has in the middle

// File bytes by what they are used for. A table that is the head too is used whole.
struct weight_groups {
    std::uint64_t dense = 0, experts = 0, embeddings = 0;
    bool tied = false;
};

weight_groups groups_of(const model& m) {
    weight_groups out;
    const auto& tensors = m.tensors();
    std::vector<bool> counted(m.file().tensors().size());
    const auto add = [&](weights::access how, std::uint64_t& sum) {
        for (const auto& group : tensors.groups) {
            if (group.how != how) continue;
            for (const auto id : group.tensors) {
                if (!counted[id]) sum += m.file().tensors()[id].bytes;
                counted[id] = true;
            }
        }
    };
    add(weights::access::whole, out.dense);
    add(weights::access::experts, out.experts);
    add(weights::access::rows, out.embeddings);
    out.tied = out.embeddings == 0;
    return out;
}

// The numbers of a plan that runs.
struct plan_figures {
    const plan_facts& facts;
    const memory_plan& plan;
    weight_groups groups;
    std::uint64_t kv_keys = 0, kv_values = 0;
    std::uint64_t held = 0, buffers = 0, cache = 0;  // of weights, in memory
    disk_reads reads;                                // of one token
    double missed = 0.0;                             // share of the experts' bytes that a token uses
    predicted_speed decode, full, prompt;
    std::vector<std::pair<double, const changed_plan*>> changes;  // by how much they help, most first

    explicit plan_figures(const plan_facts& f) : facts(f), plan(*f.plan), groups(groups_of(f.source)) {
        const auto& m = f.source;
        const auto& use = f.request.use;
        const auto shape =
            colibri::detail::kv_shape_for(m.params(), m.config(), use.sequences, plan.context, plan.ubatch);
        const auto k = row_bytes_of(use.cache_k, m.params().head_k), v = row_bytes_of(use.cache_v, m.params().head_v);
        kv_keys = kv_bytes(shape, use.cache_k, use.cache_v) / (k + v) * k;
        kv_values = plan.kv - std::min(plan.kv, kv_keys);
        if (plan.how == weights::holding::resident) held = plan.resident_bytes;
        if (plan.how == weights::holding::streamed) {
            held = plan.streaming.pinned_bytes;
            cache = plan.streaming.cache_bytes;
            buffers = plan.streaming.bytes - held - cache;
        }
        const speed_predictor now(m, plan, use, f.machine.speed, {}, 1.0, f.heat);
        reads = now.reads(1.0, true);
        missed = now.expert_miss_share();
        decode = now.decode(std::min(usual_past, plan.context - 1));
        full = now.decode(plan.context - 1);
        prompt = now.prompt(std::min(usual_prompt, plan.context));
        // In the middle of the context, so that what a smaller cache saves shows.
        const auto cost = now.decode_cost(1, plan.context / 2);
        for (const auto& change : f.changes) {
            const speed_predictor then(m, change.plan, change.use, f.machine.speed, {}, change.scale, f.heat);
            changes.emplace_back(gain(cost, then.decode_cost(1, plan.context / 2)), &change);
        }
        std::stable_sort(changes.begin(), changes.end(),
                         [](const auto& a, const auto& b) { return a.first > b.first; });
    }

    /// Share of the experts that isn't cached.
    [[nodiscard]] double uncached_share() const noexcept {
        double slots = 0.0, units = 0.0;
        for (const auto& cache_plan : plan.streaming.caches) {
            slots += static_cast<double>(cache_plan.slots);
            units += static_cast<double>(cache_plan.units);
        }
        return units > 0.0 ? 1.0 - slots / units : 0.0;
    }
};

// As an option's value, rounded up so that nothing is lost.
std::string size_option(std::uint64_t bytes) { return concat((bytes + (std::uint64_t{1} << 20) - 1) >> 20, "M"); }

std::string type_name(dtype type) { return std::string(find_dtype(static_cast<std::uint32_t>(type))->name); }

// What to do about a change, in words and, where that is enough, as an option.
std::string advice(const changed_plan& change) {
    switch (change.what) {
        case plan_change::context: return concat("less context (-c ", change.value, ")");
        case plan_change::cache_type: return "keys and values in q8_0 (-ctk q8_0 -ctv q8_0)";
        case plan_change::memory: {
            const bool there = change.value <= read_process_memory().resident + read_memory_limits().free();
            return there ? concat("more memory (--memory ", size_option(change.value), ")")
                         : concat("more memory (", bytes_text(change.value), ", which is more than is free)");
        }
        case plan_change::quantisation: return concat("a smaller quantisation (", type_name(change.type), ")");
    }
    return {};
}

std::string rate_text(double rate) { return fixed(rate, rate < 10.0 ? 2 : rate < 100.0 ? 1 : 0); }

std::string speed_text(const predicted_speed& speed) {
    if (speed.expected) return concat(rate_text(*speed.expected), " tok/s; the limit is ", rate_text(*speed.limit));
    if (speed.limit) return concat("unknown; the limit is ", rate_text(*speed.limit), " tok/s");
    return "unknown";
}

std::string bottleneck_text(const plan_figures& p) {
    switch (p.decode.slowest) {
        case bottleneck::memory: return "memory bandwidth";
        case bottleneck::arithmetic: return "arithmetic";
        case bottleneck::disk: return "the disk";
        case bottleneck::unknown: break;
    }
    return "unknown (--probe measures what it takes)";
}

std::string figure_text(double per_second, figure_source source, const std::string& date) {
    if (source == figure_source::unknown || per_second <= 0.0) return "unknown";
    return concat(fixed(per_second / 1e9, 2), " GB/s, ",
                  source == figure_source::given      ? std::string("as given")
                  : source == figure_source::measured ? std::string("measured now")
                                                      : concat("measured on ", date));
}

std::string held_text(const plan_figures& p) {
    const auto percent = [](double share) { return concat(fixed(100.0 * share, 0), " %"); };
    switch (p.plan.how) {
        case weights::holding::resident: return "resident: all of them in memory of our own";
        case weights::holding::mapped:
            return p.reads.total() > 0.0 ? "mapped: in the page cache, which is too small for them"
                                         : "mapped: in the page cache";
        default: break;
    }
    const auto& s = p.plan.streaming;
    const auto dense = static_cast<double>(std::max<std::uint64_t>(1, s.dense_bytes));
    const double read = std::min(static_cast<double>(s.streamed_bytes), dense);
    std::string out = concat("streamed: ", percent(1.0 - read / dense), " of the dense ones held");
    if (!s.caches.empty()) out += concat(", ", percent(1.0 - p.uncached_share()), " of the experts cached");
    return out;
}

json number_or_null(const std::optional<double>& number) { return number ? json(*number) : json(nullptr); }

json figure_json(double value) { return value > 0.0 ? json(value) : json(nullptr); }

}  // namespace

std::string plan_text(const plan_facts& facts) {
    const plan_figures p(facts);
    const auto& m = facts.source;
    const auto& plan = p.plan;
    const auto& use = facts.request.use;
    std::string out;
    const auto put = [&](std::string_view name, std::string_view text) {
        out += concat(name, std::string(name.size() < 15 ? 15 - name.size() : 1, ' '), text, "\n");
    };
    const auto part = [&](std::string_view name, std::uint64_t bytes, std::string_view text = {}) {
        const std::string size = bytes_text(bytes);
        const std::string blanks(size.size() < 10 ? 10 - size.size() : 0, ' ');
        put(concat("  ", name), concat(blanks, size, text.empty() ? "" : "  ", text));
    };
    const double bits =
        8.0 * static_cast<double>(m.tensors().weight_bytes) / static_cast<double>(m.tensors().parameters);
    const auto bytes = [](double number) { return bytes_text(static_cast<std::uint64_t>(number)); };
    put("model", concat(m.title(), ", ", bytes_text(m.tensors().weight_bytes), ", ", fixed(bits, 1), " bits a weight"));
    part("dense", p.groups.dense, p.groups.tied ? "the embedding, which is the head too, included" : "");
    if (p.groups.experts != 0) {
        part("experts", p.groups.experts,
             concat(m.params().experts_used, " of ", m.params().experts, " used by a token"));
    }
    if (!p.groups.tied) part("embedding", p.groups.embeddings, "one row used by a token");
    put("memory", concat(bytes_text(plan.budget),
                         facts.request.memory != 0 ? " (--memory)" : " (what is free now, less a margin)"));
    part("weights", p.held, held_text(p));
    if (p.cache != 0) part("experts", p.cache, "cached");
    if (p.buffers != 0) part("buffers", p.buffers, "of reads");
    part("KV keys", p.kv_keys, concat(plan.context, " tokens, ", name(use.cache_k)));
    part("KV values", p.kv_values, name(use.cache_v));
    part("activations", plan.scratch, concat("ubatch ", plan.ubatch));
    part("process", plan.process);
    part("reserve", plan.reserve);
    put("read per token",
        concat(bytes(p.decode.bytes_read), " from the disk",
               p.reads.experts > 0.0 ? concat(" (", bytes(p.reads.experts), facts.heat.empty() ? " of experts, if used evenly)" : " of experts, by the recording)") : ""));
    const auto& known = facts.machine;
    put("bandwidth", concat("memory ", figure_text(known.speed.one.bandwidth, known.memory, known.memory_date),
                            " with ", counted(facts.threads.one, "thread"), "; disk ",
                            figure_text(known.speed.disk, known.disk, known.disk_date)));
    const std::string full = p.full.expected ? concat("; ", rate_text(*p.full.expected), " behind a full context") : "";
    put("answer", concat(speed_text(p.decode), full));
    put("prompt", speed_text(p.prompt));
    put("bottleneck", bottleneck_text(p));
    if (!p.changes.empty() && p.changes[0].first > 1.01) {
        const double factor = p.changes[0].first;
        put("helps most", concat(advice(*p.changes[0].second),
                                 factor < 1000.0 ? concat(": answers ", fixed(factor, 2), " times as fast")
                                                 : ": nothing is read from the disk any more"));
    }
    return out;
}

std::string plan_json(const plan_facts& facts) {
    const auto& m = facts.source;
    const auto& use = facts.request.use;
    json out{{"model", text::replace_ill_formed(m.title())},
             {"architecture", text::replace_ill_formed(m.params().architecture)},
             {"runs", facts.runs()}};
    const auto groups = groups_of(m);
    out["weight_bytes"] = {{"dense", groups.dense}, {"experts", groups.experts}, {"embeddings", groups.embeddings}};
    out["cache_type_k"] = name(use.cache_k);
    out["cache_type_v"] = name(use.cache_v);
    out["threads"] = facts.threads.one;
    out["threads_batch"] = facts.threads.several;
    if (!facts.runs()) {
        out["reason"] = text::replace_ill_formed(facts.reason);
        out["smallest_budget"] = facts.smallest != 0 ? json(facts.smallest) : json(nullptr);
        return out.dump() + "\n";
    }
    const plan_figures p(facts);
    const auto& plan = p.plan;
    const auto& machine = facts.machine;
    out["weights"] = weights::name(plan.how);
    out["budget"] = plan.budget;
    out["context"] = plan.context;
    out["ubatch"] = plan.ubatch;
    out["memory"] = {{"weights", p.held},       {"expert_cache", p.cache},  {"buffers", p.buffers},
                     {"kv_keys", p.kv_keys},    {"kv_values", p.kv_values}, {"activations", plan.scratch},
                     {"process", plan.process}, {"reserve", plan.reserve}};
    out["streamed_bytes"] = static_cast<std::uint64_t>(p.reads.dense);
    const bool cached = groups.experts != 0 && plan.how == weights::holding::streamed;
    out["expert_miss_share"] = cached ? json(p.missed) : json(nullptr);
    out["read_per_token"] = {{"dense", p.reads.dense}, {"experts", p.reads.experts}, {"embedding", p.reads.rows}};
    out["bytes_read_per_token"] = p.decode.bytes_read;
    out["memory_bandwidth"] = figure_json(machine.speed.one.bandwidth);
    out["memory_bandwidth_from"] = name(machine.memory);
    out["memory_bandwidth_date"] = machine.memory_date.empty() ? json(nullptr) : json(machine.memory_date);
    out["disk_bandwidth"] = figure_json(machine.speed.disk);
    out["disk_bandwidth_from"] = name(machine.disk);
    out["disk_bandwidth_date"] = machine.disk_date.empty() ? json(nullptr) : json(machine.disk_date);
    out["predicted_tokens_per_second"] = number_or_null(p.decode.expected);
    out["limit_tokens_per_second"] = number_or_null(p.decode.limit);
    out["full_context_tokens_per_second"] = number_or_null(p.full.expected);
    out["predicted_prompt_tokens_per_second"] = number_or_null(p.prompt.expected);
    out["limit_prompt_tokens_per_second"] = number_or_null(p.prompt.limit);
    out["bottleneck"] = name(p.decode.slowest);
    out["prompt_bottleneck"] = name(p.prompt.slowest);
    out["changes"] = json::array();
    for (const auto& [factor, change] : p.changes) {
        json one{{"change", name(change->what)}};
        if (change->what == plan_change::context || change->what == plan_change::memory) one["value"] = change->value;
        else one["value"] = change->what == plan_change::cache_type ? std::string("q8_0") : type_name(change->type);
        one["times_as_fast"] = factor;
        out["changes"].push_back(std::move(one));
    }
    return out.dump() + "\n";
}

}  // namespace colibri::repl
