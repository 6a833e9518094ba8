// Text to token ids and back, as the model's own file says.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "colibri/text/bpe.hpp"
#include "colibri/text/end_tokens.hpp"
#include "colibri/text/special_tokens.hpp"
#include "colibri/text/spm.hpp"
#include "colibri/text/unicode.hpp"
#include "colibri/text/utf8.hpp"
#include "colibri/text/vocabulary.hpp"

namespace colibri::text {

/// What the caller knows better than the file.
struct tokenizer_options {
    std::string pre;  ///< name of the pre-tokenizer instead of `tokenizer.ggml.pre`; empty: as the file says
};

/// How one text is encoded.
struct encode_options {
    bool add_special = true;     ///< put BOS before and EOS behind where the model wants them
    bool parse_special = false;  ///< the texts of control tokens mean these tokens
};

/// A part of a text. In trusted parts (a template's own text) the texts of control tokens mean these tokens.
struct piece {
    std::string_view text;
    bool trusted;
};

/// A model's tokenizer. Immutable after `open`; threads may share it.
class tokenizer {
public:
    /// Reads the keys `tokenizer.ggml.*` (and `general.name`, which alone tells that Phi 3's control tokens swallow the
    /// white space to their right). Keeps nothing of `meta`. Errors: missing_key, bad_type, bad_count, bad_value, limit
    /// (each names the key); unsupported (a kind of vocabulary or a pre-tokenizer that Colibri doesn't know).
    [[nodiscard]] static result<tokenizer> open(const gguf::metadata& meta, const tokenizer_options& options = {});

    /// Ids of `text`, any bytes. User-defined tokens are always recognised, control tokens with `parse_special` only.
    [[nodiscard]] std::vector<token_id> encode(std::string_view text, const encode_options& options = {}) const;

    /// Ids of all pieces joined: words may span pieces, but a control token is recognised only where all of its text is
    /// trusted. Equal to `encode(joined, {add_special, true})` if no untrusted piece has part in the text of a control
    /// token.
    [[nodiscard]] std::vector<token_id> encode(std::span<const piece> pieces, bool add_special) const;

    /// What the token adds to a text: bytes, which needn't be whole characters. Empty for ids outside the vocabulary
    /// and unused tokens. A view of this object.
    [[nodiscard]] std::string_view bytes(token_id id) const noexcept {
        return contains(id) ? vocab_.bytes[static_cast<std::size_t>(id)] : std::string_view{};
    }

    /// The bytes of all tokens joined, control and unknown tokens only with `render_special`. Where encoding puts a
    /// space before the text, one is taken from the front of the result.
    [[nodiscard]] std::string decode(std::span<const token_id> ids, bool render_special = true) const;

    /// Number of tokens; ids are 0 to size() - 1.
    [[nodiscard]] std::size_t size() const noexcept { return vocab_.size(); }
    [[nodiscard]] bool contains(token_id id) const noexcept { return id >= 0 && static_cast<std::size_t>(id) < size(); }
    /// Kind of the token; `undefined` for ids outside the vocabulary.
    [[nodiscard]] token_type type(token_id id) const noexcept {
        return contains(id) ? vocab_.types[static_cast<std::size_t>(id)] : token_type::undefined;
    }
    /// True for control and unknown tokens: text that a user types never becomes one.
    [[nodiscard]] bool is_control(token_id id) const noexcept {
        return type(id) == token_type::control || type(id) == token_type::unknown;
    }
    /// True if the token ends an answer (see end_tokens).
    [[nodiscard]] bool is_end_of_generation(token_id id) const noexcept {
        return std::binary_search(end_tokens_.begin(), end_tokens_.end(), id);
    }
    [[nodiscard]] std::span<const token_id> end_of_generation() const noexcept { return end_tokens_; }

    /// The token with exactly these bytes (special tokens first), or `no_token`.
    [[nodiscard]] token_id find(std::string_view text) const noexcept {
        const token_id special = all_special_.find(text);
        return special != no_token ? special : vocab_.find_word(text);
    }

    [[nodiscard]] const special_ids& special() const noexcept { return vocab_.special; }
    [[nodiscard]] token_id bos() const noexcept { return vocab_.special.bos; }
    [[nodiscard]] token_id eos() const noexcept { return vocab_.special.eos; }
    [[nodiscard]] token_id eot() const noexcept { return vocab_.special.eot; }
    [[nodiscard]] token_id eom() const noexcept { return vocab_.special.eom; }
    [[nodiscard]] bool adds_bos() const noexcept { return adds_bos_; }
    [[nodiscard]] bool adds_eos() const noexcept { return adds_eos_; }
    [[nodiscard]] bool adds_space_prefix() const noexcept { return adds_space_prefix_; }

    [[nodiscard]] vocabulary_kind kind() const noexcept { return vocab_.kind; }
    /// Name of the pre-tokenizer in use; empty for SentencePiece.
    [[nodiscard]] std::string_view pre() const noexcept { return pre_; }
    /// True if the file doesn't name its pre-tokenizer and "default" is a guess: worth a warning, ids may be wrong.
    [[nodiscard]] bool pre_is_guessed() const noexcept { return pre_guessed_; }

private:
    [[nodiscard]] result<const pre_tokenizer*> choose_pre(const gguf::metadata& meta, const tokenizer_options& options);
    [[nodiscard]] result<void> read_flags(const gguf::metadata& meta, bool bos_by_default, bool prefix_by_default);
    [[nodiscard]] result<void> read_strippers(const gguf::metadata& meta);
    void encode_into(std::string_view text, const std::vector<byte_range>& trusted, bool add_special,
                     std::vector<token_id>& out) const;

    vocabulary vocab_;
    std::variant<bpe_encoder, spm_encoder> encoder_;
    special_tokens all_special_;
    std::vector<token_id> end_tokens_;
    std::vector<token_id> strippers_;  // sorted: tokens that swallow white space to their right
    std::string_view pre_;
    bool pre_guessed_ = false;
    bool adds_bos_ = false, adds_eos_ = false, adds_space_prefix_ = false;
};

inline result<tokenizer> tokenizer::open(const gguf::metadata& meta, const tokenizer_options& options) {
    tokenizer out;
    auto vocab = vocabulary::read(meta);
    if (!vocab) return std::move(vocab).error();
    out.vocab_ = std::move(*vocab);
    const bool spm = out.vocab_.kind == vocabulary_kind::spm;
    bool bos_by_default = spm;
    if (!spm) {
        auto pre = out.choose_pre(meta, options);
        if (!pre) return std::move(pre).error();
        bos_by_default = (*pre)->adds_bos;
        auto encoder = bpe_encoder::read(meta, out.vocab_, **pre);
        if (!encoder) return std::move(encoder).error();
        out.encoder_ = std::move(*encoder);
    }
    if (auto ok = out.read_flags(meta, bos_by_default, spm); !ok) return std::move(ok).error();
    if (spm) out.encoder_ = spm_encoder::make(out.vocab_, out.adds_space_prefix_);
    for (std::size_t i = 0; i < out.size(); ++i) {
        const auto id = static_cast<token_id>(i);
        const bool needs_trust = out.is_control(id);
        if (needs_trust || out.vocab_.types[i] == token_type::user_defined)
            out.all_special_.add(out.vocab_.bytes[i], id, needs_trust);
    }
    out.end_tokens_ = end_tokens(out.vocab_);
    if (spm) {
        if (auto ok = out.read_strippers(meta); !ok) return std::move(ok).error();
    }
    return out;
}

inline result<const pre_tokenizer*> tokenizer::choose_pre(const gguf::metadata& meta,
                                                          const tokenizer_options& options) {
    auto name =
        options.pre.empty() ? meta.get_or<std::string>(detail::keys::pre, {}) : result<std::string>(options.pre);
    if (!name) return std::move(name).error();
    pre_guessed_ = name->empty();
    const pre_tokenizer* found = find_pre_tokenizer(pre_guessed_ ? "default" : std::string_view(*name));
    if (found == nullptr) {
        return error{
            errc::unsupported,
            concat("the pre-tokenizer ", quoted(*name), " (metadata key ", quoted(detail::keys::pre),
                   ") is not known to Colibri; name one that cuts text alike, for example 'llama-bpe' or 'qwen2'")};
    }
    pre_ = found->name;
    return found;
}

inline result<void> tokenizer::read_flags(const gguf::metadata& meta, bool bos_by_default, bool prefix_by_default) {
    namespace keys = detail::keys;
    auto add_bos = meta.get_or<bool>(keys::add_bos, bos_by_default);
    if (!add_bos) return std::move(add_bos).error();
    auto add_eos = meta.get_or<bool>(keys::add_eos, false);
    if (!add_eos) return std::move(add_eos).error();
    auto prefix = meta.get_or<bool>(keys::add_space_prefix, prefix_by_default);
    if (!prefix) return std::move(prefix).error();
    const auto without_id = [&](std::string_view flag, std::string_view key) {
        return error{errc::missing_key,
                     concat("the metadata key ", quoted(flag), " is true, but ", quoted(key), " names no token")};
    };
    if (*add_bos && bos() == no_token && meta.contains(keys::add_bos)) return without_id(keys::add_bos, keys::bos);
    if (*add_eos && eos() == no_token) return without_id(keys::add_eos, keys::eos);
    adds_bos_ = *add_bos && bos() != no_token;
    adds_eos_ = *add_eos;
    adds_space_prefix_ = *prefix && kind() == vocabulary_kind::spm;
    return {};
}

inline result<void> tokenizer::read_strippers(const gguf::metadata& meta) {
    for (const std::string_view key : {"general.name", "general.basename"}) {
        auto name = meta.get_or<std::string>(key, {});
        if (!name) return std::move(name).error();
        for (char& c : *name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
        if (name->find("phi-3") == std::string::npos && name->find("phi3") == std::string::npos) continue;
        constexpr token_id last_without = 32000;  // <|endoftext|>
        for (token_id id = 0; contains(id); ++id) {
            if ((is_control(id) && id > last_without) || bytes(id) == "</s>") strippers_.push_back(id);
        }
        break;
    }
    return {};
}

inline std::vector<token_id> tokenizer::encode(std::string_view text, const encode_options& options) const {
    std::vector<byte_range> trusted;
    if (options.parse_special && !text.empty()) trusted.push_back({0, text.size()});
    std::vector<token_id> out;
    encode_into(text, trusted, options.add_special, out);
    return out;
}

inline std::vector<token_id> tokenizer::encode(std::span<const piece> pieces, bool add_special) const {
    std::string whole;
    std::vector<byte_range> trusted;
    for (const piece& one : pieces) {
        const std::size_t begin = whole.size();
        whole += one.text;
        if (!one.trusted || one.text.empty()) continue;
        if (!trusted.empty() && trusted.back().end == begin) {
            trusted.back().end = whole.size();
        } else {
            trusted.push_back({begin, whole.size()});
        }
    }
    std::vector<token_id> out;
    encode_into(whole, trusted, add_special, out);
    return out;
}

inline void tokenizer::encode_into(std::string_view text, const std::vector<byte_range>& trusted, bool add_special,
                                   std::vector<token_id>& out) const {
    if (add_special && adds_bos_) out.push_back(bos());
    std::visit(
        [&](const auto& encoder) {
            typename std::remove_cvref_t<decltype(encoder)>::memory work;
            const auto plain = [&](std::string_view part) { encoder.encode(vocab_, part, out, work); };
            const auto special = [&](token_id id, std::size_t end) {
                out.push_back(id);
                if (std::binary_search(strippers_.begin(), strippers_.end(), id)) {
                    for (; end < text.size(); end += decode_utf8(text, end).size) {
                        if (!is_white_space(decode_utf8(text, end).value)) break;
                    }
                }
                return end;
            };
            all_special_.cut(text, trusted, plain, special);
        },
        encoder_);
    if (add_special && adds_eos_) out.push_back(eos());
}

inline std::string tokenizer::decode(std::span<const token_id> ids, bool render_special) const {
    std::string out;
    for (const token_id id : ids) {
        if (render_special || !is_control(id)) out += bytes(id);
    }
    if (adds_space_prefix_ && out.starts_with(' ')) out.erase(0, 1);
    return out;
}

}  // namespace colibri::text
