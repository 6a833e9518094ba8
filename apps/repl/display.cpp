#include "repl/display.hpp"

#include <algorithm>
#include <iterator>

#include "colibri/text/utf8.hpp"
#include "repl/width_table.hpp"

namespace colibri::repl {
namespace {

constexpr char32_t zero_width_joiner = 0x200d;

template <std::size_t N>
bool contains(const code_range (&table)[N], char32_t code) noexcept {
    const auto* const at =
        std::partition_point(std::begin(table), std::end(table), [code](code_range r) { return r.last < code; });
    return at != std::end(table) && at->first <= code;
}

bool is_flag_letter(char32_t code) noexcept { return code >= 0x1f1e6 && code <= 0x1f1ff; }

bool joins_previous(char32_t code) noexcept { return code >= 0x300 && columns_of(code) == 0; }

}  // namespace

int columns_of(char32_t code) noexcept {
    if (code < 0x300) return 1;
    if (contains(zero_width, code)) return 0;
    return contains(double_width, code) ? 2 : 1;
}

std::size_t columns_of(std::string_view s) noexcept {
    std::size_t columns = 0;
    for (std::size_t at = 0; at < s.size();) {
        const auto [code, length, valid] = text::decode_utf8(s, at);
        columns += code < 0x20 || (code >= 0x7f && code < 0xa0) ? 2 : static_cast<std::size_t>(columns_of(code));
        at += length;
    }
    return columns;
}

std::size_t next_cluster(std::string_view s, std::size_t at) noexcept {
    if (at >= s.size()) return s.size();
    auto [first, length, valid] = text::decode_utf8(s, at);
    at += length;
    if (first < 0x20) return at;
    if (is_flag_letter(first) && at < s.size()) {
        const auto second = text::decode_utf8(s, at);
        if (is_flag_letter(second.value)) at += second.size;
    }
    bool joined = false;
    while (at < s.size()) {
        const auto next = text::decode_utf8(s, at);
        if (!joined && !joins_previous(next.value)) break;
        if (next.value < 0x20) break;
        joined = next.value == zero_width_joiner;
        at += next.size;
    }
    return at;
}

std::size_t previous_cluster(std::string_view s, std::size_t at) noexcept {
    // Clusters are found from the left; a line's start is always a border, so the search is as long as the line.
    if (at == 0) return 0;
    if (s[at - 1] == '\n') return at - 1;
    const std::size_t line = s.rfind('\n', at - 1);
    std::size_t border = line == std::string_view::npos ? 0 : line + 1;
    while (true) {
        const std::size_t next = next_cluster(s, border);
        if (next >= at) return border;
        border = next;
    }
}

bool is_word(char32_t code) noexcept {
    if (code < 0x80) {
        return (code >= '0' && code <= '9') || (code >= 'a' && code <= 'z') || (code >= 'A' && code <= 'Z') ||
               code == '_';
    }
    return code != 0xa0 && code != 0x3000 && !(code >= 0x2000 && code <= 0x200b) && code != 0x2028 && code != 0x2029;
}

std::string valid_utf8(std::string_view s, std::size_t& replaced) {
    std::string out;
    out.reserve(s.size());
    for (std::size_t at = 0; at < s.size();) {
        const auto [code, length, valid] = text::decode_utf8(s, at);
        if (valid) {
            out += s.substr(at, length);
        } else {
            text::append_utf8(out, text::replacement_character);
            ++replaced;
        }
        at += length;
    }
    return out;
}

std::string without_controls(std::string_view s) {
    std::string out;
    out.reserve(s.size());
    for (std::size_t at = 0; at < s.size();) {
        const auto [code, length, valid] = text::decode_utf8(s, at);
        if (code < 0x20 && code != '\n' && code != '\t') {
            out += '^';
            out += static_cast<char>(code + '@');
        } else if (code == 0x7f) {
            out += "^?";
        } else if (!valid || (code >= 0x80 && code < 0xa0)) {
            text::append_utf8(out, text::replacement_character);
        } else {
            out += s.substr(at, length);
        }
        at += length;
    }
    return out;
}

}  // namespace colibri::repl
