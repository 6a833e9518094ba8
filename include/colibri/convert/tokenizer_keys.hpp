// A folder's tokenizer as the metadata keys tokenizer.*.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "colibri/convert/chat_templates.hpp"
#include "colibri/convert/hf_folder.hpp"
#include "colibri/convert/pre_rules.hpp"
#include "colibri/convert/space_rules.hpp"
#include "colibri/convert/token_list.hpp"
#include "colibri/text/bpe.hpp"
#include "colibri/text/tokenizer.hpp"

namespace colibri::convert {

/// What becomes of a tokenizer.
struct tokenizer_source {
    std::filesystem::path folder;
    const json* config = nullptr;  ///< config.json
    std::size_t rows = 0;          ///< of the embedding; the vocabulary becomes as long
    std::string pre;               ///< name of the pre-tokenizer in place of the one recognised; empty: recognise it
};

/// Writes the keys, and checks that our own tokenizer reads them. What the caller should know is added to `notes`. Errors: those
/// of reading the files; not_found (no tokenizer); unsupported (a kind of tokenizer or a rule that isn't known; it is quoted);
/// invalid_argument (`pre` is no name).
[[nodiscard]] inline result<void> write_tokenizer(const tokenizer_source& source, gguf::metadata& out,
                                                  std::vector<std::string>& notes);

namespace detail {

/// Whether a tree has an object of this "type" anywhere.
[[nodiscard]] inline const json* find_type(const json& tree, std::string_view type, unsigned depth = 0) {
    if (depth > max_json_depth) return nullptr;
    if (tree.is_object() && text_of(tree, "type") == type) return &tree;
    if (!tree.is_structured()) return nullptr;
    for (const auto& child : tree) {
        if (const json* found = find_type(child, type, depth + 1)) return found;
    }
    return nullptr;
}

class tokenizer_writer {
public:
    tokenizer_writer(const tokenizer_source& source, gguf::metadata& out, std::vector<std::string>& notes)
        : source_(source), out_(out), notes_(notes) {}

    [[nodiscard]] result<void> run() {
        using step = result<void> (tokenizer_writer::*)();
        constexpr step steps[] = {&tokenizer_writer::read_files, &tokenizer_writer::make_tokens, &tokenizer_writer::put_pre,
                                  &tokenizer_writer::put_tokens, &tokenizer_writer::put_special, &tokenizer_writer::check};
        for (const step one : steps) {
            if (auto ok = (this->*one)(); !ok) return ok;
        }
        auto templates = read_chat_templates(source_.folder, config_);
        if (!templates) return std::move(templates).error();
        write_chat_templates(*templates, out_);
        return {};
    }

private:
    [[nodiscard]] result<void> read_files();
    [[nodiscard]] result<void> make_tokens();
    [[nodiscard]] result<void> put_pre();
    [[nodiscard]] result<void> put_tokens();
    [[nodiscard]] result<void> put_special();
    [[nodiscard]] result<void> check();
    [[nodiscard]] result<void> add_from_configs();
    [[nodiscard]] result<const text::pre_tokenizer*> recognise();
    [[nodiscard]] std::optional<bool> normalises();
    [[nodiscard]] text::token_id special(std::string_view name) const;
    void put_template(text::token_id& bos, text::token_id& eos, text::token_id& eot, bool& add_bos, bool& add_eos);
    void note(std::string text) { notes_.push_back(std::move(text)); }
    [[nodiscard]] error within_json(error e) const {
        return std::move(e).within(quoted((source_.folder / "tokenizer.json").string()));
    }

    const tokenizer_source& source_;
    gguf::metadata& out_;
    std::vector<std::string>& notes_;
    json config_, special_map_, generation_;
    std::optional<tokenizer_json> json_;
    std::optional<sentencepiece_model> model_;
    token_list tokens_;
    bool byte_level_ = false;
};

inline result<void> tokenizer_writer::read_files() {
    const std::pair<std::string_view, json*> files[] = {{"tokenizer_config.json", &config_},
                                                        {"special_tokens_map.json", &special_map_},
                                                        {"generation_config.json", &generation_}};
    for (const auto& [name, place] : files) {
        auto tree = read_optional_json(source_.folder, name);
        if (!tree) return std::move(tree).error();
        *place = std::move(*tree);
    }
    std::error_code problem;
    const auto model = source_.folder / "tokenizer.model", file = source_.folder / "tokenizer.json";
    const bool has_model = std::filesystem::exists(model, problem);
    if (std::filesystem::exists(file, problem)) {
        auto read = read_tokenizer_json(file);
        if (read) {
            json_ = std::move(*read);
            byte_level_ = find_type(json_->get("pre_tokenizer"), "ByteLevel") != nullptr ||
                          find_type(json_->get("decoder"), "ByteLevel") != nullptr;
        } else if (read.error().code != errc::unsupported || !has_model) {
            return std::move(read).error();
        }
    } else if (!has_model) {
        return error{errc::not_found, "the folder has neither a tokenizer.json nor a tokenizer.model", error::no_offset,
                     quoted(source_.folder.string())};
    }
    if (byte_level_ || !has_model) return {};
    auto bytes = read_text_file(model, std::uint64_t{64} << 20);
    if (!bytes) return std::move(bytes).error();
    auto read = read_sentencepiece(*bytes);
    if (!read) return std::move(read).error().within(quoted(model.string()));
    if (read->kind != sentencepiece_model::algorithm::bpe) {
        return error{errc::unsupported, "the SentencePiece model is not of the kind BPE, the only one that can be run here",
                     error::no_offset, quoted(model.string())};
    }
    model_ = std::move(*read);
    return {};
}

inline result<void> tokenizer_writer::make_tokens() {
    if (byte_level_) {
        tokens_ = byte_level_tokens(*json_);
    } else if (model_) {
        tokens_ = piece_tokens(*model_);
        for (std::size_t i = 0; i < tokens_.size(); ++i) {
            if (tokens_.types[i] != text::token_type::user_defined) continue;
            std::string plain;
            text::detail::append_with_spaces(plain, tokens_.texts[i]);
            tokens_.texts[i] = std::move(plain);
        }
        if (model_->has_normalization_table || model_->removes_extra_spaces)
            note(
                "tokenizer.model changes texts before it cuts them (Unicode forms or spaces); GGUF can't say that, so unusual texts get other tokens");
    } else {
        const json& fallback = json_->model("byte_fallback");
        if (!fallback.is_boolean() || !fallback.get<bool>()) {
            return within_json({errc::unsupported,
                                "the BPE model is neither byte-level nor does it fall back to bytes, as SentencePiece's do; "
                                "such vocabularies can't be run here"});
        }
        tokens_ = merged_tokens(*json_);
    }
    if (json_) put_added(tokens_, json_->added);
    if (auto ok = add_from_configs(); !ok) return ok;
    const bool strips = json_ && std::ranges::any_of(json_->added, [](const auto& t) { return t.strips; });
    if (strips) note("some added tokens swallow white space beside them or want to be whole words; GGUF can't say that");
    if (const auto gone = tokens_.resize(source_.rows); gone != 0)
        note(concat("the last ", gone, " tokens are left out: the embedding has no rows for them"));
    return {};
}

/// added_tokens_decoder of tokenizer_config.json and added_tokens.json, for what tokenizer.json doesn't have.
inline result<void> tokenizer_writer::add_from_configs() {
    std::vector<added_token> more;
    const json& decoder = tokenizer_json::member(config_, "added_tokens_decoder");
    if (!json_ && decoder.is_object()) {
        for (const auto& [id, entry] : decoder.items()) {
            auto token = read_added(entry, parse_number<std::uint64_t>(id).value_or(~std::uint64_t{0}));
            if (!token) return std::move(token).error().within(quoted((source_.folder / "tokenizer_config.json").string()));
            more.push_back(std::move(*token));
        }
    }
    if (!json_ && more.empty()) {
        auto old = read_optional_json(source_.folder, "added_tokens.json");
        if (!old) return std::move(old).error();
        for (const auto& [text, id] : old->items()) {
            if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= max_pieces)
                return error{errc::bad_type, concat("the token ", quoted(text, 40), " has no usable id"), error::no_offset,
                             quoted((source_.folder / "added_tokens.json").string())};
            more.push_back({id.get<std::uint32_t>(), text, text.size() > 2 && text.front() == '<' && text.back() == '>', false});
        }
    }
    put_added(tokens_, more);
    return {};
}

/// Whether texts become NFC first; nothing if something else happens to them.
inline std::optional<bool> tokenizer_writer::normalises() {
    const json& form = json_->get("normalizer");
    if (form.is_null()) return false;
    if (text_of(form, "type") == "NFC") return true;
    const json& list = tokenizer_json::member(form, "normalizers");
    if (text_of(form, "type") != "Sequence" || !list.is_array()) return std::nullopt;
    for (const auto& one : list) {
        if (text_of(one, "type") != "NFC") return std::nullopt;
    }
    return !list.empty();
}

inline result<const text::pre_tokenizer*> tokenizer_writer::recognise() {
    if (!source_.pre.empty()) {
        if (const auto* named = text::find_pre_tokenizer(source_.pre)) return named;
        return error{errc::invalid_argument, concat("there is no pre-tokenizer ", quoted(source_.pre),
                                                    "; usual ones are llama-bpe, qwen2, gpt-2, tekken")};
    }
    const auto nfc = normalises();
    if (!nfc) return within_json(unknown_rule(json_->get("normalizer"), "it changes texts before they are cut"));
    auto rules = read_pre_rules(json_->get("pre_tokenizer"));
    if (!rules) return within_json(std::move(rules).error());
    const auto found = matching_pre_tokenizers(*rules);
    if (found.empty()) return within_json(unknown_rule(json_->get("pre_tokenizer"), "none of the known ways cuts so"));
    const json& whole = json_->model("ignore_merges");
    const bool whole_words = whole.is_boolean() && whole.get<bool>();
    const text::pre_tokenizer* best = found[0];
    const auto fit = [&](const text::pre_tokenizer& one) {
        return (one.whole_words == whole_words ? 2 : 0) + (one.nfc == *nfc ? 1 : 0);
    };
    for (const auto* one : found) {
        if (fit(*one) > fit(*best)) best = one;
    }
    if (best->nfc != *nfc)
        note(concat("the tokenizer ", *nfc ? "puts texts into" : "doesn't put texts into",
                    " Unicode's form NFC, which the pre-tokenizer ", quoted(best->name), *nfc ? " doesn't" : " does"));
    return best;
}

inline result<void> tokenizer_writer::put_pre() {
    namespace keys = text::detail::keys;
    out_.set(keys::model, byte_level_ ? "gpt2" : "llama");
    if (!byte_level_) {
        if (!source_.pre.empty()) note("the vocabulary is in the manner of SentencePiece, which doesn't cut words first: --pre only lets rules pass that aren't known");
        out_.set(keys::pre, "default");
        return {};
    }
    auto pre = recognise();
    if (!pre) return std::move(pre).error();
    out_.set(keys::pre, (*pre)->name);
    return {};
}

inline result<void> tokenizer_writer::put_tokens() {
    write_tokens(tokens_, out_);
    if (byte_level_ || !json_ || model_) {
        if (model_ && !model_->adds_space_prefix) out_.set(text::detail::keys::add_space_prefix, false);
        return {};
    }
    // With --pre the rules needn't be known, but what they say of a first space counts all the same.
    const auto rules = read_space_rules(json_->get("normalizer"), json_->get("pre_tokenizer"));
    if (!rules && source_.pre.empty()) return within_json(rules.error());
    const bool prepends = rules ? rules->prepended : find_type(json_->get("normalizer"), "Prepend") != nullptr;
    if (!prepends) out_.set(text::detail::keys::add_space_prefix, false);
    return {};
}

/// The id that the configuration gives to a role such as "bos".
inline text::token_id tokenizer_writer::special(std::string_view name) const {
    const auto in_range = [&](const json& id) {
        return id.is_number_unsigned() && id.get<std::uint64_t>() < tokens_.size() ? id.get<text::token_id>() : text::no_token;
    };
    for (const json* tree : {&config_, &special_map_}) {
        const json& value = tokenizer_json::member(*tree, concat(name, "_token"));
        const json& text = value.is_object() ? tokenizer_json::member(value, "content") : value;
        if (!text.is_string()) continue;
        if (const auto id = tokens_.find(text.get_ref<const std::string&>()); id != text::no_token) return id;
    }
    for (const json* tree : {source_.config, const_cast<const json*>(&generation_)}) {
        const json& value = tokenizer_json::member(*tree, concat(name, "_token_id"));
        const json& id = value.is_array() && !value.empty() ? value[0] : value;
        if (in_range(id) != text::no_token) return in_range(id);
    }
    return text::no_token;
}

/// What the tokenizer's post-processor puts around a text.
inline void tokenizer_writer::put_template(text::token_id& bos, text::token_id& eos, text::token_id& eot, bool& add_bos,
                                           bool& add_eos) {
    const json* found = json_ ? find_type(json_->get("post_processor"), "TemplateProcessing") : nullptr;
    if (found == nullptr) return;
    out_.set("tokenizer.ggml.add_sep_token", false);
    const json& single = tokenizer_json::member(*found, "single");
    if (!single.is_array() || single.size() > 64) return;
    std::vector<text::token_id> before, behind;
    bool text_seen = false;
    for (const auto& part : single) {
        if (part.is_object() && part.contains("Sequence")) text_seen = true;
        const json& token = tokenizer_json::member(tokenizer_json::member(part, "SpecialToken"), "id");
        if (token.is_string()) (text_seen ? behind : before).push_back(tokens_.find(token.get_ref<const std::string&>()));
    }
    if (before.size() > 1 || behind.size() > 1)
        note("the tokenizer puts several tokens around a text; the GGUF says only the first before and the first behind");
    // The classes of Llama and Gemma make this part anew from their own flags.
    const auto kind = text_of(config_, "tokenizer_class");
    const bool flags_win = kind.starts_with("Llama") || kind.starts_with("Gemma");
    if (!flags_win || !config_.contains("add_bos_token")) add_bos = !before.empty() && before[0] != text::no_token;
    if (!flags_win || !config_.contains("add_eos_token")) add_eos = !behind.empty() && behind[0] != text::no_token;
    if (add_bos && !before.empty() && before[0] != text::no_token) bos = before[0];
    if (add_eos && !behind.empty() && behind[0] != text::no_token && behind[0] != eos) {
        eot = eos;
        eos = behind[0];
    }
}

inline result<void> tokenizer_writer::put_special() {
    namespace keys = text::detail::keys;
    text::token_id bos = special("bos"), eos = special("eos"), eot = text::no_token;
    bool add_bos = truth_of(config_, "add_bos_token", !byte_level_);
    bool add_eos = truth_of(config_, "add_eos_token", false);
    put_template(bos, eos, eot, add_bos, add_eos);
    const auto put = [&](std::string_view key, text::token_id id) {
        if (id != text::no_token) out_.set(concat("tokenizer.ggml.", key, "_token_id"), static_cast<std::uint32_t>(id));
    };
    put("bos", bos);
    put("eos", eos);
    put("eot", eot);
    put("unknown", special("unk"));
    put("seperator", special("sep"));  // spelled so in files
    put("padding", special("pad"));
    put("cls", special("cls"));
    put("mask", special("mask"));
    if (eos == text::no_token) note("no token ends a text, by the tokenizer's configuration");
    out_.set(keys::add_bos, add_bos && bos != text::no_token);
    out_.set(keys::add_eos, add_eos && eos != text::no_token);
    return {};
}

/// Our own tokenizer must read what was written; and where its way to take whole words isn't the source's, that must not matter.
inline result<void> tokenizer_writer::check() {
    auto opened = text::tokenizer::open(out_);
    if (!opened) {
        auto e = std::move(opened).error();
        e.message = concat("the tokenizer would not be usable: ", e.message);
        return e;
    }
    if (!byte_level_ || !source_.pre.empty()) return {};
    const json& whole = json_->model("ignore_merges");
    const auto* pre = text::find_pre_tokenizer(opened->pre());
    if (pre->whole_words == (whole.is_boolean() && whole.get<bool>())) return {};
    auto vocab = text::vocabulary::read(out_);
    if (!vocab) return std::move(vocab).error();
    const text::pre_tokenizer by_merges{.name = "", .rules = {}};
    auto encoder = text::bpe_encoder::read(out_, *vocab, by_merges);
    if (!encoder) return std::move(encoder).error();
    text::bpe_encoder::memory work;
    std::vector<text::token_id> ids;
    for (std::size_t i = 0; i < vocab->size(); ++i) {
        if (vocab->types[i] != text::token_type::normal) continue;
        ids.clear();
        encoder->encode(*vocab, vocab->bytes[i], ids, work);
        if (ids.size() == 1 && ids[0] == static_cast<text::token_id>(i)) continue;
        return within_json({errc::unsupported, concat("words that are tokens are ", pre->whole_words ? "not " : "",
                                                      "taken whole (ignore_merges), but every known way to cut so does the "
                                                      "other, and for the token ",
                                                      i, " that matters; name a pre-tokenizer with --pre")});
    }
    return {};
}

}  // namespace detail

inline result<void> write_tokenizer(const tokenizer_source& source, gguf::metadata& out, std::vector<std::string>& notes) {
    return detail::tokenizer_writer(source, out, notes).run();
}

}  // namespace colibri::convert
