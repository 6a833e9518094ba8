#include "quantize/options.hpp"

#include <algorithm>
#include <utility>

#include "colibri/core/concat.hpp"
#include "colibri/core/escape.hpp"
#include "colibri/core/number.hpp"
#include "colibri/core/thread_pool.hpp"
#include "colibri/io/byte_size.hpp"

namespace colibri::quantize_program {
namespace {

error refused(std::string message) { return {errc::invalid_argument, std::move(message)}; }

// One option; `value` is what stands for its value in the help, empty for a switch.
struct option_row {
    std::string_view name;
    std::string_view value;
    std::string_view help;
    result<void> (*take)(options&, std::string_view value);
};

result<void> set_tensor_type(std::optional<dtype>& target, std::string_view value) {
    auto type = quantize::parse_tensor_type(value);
    if (!type) return std::move(type).error();
    target = *type;
    return {};
}

result<void> take_layers(options& o, std::string_view value) {
    while (true) {
        const auto comma = std::min(value.find(','), value.size());
        const auto layer = parse_number<std::uint32_t>(value.substr(0, comma));
        if (!layer) return refused(concat(quoted(value.substr(0, comma)), " is no layer's number; write for example 3,4,7"));
        o.asked.pruned.push_back(*layer);
        if (comma == value.size()) return {};
        value.remove_prefix(comma + 1);
    }
}

result<void> take_override(options& o, std::string_view value) {
    auto change = quantize::parse_override(value);
    if (!change) return std::move(change).error();
    o.asked.overrides.push_back(std::move(*change));
    return {};
}

result<void> take_split_size(options& o, std::string_view value) {
    // As the field's tools read it: N(M|G), powers of 1000.
    const auto unit = value.empty() ? '\0' : value.back();
    const auto number = parse_number<std::uint64_t>(value.substr(0, value.empty() ? 0 : value.size() - 1));
    constexpr std::uint64_t most = 1'000'000'000;
    if ((unit != 'M' && unit != 'G') || !number || *number == 0 || *number > most) {
        return refused(concat(quoted(value), " is no size to split at; write for example 500M or 4G (powers of 1000)"));
    }
    o.asked.split.max_bytes = *number * (unit == 'M' ? 1'000'000u : 1'000'000'000u);
    return {};
}

result<void> take_target_bits(options& o, std::string_view value) {
    const auto bits = parse_number<double>(value);
    if (!bits || !(*bits > 0.0) || *bits > 64.0) return refused(concat(quoted(value), " is no number of bits for a weight; write for example 4.5"));
    o.asked.target_bits = *bits;
    return {};
}

result<void> take_target_size(options& o, std::string_view value) {
    auto bytes = parse_byte_size(value);
    if (!bytes) return std::move(bytes).error();
    o.asked.target_bytes = *bytes;
    return {};
}

result<void> take_threads(options& o, std::string_view value) {
    const auto threads = parse_number<unsigned>(value);
    if (!threads || *threads == 0 || *threads > thread_pool::max_threads) {
        return refused(concat(quoted(value), " is no number of threads from 1 to ", thread_pool::max_threads));
    }
    o.threads = *threads;
    return {};
}

template <bool options::*Flag>
result<void> set_flag(options& o, std::string_view) {
    o.*Flag = true;
    return {};
}

constexpr option_row rows[] = {
    {"imatrix", "FILE", "importance matrix (GGUF or .dat) that says which columns matter", [](options& o, std::string_view v) -> result<void> { o.importance = v; return {}; }},
    {"include-weights", "NAME", "use importance only for tensors with NAME in their name; may be repeated",
     [](options& o, std::string_view v) -> result<void> { o.asked.filter.include.emplace_back(v); return {}; }},
    {"exclude-weights", "NAME", "use no importance for such tensors; may be repeated",
     [](options& o, std::string_view v) -> result<void> { o.asked.filter.exclude.emplace_back(v); return {}; }},
    {"tensor-type", "REGEX=TYPE", "type of tensors whose names the expression is found in; may be repeated, the first that fits counts",
     [](options& o, std::string_view v) { return o.asked.types.rules.add(v); }},
    {"tensor-type-file", "FILE", "a file of such rules, with white space between",
     [](options& o, std::string_view v) -> result<void> { o.type_files.emplace_back(v); return {}; }},
    {"output-tensor-type", "TYPE", "type of output.weight", [](options& o, std::string_view v) { return set_tensor_type(o.asked.types.output_type, v); }},
    {"token-embedding-type", "TYPE", "type of token_embd.weight", [](options& o, std::string_view v) { return set_tensor_type(o.asked.types.embedding_type, v); }},
    {"leave-output-tensor", "", "leave output.weight as it is", [](options& o, std::string_view) -> result<void> { o.asked.types.leave_output = true; return {}; }},
    {"pure", "", "one type for all, no mixture", [](options& o, std::string_view) -> result<void> { o.asked.types.pure = true; return {}; }},
    {"allow-requantize", "", "allow to turn a quantised type into another, which loses more than starting from the original",
     [](options& o, std::string_view) -> result<void> { o.asked.allow_requantise = true; return {}; }},
    {"target-bpw", "N", "choose types so that all weights have at most N bits on average", take_target_bits},
    {"target-size", "SIZE", "choose types so that the file has at most SIZE bytes, as 3.5G or 900M (powers of 1024)", take_target_size},
    {"prune-layers", "L,L...", "leave layers out", take_layers},
    {"override-kv", "KEY=TYPE:VALUE", "change metadata; TYPE is int, float, bool or str; may be repeated", take_override},
    {"keep-split", "", "as many files as the input has", [](options& o, std::string_view) -> result<void> { o.asked.split.keep = true; return {}; }},
    {"split-max-size", "N(M|G)", "several files, none with more tensor data than that", take_split_size},
    {"order", "FILE", "write tensors and experts by the use that 'colibri run --record-heat FILE' counted", [](options& o, std::string_view v) -> result<void> { o.heat = v; return {}; }},
    {"force", "", "replace an output that exists", [](options& o, std::string_view) -> result<void> { o.asked.force = true; return {}; }},
    {"dry-run", "", "say what would be written, and write nothing; OUT may be left out", set_flag<&options::dry_run>},
    {"json", "", "print the result as JSON on standard output", set_flag<&options::json>},
    {"threads", "N", "threads to use, like the last word [the processors that may be used]", take_threads},
    {"verbose", "", "a line for every tensor, in a terminal too", set_flag<&options::verbose>},
    {"help", "", "show this", set_flag<&options::help>},
    {"version", "", "show the version", set_flag<&options::version>},
};

result<void> take_option(options& out, std::string_view word, std::span<const std::string_view> words, std::size_t& at) {
    std::string_view given = word.substr(word.starts_with("--") ? 2 : 1);
    if (word == "-h") given = "help";
    if (word == "-t") given = "threads";
    const auto equals = given.find('=');
    const std::string_view name = given.substr(0, equals);
    const auto row = std::ranges::find(rows, name, &option_row::name);
    if (row == std::end(rows) || (!word.starts_with("--") && word != "-h" && word != "-t")) {
        return refused(concat("there is no option ", quoted(word)));
    }
    std::string_view value;
    if (row->value.empty()) {
        if (equals != std::string_view::npos) return refused(concat("--", row->name, " takes no value"));
    } else if (equals != std::string_view::npos) {
        value = given.substr(equals + 1);
    } else if (at < words.size()) {
        value = words[at++];
    } else {
        return refused(concat("--", row->name, " needs a value: ", row->value));
    }
    if (!row->value.empty() && value.empty()) return refused(concat("--", row->name, " needs a value: ", row->value));
    auto taken = row->take(out, value);
    return taken ? result<void>() : std::move(taken).error().within(concat("--", row->name));
}

result<void> take_names(options& out, std::span<const std::string_view> names) {
    const bool has_target = out.asked.target_bits || out.asked.target_bytes;
    std::vector<std::string_view> left(names.begin(), names.end());
    if (left.empty()) return refused("an input is needed: colibri-quantize IN OUT TYPE [THREADS]");
    out.asked.input = left.front();
    left.erase(left.begin());
    // Without output, a dry run's next word is the type.
    const bool skips_output = out.dry_run && (left.empty() || (!has_target && left.size() == 1) || (!has_target && left.size() == 2 && !quantize::find_mixture(left[1])));
    if (!skips_output) {
        if (left.empty()) return refused("an output is needed: colibri-quantize IN OUT TYPE [THREADS]");
        out.asked.output = left.front();
        if (left.front().empty()) return refused("the output's name is empty");
        left.erase(left.begin());
    }
    if (!has_target) {
        if (left.empty() && quantize::find_mixture(out.asked.output.string())) {
            return refused(concat("an output is needed too: colibri-quantize IN OUT ", out.asked.output.string()));
        }
        if (left.empty()) return refused("a type is needed, as Q4_K_M: colibri-quantize IN OUT TYPE [THREADS]");
        auto kind = quantize::parse_mixture(left.front());
        if (!kind) return std::move(kind).error();
        out.kind = *kind;
        out.asked.types.kind = *kind;
        left.erase(left.begin());
    }
    if (!left.empty()) {
        if (has_target && quantize::find_mixture(left.front()) && !parse_number<unsigned>(left.front())) {
            return refused(concat("a target chooses types itself; leave ", quoted(left.front()), " out"));
        }
        if (auto ok = take_threads(out, left.front()); !ok) return ok;
        left.erase(left.begin());
    }
    if (!left.empty()) return refused(concat(quoted(left.front()), " is too much; the words are IN OUT TYPE [THREADS]"));
    return {};
}

// Options that would do nothing, or contradict each other.
result<void> check(const options& o) {
    const auto& asked = o.asked;
    const bool has_target = asked.target_bits || asked.target_bytes;
    if (!asked.filter.include.empty() && !asked.filter.exclude.empty()) return refused("--include-weights and --exclude-weights can't be given together");
    if (o.importance.empty() && (!asked.filter.include.empty() || !asked.filter.exclude.empty())) {
        return refused("--include-weights and --exclude-weights choose from an importance matrix; give one with --imatrix");
    }
    if (has_target && asked.types.pure) return refused("--pure means one type for all, and a target chooses types one by one");
    if (asked.split.keep && asked.split.max_bytes != 0) return refused("--keep-split and --split-max-size can't be given together");
    if (o.kind == quantize::mixture::copy) {
        const bool has_types = !asked.types.rules.empty() || !o.type_files.empty() || asked.types.output_type || asked.types.embedding_type ||
                               asked.types.pure || asked.types.leave_output || asked.allow_requantise || !o.importance.empty();
        if (has_types) return refused("COPY changes no types, so options about them do nothing");
    }
    if (asked.types.leave_output && asked.types.output_type) return refused("--leave-output-tensor and --output-tensor-type contradict each other");
    return {};
}

}  // namespace

result<options> parse_options(std::span<const std::string_view> words) {
    options out;
    std::vector<std::string_view> names;
    for (std::size_t at = 0; at < words.size();) {
        const std::string_view word = words[at++];
        if (word == "--") {
            names.insert(names.end(), words.begin() + static_cast<std::ptrdiff_t>(at), words.end());
            break;
        }
        if (word.size() < 2 || word[0] != '-') {
            names.push_back(word);
        } else if (auto ok = take_option(out, word, words, at); !ok) {
            return std::move(ok).error();
        }
    }
    if (out.help || out.version) return out;
    if (auto ok = take_names(out, names); !ok) return std::move(ok).error();
    if (auto ok = check(out); !ok) return std::move(ok).error();
    return out;
}

std::string help_text() {
    std::string out =
        "colibri-quantize IN OUT TYPE [THREADS] [OPTIONS]\n"
        "colibri-quantize IN OUT --target-size SIZE [THREADS] [OPTIONS]\n"
        "colibri-quantize IN TYPE --dry-run\n\n"
        "Writes a GGUF model in smaller types. IN may be any file of a split model.\n\n"
        "Types, in any case, or by the number of general.file_type:\n";
    std::string line = " ";
    for (const auto& row : quantize::mixture_table) {
        if (line.size() + row.name.size() > 78) {
            out += line + "\n";
            line = " ";
        }
        line += concat(" ", row.name);
    }
    out += line + "\n  Q3_K, Q4_K and Q5_K mean the _M ones; COPY leaves all types.\n\nOptions:\n";
    for (const auto& row : rows) {
        std::string head = concat("  --", row.name, row.value.empty() ? "" : " ", row.value);
        if (head.size() < 32) head.resize(32, ' ');
        else head += "\n" + std::string(32, ' ');
        out += concat(head, row.help, "\n");
    }
    return out;
}

}  // namespace colibri::quantize_program
