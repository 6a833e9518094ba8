// A text cut into windows of tokens, as perplexity and importance are measured on.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "colibri/core/error.hpp"
#include "colibri/text/tokenizer.hpp"

namespace colibri::eval {

/// FNV-1a of bytes, going on from `seed`.
[[nodiscard]] inline std::uint64_t hash_bytes(std::span<const std::byte> bytes, std::uint64_t seed = 0xcbf29ce484222325u) noexcept {
    for (const std::byte b : bytes) seed = (seed ^ static_cast<std::uint64_t>(b)) * 0x100000001b3u;
    return seed;
}

/// Tokens in windows of one size, each evaluated as a sequence of its own. The field's windowing: the whole text is tokenized once,
/// a token for the beginning in front if the model wants one; that token then takes the place of each window's first one; a last
/// window that would not be full is dropped.
struct text_windows {
    std::vector<text::token_id> tokens;  ///< count * size of them
    std::uint32_t size = 0;
    std::size_t count = 0;

    /// Errors: invalid_argument (a window below 4 tokens), bad_count (a text that doesn't fill one window, with what is needed).
    [[nodiscard]] static result<text_windows> make(const text::tokenizer& vocabulary, std::string_view text, std::uint32_t size,
                                                   std::size_t most = 0) {
        if (size < 4) return error{errc::invalid_argument, concat("a window of ", size, " tokens; it must have at least 4")};
        text_windows out;
        out.tokens = vocabulary.encode(text, {.add_special = true, .parse_special = false});
        out.size = size;
        out.count = out.tokens.size() / size;
        if (out.count == 0) {
            return error{errc::bad_count, concat("the text has ", out.tokens.size(), " tokens, and one window takes ", size,
                                                 "; give a longer text or a smaller window (-c)")};
        }
        if (most != 0) out.count = std::min(out.count, most);
        out.tokens.resize(out.count * size);
        if (vocabulary.adds_bos()) {
            for (std::size_t i = 0; i < out.count; ++i) out.tokens[i * size] = vocabulary.bos();
        }
        return out;
    }

    [[nodiscard]] std::span<const text::token_id> window(std::size_t i) const noexcept {
        return std::span(tokens).subspan(i * size, size);
    }

    /// Position from which on tokens are scored: the second half, so that each has at least half a window in front.
    [[nodiscard]] std::uint32_t first_scored() const noexcept { return size / 2; }
    /// Tokens of a window that predict a scored successor.
    [[nodiscard]] std::uint32_t scored() const noexcept { return size - 1 - first_scored(); }

    /// Of all tokens and the size: the same for the same text under the same vocabulary.
    [[nodiscard]] std::uint64_t hash() const noexcept {
        return hash_bytes(std::as_bytes(std::span(tokens)), hash_bytes(std::as_bytes(std::span(&size, 1))));
    }
};

}  // namespace colibri::eval
