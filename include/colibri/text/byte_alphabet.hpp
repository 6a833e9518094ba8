// GPT-2's alphabet: each byte has a visible character, and vocabularies spell tokens with these.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "colibri/text/utf8.hpp"

namespace colibri::text {

/// The character of each byte: printable ones of Latin-1 stand for themselves, the other 68 bytes, in order, for U+0100
/// on.
inline constexpr std::array<char16_t, 256> byte_alphabet = [] {
    std::array<char16_t, 256> out{};
    char16_t next = 0x100;
    for (unsigned byte = 0; byte < 256; ++byte) {
        const bool visible = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
        out[byte] = visible ? static_cast<char16_t>(byte) : next++;
    }
    return out;
}();

/// Bytes by character, up to U+0143; -1 for characters outside the alphabet.
inline constexpr std::array<std::int16_t, 0x144> byte_of_character = [] {
    std::array<std::int16_t, 0x144> out{};
    for (auto& byte : out) byte = -1;
    for (unsigned byte = 0; byte < 256; ++byte) out[byte_alphabet[byte]] = static_cast<std::int16_t>(byte);
    return out;
}();

/// Appends what `spelled` stands for. Characters outside the alphabet, and bytes that are not UTF-8, stay as they are.
inline void append_spelled_bytes(std::string& out, std::string_view spelled) {
    for (std::size_t at = 0; at < spelled.size();) {
        const code_point read = decode_utf8(spelled, at);
        const std::int16_t byte =
            read.valid && read.value < byte_of_character.size() ? byte_of_character[read.value] : std::int16_t{-1};
        if (byte >= 0) {
            out += static_cast<char>(static_cast<unsigned char>(byte));
        } else {
            out += spelled.substr(at, read.size);
        }
        at += read.size;
    }
}

}  // namespace colibri::text
