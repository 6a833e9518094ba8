// UTF-8: reading code points, writing them, and telling well-formed text from the rest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace colibri::text {

/// What stands in for bytes that are not UTF-8.
inline constexpr char32_t replacement_character = 0xFFFD;

/// One code point as read from text. An ill-formed sequence reads as U+FFFD with `valid` false and a size that covers
/// its maximal subpart (Unicode 3.9, WHATWG): 1 to 3 bytes.
struct code_point {
    char32_t value;
    std::uint32_t size;  ///< bytes used, 1 to 4
    bool valid;
};

/// The code point that starts at `text[at]`; `at` < text.size(). Refuses overlong forms, surrogates and values above
/// U+10FFFF.
[[nodiscard]] code_point decode_utf8(std::string_view text, std::size_t at) noexcept;

/// Appends `code`; values that UTF-8 can't express (surrogates, above U+10FFFF) become U+FFFD.
void append_utf8(std::string& out, char32_t code);

/// True if all of `text` is well-formed UTF-8.
[[nodiscard]] bool is_utf8(std::string_view text) noexcept;

/// `text` with each ill-formed sequence (maximal subpart) replaced by U+FFFD.
[[nodiscard]] std::string replace_ill_formed(std::string_view text);

/// Bytes at the end of `text` that begin a code point but don't finish it (0 to 3): hold them back when text is shown
/// while it still grows.
[[nodiscard]] std::size_t incomplete_tail(std::string_view text) noexcept;

inline code_point decode_utf8(std::string_view text, std::size_t at) noexcept {
    const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
    const std::uint8_t lead = byte(at);
    if (lead < 0x80) return {lead, 1, true};
    // Only the second byte's range depends on the lead: it excludes overlong forms, surrogates and too large values.
    std::uint8_t low = 0x80, high = 0xBF;
    std::uint32_t size = 0;
    char32_t value = 0;
    if (lead >= 0xC2 && lead <= 0xDF) {
        size = 2;
        value = lead & 0x1F;
    } else if (lead >= 0xE0 && lead <= 0xEF) {
        size = 3;
        value = lead & 0x0F;
        if (lead == 0xE0) low = 0xA0;
        if (lead == 0xED) high = 0x9F;
    } else if (lead >= 0xF0 && lead <= 0xF4) {
        size = 4;
        value = lead & 0x07;
        if (lead == 0xF0) low = 0x90;
        if (lead == 0xF4) high = 0x8F;
    } else {
        return {replacement_character, 1, false};
    }
    for (std::uint32_t i = 1; i < size; ++i) {
        if (at + i >= text.size()) return {replacement_character, i, false};
        const std::uint8_t next = byte(at + i);
        if (next < low || next > high) return {replacement_character, i, false};
        low = 0x80;
        high = 0xBF;
        value = (value << 6) | (next & 0x3F);
    }
    return {value, size, true};
}

inline void append_utf8(std::string& out, char32_t code) {
    if ((code >= 0xD800 && code <= 0xDFFF) || code > 0x10FFFF) code = replacement_character;
    const auto put = [&](char32_t byte) { out += static_cast<char>(static_cast<std::uint8_t>(byte)); };
    if (code < 0x80) {
        put(code);
    } else if (code < 0x800) {
        put(0xC0 | (code >> 6));
        put(0x80 | (code & 0x3F));
    } else if (code < 0x10000) {
        put(0xE0 | (code >> 12));
        put(0x80 | ((code >> 6) & 0x3F));
        put(0x80 | (code & 0x3F));
    } else {
        put(0xF0 | (code >> 18));
        put(0x80 | ((code >> 12) & 0x3F));
        put(0x80 | ((code >> 6) & 0x3F));
        put(0x80 | (code & 0x3F));
    }
}

inline bool is_utf8(std::string_view text) noexcept {
    for (std::size_t at = 0; at < text.size();) {
        const code_point read = decode_utf8(text, at);
        if (!read.valid) return false;
        at += read.size;
    }
    return true;
}

inline std::string replace_ill_formed(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    for (std::size_t at = 0; at < text.size();) {
        const code_point read = decode_utf8(text, at);
        if (read.valid) {
            out += text.substr(at, read.size);
        } else {
            append_utf8(out, replacement_character);
        }
        at += read.size;
    }
    return out;
}

inline std::size_t incomplete_tail(std::string_view text) noexcept {
    for (std::size_t back = 1; back <= 3 && back <= text.size(); ++back) {
        const auto byte = static_cast<std::uint8_t>(text[text.size() - back]);
        if ((byte & 0xC0) == 0x80) continue;  // a continuation byte: its lead is further left
        const std::size_t size = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC0 ? 2 : 1;
        if (size <= back) return 0;
        const code_point read = decode_utf8(text, text.size() - back);
        return !read.valid && read.size == back && byte <= 0xF4 && byte >= 0xC2 ? back : 0;
    }
    return 0;
}

}  // namespace colibri::text
