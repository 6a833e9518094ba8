#include "repl/engine.hpp"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "colibri/chat/chat.hpp"
#include "colibri/gguf/listing.hpp"
#include "colibri/io/memory_limits.hpp"
#include "colibri/sampling/param_text.hpp"
#include "colibri/simd/targets.hpp"
#include "repl/files.hpp"
#include "repl/format.hpp"
#include "repl/machine_figures.hpp"
#include "repl/source.hpp"

namespace colibri::repl {
namespace {

answer_end end_of(finish_reason reason) {
    switch (reason) {
        case finish_reason::stop: return answer_end::stop;
        case finish_reason::length: return answer_end::length;
        case finish_reason::context: return answer_end::context;
        case finish_reason::canceled: return answer_end::canceled;
        default: return answer_end::end;
    }
}

// What --chat-template asks for: a file's text, or else a built-in template's name.
result<void> choose_template(chat_options& out, const std::string& wanted) {
    std::error_code problem;
    if (!std::filesystem::exists(expand_home(wanted), problem)) {
        out.template_name = wanted;
        return {};
    }
    auto bytes = read_whole_file(expand_home(wanted));
    if (!bytes) return std::move(bytes).error();
    std::size_t replaced = 0;
    out.template_source = as_text(*bytes, replaced);
    if (out.template_source.empty()) {
        return error{errc::template_syntax,
                     concat("the chat template ", quoted(wanted), " is empty; --raw is the way without one")};
    }
    return {};
}

error without_template(std::string_view option) {
    return error{errc::invalid_argument,
                 concat("--raw leaves the chat template out, so ", option, " has no place; give one of them")};
}

}  // namespace

std::string_view name(answer_end how) noexcept {
    switch (how) {
        case answer_end::end: return "end";
        case answer_end::stop: return "stop";
        case answer_end::length: return "length";
        case answer_end::context: return "context";
        case answer_end::canceled: return "canceled";
    }
    return "?";
}

struct engine::state {
    explicit state(model m) : source(std::move(m)) {}

    model source;
    machine_speed machine;                     // what was kept of it
    std::optional<chat> talk;                  // with a template, or the plain form
    std::optional<session> plain;              // without
    std::optional<sampling::sampler> sampler;  // of `plain`
    options given;
    std::uint64_t seed_by_chance = sampling::random_seed();
    std::vector<std::string> notes;
    std::vector<chat_message> messages;
    std::optional<std::string> system;
    answer_figures figures;

    [[nodiscard]] session& cache() { return talk ? talk->session() : *plain; }

    [[nodiscard]] const sampling::settings& sampling() const { return talk ? talk->sampling() : sampler->used(); }

    // A seed that nobody gave stays the same while other settings change.
    [[nodiscard]] sampling::params params_of(const options& wanted) const {
        auto params = wanted.sampling;
        if (!params.seed) params.seed = seed_by_chance;
        return params;
    }

    [[nodiscard]] result<void> open_plain(const options& wanted) {
        if (wanted.system) return without_template("--system");
        if (wanted.chat_template) return without_template("--chat-template");
        session_options sizes;
        set_sizes(sizes, wanted);
        auto made = session::make(source, sizes);
        if (!made) return std::move(made).error();
        plain.emplace(std::move(*made));
        auto chosen = make_sampler(source, params_of(wanted));
        if (!chosen) return std::move(chosen).error();
        sampler.emplace(std::move(*chosen));
        notes = source.notes();
        notes.insert(notes.end(), plain->notes().begin(), plain->notes().end());
        return {};
    }

    [[nodiscard]] result<void> open_chat(const options& wanted) {
        chat_options how;
        set_sizes(how, wanted);
        how.sampling = params_of(wanted);
        if (wanted.chat_template) {
            if (auto ok = choose_template(how, *wanted.chat_template); !ok) return ok;
        }
        auto opened = chat::open(source, how);
        if (!opened) {
            auto problem = std::move(opened).error();
            if (problem.code == errc::template_syntax) {
                problem.message += "; --chat-template takes another one, --raw none";
            } else if (problem.code == errc::not_found && !how.template_name.empty()) {
                problem = error{errc::invalid_argument, concat("--chat-template: ", problem.message, ", or a file")};
            }
            return problem;
        }
        talk.emplace(std::move(*opened));
        notes = talk->notes();
        return {};
    }

    // Collects what `pieces` (an answer or a generation) gives.
    template <class Pieces>
    [[nodiscard]] result<answer> collect(Pieces& pieces, const answer_hooks& hooks) {
        answer out;
        while (true) {
            auto piece = pieces.next();
            if (!piece) return std::move(piece).error();
            if (!*piece) break;
            out.text += **piece;
            if (hooks.piece && !hooks.piece(**piece)) {
                out.how = answer_end::canceled;
                return out;
            }
        }
        out.how = end_of(pieces.reason());
        if (out.how == answer_end::canceled && out.text.empty())
            return error{errc::canceled, "stopped before the answer began"};
        return out;
    }

    [[nodiscard]] result<answer> continue_text(const std::string& text, const answer_hooks& hooks) {
        if (hooks.prompt) hooks.prompt(text);
        const auto tokens = source.tokenizer().encode(text, {.add_special = true, .parse_special = given.special});
        if (auto ok = plain->prompt(tokens, 0, hooks.progress, hooks.cancel); !ok) return std::move(ok).error();
        sampler->forget_text();
        sampler->accept(tokens);
        if (given.predict == 0) return answer{.text = {}, .how = answer_end::length};
        generation_options how;
        how.max_tokens = static_cast<std::uint32_t>(std::max<std::int64_t>(0, given.predict.value_or(0)));
        how.stops = given.stops;
        how.cancel = hooks.cancel;
        generation pieces(*plain, *sampler, std::move(how));
        return collect(pieces, hooks);
    }

    [[nodiscard]] result<answer> continue_chat(const std::vector<chat_message>& all, const answer_hooks& hooks) {
        std::vector<message> converted;
        for (const auto& m : all) converted.push_back({m.role, m.content});
        talk->set_messages(std::move(converted));
        talk->set_system(system.value_or(""));
        talk->set_stops(given.stops);
        talk->set_max_tokens(static_cast<std::uint32_t>(std::max<std::int64_t>(0, given.predict.value_or(0))));
        talk->set_cancel(hooks.cancel);
        talk->set_progress(hooks.progress);
        if (hooks.prompt) {
            const auto rendered = talk->prompt_text();
            if (rendered) hooks.prompt(rendered->text);
        }
        if (given.predict == 0) {
            const auto tokens = talk->prompt_tokens();
            if (!tokens) return tokens.error();
            auto ok = talk->session().prompt(*tokens, 0, hooks.progress, hooks.cancel);
            return ok ? result<answer>(answer{.text = {}, .how = answer_end::length}) : std::move(ok).error();
        }
        auto pieces = talk->reply();
        return collect(pieces, hooks);
    }

    // Answers the conversation in which `text` is the newest message.
    [[nodiscard]] result<answer> reply(const std::string& text, const answer_hooks& hooks) {
        auto all = messages;
        all.push_back({"user", text});
        // Statistics of the weights before the prompt, and behind it.
        const auto begin = source.weights().statistics();
        auto middle = begin;
        auto watching = hooks;
        watching.progress = [&](const progress& p) {
            if (p.done == p.total) middle = source.weights().statistics();
            return !hooks.progress || hooks.progress(p);
        };
        auto said = talk ? continue_chat(all, watching) : continue_text(joined(all), watching);
        if (talk) talk->set_progress({});  // it refers to this call
        const auto& s = cache().statistics();
        figures = {};
        figures.prompt_tokens = s.prompt_tokens;
        figures.cached_tokens = s.cached_tokens;
        figures.generated_tokens = s.generated_tokens;
        figures.prompt_seconds = s.prompt_seconds;
        figures.first_token_seconds = s.first_token_seconds;
        figures.generation_seconds = s.generation_seconds;
        figures.prompt_rate = s.prompt_rate();
        figures.generation_rate = s.generation_rate();
        add_reads(begin, middle);
        add_predictions();
        return said;
    }

    // What the last answer read, as far as the store knows: what is mapped is read by the kernel.
    void add_reads(const weights::store_statistics& begin, const weights::store_statistics& middle) {
        const auto how = source.weights().how();
        if (how == weights::holding::mapped) return;
        const auto end = source.weights().statistics();
        figures.wait_seconds = end.wait_seconds - begin.wait_seconds;
        if (how == weights::holding::resident) {
            figures.bytes_per_token = 0.0;
            return;
        }
        if (end.sweeps > middle.sweeps) {
            figures.bytes_per_token =
                static_cast<double>(end.bytes_read - middle.bytes_read) / static_cast<double>(end.sweeps - middle.sweeps);
        }
        if (source.params().experts == 0) return;
        figures.expert_hits = end.expert_hits - begin.expert_hits;
        figures.expert_misses = end.expert_misses - begin.expert_misses;
    }

    void add_predictions() {
        const auto& use = cache().options();
        session_options sizes;
        sizes.cache_k = use.cache_k;
        sizes.cache_v = use.cache_v;
        const speed_predictor predictor(source, source.memory(), sizes, machine);
        const auto past = cache().used() - std::min(cache().used(), figures.generated_tokens / 2 + 1);
        const auto answer_speed = predictor.decode(past);
        figures.limit_rate = answer_speed.limit;
        figures.predicted_rate = answer_speed.expected;
        figures.predicted_bytes_per_token = answer_speed.bytes_read;
        const auto fresh = figures.prompt_tokens - std::min(figures.prompt_tokens, figures.cached_tokens);
        if (fresh != 0) {
            figures.predicted_prompt_rate =
                speed_predictor::speed_of(predictor.prompt_cost(fresh, figures.cached_tokens, use.ubatch)).expected;
        }
    }

    // Without a template a conversation is its messages, one below the other.
    [[nodiscard]] static std::string joined(const std::vector<chat_message>& all) {
        std::string out;
        for (const auto& each : all) out += concat(&each == all.data() ? "" : "\n", each.content);
        return out;
    }
};

engine::engine(std::unique_ptr<state> s) : state_(std::move(s)) {}
engine::engine(engine&&) noexcept = default;
engine& engine::operator=(engine&&) noexcept = default;
engine::~engine() = default;

result<engine> engine::open(const options& given, engine_use use, progress_fn loading) {
    if (auto ok = choose_target(given); !ok) return std::move(ok).error();
    auto source = open_source(given, sizes_of(given), std::move(loading));
    if (!source) return std::move(source).error();
    auto s = std::make_unique<state>(std::move(*source));
    s->given = given;
    s->system = given.system;
    const bool wants_form = use == engine_use::conversation || given.chat_template || given.system;
    const bool has_template = s->source.meta().contains("tokenizer.chat_template");
    const bool plain = given.raw || (!wants_form && !has_template);
    if (given.special && !plain) {
        return error{errc::invalid_argument,
                     "--special needs --raw: what is said in a chat never becomes a control token"};
    }
    if (auto ok = plain ? s->open_plain(given) : s->open_chat(given); !ok) return std::move(ok).error();
    const auto& m = s->source;
    const auto& sizes = s->cache().options();
    const auto bytes = roofline(m, sizes.cache_k, sizes.cache_v, {1.0, 1.0, 1.0}).bytes_per_token();
    const thread_counts threads{sizes.threads, sizes.threads_batch, sizes.processors};
    s->machine = kept_figures(m.path(), static_cast<std::uint64_t>(bytes), threads).speed;
    return engine(std::move(s));
}

const std::vector<std::string>& engine::notes() const { return state_->notes; }
std::string engine::title() const { return state_->source.title(); }
bool engine::raw() const { return state_->plain.has_value(); }
std::uint32_t engine::context() const { return state_->cache().context(); }
std::uint32_t engine::used() const { return state_->cache().used(); }
unsigned engine::threads() const { return state_->cache().options().threads; }
std::uint64_t engine::seed() const { return state_->sampling().seed; }
std::string engine::sampling_text() const { return sampling::describe(state_->sampling()); }

std::string engine::description() const {
    const auto& m = state_->source;
    const auto sum = gguf::summarize(m.file());
    std::string types;
    for (const auto& type : sum.types) types += concat(types.empty() ? "" : ", ", name(type.type));
    return concat("model         ", m.title(), " (", quoted(m.path().string()), ")\n", "architecture  ",
                  quoted(m.meta().get_or<std::string>("general.architecture", "").value_or("")), ", ",
                  fixed(static_cast<double>(sum.parameters) / 1e6, 1), " million parameters, ",
                  bytes_text(sum.data_bytes), " (", types, ")\n", "context       ", context(), " tokens here, ",
                  m.params().trained_context, " in training\n", "vocabulary    ", m.tokenizer().size(), " tokens\n",
                  "computing     ", simd::target_name(), ", ", counted(threads(), "thread"), ", keys ",
                  name(state_->cache().options().cache_k), ", values ", name(state_->cache().options().cache_v), "\n",
                  "template      ",
                  raw()                          ? "none (raw text)"
                  : state_->given.chat_template  ? quoted(*state_->given.chat_template)
                  : state_->talk->has_template() ? "the model's own"
                                                 : "none; the plain form is used");
}

std::string engine::template_text() const {
    return state_->given.chat_template
               ? *state_->given.chat_template
               : state_->source.meta().get_or<std::string>("tokenizer.chat_template", "").value_or("");
}

std::vector<std::pair<std::string, std::string>> engine::settings() const {
    std::vector<std::pair<std::string, std::string>> out;
    const auto& used = state_->sampling();
    sampling::for_each_number([&](const auto& field) { out.emplace_back(field.name, concat(used.*field.value)); });
    out.emplace_back("ignore_eos", used.ignore_eos ? "on" : "off");
    out.emplace_back("seed", concat(used.seed));
    return out;
}

result<void> engine::configure(const options& given) {
    const auto params = state_->params_of(given);
    if (state_->talk) {
        if (auto ok = state_->talk->configure(params); !ok) return ok;
    } else {
        auto chosen = make_sampler(state_->source, params);
        if (!chosen) return std::move(chosen).error();
        state_->sampler = std::move(*chosen);
    }
    state_->given = given;
    return {};
}

result<answer> engine::complete(std::string text, const answer_hooks& hooks) { return state_->reply(text, hooks); }

const std::vector<chat_message>& engine::messages() const { return state_->messages; }
const std::optional<std::string>& engine::system() const { return state_->system; }

void engine::set_conversation(std::optional<std::string> system, std::vector<chat_message> messages) {
    state_->system = std::move(system);
    state_->messages = std::move(messages);
}

result<answer> engine::ask(std::string text, const answer_hooks& hooks) {
    auto said = state_->reply(text, hooks);
    if (!said) return said;
    state_->messages.push_back({"user", std::move(text)});
    state_->messages.push_back({"assistant", said->text});
    return said;
}

const answer_figures& engine::figures() const { return state_->figures; }

memory_figures engine::memory() const {
    const auto m = state_->cache().memory();
    const auto& store = state_->source.weights();
    const auto held = store.memory();
    const auto process = read_process_memory();
    return {held.mapped + held.resident + held.cache, weights::name(store.how()), held.buffers, held.cache, held.swept,
            m.kv, m.scratch, process.resident, process.peak};
}

}  // namespace colibri::repl
