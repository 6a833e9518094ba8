// Sets of code points in one canonical form, so that two descriptions of a set can be compared.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "colibri/text/char_set.hpp"
#include "colibri/text/unicode.hpp"

namespace colibri::convert {

/// Any set of code points, as sorted ranges that neither overlap nor touch. Equal sets are equal objects.
class code_set {
public:
    static constexpr char32_t last_code = 0x10FFFF;

    code_set() = default;
    code_set(char32_t first, char32_t last) : ranges_{{first, last}} {}

    /// Code points with any of these properties.
    [[nodiscard]] static code_set with(text::class_mask mask) {
        code_set out;
        for (const auto& [range, known] : runs()) {
            if ((known & mask) != 0) out.append(range);
        }
        return out;
    }
    /// What a rule's set contains.
    [[nodiscard]] static code_set of(const text::char_set& set) {
        code_set out;
        if (set.with != 0) {
            out = with(set.with);
            if (set.without != 0) out = out - with(set.without);
        }
        for (const auto& range : set.less) out = out - code_set(range.first, range.last);
        for (const auto& range : set.more) out = out | code_set(range.first, range.last);
        return out;
    }

    [[nodiscard]] bool empty() const noexcept { return ranges_.empty(); }

    [[nodiscard]] friend code_set operator|(const code_set& a, const code_set& b) {
        auto all = a.ranges_;
        all.insert(all.end(), b.ranges_.begin(), b.ranges_.end());
        std::ranges::sort(all, {}, &text::code_range::first);
        code_set out;
        for (const auto& range : all) out.append(range);
        return out;
    }
    [[nodiscard]] code_set operator~() const {
        code_set out;
        char32_t next = 0;
        for (const auto& range : ranges_) {
            if (range.first > next) out.ranges_.push_back({next, range.first - 1});
            next = range.last + 1;
        }
        if (next <= last_code) out.ranges_.push_back({next, last_code});
        return out;
    }
    [[nodiscard]] friend code_set operator&(const code_set& a, const code_set& b) { return ~(~a | ~b); }
    [[nodiscard]] friend code_set operator-(const code_set& a, const code_set& b) { return a & ~b; }
    [[nodiscard]] friend bool operator==(const code_set& a, const code_set& b) noexcept {
        return std::equal(a.ranges_.begin(), a.ranges_.end(), b.ranges_.begin(), b.ranges_.end(),
                          [](const auto& x, const auto& y) { return x.first == y.first && x.last == y.last; });
    }

private:
    /// Adds a range that doesn't begin before the last one does.
    void append(text::code_range range) {
        if (!ranges_.empty() && range.first <= ranges_.back().last + 1) {
            ranges_.back().last = std::max(ranges_.back().last, range.last);
        } else {
            ranges_.push_back(range);
        }
    }
    /// Runs of code points with the same properties; found once (1.1 million look-ups).
    [[nodiscard]] static const std::vector<std::pair<text::code_range, text::class_mask>>& runs() {
        static const auto all = [] {
            std::vector<std::pair<text::code_range, text::class_mask>> out;
            for (char32_t code = 0; code <= last_code; ++code) {
                const auto known = text::properties(code);
                if (!out.empty() && out.back().second == known) out.back().first.last = code;
                else out.push_back({{code, code}, known});
            }
            return out;
        }();
        return all;
    }

    std::vector<text::code_range> ranges_;
};

}  // namespace colibri::convert
