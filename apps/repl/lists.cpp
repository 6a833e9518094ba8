#include "repl/lists.hpp"

#include <algorithm>
#include <optional>

#include "colibri/core/concat.hpp"
#include "colibri/core/escape.hpp"
#include "colibri/core/number.hpp"

namespace colibri::repl {
namespace {

constexpr std::size_t longest_list = 1000;

error refused(std::string message) { return error{errc::invalid_argument, std::move(message)}; }

// The pieces between commas, empty ones too.
std::vector<std::string_view> pieces(std::string_view text) {
    std::vector<std::string_view> out;
    while (true) {
        const auto end = std::min(text.find(','), text.size());
        out.push_back(text.substr(0, end));
        if (end == text.size()) return out;
        text.remove_prefix(end + 1);
    }
}

// A number or a range into `out`; false if it is neither.
bool add_numbers(std::vector<std::int64_t>& out, std::string_view piece, std::int64_t least, std::int64_t most) {
    const auto number = [&](std::string_view text) -> std::optional<std::int64_t> {
        const auto parsed = parse_number<std::int64_t>(text);
        return parsed && *parsed >= least && *parsed <= most ? parsed : std::nullopt;
    };
    const auto dash = piece.find('-', 1);
    if (dash == std::string_view::npos) {
        const auto one = number(piece);
        if (one) out.push_back(*one);
        return one.has_value();
    }
    const auto sign = piece.find_first_of("+*", dash);
    const auto first = number(piece.substr(0, dash));
    const auto last = number(piece.substr(dash + 1, sign == std::string_view::npos ? sign : sign - dash - 1));
    const auto step = sign == std::string_view::npos ? std::optional<std::int64_t>(1)
                                                     : parse_number<std::int64_t>(piece.substr(sign + 1));
    const bool factor = sign != std::string_view::npos && piece[sign] == '*';
    if (!first || !last || !step || *last < *first || *step < (factor ? 2 : 1) || *step > most || (factor && *first == 0)) return false;
    for (std::int64_t n = *first; out.size() <= longest_list; n = factor ? n * *step : n + *step) {
        out.push_back(n);
        if (factor ? n > *last / *step : n > *last - *step) break;
    }
    return true;
}

}  // namespace

result<std::vector<std::int64_t>> numbers_of(std::string_view text, std::int64_t least, std::int64_t most, bool with_auto) {
    std::vector<std::int64_t> out;
    for (const auto piece : pieces(text)) {
        if (with_auto && piece == "auto") {
            out.push_back(0);
        } else if (!add_numbers(out, piece, least, most)) {
            return refused(concat("a list of whole numbers from ", least, " to ", most, with_auto ? " or auto" : "",
                                  " is needed, as 1,2,4 or 1-8 or 1-8+2 or 1-16*2, not ", quoted(text)));
        }
        if (out.size() > longest_list) return refused(concat("more than ", longest_list, " values are too many"));
    }
    return out;
}

result<std::vector<std::string>> words_of(std::string_view text, std::string_view choices) {
    std::vector<std::string> out;
    for (const auto piece : pieces(text)) {
        const auto padded = concat(" ", choices, " ");
        if (piece.empty() || piece.find(' ') != std::string_view::npos || padded.find(concat(" ", piece, " ")) == std::string::npos) {
            return refused(concat("a list of ", choices, " with commas between is needed, not ", quoted(text)));
        }
        out.emplace_back(piece);
    }
    return out;
}

result<std::pair<std::uint32_t, std::uint32_t>> pair_of(std::string_view text) {
    const auto parts = pieces(text);
    if (parts.size() == 2) {
        const auto prompt = parse_number<std::uint32_t>(parts[0]);
        const auto generate = parse_number<std::uint32_t>(parts[1]);
        if (prompt && generate && (*prompt != 0 || *generate != 0)) return std::pair(*prompt, *generate);
    }
    return refused(concat("two counts of tokens with a comma between are needed, as 512,128, not ", quoted(text)));
}

}  // namespace colibri::repl
