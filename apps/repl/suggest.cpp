#include "repl/suggest.hpp"

#include <algorithm>

#include "colibri/core/concat.hpp"

namespace colibri::repl {

// Optimal string alignment; three rows are enough, since a swap looks back two.
std::size_t edit_distance(std::string_view a, std::string_view b) {
    std::vector<std::size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
    for (std::size_t j = 0; j <= b.size(); ++j) above[j] = j;
    for (std::size_t i = 1; i <= a.size(); ++i) {
        row[0] = i;
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const std::size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
            row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + change});
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = std::min(row[j], before[j - 2] + 1);
        }
        std::swap(before, above);
        std::swap(above, row);
    }
    return above[b.size()];
}

std::optional<std::string_view> nearest(std::string_view typed, std::span<const std::string_view> known) {
    const std::size_t allowed = typed.size() <= 4 ? 1 : typed.size() <= 8 ? 2 : 3;
    std::optional<std::string_view> best;
    std::size_t best_distance = allowed + 1;
    std::optional<std::string_view> begun;
    bool several_begun = false;
    for (const auto word : known) {
        const std::size_t distance = edit_distance(typed, word);
        if (distance < best_distance && distance < word.size()) {
            best = word;
            best_distance = distance;
        }
        if (typed.size() >= 3 && word.starts_with(typed)) {
            several_begun = begun.has_value();
            begun = word;
        }
    }
    if (best) return best;
    if (begun && !several_begun) return begun;
    for (const auto word : known) {
        if (word.size() >= 3 && typed.starts_with(word)) return word;  // "temperature" for "temp"
    }
    return std::nullopt;
}

std::string suggestion(std::string_view typed, std::span<const std::string_view> known, std::string_view prefix) {
    const auto word = nearest(typed, known);
    return word ? concat("; did you mean ", prefix, *word, "?") : std::string();
}

}  // namespace colibri::repl
