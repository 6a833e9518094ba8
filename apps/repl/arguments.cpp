#include "repl/arguments.hpp"

#include <filesystem>
#include <utility>

#include "colibri/core/concat.hpp"
#include "colibri/core/escape.hpp"
#include "repl/suggest.hpp"

namespace colibri::repl {
namespace {

constexpr command_row commands[] = {
    {command::chat, "chat", for_chat, "[chat] MODEL [OPTIONS]", "talk with a model",
     "Talks with a model in the terminal. Enter sends a message; /help lists the commands.\n"
     "When standard input is not a terminal, each line of it is a message or a command.\n"},
    {command::run, "run", for_run, "run -m MODEL [OPTIONS] [-p TEXT | FILE | -]", "answer one prompt",
     "Prints the answer to one prompt, through the model's chat template if it has one. The\n"
     "prompt is -p, or FILE, or standard input if that is not a terminal; -p and standard\n"
     "input (or -f) are joined by a blank line. '-' stands for standard input.\n"},
    {command::tokenize, "tokenize", for_tokenize, "tokenize -m MODEL [OPTIONS] [-p TEXT | FILE | -]",
     "show how a text is cut into tokens", "Prints each token's id and text, one a line.\n"},
    {command::inspect, "inspect", for_inspect, "inspect MODEL [OPTIONS]", "show what is in a GGUF file",
     "Lists the metadata and the tensors of a GGUF file.\n"},
    {command::plan, "plan", for_plan, "plan -m MODEL [OPTIONS]", "say what will be held in memory, and how fast it will be",
     "Tells from the file's header alone what a model takes of memory, what is read from the disk for\n"
     "each token, the speed that follows, and what would help most. Status 5: it can't run so.\n"},
    {command::bench, "bench", for_bench, "bench MODEL [OPTIONS]", "measure speed beside the machine's limits",
     "Times prompts and decoding, and in the same run what the machine can do at best: how fast it\n"
     "reads memory and how fast it multiplies. Every combination of the lists is measured.\n"},
    {command::eval, "eval", for_eval, "eval perplexity|divergence|logits -m MODEL [OPTIONS]",
     "measure how well a model predicts a text, and how far a quantised one is from its base",
     "perplexity -f TEXT: of windows of -c tokens, the second half of each is scored.\n"
     "divergence -f TEXT --save-base FILE: writes what the base model predicts; then, with another model,\n"
     "divergence --base FILE: compares its predictions with those, on the same text.\n"
     "logits -f TEXT|--tokens LIST -o FILE.npy: writes the logits of all positions of one sequence.\n"},
    {command::imatrix, "imatrix", for_imatrix, "imatrix -m MODEL -f TEXT -o OUT [OPTIONS]",
     "find out which columns of the weights matter, for quantising",
     "Runs a text through a model and writes the mean square of what each column of each weight matrix is\n"
     "multiplied with. Ctrl-C saves what is done; --resume goes on. With --in-file and without -f it adds\n"
     "matrices that exist; --show-statistics prints what a matrix says.\n"},
    {command::completion, "completion", 0, "completion bash|zsh|fish",
     "print a script that completes commands in a shell",
     "Prints a script for a shell's completion. For instance, in ~/.bashrc:\n"
     "  eval \"$(colibri completion bash)\"\n"},
    {command::help, "help", 0, "help [COMMAND]", "show help", ""},
    {command::version, "version", 0, "--version", "show the version and the instruction set in use", ""},
};

error refused(std::string message) { return error{errc::invalid_argument, std::move(message)}; }

const command_row* find_command(std::string_view word) {
    for (const auto& row : commands) {
        if (row.name == word) return &row;
    }
    return nullptr;
}

const option_row* find_short(std::string_view name, unsigned bits) {
    for (const auto& row : all_options()) {
        if ((row.commands & bits) != 0 && !row.short_name.empty() && row.short_name == name) return &row;
    }
    return nullptr;
}

error unknown_option(std::string_view word, unsigned bits) {
    const std::string_view name = word.substr(word.find_first_not_of('-'));
    if (const auto* row = find_option(name, bits); row != nullptr && (row->commands & bits) == 0) {
        std::string takers;
        for (const auto& c : commands) {
            if ((c.bits & row->commands) == 0) continue;
            if (!takers.empty()) takers += ", ";
            takers += c.name;
        }
        return refused(concat("--", row->name, " does nothing here; it belongs to ", takers));
    }
    std::vector<std::string_view> known;
    for (const auto& row : all_options()) {
        if ((row.commands & bits) != 0) known.push_back(row.name);
    }
    known.push_back("help");
    return refused(concat("there is no option ", quoted(word), suggestion(name, known, "--")));
}

// Options of one command line, word by word.
class parser {
public:
    parser(std::span<const std::string_view> words, unsigned bits, arguments& out)
        : words_(words), bits_(bits), out_(out) {}

    result<void> run() {
        while (at_ < words_.size()) {
            const std::string_view word = words_[at_++];
            if (word == "--") {
                for (; at_ < words_.size(); ++at_) out_.names.emplace_back(words_[at_]);
            } else if (word.size() < 2 || word[0] != '-') {
                out_.names.emplace_back(word);
            } else if (word == "--help" || word == "-h") {
                out_.help = true;
            } else if (auto ok = word[1] == '-' ? long_option(word) : short_option(word); !ok) {
                return ok;
            }
        }
        return {};
    }

private:
    result<void> long_option(std::string_view word) {
        const auto equals = word.find('=');
        const std::string_view name = word.substr(2, equals == std::string_view::npos ? equals : equals - 2);
        const auto* row = find_option(name, bits_);
        if (row == nullptr || row->name != name || (row->commands & bits_) == 0)
            return unknown_option(word.substr(0, equals), bits_);
        if (equals == std::string_view::npos) return take(*row, word);
        if (row->value.empty()) return refused(concat("--", row->name, " takes no value"));
        return set(*row, concat("--", row->name), word.substr(equals + 1));
    }

    result<void> short_option(std::string_view word) {
        if (const auto* row = find_short(word.substr(1), bits_); row != nullptr) return take(*row, word);
        // "-n5", but only with a digit: "-temp" should not be "-t emp".
        const auto* row = find_short(word.substr(1, 1), bits_);
        if (row != nullptr && !row->value.empty() && word[2] >= '0' && word[2] <= '9') {
            return set(*row, word.substr(0, 2), word.substr(2));
        }
        return unknown_option(word, bits_);
    }

    result<void> take(const option_row& row, std::string_view word) {
        if (row.value.empty()) return set(row, word, row.switch_value ? "on" : "off");
        if (at_ == words_.size()) return refused(concat(word, " needs a value: ", word, " ", row.value));
        return set(row, word, words_[at_++]);
    }

    result<void> set(const option_row& row, std::string_view word, std::string_view value) {
        auto done = set_option(out_.given, row, value);
        if (!done) return refused(concat(word, ": ", done.error().message));
        return {};
    }

    std::span<const std::string_view> words_;
    std::size_t at_ = 0;
    unsigned bits_;
    arguments& out_;
};

// A word in front that is neither a command nor an option has to be a model; a slip in a command's name is told as
// such.
result<void> check_model_name(std::string_view word) {
    std::error_code problem;
    if (std::filesystem::exists(word, problem)) return {};
    std::vector<std::string_view> names;
    for (const auto& row : commands) names.push_back(row.name);
    if (const auto near = nearest(word, names); near && word.find_first_of("./") == std::string_view::npos) {
        return refused(concat(quoted(word), " is neither a command nor a file; did you mean ", *near, "?"));
    }
    return {};
}

}  // namespace

std::span<const command_row> all_commands() { return commands; }

result<std::string> only_name(const arguments& args, std::string_view what, std::string_view usage) {
    auto names = args.names;
    if (args.given.model) names.insert(names.begin(), *args.given.model);
    if (names.size() == 1) return names[0];
    return error{errc::invalid_argument, names.empty() ? concat("a ", what, " is needed: ", usage) : concat("one ", what, " at a time: ", usage)};
}

const command_row& row_of(command which) {
    for (const auto& row : commands) {
        if (row.which == which) return row;
    }
    return commands[0];
}

result<arguments> parse_arguments(std::span<const std::string_view> words) {
    arguments out;
    if (words.empty()) {
        out.which = command::help;
        return out;
    }
    const std::string_view first = words.front();
    if (first == "--version" || first == "-V") {
        out.which = command::version;
        return out;
    }
    if (first == "--help" || first == "-h") {
        out.which = command::help;
        return out;
    }
    unsigned bits = for_chat;
    if (const auto* row = find_command(first)) {
        out.which = row->which;
        bits = row->bits;
        words = words.subspan(1);
    } else if (!first.starts_with('-')) {
        if (auto ok = check_model_name(first); !ok) return std::move(ok).error();
    }
    if (auto ok = parser(words, bits, out).run(); !ok) return std::move(ok).error();
    return out;
}

}  // namespace colibri::repl
