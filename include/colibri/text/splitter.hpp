// Cuts text into the words that a vocabulary was trained on, by rules that never look at a character more than a few
// times.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "colibri/text/char_set.hpp"
#include "colibri/text/utf8.hpp"

namespace colibri::text {

class scanner;

/// What an alternative of a rule matches at a place.
enum class form : std::uint8_t {
    run,          ///< prefix, then `least`..`most` of body, then up to `most_tail` of tail
    word_lower,   ///< prefix, capitals or caseless letters*, small or caseless letters+ (body: what both may be)
    word_upper,   ///< prefix, capitals or caseless letters+, small or caseless letters*
    phrase,       ///< prefix, then letters with marks behind them, single spaces between letters included
    contraction,  ///< an apostrophe and s, t, re, ve, m, ll or d
    newlines,     ///< white space up to and with the last newline of a run
    spaces,  ///< white space but the last character before a word; all of it if that is one character or the text ends
    own,     ///< whatever `match` says
};

/// One alternative of a rule: the published rules are regular expressions, and these are the shapes that occur in them.
/// Sets are referred to and must outlive it.
struct alternative {
    form kind = form::run;
    const char_set* prefix = nullptr;  ///< one character before; not needed for a match unless `needs_prefix`
    bool needs_prefix = false;
    const char_set* body = nullptr;
    std::size_t least = 1;
    std::size_t most = ~std::size_t{0};
    const char_set* tail = nullptr;
    std::size_t most_tail = ~std::size_t{0};
    bool any_case = true;                                      ///< contractions also in capitals
    bool contraction = false;                                  ///< words may end in a contraction
    std::size_t (*match)(scanner&, std::size_t at) = nullptr;  ///< returns the end of the match, or `at` for none
};

/// One rule. At each place the first alternative that matches makes a piece; what lies between matches is a piece too.
/// Or `cut` finds all pieces itself and appends their ends.
struct split_rule {
    std::span<const alternative> alternatives = {};
    void (*cut)(std::string_view text, std::vector<std::size_t>& ends) = nullptr;
};

/// Applies `rules` in order, each to every piece that the one before left, and calls `piece(std::string_view)` for each
/// final piece, in order. The pieces joined are `text`. Bytes that are not UTF-8 count as U+FFFD. Linear in
/// text.size().
template <class Piece>
void split(std::span<const split_rule> rules, std::string_view text, Piece&& piece);

/// Reads one text for a rule and remembers where runs of white space end, so that no run is read twice.
class scanner {
public:
    struct character {
        char32_t code;
        class_mask known;
        std::size_t end;  ///< where the next character starts
    };
    struct white_run {
        std::size_t begin = 0, end = 0;
        std::size_t last = 0;      ///< where its last character starts
        std::size_t newlines = 0;  ///< end of its last newline; `begin` or less if it has none
    };

    explicit scanner(std::string_view text) noexcept : text_(text) {}

    [[nodiscard]] std::string_view text() const noexcept { return text_; }
    [[nodiscard]] bool at_end(std::size_t at) const noexcept { return at >= text_.size(); }
    [[nodiscard]] character read(std::size_t at) const noexcept {
        const auto byte = static_cast<unsigned char>(text_[at]);
        if (byte < 0x80) return {byte, properties(byte), at + 1};
        const code_point got = decode_utf8(text_, at);
        return {got.value, properties(got.value), at + got.size};
    }
    [[nodiscard]] bool is(std::size_t at, const char_set& set) const noexcept {
        if (at_end(at)) return false;
        const character c = read(at);
        return set.contains(c.code, c.known);
    }
    /// End of up to `most` characters of `set` from `at` on; `count` becomes how many there are.
    std::size_t skip(std::size_t at, const char_set& set, std::size_t most, std::size_t& count) const noexcept {
        for (count = 0; count < most && !at_end(at); ++count) {
            const character c = read(at);
            if (!set.contains(c.code, c.known)) break;
            at = c.end;
        }
        return at;
    }
    /// The rest, from `at` on, of the run of white space that covers `at`; empty if there is none.
    [[nodiscard]] const white_run& white(std::size_t at) noexcept {
        if (at >= run_.begin && at < run_.end) return run_;
        run_ = {at, at, at, at};
        while (!at_end(run_.end)) {
            const character c = read(run_.end);
            if ((c.known & classes::white_space) == 0) break;
            run_.last = run_.end;
            run_.end = c.end;
            if ((c.known & classes::newline) != 0) run_.newlines = c.end;
        }
        return run_;
    }
    /// End of the first alternative that matches at `at`, or `at`.
    [[nodiscard]] std::size_t match(std::span<const alternative> alternatives, std::size_t at) noexcept {
        for (const alternative& one : alternatives) {
            if (const std::size_t end = match(one, at); end != at) return end;
        }
        return at;
    }
    [[nodiscard]] std::size_t match(const alternative& one, std::size_t at) noexcept;

private:
    template <class Body>
    [[nodiscard]] std::size_t behind_prefix(const alternative& one, std::size_t at, Body&& body) noexcept;
    [[nodiscard]] std::size_t contraction(std::size_t at, bool any_case) const noexcept;
    [[nodiscard]] std::size_t run(const alternative& one, std::size_t at) const noexcept;
    [[nodiscard]] std::size_t word(const alternative& one, std::size_t at) const noexcept;
    [[nodiscard]] std::size_t phrase(std::size_t at) const noexcept;

    std::string_view text_;
    white_run run_;
};

/// `body(start)` with the prefix if it is there and the rest matches behind it, else without.
template <class Body>
std::size_t scanner::behind_prefix(const alternative& one, std::size_t at, Body&& body) noexcept {
    if (one.prefix != nullptr) {
        const character first = read(at);
        if (one.prefix->contains(first.code, first.known)) {
            if (const std::size_t end = body(first.end); end != first.end) return end;
        }
        if (one.needs_prefix) return at;
    }
    return body(at);
}

inline std::size_t scanner::contraction(std::size_t at, bool any_case) const noexcept {
    const std::string_view rest = text_.substr(at);
    if (rest.size() < 2 || rest[0] != '\'') return at;
    const auto small = [&](std::size_t i) {
        const char c = i < rest.size() ? rest[i] : '\0';
        return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    };
    const char first = small(1), second = small(2);
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return at + 2;
    if ((first == 'r' || first == 'v') && second == 'e') return at + 3;
    if (first == 'l' && second == 'l') return at + 3;
    // U+017F is a form of s: it differs from it in case only.
    if (any_case && rest.substr(1, 2) == "\xC5\xBF") return at + 3;
    return at;
}

inline std::size_t scanner::run(const alternative& one, std::size_t at) const noexcept {
    std::size_t count = 0;
    std::size_t end = skip(at, *one.body, one.most, count);
    if (count < one.least) return at;
    if (one.tail != nullptr) end = skip(end, *one.tail, one.most_tail, count);
    return end;
}

inline std::size_t scanner::word(const alternative& one, std::size_t at) const noexcept {
    constexpr class_mask caseless = classes::lm | classes::lo | classes::mark;
    constexpr class_mask upper = classes::lu | classes::lt | caseless, lower = classes::ll | caseless;
    std::size_t end = at,
                last_lower = at;  // last_lower: behind the last capital-side character that could be small too
    while (!at_end(end)) {
        const character c = read(end);
        if ((c.known & upper) == 0 || !one.body->contains(c.code, c.known)) break;
        end = c.end;
        if ((c.known & lower) != 0) last_lower = end;
    }
    const std::size_t capitals = end;
    while (!at_end(end)) {
        const character c = read(end);
        if ((c.known & lower) == 0 || !one.body->contains(c.code, c.known)) break;
        end = c.end;
    }
    if (one.kind == form::word_lower) {
        if (end == capitals) end = last_lower;  // the first part gives one back, or there is no match
    } else if (capitals == at) {
        return at;
    }
    if (end != at && one.contraction) end = contraction(end, one.any_case);
    return end;
}

inline std::size_t scanner::phrase(std::size_t at) const noexcept {
    const auto letter = [&](std::size_t i) { return !at_end(i) && (read(i).known & classes::letter) != 0; };
    std::size_t end = at;
    for (std::size_t next = at; letter(next); next = end < text_.size() && text_[end] == ' ' ? end + 1 : end) {
        end = read(next).end;
        while (!at_end(end) && (read(end).known & classes::mark) != 0) end = read(end).end;
    }
    return end;
}

inline std::size_t scanner::match(const alternative& one, std::size_t at) noexcept {
    switch (one.kind) {
        case form::run: return behind_prefix(one, at, [&](std::size_t i) { return run(one, i); });
        case form::word_lower:
        case form::word_upper: return behind_prefix(one, at, [&](std::size_t i) { return word(one, i); });
        case form::phrase: return behind_prefix(one, at, [&](std::size_t i) { return phrase(i); });
        case form::contraction: return contraction(at, one.any_case);
        case form::newlines: {
            const white_run& white_here = white(at);
            return white_here.newlines > at ? white_here.newlines : at;
        }
        case form::spaces: {
            const white_run& white_here = white(at);
            if (white_here.end <= at) return at;
            return white_here.end == text_.size() || white_here.last <= at ? white_here.end : white_here.last;
        }
        case form::own: return one.match(*this, at);
    }
    return at;
}

template <class Piece>
void split(std::span<const split_rule> rules, std::string_view text, Piece&& piece) {
    if (text.empty()) return;
    if (rules.empty()) {
        piece(text);
        return;
    }
    const auto deeper = rules.subspan(1);
    if (rules.front().cut != nullptr) {
        std::vector<std::size_t> ends;
        rules.front().cut(text, ends);
        std::size_t begin = 0;
        for (const std::size_t end : ends) {
            split(deeper, text.substr(begin, end - begin), piece);
            begin = end;
        }
        return;
    }
    scanner scan(text);
    std::size_t begin = 0, at = 0;  // begin: of what no alternative has matched yet
    while (at < text.size()) {
        const std::size_t end = scan.match(rules.front().alternatives, at);
        if (end == at) {
            at = scan.read(at).end;
            continue;
        }
        if (begin < at) split(deeper, text.substr(begin, at - begin), piece);
        split(deeper, text.substr(at, end - at), piece);
        begin = at = end;
    }
    if (begin < at) split(deeper, text.substr(begin), piece);
}

}  // namespace colibri::text
