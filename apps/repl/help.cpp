// Help texts, made from the tables.
#include "colibri/core/concat.hpp"
#include "repl/arguments.hpp"
#include "repl/display.hpp"

namespace colibri::repl {
namespace {

constexpr std::size_t text_column = 30;
constexpr std::size_t last_column = 100;

std::string bold(std::string_view text, bool color) {
    return color ? concat("\033[1m", text, "\033[0m") : std::string(text);
}

// `text` broken between words, each line behind `text_column` blanks.
void put_wrapped(std::string& out, std::string_view text, std::size_t column) {
    if (column + 1 > text_column) {
        out += '\n';
        column = 0;
    }
    out.append(text_column - column, ' ');
    column = text_column;
    while (!text.empty()) {
        const auto end = std::min(text.find(' '), text.size());
        const auto word = text.substr(0, end);
        if (column > text_column && column + 1 + word.size() > last_column) {
            out += concat("\n", std::string(text_column, ' '));
            column = text_column;
        } else if (column > text_column) {
            out += ' ';
            ++column;
        }
        out += word;
        column += word.size();
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    out += '\n';
}

void put_option(std::string& out, const option_row& row) {
    std::string left = "  ";
    if (!row.short_name.empty()) left += concat("-", row.short_name, ", ");
    left += concat("--", row.name);
    if (!row.value.empty()) left += concat(" ", row.value);
    std::string right(row.help);
    if (!row.choices.empty() && row.choices != "FILE" && row.value.find('|') == std::string_view::npos &&
        row.name != "color") {
        right += concat(": ", row.choices);
    }
    if (!row.default_text.empty()) right += concat(" [", row.default_text, "]");
    out += left;
    put_wrapped(out, right, left.size());
}

}  // namespace

std::string help_text(command which, bool color) {
    const auto& c = row_of(which);
    std::string out = concat(bold("Usage:", color), " colibri ", c.usage, "\n\n", c.explanation);
    std::string_view group;
    for (const auto& row : all_options()) {
        if ((row.commands & c.bits) == 0) continue;
        if (group_of(row) != group) {
            group = group_of(row);
            out += concat("\n", bold(group, color), "\n");
        }
        put_option(out, row);
    }
    if (c.bits != 0) {
        out += "  -h, --help";
        put_wrapped(out, "show this text", 12);
        out += "\nDefaults are in brackets.";
        if ((c.bits & (for_chat | for_run)) != 0) {
            out += " A model file may bring its own for sampling; options win over both.";
        }
        out += "\n";
    }
    return out;
}

std::string overview_text(bool color) {
    std::string out =
        concat("Colibri runs GGUF language models on this computer's CPU.\n\n", bold("Usage:", color), "\n");
    for (const auto& c : all_commands()) {
        if (c.which == command::help) continue;
        out += concat("  colibri ", c.usage, "\n");
        out += concat("      ", c.summary, "\n");
    }
    out += concat("\n'colibri COMMAND --help' shows a command's options.\n\n", bold("Exit status:", color),
                  " 0 success, 1 wrong use, 2 the model, 3 the context is too small,\n"
                  "4 input or output, 5 can't run so (plan), 6 they differ (inspect --diff), 130 interrupted.\n");
    return out;
}

}  // namespace colibri::repl
