// One GGUF container's contents, and the rules for names and alignment that readers and writers share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

#include "colibri/gguf/metadata.hpp"
#include "colibri/gguf/tensor_info.hpp"

namespace colibri::gguf {

inline constexpr std::uint64_t default_alignment = 32;
inline constexpr std::size_t max_key_size = 65535;

/// Where one file of a model is and how it is laid out.
struct part {
    std::filesystem::path path;
    std::uint64_t size = 0;         ///< bytes of the file
    std::uint64_t data_offset = 0;  ///< where tensor data begins
    std::uint64_t alignment = default_alignment;
    std::uint32_t version = 3;
};

/// One container's contents; tensor names are unique, inside the file, aligned, and don't overlap.
struct container {
    part where;
    metadata meta;
    std::vector<tensor_info> tensors;
};

namespace detail {

/// Bytes of the well-formed UTF-8 character (no surrogate, no overlong form) that `text` begins with; 0 if there is
/// none.
[[nodiscard]] constexpr std::size_t utf8_length(std::string_view text) noexcept {
    if (text.empty()) return 0;
    const auto lead = static_cast<unsigned char>(text[0]);
    const std::size_t length = lead < 0x80   ? 1
                               : lead < 0xc2 ? 0
                               : lead < 0xe0 ? 2
                               : lead < 0xf0 ? 3
                               : lead < 0xf5 ? 4
                                             : 0;
    if (length > text.size()) return 0;
    for (std::size_t k = 1; k < length; ++k) {
        const auto next = static_cast<unsigned char>(text[k]);
        const unsigned char low = k > 1 ? 0x80 : lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
        const unsigned char high = k > 1 ? 0xbf : lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
        if (next < low || next > high) return 0;
    }
    return length;
}

/// Whether bytes are well-formed UTF-8.
[[nodiscard]] constexpr bool is_utf8(std::string_view text) noexcept {
    while (!text.empty()) {
        const std::size_t length = utf8_length(text);
        if (length == 0) return false;
        text.remove_prefix(length);
    }
    return true;
}

/// Refuses a key or tensor name that has control characters or isn't UTF-8.
[[nodiscard]] inline result<void> check_name(std::string_view what, std::string_view text, std::uint64_t at) {
    if (text.empty()) return error{errc::bad_value, concat("empty ", what, " (length 0)"), at};
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte < 0x20 || byte == 0x7f) {
            return error{errc::bad_value, concat("the ", what, " ", quoted(text), " has a control character"), at};
        }
    }
    if (!is_utf8(text)) return error{errc::bad_utf8, concat("the ", what, " ", quoted(text), " is not UTF-8"), at};
    return {};
}

/// The alignment that metadata names, or the default one. Errors: bad_type (it must be u32), bad_alignment.
[[nodiscard]] inline result<std::uint64_t> read_alignment(const metadata& meta) {
    // A multiple of 8 by the format's text; that it is a power of two is only some readers' rule.
    constexpr std::uint64_t most = std::uint64_t{1} << 30;
    constexpr std::string_view key = "general.alignment";
    const value* found = meta.find(key);
    if (found == nullptr) return default_alignment;
    if (found->type() != value_type::u32) {
        return error{errc::bad_type,
                     concat("the metadata key ", quoted(key), " must be of type u32, but is ", name(found->type()))};
    }
    auto alignment = meta.get<std::uint64_t>(key);
    if (alignment && (*alignment == 0 || *alignment % 8 != 0 || *alignment > most)) {
        return error{errc::bad_alignment, concat("the metadata key ", quoted(key), " is ", *alignment,
                                                 ", not a multiple of 8 from 8 to ", most)};
    }
    return alignment;
}

}  // namespace detail
}  // namespace colibri::gguf
