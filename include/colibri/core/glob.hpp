// Names chosen by a pattern.
#pragma once

#include <cstddef>
#include <string_view>

namespace colibri {

/// Whether all of `text` fits `pattern`, in which '*' stands for any bytes and '?' for one. Takes O(pattern x text) at worst.
[[nodiscard]] constexpr bool matches_glob(std::string_view pattern, std::string_view text) noexcept {
    std::size_t p = 0, t = 0;
    std::size_t star = std::string_view::npos, star_text = 0;  // the last '*', and how much it stands for
    while (t < text.size()) {
        if (p < pattern.size() && pattern[p] == '*') {
            star = p++;
            star_text = t;
        } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
            ++p;
            ++t;
        } else if (star != std::string_view::npos) {
            p = star + 1;
            t = ++star_text;
        } else {
            return false;
        }
    }
    while (p < pattern.size() && pattern[p] == '*') ++p;
    return p == pattern.size();
}

}  // namespace colibri
