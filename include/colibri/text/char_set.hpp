// Sets of code points, as the rules that cut text name them.
#pragma once

#include <algorithm>
#include <span>

#include "colibri/text/unicode.hpp"

namespace colibri::text {

/// Code points first..last.
struct code_range {
    char32_t first, last;
};

/// Code points with any property of `with` and none of `without`; then those in `more` as well, and those in `less`
/// not. Both lists are sorted.
struct char_set {
    class_mask with = 0;
    class_mask without = 0;
    std::span<const code_range> more = {};
    std::span<const code_range> less = {};

    /// `known` are properties(code), which the caller has already.
    [[nodiscard]] constexpr bool contains(char32_t code, class_mask known) const noexcept {
        const bool by_property = (known & with) != 0 && (known & without) == 0;
        if (by_property) return less.empty() || !in(less, code);
        return !more.empty() && in(more, code);
    }
    [[nodiscard]] constexpr bool contains(char32_t code) const noexcept { return contains(code, properties(code)); }

private:
    [[nodiscard]] static constexpr bool in(std::span<const code_range> ranges, char32_t code) noexcept {
        const auto found = std::upper_bound(ranges.begin(), ranges.end(), code,
                                            [](char32_t c, const code_range& range) { return c < range.first; });
        return found != ranges.begin() && code <= (found - 1)->last;
    }
};

}  // namespace colibri::text
