// The tokens of a model: their bytes, kinds and scores, and the ids with a special meaning.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "colibri/core/concat.hpp"
#include "colibri/core/error.hpp"
#include "colibri/core/escape.hpp"
#include "colibri/gguf/metadata.hpp"
#include "colibri/text/byte_alphabet.hpp"
#include "colibri/text/text_index.hpp"

namespace colibri::text {

using token_id = std::int32_t;
inline constexpr token_id no_token = -1;

/// Kinds of tokens, with the numbers of `tokenizer.ggml.token_type`.
enum class token_type : std::uint8_t { undefined, normal, unknown, control, user_defined, unused, byte };

/// Kinds of vocabularies that can be used (`tokenizer.ggml.model`: "llama" and "gpt2").
enum class vocabulary_kind : std::uint8_t {
    spm,  ///< SentencePiece BPE: merges by score, spaces as U+2581, bytes as a last resort
    bpe,  ///< byte-level BPE: merges by rank inside words
};

/// Ids with a special meaning, from the keys `tokenizer.ggml.…_token_id`; `no_token` where a key is missing or says -1.
struct special_ids {
    token_id bos = no_token, eos = no_token, eot = no_token, eom = no_token;
    token_id unknown = no_token, separator = no_token, padding = no_token, mask = no_token;
    token_id fim_prefix = no_token, fim_suffix = no_token, fim_middle = no_token;
    token_id fim_padding = no_token, fim_repository = no_token, fim_separator = no_token;
};

/// Tokens by id. Immutable after `read`.
struct vocabulary {
    vocabulary_kind kind = vocabulary_kind::bpe;
    text_pool bytes;                ///< what each token adds to a text
    std::vector<token_type> types;  ///< as many as tokens
    std::vector<float> scores;      ///< SPM only
    special_ids special;
    text_index words;  ///< the tokens that merging may produce, by bytes

    [[nodiscard]] std::size_t size() const noexcept { return types.size(); }
    /// True if merging may produce the token.
    [[nodiscard]] bool is_word(token_id id) const noexcept {
        const token_type type = types[static_cast<std::size_t>(id)];
        // SentencePiece also arrives at user-defined tokens by merging.
        return type == token_type::normal || type == token_type::undefined ||
               (type == token_type::user_defined && kind == vocabulary_kind::spm);
    }
    /// The word with these bytes, or `no_token`.
    [[nodiscard]] token_id find_word(std::string_view text) const noexcept { return words.find(bytes, text); }

    /// Reads the keys `tokenizer.ggml.*`. Errors: missing_key, bad_type, bad_count, bad_value (each names the key),
    /// unsupported (a kind that Colibri can't use yet).
    [[nodiscard]] static result<vocabulary> read(const gguf::metadata& meta);

private:
    [[nodiscard]] result<void> read_tokens(const gguf::metadata& meta);
    [[nodiscard]] result<void> read_types(const gguf::metadata& meta, std::size_t count);
    [[nodiscard]] result<void> read_scores(const gguf::metadata& meta, std::size_t count);
    [[nodiscard]] result<void> read_special(const gguf::metadata& meta);
};

namespace detail {

namespace keys {
inline constexpr std::string_view model = "tokenizer.ggml.model", tokens = "tokenizer.ggml.tokens",
                                  types = "tokenizer.ggml.token_type", scores = "tokenizer.ggml.scores",
                                  merges = "tokenizer.ggml.merges", pre = "tokenizer.ggml.pre",
                                  bos = "tokenizer.ggml.bos_token_id", eos = "tokenizer.ggml.eos_token_id",
                                  add_bos = "tokenizer.ggml.add_bos_token", add_eos = "tokenizer.ggml.add_eos_token",
                                  add_space_prefix = "tokenizer.ggml.add_space_prefix";
}  // namespace keys

/// The array of texts under `key`. Errors: missing_key, bad_type.
[[nodiscard]] inline result<const gguf::value*> text_array(const gguf::metadata& meta, std::string_view key) {
    const gguf::value* found = meta.find(key);
    if (found == nullptr) return error{errc::missing_key, concat("the metadata key ", quoted(key), " is missing")};
    if (!found->is_array() || (found->element_type() != gguf::value_type::string && found->size() != 0)) {
        return error{errc::bad_type, concat("the metadata key ", quoted(key), " is not an array of texts")};
    }
    return found;
}

[[nodiscard]] inline error wrong_count(std::string_view key, std::size_t count, std::size_t tokens) {
    return {errc::bad_count, concat("the metadata key ", quoted(key), " has ", count, " elements, but ",
                                    quoted(keys::tokens), " has ", tokens)};
}

/// The byte that "<0x0A>" stands for, or -1.
[[nodiscard]] inline int byte_token_value(std::string_view text) noexcept {
    if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return -1;
    int value = 0;
    for (const char c : text.substr(3, 2)) {
        const int digit = c >= '0' && c <= '9'   ? c - '0'
                          : c >= 'A' && c <= 'F' ? c - 'A' + 10
                          : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                                 : -1;
        if (digit < 0) return -1;
        value = value * 16 + digit;
    }
    return value;
}

/// SentencePiece's mark for a space.
inline constexpr std::string_view space_mark = "\xE2\x96\x81";

/// Appends `text` with each U+2581 as a space.
inline void append_with_spaces(std::string& out, std::string_view text) {
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t found = std::min(text.find(space_mark, at), text.size());
        out += text.substr(at, found - at);
        if (found < text.size()) out += ' ';
        at = found + space_mark.size();
    }
}

}  // namespace detail

inline result<vocabulary> vocabulary::read(const gguf::metadata& meta) {
    auto model = meta.get<std::string>(detail::keys::model);
    if (!model) return std::move(model).error();
    vocabulary out;
    if (*model == "llama") {
        out.kind = vocabulary_kind::spm;
    } else if (*model == "gpt2") {
        out.kind = vocabulary_kind::bpe;
    } else {
        constexpr std::pair<std::string_view, std::string_view> later[] = {
            {"bert", "WordPiece"}, {"t5", "Unigram"}, {"rwkv", "RWKV"}, {"plamo2", "PLaMo 2"}, {"gemma4", "Gemma 4"}};
        for (const auto& [name, kind] : later) {
            if (name != *model) continue;
            return error{errc::unsupported,
                         concat(kind, " vocabularies (", quoted(detail::keys::model), " is ", quoted(name),
                                ") are not supported yet; SentencePiece and byte-level BPE ones are")};
        }
        return error{errc::bad_value, concat("the metadata key ", quoted(detail::keys::model), " is ", quoted(*model),
                                             ", which is no kind of vocabulary that Colibri knows")};
    }
    if (auto ok = out.read_tokens(meta); !ok) return std::move(ok).error();
    if (auto ok = out.read_special(meta); !ok) return std::move(ok).error();
    return out;
}

inline result<void> vocabulary::read_tokens(const gguf::metadata& meta) {
    namespace keys = detail::keys;
    auto tokens = detail::text_array(meta, keys::tokens);
    if (!tokens) return std::move(tokens).error();
    const gguf::value& texts = **tokens;
    const std::size_t count = texts.size();
    if (count == 0 || count > static_cast<std::size_t>(std::numeric_limits<token_id>::max())) {
        return error{errc::bad_count,
                     concat("the metadata key ", quoted(keys::tokens), " has ", count, " elements; a model has 1 to ",
                            std::numeric_limits<token_id>::max(), " tokens")};
    }
    if (auto ok = read_types(meta, count); !ok) return ok;
    if (kind == vocabulary_kind::spm) {
        if (auto ok = read_scores(meta, count); !ok) return ok;
    }
    bytes.reserve(count, 0);
    words.reserve(bytes, count);
    std::string buffer;
    for (std::size_t i = 0; i < count; ++i) {
        const std::string_view text = texts.text_at(i);
        buffer.clear();
        switch (types[i]) {
            case token_type::control:
            case token_type::unknown:
            case token_type::user_defined: buffer = text; break;
            case token_type::unused: break;
            case token_type::byte: {
                const int value = detail::byte_token_value(text);
                if (value < 0) {
                    return error{errc::bad_value, concat("token ", i, " of ", quoted(keys::tokens),
                                                         " is a byte by its type, but its text ", quoted(text, 40),
                                                         " is not of the form <0x0A>")};
                }
                buffer += static_cast<char>(static_cast<unsigned char>(value));
                break;
            }
            default:
                if (kind == vocabulary_kind::spm) {
                    detail::append_with_spaces(buffer, text);
                } else {
                    append_spelled_bytes(buffer, text);
                }
        }
        if (!bytes.fits(buffer.size())) {
            return error{errc::limit, concat("the texts under ", quoted(keys::tokens), " are larger than 4 GiB")};
        }
        bytes.add(buffer);
        if (is_word(static_cast<token_id>(i)) && !buffer.empty()) words.insert(bytes, static_cast<token_id>(i));
    }
    return {};
}

inline result<void> vocabulary::read_types(const gguf::metadata& meta, std::size_t count) {
    namespace keys = detail::keys;
    if (!meta.contains(keys::types)) {
        types.assign(count, token_type::normal);
        return {};
    }
    auto numbers = meta.get_array<std::int64_t>(keys::types);
    if (!numbers) return std::move(numbers).error();
    if (numbers->size() != count) return detail::wrong_count(keys::types, numbers->size(), count);
    types.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
        const std::int64_t number = (*numbers)[i];
        if (number < 0 || number > static_cast<std::int64_t>(token_type::byte)) {
            return error{errc::bad_value, concat("element ", i, " of ", quoted(keys::types), " is ", number,
                                                 ", which is no type of token (0 to 6)")};
        }
        types.push_back(static_cast<token_type>(number));
    }
    return {};
}

inline result<void> vocabulary::read_scores(const gguf::metadata& meta, std::size_t count) {
    namespace keys = detail::keys;
    auto numbers = meta.get_array<float>(keys::scores);
    if (!numbers) return std::move(numbers).error();
    if (numbers->size() != count) return detail::wrong_count(keys::scores, numbers->size(), count);
    for (std::size_t i = 0; i < count; ++i) {
        if (std::isnan((*numbers)[i])) {
            return error{errc::bad_value, concat("element ", i, " of ", quoted(keys::scores), " is not a number")};
        }
    }
    scores = std::move(*numbers);
    return {};
}

inline result<void> vocabulary::read_special(const gguf::metadata& meta) {
    const std::pair<std::string_view, token_id*> places[] = {{"prefix", &special.fim_prefix},
                                                             {"suffix", &special.fim_suffix},
                                                             {"middle", &special.fim_middle},  // old names
                                                             {"bos", &special.bos},
                                                             {"eos", &special.eos},
                                                             {"eot", &special.eot},
                                                             {"eom", &special.eom},
                                                             {"unknown", &special.unknown},
                                                             {"seperator", &special.separator},  // spelled so in files
                                                             {"padding", &special.padding},
                                                             {"mask", &special.mask},
                                                             {"fim_pre", &special.fim_prefix},
                                                             {"fim_suf", &special.fim_suffix},
                                                             {"fim_mid", &special.fim_middle},
                                                             {"fim_pad", &special.fim_padding},
                                                             {"fim_rep", &special.fim_repository},
                                                             {"fim_sep", &special.fim_separator}};
    for (const auto& [name, place] : places) {
        const std::string key = concat("tokenizer.ggml.", name, "_token_id");
        if (!meta.contains(key)) continue;
        auto id = meta.get<std::int64_t>(key);
        if (!id) return std::move(id).error();
        if (*id == -1 || *id == 0xFFFFFFFF) continue;  // some writers say "none" like this
        if (*id < 0 || *id >= static_cast<std::int64_t>(size())) {
            return error{errc::bad_value, concat("the metadata key ", quoted(key), " is ", *id, ", but there are only ",
                                                 size(), " tokens")};
        }
        *place = static_cast<token_id>(*id);
    }
    if (kind == vocabulary_kind::spm) {  // files from before these keys rely on SentencePiece's own names
        for (std::size_t i = 0; i < size(); ++i) {
            const auto id = static_cast<token_id>(i);
            if (types[i] == token_type::control && special.bos == no_token && bytes[i] == "<s>") special.bos = id;
            if (types[i] == token_type::control && special.eos == no_token && bytes[i] == "</s>") special.eos = id;
            if (types[i] == token_type::unknown && special.unknown == no_token) special.unknown = id;
        }
    }
    return {};
}

}  // namespace colibri::text
