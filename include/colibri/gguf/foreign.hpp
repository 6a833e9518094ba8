// Other kinds of files, recognised by their first bytes so that a message can name them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "colibri/core/concat.hpp"
#include "colibri/core/number.hpp"

namespace colibri::gguf {

/// Bytes from the start of a file that are enough to recognise it.
inline constexpr std::size_t foreign_head_size = 512;

/// What a file that isn't GGUF seems to be, and what to do, as the end of the sentence "this is not a GGUF file but …";
/// empty when the bytes are of no known kind. `head` is the start of the file, up to foreign_head_size bytes.
[[nodiscard]] inline std::string describe_foreign(std::span<const std::byte> head) {
    const std::string_view text(reinterpret_cast<const char*>(head.data()), head.size());
    const auto starts = [&](std::string_view magic) { return text.starts_with(magic); };

    for (const std::string_view magic : {"lmgg", "fmgg", "tjgg", "algg"}) {
        if (starts(magic)) {
            return "a model in an old format from before GGUF (ggml, ggmf, ggjt); get it as GGUF or convert again";
        }
    }
    if (starts("version https://git-lfs")) {
        std::string size;
        if (const auto at = text.find("\nsize "); at != std::string_view::npos) {
            auto digits = text.substr(at + 6);
            digits = digits.substr(0, digits.find_first_not_of("0123456789"));
            if (const auto bytes = parse_number<std::uint64_t>(digits)) size = concat(" (size ", *bytes, ")");
        }
        return concat("a git-lfs pointer", size, "; run 'git lfs pull' or download the file itself");
    }
    const std::string_view binary[][2] = {
        {"PK\x03\x04", "a zip archive, perhaps a PyTorch checkpoint; convert the model to GGUF"},
        {"\x1f\x8b", "a gzip archive; unpack it first"},
        {"\x28\xb5\x2f\xfd", "a zstd archive; unpack it first"},
        {std::string_view("\xfd"
                          "7zXZ\0",
                          6),
         "an xz archive; unpack it first"},
        {"BZh", "a bzip2 archive; unpack it first"},
        {"7z\xbc\xaf\x27\x1c", "a 7-zip archive; unpack it first"},
        {"\x89HDF", "an HDF5 file, perhaps a Keras model; convert the model to GGUF"},
        {"\x7f"
         "ELF",
         "a program"},
        {"MZ", "a program, perhaps a llamafile; extract the .gguf from it"},
        {"%PDF", "a PDF document"},
        {"TFL3", "a TensorFlow Lite model; convert the model to GGUF"},
        {"RIFF", "a sound or picture file"},
        {"\x89PNG", "a picture"},
    };
    for (const auto& [magic, kind] : binary) {
        if (starts(magic)) return std::string(kind);
    }
    if (text.size() >= 262 && text.substr(257, 5) == "ustar") return "a tar archive; unpack it first";
    // Pickle: PROTO opcode, version 2 to 5, then an opcode of what PyTorch writes.
    if (text.size() > 2 && text[0] == '\x80' && text[1] >= 2 && text[1] <= 5) {
        return "a Python pickle, perhaps a PyTorch checkpoint; convert the model to GGUF";
    }
    // safetensors: the length of a JSON header in 8 bytes, then the JSON.
    if (text.size() > 9 && text[8] == '{' && text.substr(5, 3) == std::string_view("\0\0\0", 3)) {
        return "a safetensors file; convert the model to GGUF";
    }
    std::string_view body = text.substr(0, 256);
    if (body.starts_with("\xef\xbb\xbf")) body.remove_prefix(3);
    if (const auto first = body.find_first_not_of(" \t\r\n"); first != std::string_view::npos)
        body.remove_prefix(first);
    const auto is_tag = [&](std::string_view tag) {
        if (body.size() < tag.size()) return false;
        for (std::size_t i = 0; i < tag.size(); ++i) {
            const char lower = body[i] >= 'A' && body[i] <= 'Z' ? static_cast<char>(body[i] + 32) : body[i];
            if (lower != tag[i]) return false;
        }
        return true;
    };
    if (is_tag("<!doctype") || is_tag("<html") || is_tag("<head")) {
        return "an HTML page, perhaps the answer of a failed download; download the file again";
    }
    if (body.starts_with('{') || body.starts_with('['))
        return "JSON text, perhaps a config.json; choose the .gguf file";
    bool plain = !body.empty();
    for (const char c : body) {
        const auto byte = static_cast<unsigned char>(c);
        plain = plain && (byte >= 0x20 || byte == '\n' || byte == '\r' || byte == '\t');
    }
    bool zeros = !text.empty();
    for (const char c : text) zeros = zeros && c == '\0';
    if (zeros) return "a run of zero bytes, perhaps a download that was never filled in; download the file again";
    if (plain && text.size() >= 16) return "a text";
    return {};
}

}  // namespace colibri::gguf
