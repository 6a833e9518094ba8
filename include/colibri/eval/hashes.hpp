// Short names for models and vocabularies, to notice that files don't belong together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "colibri/core/concat.hpp"
#include "colibri/gguf/file.hpp"
#include "colibri/text/tokenizer.hpp"

namespace colibri::eval {

/// FNV-1a of bytes, going on from `seed`.
[[nodiscard]] inline std::uint64_t hash_bytes(std::span<const std::byte> bytes, std::uint64_t seed = 0xcbf29ce484222325u) noexcept {
    for (const std::byte b : bytes) seed = (seed ^ static_cast<std::uint64_t>(b)) * 0x100000001b3u;
    return seed;
}

/// Hash of all tokens of a vocabulary in order.
[[nodiscard]] inline std::uint64_t hash_of(const text::tokenizer& vocabulary) {
    std::uint64_t hash = hash_bytes({});
    for (std::size_t i = 0; i < vocabulary.size(); ++i) {
        const auto token = vocabulary.bytes(static_cast<text::token_id>(i));
        const auto length = static_cast<std::uint32_t>(token.size());
        hash = hash_bytes(std::as_bytes(std::span(&length, 1)), hash);
        hash = hash_bytes(std::as_bytes(std::span(token.data(), token.size())), hash);
    }
    return hash;
}

/// Hash of what a model's file says of itself: metadata, and its tensors' names, types and places.
[[nodiscard]] inline std::uint64_t hash_of(const gguf::file& file) {
    std::string all;
    for (const auto& [key, value] : file.meta().entries()) {
        all += key;
        value.encode(all);
    }
    for (const auto& tensor : file.tensors()) {
        all += concat(tensor.name, ' ', static_cast<std::uint32_t>(tensor.type), ' ', tensor.offset, ' ', tensor.bytes, '\n');
    }
    return hash_bytes(std::as_bytes(std::span(all.data(), all.size())));
}

}  // namespace colibri::eval
