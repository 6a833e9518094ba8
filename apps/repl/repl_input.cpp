#include "repl/repl_input.hpp"

#include <utility>

#include "colibri/core/concat.hpp"

namespace colibri::repl {
namespace {

constexpr std::string_view fence = "\"\"\"";
constexpr std::string_view blanks = " \t\r\n";

std::string_view without_trailing_blanks(std::string_view text) {
    const auto last = text.find_last_not_of(blanks);
    return text.substr(0, last == std::string_view::npos ? 0 : last + 1);
}

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Length of "/word" if the text begins with a command, else 0.
std::size_t command_length(std::string_view text) {
    if (!text.starts_with('/')) return 0;
    std::size_t at = 1;
    while (at < text.size() && is_letter(text[at])) ++at;
    const bool whole_word = at == text.size() || blanks.find(text[at]) != std::string_view::npos;
    return at > 1 && whole_word ? at : 0;
}

// What stands behind a command's name.
std::string_view argument_of(std::string_view text, std::size_t name_length) {
    text.remove_prefix(name_length);
    const auto first = text.find_first_not_of(blanks);
    return first == std::string_view::npos ? std::string_view() : text.substr(first);
}

bool is_closed(std::string_view block) {
    const auto text = without_trailing_blanks(block);
    return text.size() >= 2 * fence.size() && text.ends_with(fence);
}

// The inside of a whole block; other text unchanged.
std::string_view unwrapped(std::string_view text) {
    if (!text.starts_with(fence)) return text;
    if (is_closed(text))
        text = without_trailing_blanks(text).substr(0, without_trailing_blanks(text).size() - fence.size());
    text.remove_prefix(fence.size());
    if (text.starts_with('\n')) text.remove_prefix(1);
    if (text.ends_with('\n')) text.remove_suffix(1);
    return text;
}

}  // namespace

bool is_open_block(std::string_view text) {
    if (const auto length = command_length(text); length != 0) text = argument_of(text, length);
    return text.starts_with(fence) && !is_closed(text);
}

repl_input parse_input(std::string_view text, bool literal) {
    if (without_trailing_blanks(text).empty()) return {};
    if (literal) return {input_kind::message, std::string(text)};
    if (const auto length = command_length(text); length != 0) {
        repl_input out{input_kind::command};
        for (const char c : text.substr(1, length - 1)) out.name += static_cast<char>(c | 0x20);
        const auto argument = argument_of(text, length);
        out.text = argument.starts_with(fence) ? unwrapped(argument) : without_trailing_blanks(argument);
        return out;
    }
    if (text.starts_with("//")) text.remove_prefix(1);
    else text = unwrapped(text);
    if (without_trailing_blanks(text).empty()) return {};
    return {input_kind::message, std::string(text)};
}

std::string as_block(std::string_view text) { return concat(fence, "\n", text, "\n", fence); }

std::optional<std::string> line_joiner::add(std::string_view line) {
    if (begun_) text_ += '\n';
    text_ += line;
    begun_ = true;
    if (is_open_block(text_)) return std::nullopt;
    std::size_t slashes = 0;
    while (slashes < line.size() && line[line.size() - 1 - slashes] == '\\') ++slashes;
    if (slashes % 2 == 1) {
        text_.pop_back();
        return std::nullopt;
    }
    begun_ = false;
    return std::exchange(text_, {});
}

std::optional<std::string> line_joiner::finish() {
    if (!std::exchange(begun_, false)) return std::nullopt;
    return std::exchange(text_, {});
}

}  // namespace colibri::repl
