// Completion scripts for shells, made from the tables.
#include "colibri/core/concat.hpp"
#include "colibri/core/escape.hpp"
#include "repl/arguments.hpp"

namespace colibri::repl {
namespace {

bool takes_file(const option_row& row) { return row.choices == "FILE"; }

// Text inside single quotes of a shell.
std::string shell_quoted(std::string_view text) {
    std::string out = "'";
    for (const char c : text) {
        if (c == '\'') out += "'\\''";
        else out += c;
    }
    return out + "'";
}

// What follows a command's name, where that is one of a few words.
constexpr std::string_view eval_words = "perplexity divergence logits";

std::string joined_names(unsigned bits) {
    std::string out;
    for (const auto& row : all_options()) {
        if ((row.commands & bits) == 0) continue;
        if (!row.short_name.empty()) out += concat("-", row.short_name, " ");
        out += concat("--", row.name, " ");
    }
    return out + "--help";
}

std::string command_names() {
    std::string out;
    for (const auto& row : all_commands()) {
        if (row.which == command::version) continue;
        if (!out.empty()) out += ' ';
        out += row.name;
    }
    return out;
}

// "--color|-x" for a case label.
std::string case_label(const option_row& row) {
    return row.short_name.empty() ? concat("--", row.name) : concat("-", row.short_name, "|--", row.name);
}

std::string bash_script() {
    std::string values, options;
    for (const auto& row : all_options()) {
        if (row.value.empty()) continue;
        values += concat("        ", case_label(row), ") ");
        if (takes_file(row)) values += "compopt -o default; return ;;\n";
        else if (!row.choices.empty())
            values += concat("COMPREPLY=($(compgen -W ", shell_quoted(row.choices), " -- \"$cur\")); return ;;\n");
        else values += "return ;;\n";
    }
    for (const auto& row : all_commands()) {
        if (row.bits == 0 || row.which == command::chat) continue;
        const std::string front = row.which == command::eval ? concat(eval_words, " ") : "";
        options += concat("        ", row.name, ") words=", shell_quoted(front + joined_names(row.bits)), " ;;\n");
    }
    return concat(
        "# Completion of colibri for bash.\n"
        "_colibri() {\n"
        "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words\n"
        "    COMPREPLY=()\n"
        "    if [[ $cur == '=' ]]; then cur=''; fi\n"
        "    if [[ $prev == '=' ]]; then prev=${COMP_WORDS[COMP_CWORD-2]}; fi\n"
        "    case $prev in\n",
        values,
        "    esac\n"
        "    case ${COMP_WORDS[1]} in\n",
        options,
        "        completion) COMPREPLY=($(compgen -W 'bash zsh fish' -- \"$cur\")); return ;;\n"
        "        help) COMPREPLY=($(compgen -W ",
        shell_quoted(command_names()),
        " -- \"$cur\")); return ;;\n"
        "        *) words=",
        shell_quoted(joined_names(for_chat)),
        " ;;\n"
        "    esac\n"
        "    if ((COMP_CWORD == 1)); then words+=",
        shell_quoted(concat(" ", command_names(), " --version")),
        "; fi\n"
        "    COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
        "    if [[ $cur != -* ]]; then compopt -o default; fi\n"
        "}\n"
        "complete -F _colibri colibri\n");
}

// Brackets and colons mean something in zsh's option descriptions.
std::string zsh_text(std::string_view text) {
    std::string out;
    for (const char c : text) {
        if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
        out += c;
    }
    return out;
}

std::string zsh_options(unsigned bits) {
    std::string out;
    for (const auto& row : all_options()) {
        if ((row.commands & bits) == 0) continue;
        std::string value;
        if (!row.value.empty()) {
            value = concat(":", zsh_text(row.value), ":");
            if (takes_file(row)) value += "_files";
            else if (!row.choices.empty()) value += concat("(", row.choices, ")");
        }
        const auto put = [&](std::string_view name) {
            out +=
                concat("            ", shell_quoted(concat("*", name, "[", zsh_text(row.help), "]", value)), " \\\n");
        };
        if (!row.short_name.empty()) put(concat("-", row.short_name));
        put(concat("--", row.name));
    }
    const std::string word = bits == for_eval ? concat("            '2:what:(", eval_words, ")' \\\n") : "";
    return concat(out, word, "            '--help[show the options]' \\\n            '*:file:_files'\n");
}

std::string zsh_script() {
    std::string cases;
    for (const auto& row : all_commands()) {
        if (row.bits == 0 || row.which == command::chat) continue;
        cases += concat("        ", row.name, ") _arguments \\\n", zsh_options(row.bits), "            ;;\n");
    }
    std::string described;
    for (const auto& row : all_commands()) {
        if (row.which == command::version) continue;
        described += concat("        ", shell_quoted(concat(row.name, ":", zsh_text(row.summary))), "\n");
    }
    return concat(
        "#compdef colibri\n"
        "# Completion of colibri for zsh.\n"
        "_colibri() {\n"
        "    local -a commands\n"
        "    commands=(\n",
        described,
        "    )\n"
        "    if ((CURRENT == 2)) && [[ ${words[2]} != -* ]]; then\n"
        "        _describe command commands\n"
        "        _files\n"
        "        return\n"
        "    fi\n"
        "    case ${words[2]} in\n",
        cases,
        "        completion) _values shell bash zsh fish ;;\n"
        "        help) _describe command commands ;;\n"
        "        *) _arguments \\\n",
        zsh_options(for_chat),
        "            ;;\n"
        "    esac\n"
        "}\n"
        "compdef _colibri colibri\n");
}

// Fish's single quotes know two escapes.
std::string fish_quoted(std::string_view text) {
    std::string out = "'";
    for (const char c : text) {
        if (c == '\'' || c == '\\') out += '\\';
        out += c;
    }
    return out + "'";
}

std::string fish_script() {
    std::string out = "# Completion of colibri for fish.\n";
    for (const auto& row : all_commands()) {
        if (row.which == command::version) continue;
        out += concat("complete -c colibri -n __fish_use_subcommand -a ", row.name, " -d ", fish_quoted(row.summary),
                      "\n");
    }
    for (const auto& c : all_commands()) {
        if (c.bits == 0) continue;
        const std::string condition = c.which == command::chat
                                          ? "'not __fish_seen_subcommand_from run tokenize inspect plan bench eval imatrix completion help'"
                                          : concat("'__fish_seen_subcommand_from ", c.name, "'");
        for (const auto& row : all_options()) {
            if ((row.commands & c.bits) == 0) continue;
            out += concat("complete -c colibri -n ", condition, " -l ", row.name);
            if (row.short_name.size() == 1) out += concat(" -s ", row.short_name);
            else if (!row.short_name.empty()) out += concat(" -o ", row.short_name);
            if (takes_file(row)) out += " -rF";
            else if (!row.choices.empty()) out += concat(" -xa ", fish_quoted(row.choices));
            else if (!row.value.empty()) out += " -x";
            out += concat(" -d ", fish_quoted(row.help), "\n");
        }
    }
    out += concat("complete -c colibri -n '__fish_seen_subcommand_from eval' -fa '", eval_words, "'\n");
    return out + "complete -c colibri -n '__fish_seen_subcommand_from completion' -fa 'bash zsh fish'\n";
}

}  // namespace

result<std::string> completion_script(std::string_view shell) {
    if (shell == "bash") return bash_script();
    if (shell == "zsh") return zsh_script();
    if (shell == "fish") return fish_script();
    return error{errc::invalid_argument,
                 concat("there is no completion for ", quoted(shell), "; known are bash, zsh, fish")};
}

}  // namespace colibri::repl
