#include "repl/options.hpp"

#include <algorithm>

#include "colibri/core/concat.hpp"
#include "colibri/core/escape.hpp"
#include "colibri/core/number.hpp"
#include "colibri/sampling/param_text.hpp"
#include "repl/lists.hpp"

namespace colibri::repl {
namespace {

using o = options;

constexpr unsigned both = for_chat | for_run;
constexpr unsigned measured = for_eval | for_imatrix;
constexpr unsigned with_engine = both | for_bench | measured;
constexpr unsigned with_plan = with_engine | for_plan;
constexpr unsigned sized = both | for_plan | measured;
constexpr unsigned with_model = with_plan | for_tokenize | for_inspect;
constexpr unsigned prompted = both | for_tokenize;
constexpr std::int64_t many = 0xffffffff;  // counts of tokens are 32 bits wide
constexpr std::string_view cache_types = "f32 f16 bf16 q8_0 q4_0";

constexpr std::int64_t most_threads = 1024;

// The ways to write a row.
constexpr option_row switch_row(std::string_view name, unsigned commands, option_target target, std::string_view help,
                                std::string_view default_text = {}, bool value = true) {
    return {.name = name,
            .help = help,
            .default_text = default_text,
            .commands = commands,
            .target = target,
            .switch_value = value};
}
constexpr option_row number_row(std::string_view name, std::string_view short_name,
                                std::optional<std::int64_t> o::*target, std::int64_t least, std::int64_t most,
                                std::string_view help, std::string_view default_text) {
    return {.name = name,
            .short_name = short_name,
            .value = "N",
            .help = help,
            .default_text = default_text,
            .commands = both,
            .target = target,
            .least = least,
            .most = most};
}
constexpr option_row text_row(std::string_view name, std::string_view short_name, std::string_view value,
                              unsigned commands, option_target target, std::string_view help,
                              std::string_view default_text = {}, std::string_view choices = {}) {
    return {.name = name,
            .short_name = short_name,
            .value = value,
            .help = help,
            .default_text = default_text,
            .commands = commands,
            .target = target,
            .choices = choices};
}
constexpr option_row sampling_row(std::string_view name, std::string_view value, std::string_view help,
                                  std::string_view default_text = {}, std::string_view short_name = {}) {
    return {.name = name,
            .short_name = short_name,
            .value = value,
            .help = help,
            .default_text = default_text,
            .commands = both,
            .target = sampling_target{},
            .choices = name == "mirostat" ? "0 1 2" : "",
            .settable = true};
}
constexpr option_row list_row(std::string_view name, std::string_view short_name, std::optional<std::string> o::*target,
                              std::int64_t least, std::int64_t most, std::string_view help, std::string_view default_text,
                              std::string_view choices = {}) {
    return {.name = name,
            .short_name = short_name,
            .value = "LIST",
            .help = help,
            .default_text = default_text,
            .commands = for_bench,
            .target = target,
            .least = least,
            .most = most,
            .choices = choices,
            .list = true};
}
constexpr option_row for_commands(unsigned commands, option_row row) {
    row.commands = commands;
    return row;
}
constexpr option_row with_value(std::string_view value, option_row row) {
    row.value = value;
    return row;
}
constexpr option_row or_auto(option_row row) {
    row.value = "N|auto";
    row.choices = "auto";
    return row;
}
constexpr option_row settable(option_row row) {
    row.settable = true;
    return row;
}

constexpr option_row table[] = {
    text_row("model", "m", "FILE", with_model, &o::model, "the GGUF model (of a split one, any part)", "", "FILE"),
    for_commands(both | for_plan, number_row("ctx-size", "c", &o::context, 0, many, "tokens of context; 0: the default",
                                   "the model's own, at most 8192, less where memory is short")),
    for_commands(measured, with_value("TOKENS", number_row("ctx-size", "c", &o::context, 4, 1 << 24, "tokens of a window of text",
                                                          "512"))),
    for_commands(sized | for_inspect | for_convert, or_auto(number_row("threads", "t", &o::threads, 0, most_threads,
                                           "threads that compute; 0: auto",
                                           "auto: the physical cores that may be used, of two kinds the faster"))),
    for_commands(sized, or_auto(number_row("threads-batch", "tb", &o::threads_batch, 0, most_threads,
                                           "threads that compute a prompt; 0: auto",
                                           "as -t if that is given, else all physical cores"))),
    list_row("threads", "t", &o::thread_list, 0, most_threads,
             "threads, as all lists here: 1,2,4 or 1-8 or 1-8+2 or 1-16*2; several make a sweep", "auto", "auto"),
    list_row("threads-batch", "tb", &o::thread_batch_list, 0, most_threads, "threads for prompts", "as -t", "auto"),
    for_commands(with_plan, number_row("batch-size", "b", &o::batch, 1, many,
                                       "most tokens of a prompt handed over at once", "2048")),
    for_commands(sized, number_row("ubatch-size", "ub", &o::ubatch, 1, many,
                                   "most tokens of a prompt evaluated in one pass over the weights",
                                   "512, or what the memory has room for when streaming")),
    list_row("ubatch-size", "ub", &o::ubatch_list, 1, many,
             "most tokens of a prompt evaluated in one pass over the weights", "512"),
    text_row("cache-type-k", "ctk", "TYPE", sized, &o::cache_k, "format of cached keys", "f16", cache_types),
    text_row("cache-type-v", "ctv", "TYPE", sized, &o::cache_v, "format of cached values", "f16", cache_types),
    list_row("cache-type-k", "ctk", &o::cache_k_list, 0, -1, "formats of cached keys", "f16", cache_types),
    list_row("cache-type-v", "ctv", &o::cache_v_list, 0, -1, "formats of cached values", "f16", cache_types),
    text_row("simd", "", "NAME", with_plan, &o::simd, "instruction set to compute with, as COLIBRI_SIMD",
             "the best of this CPU", "avx512vnni avx512 avx2vnni avx2 sse4 baseline neondot neon"),
    text_row("weights", "", "HOW", with_plan, &o::weights,
             "mapped: in the page cache, starts at once; resident: in memory of its own, fastest; streamed: a part held, the rest "
             "read ahead of its use; auto: resident if it fits, else streamed",
             "auto", "auto mapped resident streamed"),
    text_row("memory", "", "SIZE", with_plan, &o::memory,
             "memory that the program may take in all, such as 12G or 1500M; auto: what is free, less a margin", "auto"),
    text_row("record-heat", "", "FILE", with_engine, &o::record_heat,
             "mixtures of experts: write down which experts each step needs"),
    switch_row("mmap", with_plan, &o::mmap, "the same as --weights mapped"),
    switch_row("no-mmap", with_plan, &o::mmap, "the same as --weights resident", "", false),
    switch_row("mlock", with_engine, &o::mlock, "keep the weights from being swapped out or dropped; refused where memory is too small for them", "off"),
    switch_row("no-mlock", with_engine, &o::mlock, "let the system decide what stays in memory", "", false),

    text_row("prompt", "p", "TEXT", prompted, &o::prompt, "the prompt; chat: the first message"),
    text_row("file", "f", "FILE", prompted, &o::prompt_file,
             "read the prompt from a file; behind -p and a blank line if both are given", "", "FILE"),
    text_row("file", "f", "TEXT", measured, &o::prompt_file, "the file of the text", "", "FILE"),
    text_row("system", "sys", "TEXT", both, &o::system, "the system message", "none"),
    text_row("chat-template", "", "NAME|FILE", both, &o::chat_template,
             "use a built-in template or the one in a file instead of the model's own", "", "FILE"),
    switch_row("raw", both, &o::raw, "no template: the model goes on with the text as it is"),
    switch_row("special", prompted, &o::special,
               "with --raw and in tokenize: texts of control tokens in the input mean these tokens"),
    switch_row("show-prompt", both, &o::show_prompt, "show the text that the model gets, on standard error", "off"),

    settable({.name = "predict",
              .short_name = "n",
              .value = "N",
              .help = "most tokens of an answer; -1: no limit",
              .default_text = "-1",
              .commands = both,
              .target = &o::predict,
              .least = -1,
              .most = many}),
    settable(text_row("stop", "", "TEXT", both, &o::stops, "end the answer in front of this text; may be repeated")),
    settable(switch_row("ignore-eos", both, sampling_target{}, "go on when the model ends its answer", "off")),

    sampling_row("seed", "N", "seed of the random numbers; -1: another one each time", "-1", "s"),
    sampling_row("temp", "X", "temperature; 0: always the likeliest token", "0.8"),
    sampling_row("dynatemp-range", "X", "temperature varies by this much with the entropy; 0: off", "0"),
    sampling_row("dynatemp-exp", "X", "exponent of the dynamic temperature", "1"),
    sampling_row("top-k", "N", "choose among the N likeliest; 0: all", "40"),
    sampling_row("top-p", "X", "choose among the likeliest that together have probability X; 1: all", "0.95"),
    sampling_row("min-p", "X", "leave out what is less than X times as likely as the likeliest; 0: nothing", "0.05"),
    sampling_row("typical", "X", "locally typical sampling up to probability X; 1: off", "1"),
    sampling_row("top-n-sigma", "X", "keep logits within X standard deviations of the best; 0 or less: off", "0"),
    sampling_row("xtc-probability", "X", "probability of leaving out the top choices; 0: off", "0"),
    sampling_row("xtc-threshold", "X", "probability from which a token is a top choice; above 0.5: off", "0.1"),
    sampling_row("dry-multiplier", "X", "strength of the penalty for repeated sequences (DRY); 0: off", "0"),
    sampling_row("dry-base", "X", "how DRY's penalty grows with the length of the repetition", "1.75"),
    sampling_row("dry-allowed-length", "N", "length of a repetition that DRY lets pass", "2"),
    sampling_row("dry-penalty-last-n", "N", "tokens that DRY looks back; 0: off, -1: all", "-1"),
    sampling_row("mirostat", "0|1|2", "Mirostat version in place of the steps that leave tokens out; 0: off", "0"),
    sampling_row("mirostat-lr", "X", "Mirostat's learning rate (eta)", "0.1"),
    sampling_row("mirostat-ent", "X", "Mirostat's target entropy (tau)", "5"),
    sampling_row("repeat-penalty", "X", "penalty for tokens that came before; 1: off", "1"),
    sampling_row("repeat-last-n", "N", "tokens that the three penalties look back; 0: off, -1: all", "64"),
    sampling_row("presence-penalty", "X", "penalty for tokens that came at all; 0: off", "0"),
    sampling_row("frequency-penalty", "X", "penalty for each time that a token came; 0: off", "0"),
    sampling_row("logit-bias", "ID=BIAS", "make a token likelier or (-inf) impossible; may be repeated"),
    sampling_row("samplers", "LIST", "the steps and their order, with ';' between",
                 "penalties;dry;top_n_sigma;top_k;typical;top_p;min_p;xtc;temp"),

    switch_row("ids", for_tokenize, &o::ids, "only the ids, as one list"),
    switch_row("decode", for_tokenize, &o::decode, "the input is a list of ids; print their text"),
    switch_row("no-bos", for_tokenize, &o::no_bos, "no token for the beginning, whatever the model says"),
    switch_row("no-tensors", for_inspect, &o::no_tensors, "metadata only"),
    text_row("key", "", "PATTERN", for_inspect, &o::key_pattern, "only keys that fit the pattern; '*' stands for any text, '?' for a letter"),
    text_row("tensor", "", "PATTERN", for_inspect, &o::tensor_pattern, "only tensors that fit the pattern"),
    switch_row("hash", for_inspect, &o::hash, "print the SHA-256 of each tensor's data and of all, as a list to keep"),
    switch_row("check", for_inspect, &o::check,
               "read the whole file: values that aren't finite, unused bytes, padding; with a LIST that --hash printed also the hashes"),
    switch_row("diff", for_inspect, &o::diff, "compare two models: metadata, tensors, and by how much values differ"),
    for_commands(for_inspect, number_row("split", "", &o::split_parts, 1, 65535, "cut into N files of about the same size", "")),
    text_row("split-max-size", "", "SIZE", for_inspect, &o::split_size,
             "cut into files of at most SIZE, such as 50G (powers of 1000) or 4GiB"),
    for_commands(for_inspect, number_row("split-max-tensors", "", &o::split_tensors, 1, many, "cut into files of at most N tensors", "")),
    switch_row("merge", for_inspect, &o::merge, "write a split model as the one file OUT"),
    text_row("set", "", "KEY=TYPE:VALUE", for_inspect, &o::set_keys,
             "set a metadata key, in MODEL itself or in OUT; TYPE is u8 to u64, i8 to i64, f32, f64, bool, string, one of these with [] "
             "(elements with ',' between), int or float (the type that the key has), or file (a text from the file VALUE); may be repeated"),
    text_row("remove", "", "KEY", for_inspect, &o::remove_keys, "remove a metadata key, in MODEL itself or in OUT; may be repeated"),

    list_row("prompt-tokens", "p", &o::prompt_tokens, 0, many, "tokens of a prompt to time; 0: none", "512"),
    list_row("gen-tokens", "n", &o::gen_tokens, 0, many, "tokens to decode one by one; 0: none", "128"),
    text_row("prompt-gen", "pg", "P,N", for_bench, &o::prompt_gen,
             "time a prompt of P tokens and N decoded ones as one; may be repeated"),
    list_row("depth", "d", &o::depth, 0, many, "tokens that are in the context before, not timed", "0"),
    list_row("sequences", "np", &o::sequences, 1, 65536, "sequences decoded at once, each with its prompt", "1"),
    for_commands(for_bench, number_row("repeat", "r", &o::repeat, 1, 100000, "how often each is timed", "5")),
    switch_row("no-warmup", for_bench, &o::no_warmup, "don't run each once before it is timed"),
    text_row("output", "o", "FORMAT", for_bench, &o::format, "form of the results", "md", "md csv json jsonl"),

    for_commands(measured, number_row("chunks", "", &o::chunks, 1, many, "windows of the text to evaluate, at most", "all")),
    switch_row("exact", measured, &o::exact,
               "compute with F32 activations and an F32 cache whatever the weights are: slower, and shows the error of the weights alone"),
    text_row("output-file", "o", "FILE", measured, &o::output_file, "eval logits, imatrix: the file to write", "", "FILE"),
    text_row("base", "", "FILE", for_eval, &o::base, "divergence: compare with these base logits", "", "FILE"),
    text_row("save-base", "", "FILE", for_eval, &o::save_base, "divergence: write base logits to compare others with", "", "FILE"),
    text_row("tokens", "", "LIST", for_eval, &o::token_list, "logits: ids such as 1,2,3 in place of a text"),
    text_row("in-file", "", "FILE", for_imatrix, &o::in_files, "an importance matrix to add; may be repeated", "", "FILE"),
    switch_row("process-output", for_imatrix, &o::process_output, "collect for the output matrix too"),
    switch_row("resume", for_imatrix, &o::resume, "go on with the output file of a run that was interrupted"),
    for_commands(for_imatrix, number_row("save-frequency", "", &o::save_frequency, 1, many,
                                         "save what is collected each time so many windows are done", "10")),
    switch_row("show-statistics", for_imatrix, &o::show_statistics, "print a table of what the matrix says of each tensor"),
    switch_row("force", for_inspect | measured | for_convert, &o::force, "replace an output file that exists"),

    switch_row("probe", for_plan, &o::probe, "measure memory and the model's disk, in less than 5 seconds, and keep the figures"),
    text_row("heat", "", "FILE", for_plan, &o::heat,
             "what --record-heat wrote: how often experts will be missing is taken from it", "experts are used evenly", "FILE"),
    text_row("disk-bandwidth", "", "SIZE/s", for_plan, &o::disk_bandwidth, "what the disk reads, such as 900M/s",
             "as measured here before"),
    text_row("memory-bandwidth", "", "SIZE/s", for_plan, &o::memory_bandwidth, "what the processors read from memory",
             "as measured here before"),

    text_row("type", "", "TYPE", for_convert, &o::weight_type, "what the weights become; auto: what most of them are in the source", "auto",
             "auto f32 f16 bf16 q8_0"),
    text_row("pre", "", "NAME", for_convert, &o::pre, "how words are cut, such as llama-bpe or qwen2, where tokenizer.json's own rules aren't known",
             "recognised from these rules"),
    text_row("name", "", "TEXT", for_convert, &o::model_name, "the model's name in the file", "the folder's"),
    switch_row("dry-run", for_convert, &o::dry_run, "check everything but the weights and list what would be written"),

    switch_row("json", for_run | for_tokenize | for_inspect | for_plan | measured | for_convert, &o::json, "print JSON"),
    text_row("color", "", "WHEN", with_model | for_convert, &o::color,
             "colors: auto (only in a terminal, unless NO_COLOR is set), always, never", "auto", "auto always never"),
    settable(switch_row("verbose", both, &o::verbose, "say more on standard error; statistics also outside a terminal",
                        "off")),
    switch_row("no-history", for_chat, &o::no_history, "neither read nor write the history file"),
};

struct group_heading {
    std::string_view first, text;
};
constexpr group_heading headings[] = {{"model", "Model"},   {"prompt", "Prompt"}, {"predict", "Answer"},
                                      {"seed", "Sampling"}, {"ids", "Tokens"},    {"no-tensors", "Metadata"},
                                      {"prompt-tokens", "Measurement"}, {"chunks", "Evaluation"}, {"probe", "Machine"},
                                      {"type", "Conversion"}, {"json", "Output"}};

error refused(std::string message) { return error{errc::invalid_argument, std::move(message)}; }

result<std::int64_t> number_in(const option_row& row, std::string_view text) {
    if (row.choices == "auto" && text == "auto") return 0;
    const auto number = parse_number<std::int64_t>(text);
    if (number && *number >= row.least && *number <= row.most) return *number;
    const auto range = row.most == many ? concat("of at least ", row.least)
                                        : concat("from ", row.least, " to ", row.most,
                                                 row.choices.empty() ? "" : concat(" or ", row.choices));
    return refused(concat("a whole number ", range, " is needed, not ", quoted(text)));
}

result<bool> truth(std::string_view text) {
    for (const std::string_view yes : {"on", "true", "yes", "1"}) {
        if (text == yes) return true;
    }
    for (const std::string_view no : {"off", "false", "no", "0"}) {
        if (text == no) return false;
    }
    return refused(concat("on or off is needed, not ", quoted(text)));
}

// What makes a list wrong, if anything does.
result<void> check_list(const option_row& row, std::string_view text) {
    if (row.most < row.least) {  // words
        auto words = words_of(text, row.choices);
        return words ? result<void>() : std::move(words).error();
    }
    auto numbers = numbers_of(text, row.least, row.most, row.choices == "auto");
    return numbers ? result<void>() : std::move(numbers).error();
}

bool is_choice(std::string_view choices, std::string_view text) {
    while (!choices.empty()) {
        const auto end = std::min(choices.find(' '), choices.size());
        if (choices.substr(0, end) == text) return true;
        choices.remove_prefix(std::min(end + 1, choices.size()));
    }
    return false;
}

// Calls visit(field) with the field of sampling::params that has that name and a number; false if there is none.
template <class Visit>
bool visit_number(std::string_view setting, Visit&& visit) {
    bool found = false;
    sampling::for_each_number([&](const auto& field) {
        if (field.name != setting) return;
        found = true;
        visit(field);
    });
    return found;
}

std::string setting_name(const option_row& row) {
    std::string out(row.name);
    std::replace(out.begin(), out.end(), '-', '_');
    return out;
}

void unset_sampling(sampling::params& p, const std::string& setting) {
    if (visit_number(setting, [&](const auto& field) { (p.*field.given).reset(); })) return;
    if (setting == "seed") p.seed.reset();
    else if (setting == "ignore_eos") p.ignore_eos.reset();
    else if (setting == "samplers") p.order.reset();
    else if (setting == "logit_bias") p.logit_bias.clear();
}

std::vector<std::string> given_sampling(const sampling::params& p, const std::string& setting) {
    std::vector<std::string> out;
    const bool number = visit_number(setting, [&](const auto& field) {
        if (p.*field.given) out.push_back(concat(*(p.*field.given)));
    });
    if (number) return out;
    if (setting == "seed" && p.seed) out.push_back(concat(*p.seed));
    if (setting == "ignore_eos" && p.ignore_eos) out.emplace_back(*p.ignore_eos ? "on" : "off");
    if (setting == "samplers" && p.order) {
        std::string list;
        for (const auto kind : *p.order) list += concat(list.empty() ? "" : ";", sampling::name(kind));
        out.push_back(std::move(list));
    }
    if (setting == "logit_bias") {
        for (const auto& one : p.logit_bias) out.push_back(concat(one.id, "=", one.amount));
    }
    return out;
}

template <class... Ts>
struct overloaded : Ts... {
    using Ts::operator()...;
};
template <class... Ts>
overloaded(Ts...) -> overloaded<Ts...>;

}  // namespace

std::span<const option_row> all_options() { return table; }

std::string_view group_of(const option_row& row) {
    std::string_view group;
    for (const auto& each : table) {
        for (const auto& heading : headings) {
            if (heading.first == each.name) group = heading.text;
        }
        if (each.name == row.name) break;
    }
    return group;
}

const option_row* find_option(std::string_view name, unsigned commands) {
    const auto same = [](char a, char b) { return a == b || (a == '-' && b == '_'); };
    const option_row* other = nullptr;
    for (const auto& row : table) {
        if (!std::equal(row.name.begin(), row.name.end(), name.begin(), name.end(), same)) continue;
        if ((row.commands & commands) != 0) return &row;
        if (other == nullptr) other = &row;
    }
    return other;
}

result<void> set_option(options& all, const option_row& row, std::string_view text) {
    const auto set_truth = [&](auto& target) -> result<void> {
        auto parsed = truth(text);
        if (!parsed) return std::move(parsed).error();
        target = *parsed;
        return {};
    };
    return std::visit(overloaded{
                          [&](sampling_target) { return sampling::set(all.sampling, setting_name(row), text); },
                          [&](bool options::*member) { return set_truth(all.*member); },
                          [&](std::optional<bool> options::*member) { return set_truth(all.*member); },
                          [&](std::optional<std::int64_t> options::*member) -> result<void> {
                              auto parsed = number_in(row, text);
                              if (!parsed) return std::move(parsed).error();
                              all.*member = *parsed;
                              return {};
                          },
                          [&](std::optional<std::string> options::*member) -> result<void> {
                              if (row.list) {
                                  if (auto ok = check_list(row, text); !ok) return ok;
                              } else if (!row.choices.empty() && row.choices != "FILE" && !is_choice(row.choices, text)) {
                                  return refused(concat("one of ", row.choices, " is needed, not ", quoted(text)));
                              }
                              all.*member = std::string(text);
                              return {};
                          },
                          [&](std::vector<std::string> options::*member) -> result<void> {
                              if (member == &options::prompt_gen) {
                                  if (auto pair = pair_of(text); !pair) return std::move(pair).error();
                              } else if (member == &options::set_keys || member == &options::remove_keys) {
                                  if (text.empty()) return refused("a key is needed");
                              } else if (member == &options::stops && text.empty()) {
                                  return refused("an empty text would end every answer at once");
                              }
                              (all.*member).emplace_back(text);
                              return {};
                          },
                      },
                      row.target);
}

void unset_option(options& all, const option_row& row) {
    static const options untouched;
    std::visit(overloaded{
                   [&](sampling_target) { unset_sampling(all.sampling, setting_name(row)); },
                   [&](auto member) { all.*member = untouched.*member; },
               },
               row.target);
}

std::vector<std::string> given_values(const options& all, const option_row& row) {
    std::vector<std::string> out;
    std::visit(overloaded{
                   [&](sampling_target) { out = given_sampling(all.sampling, setting_name(row)); },
                   [&](bool options::*member) {
                       if (all.*member) out.emplace_back("on");
                   },
                   [&](std::optional<bool> options::*member) {
                       if (all.*member) out.emplace_back(*(all.*member) ? "on" : "off");
                   },
                   [&](std::optional<std::int64_t> options::*member) {
                       if (all.*member) out.push_back(concat(*(all.*member)));
                   },
                   [&](std::optional<std::string> options::*member) {
                       if (all.*member) out.push_back(*(all.*member));
                   },
                   [&](std::vector<std::string> options::*member) { out = all.*member; },
               },
               row.target);
    return out;
}

}  // namespace colibri::repl
