// Unicode's normalisation form C, which some vocabularies were trained on.
#pragma once

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "colibri/text/unicode.hpp"
#include "colibri/text/unicode_tables.hpp"
#include "colibri/text/utf8.hpp"

namespace colibri::text {

/// True if nothing in `text` can change under NFC (text without combining marks that might compose, and so on). False
/// says only that `to_nfc` has to look closer. Linear; about as fast as reading the text.
[[nodiscard]] bool is_surely_nfc(std::string_view text) noexcept;

/// `text` in NFC (Unicode 14.0, UAX #15). Bytes that are not UTF-8 stay as they are and separate what is around them.
/// Linear but for sorting runs of combining marks.
[[nodiscard]] std::string to_nfc(std::string_view text);

namespace detail {

/// Canonical combining class of `code`.
[[nodiscard]] inline std::uint8_t combining_class(char32_t code) noexcept {
    namespace t = unicode_tables;
    const auto* found = std::upper_bound(std::begin(t::combining), std::end(t::combining), code,
                                         [](char32_t c, const t::combining_range& r) { return c < r.first; });
    if (found == std::begin(t::combining)) return 0;
    --found;
    return code <= found->last ? found->value : std::uint8_t{0};
}

namespace hangul {
inline constexpr char32_t first_lead = 0x1100, first_vowel = 0x1161, before_tail = 0x11A7, first_syllable = 0xAC00;
inline constexpr char32_t leads = 19, vowels = 21, tails = 28, syllables = leads * vowels * tails;
}  // namespace hangul

/// Appends the full canonical decomposition of `code`.
inline void append_decomposed(std::u32string& out, char32_t code) {
    namespace t = unicode_tables;
    if (code < 0xC0) {
        out += code;
        return;
    }
    if (code >= hangul::first_syllable && code < hangul::first_syllable + hangul::syllables) {
        const char32_t index = code - hangul::first_syllable;
        out += hangul::first_lead + index / (hangul::vowels * hangul::tails);
        out += hangul::first_vowel + index % (hangul::vowels * hangul::tails) / hangul::tails;
        if (index % hangul::tails != 0) out += hangul::before_tail + index % hangul::tails;
        return;
    }
    const auto* found = std::lower_bound(std::begin(t::decompositions), std::end(t::decompositions), code,
                                         [](const t::decomposition& d, char32_t c) { return d.code < c; });
    if (found == std::end(t::decompositions) || found->code != code) {
        out += code;
    } else {
        out.append(t::decomposed + found->start, found->size);
    }
}

/// The primary composite of two code points, or 0.
[[nodiscard]] inline char32_t composed(char32_t first, char32_t second) noexcept {
    namespace t = unicode_tables;
    if (first >= hangul::first_lead && first < hangul::first_lead + hangul::leads && second >= hangul::first_vowel &&
        second < hangul::first_vowel + hangul::vowels) {
        return hangul::first_syllable +
               ((first - hangul::first_lead) * hangul::vowels + (second - hangul::first_vowel)) * hangul::tails;
    }
    if (first >= hangul::first_syllable && first < hangul::first_syllable + hangul::syllables &&
        (first - hangul::first_syllable) % hangul::tails == 0 && second > hangul::before_tail &&
        second < hangul::before_tail + hangul::tails) {
        return first + (second - hangul::before_tail);
    }
    const auto less = [](const t::composition& c, const std::pair<char32_t, char32_t>& key) {
        return c.first != key.first ? c.first < key.first : c.second < key.second;
    };
    const auto* found =
        std::lower_bound(std::begin(t::compositions), std::end(t::compositions), std::pair{first, second}, less);
    const bool same = found != std::end(t::compositions) && found->first == first && found->second == second;
    return same ? found->whole : char32_t{0};
}

/// Puts decomposed code points in canonical order and composes them, in place.
inline void compose(std::u32string& codes) {
    std::vector<std::uint8_t> ccc(codes.size());
    for (std::size_t i = 0; i < codes.size(); ++i) ccc[i] = combining_class(codes[i]);
    std::vector<std::pair<std::uint8_t, char32_t>> run;
    for (std::size_t i = 0; i < codes.size();) {  // each run of marks: stable order by class
        if (ccc[i] == 0) {
            ++i;
            continue;
        }
        run.clear();
        std::size_t end = i;
        for (; end < codes.size() && ccc[end] != 0; ++end) run.emplace_back(ccc[end], codes[end]);
        std::stable_sort(run.begin(), run.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
        for (const auto& [value, code] : run) {
            ccc[i] = value;
            codes[i++] = code;
        }
    }
    // A mark joins the last starter unless something of the same or a higher class stands between them.
    constexpr std::size_t none = static_cast<std::size_t>(-1);
    std::size_t out = 0, starter = none;
    std::uint8_t last = 0;  // class of the last code point kept behind the starter
    for (std::size_t i = 0; i < codes.size(); ++i) {
        const bool blocked = starter != none && out > starter + 1 && (last == 0 || last >= ccc[i]);
        if (starter != none && !blocked) {
            if (const char32_t whole = composed(codes[starter], codes[i]); whole != 0) {
                codes[starter] = whole;
                continue;
            }
        }
        if (ccc[i] == 0) starter = out;
        last = ccc[i];
        codes[out++] = codes[i];
    }
    codes.resize(out);
}

}  // namespace detail

inline bool is_surely_nfc(std::string_view text) noexcept {
    for (std::size_t at = 0; at < text.size();) {
        if (static_cast<unsigned char>(text[at]) < 0xCC) {  // up to U+02FF (or a stray byte): nothing to care about
            ++at;
            continue;
        }
        const code_point read = decode_utf8(text, at);
        if (read.valid && (properties(read.value) & classes::nfc_care) != 0) return false;
        at += read.size;
    }
    return true;
}

inline std::string to_nfc(std::string_view text) {
    if (is_surely_nfc(text)) return std::string(text);
    std::string out;
    out.reserve(text.size());
    std::u32string codes;
    const auto flush = [&] {
        detail::compose(codes);
        for (const char32_t code : codes) append_utf8(out, code);
        codes.clear();
    };
    for (std::size_t at = 0; at < text.size();) {
        const code_point read = decode_utf8(text, at);
        if (read.valid) {
            detail::append_decomposed(codes, read.value);
        } else {
            flush();
            out += text.substr(at, read.size);
        }
        at += read.size;
    }
    flush();
    return out;
}

}  // namespace colibri::text
