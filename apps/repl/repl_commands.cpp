#include "repl/repl_commands.hpp"

#include <algorithm>
#include <filesystem>

#include "colibri/core/concat.hpp"
#include "colibri/core/escape.hpp"
#include "repl/files.hpp"
#include "repl/options.hpp"
#include "repl/suggest.hpp"

namespace colibri::repl {
namespace {

constexpr repl_command_row commands[] = {
    {repl_command::help, "help", "", "show this text"},
    {repl_command::set, "set", "[NAME [VALUE]]", "show or change a setting; the value 'default' takes it back"},
    {repl_command::show, "show", "[TOPIC]", "show the model, settings, system, template or messages"},
    {repl_command::system, "system", "[TEXT]", "show or change the system message; 'none' removes it"},
    {repl_command::undo, "undo", "", "forget the last message and its answer"},
    {repl_command::retry, "retry", "", "answer the last message again"},
    {repl_command::clear, "clear", "", "forget all messages; the system message stays"},
    {repl_command::save, "save", "FILE", "save messages and settings"},
    {repl_command::load, "load", "FILE", "go on with saved messages and settings"},
    {repl_command::stats, "stats", "", "show speed and memory"},
    {repl_command::quit, "quit", "", "leave, as does Ctrl-D"},
};

std::vector<std::string_view> command_names() {
    std::vector<std::string_view> out;
    for (const auto& row : commands) out.push_back(row.name);
    return out;
}

completions among(std::string_view typed, std::size_t begin, const std::vector<std::string>& words,
                  std::string_view behind) {
    completions out{.begin = begin, .candidates = {}, .applies = true};
    for (const auto& word : words) {
        if (std::string_view(word).starts_with(typed)) out.candidates.push_back(concat(word, behind));
    }
    std::sort(out.candidates.begin(), out.candidates.end());
    return out;
}

bool shows_safely(std::string_view name) {
    return std::none_of(name.begin(), name.end(),
                        [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

}  // namespace

std::span<const repl_command_row> all_repl_commands() { return commands; }

const repl_command_row* find_repl_command(std::string_view name) {
    if (name == "exit" || name == "bye") name = "quit";
    for (const auto& row : commands) {
        if (row.name == name) return &row;
    }
    return nullptr;
}

std::string unknown_repl_command(std::string_view name) {
    return concat("there is no command ", quoted(concat("/", name)), suggestion(name, command_names(), "/"),
                  "; /help lists all; a message that begins with '/' needs a second one: //", escaped(name));
}

std::string repl_help() {
    std::string out;
    for (const auto& row : commands) {
        std::string left = concat("  /", row.name, row.argument.empty() ? "" : " ", row.argument);
        left.append(left.size() < 24 ? 24 - left.size() : 1, ' ');
        out += concat(left, row.help, "\n");
    }
    out +=
        "\n"
        "  Enter sends. A new line: Ctrl-J, Alt-Enter, or a \\ at the end of the line.\n"
        "  \"\"\" begins a message of several lines and ends it. Pasted text is one message.\n"
        "  //text sends a message that begins with '/'.\n"
        "  Ctrl-C stops an answer or clears the line. Ctrl-G opens your editor, Ctrl-R searches,\n"
        "  Tab completes, Ctrl-Z suspends, Ctrl-D leaves.";
    return out;
}

std::vector<std::string> settable_names() {
    std::vector<std::string> out{"history", "system"};
    for (const auto& row : all_options()) {
        if (!row.settable) continue;
        out.emplace_back(row.name);
        std::replace(out.back().begin(), out.back().end(), '-', '_');
    }
    std::sort(out.begin(), out.end());
    return out;
}

completions complete_path(std::string_view before_cursor, std::size_t path_begin) {
    const auto typed = before_cursor.substr(path_begin);
    const auto slash = typed.rfind('/');
    const std::size_t name_begin = slash == std::string_view::npos ? 0 : slash + 1;
    const auto name = typed.substr(name_begin);
    completions out{.begin = path_begin + name_begin, .candidates = {}, .applies = true};
    const std::filesystem::path folder =
        name_begin == 0 ? std::filesystem::path(".") : expand_home(typed.substr(0, name_begin));
    std::error_code problem;
    for (std::filesystem::directory_iterator it(folder, problem), end; !problem && it != end; it.increment(problem)) {
        std::string entry = it->path().filename().string();
        if (!entry.starts_with(name) || !shows_safely(entry)) continue;
        if (entry.starts_with('.') && !name.starts_with('.')) continue;
        std::error_code ignored;
        if (it->is_directory(ignored)) entry += '/';
        out.candidates.push_back(std::move(entry));
    }
    std::sort(out.candidates.begin(), out.candidates.end());
    return out;
}

completions complete_repl_input(std::string_view before_cursor) {
    if (!before_cursor.starts_with('/') || before_cursor.find('\n') != std::string_view::npos) return {};
    const auto blank = before_cursor.find(' ');
    if (blank == std::string_view::npos) {
        if (before_cursor.find('/', 1) != std::string_view::npos) return {};
        completions out{.begin = 1, .candidates = {}, .applies = true};
        for (const auto& row : commands) {
            if (row.name.starts_with(before_cursor.substr(1))) {
                out.candidates.push_back(concat(row.name, row.argument.empty() ? "" : " "));
            }
        }
        std::sort(out.candidates.begin(), out.candidates.end());
        return out;
    }
    const auto* row = find_repl_command(before_cursor.substr(1, blank - 1));
    const auto begin = before_cursor.find_first_not_of(' ', blank);
    const std::size_t argument = begin == std::string_view::npos ? before_cursor.size() : begin;
    const auto typed = before_cursor.substr(argument);
    if (row == nullptr) return {};
    switch (row->which) {
        case repl_command::save:
        case repl_command::load: return complete_path(before_cursor, argument);
        case repl_command::set:
            if (typed.find(' ') == std::string_view::npos) return among(typed, argument, settable_names(), " ");
            return {.begin = 0, .candidates = {}, .applies = true};
        case repl_command::show: return among(typed, argument, {std::begin(show_topics), std::end(show_topics)}, "");
        case repl_command::system: return {};
        default: return {.begin = 0, .candidates = {}, .applies = true};
    }
}

}  // namespace colibri::repl
