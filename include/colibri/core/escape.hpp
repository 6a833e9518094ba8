// Text from files made safe to show.
#pragma once

#include <string>
#include <string_view>

namespace colibri {

/// `text` with control characters, DEL, and bytes of ill-formed UTF-8 written as \n, \t, \r, \\ or \xHH, so that names and
/// values from a file can't send escape codes to a terminal. At most `max_bytes` bytes of the source are shown; the rest
/// becomes "...". C1 controls (U+0080..U+009F) and bidirectional overrides are escaped too.
[[nodiscard]] inline std::string escaped(std::string_view text, std::size_t max_bytes = 200) {
    constexpr std::string_view hex = "0123456789abcdef";
    std::string out;
    const auto put_hex = [&](unsigned char byte) {
        out += "\\x";
        out += hex[byte >> 4];
        out += hex[byte & 15];
    };
    std::size_t i = 0;
    while (i < text.size()) {
        if (i >= max_bytes) {
            out += "...";
            break;
        }
        const auto byte = static_cast<unsigned char>(text[i]);
        if (byte < 0x80) {
            switch (byte) {
                case '\n': out += "\\n"; break;
                case '\t': out += "\\t"; break;
                case '\r': out += "\\r"; break;
                case '\\': out += "\\\\"; break;
                default:
                    if (byte < 0x20 || byte == 0x7f) put_hex(byte);
                    else out += static_cast<char>(byte);
            }
            ++i;
            continue;
        }
        const std::size_t length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2;
        bool whole = byte >= 0xc2 && byte <= 0xf4 && i + length <= text.size();
        char32_t code = length == 2 ? byte & 0x1f : length == 3 ? byte & 0x0f : byte & 0x07;
        for (std::size_t k = 1; whole && k < length; ++k) {
            const auto next = static_cast<unsigned char>(text[i + k]);
            whole = (next & 0xc0) == 0x80;
            code = (code << 6) | (next & 0x3f);
        }
        whole = whole && code >= (length == 2 ? 0x80u : length == 3 ? 0x800u : 0x10000u) && code <= 0x10ffff &&
                !(code >= 0xd800 && code <= 0xdfff);
        const bool unsafe = (code >= 0x80 && code < 0xa0) || (code >= 0x202a && code <= 0x202e) ||
                            (code >= 0x2066 && code <= 0x2069) || code == 0x2028 || code == 0x2029;
        if (whole && !unsafe) {
            out += text.substr(i, length);
            i += length;
        } else {
            const std::size_t shown = whole ? length : 1;
            for (std::size_t k = 0; k < shown; ++k) put_hex(static_cast<unsigned char>(text[i + k]));
            i += shown;
        }
    }
    return out;
}

/// `escaped` text in single quotes, for messages.
[[nodiscard]] inline std::string quoted(std::string_view text, std::size_t max_bytes = 200) {
    std::string out = "'";
    out += escaped(text, max_bytes);
    out += '\'';
    return out;
}
// For std::string the next two win over std::quoted, which argument-dependent look-up would prefer; the last one keeps
// literals unambiguous.
[[nodiscard]] inline std::string quoted(const std::string& text, std::size_t max_bytes = 200) {
    return quoted(std::string_view(text), max_bytes);
}
[[nodiscard]] inline std::string quoted(std::string& text, std::size_t max_bytes = 200) {
    return quoted(std::string_view(text), max_bytes);
}
[[nodiscard]] inline std::string quoted(const char* text, std::size_t max_bytes = 200) {
    return quoted(std::string_view(text), max_bytes);
}

}  // namespace colibri
