// tokenizer.json: its vocabulary and merges kept small, everything else as a tree.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "colibri/convert/json.hpp"
#include "colibri/convert/sentencepiece.hpp"

namespace colibri::convert {

/// A token that is cut out of the text before anything else.
struct added_token {
    std::uint32_t id = 0;
    std::string text;
    bool special = false;
    bool strips = false;  ///< it swallows white space beside it, or wants to be a word of its own
};

/// What a tokenizer.json says.
struct tokenizer_json {
    json rest;                        ///< the whole file, but "vocab" and "merges" of "model" are null
    std::vector<std::string> vocab;   ///< of a BPE model, by id; an empty text where there is none
    std::vector<std::string> merges;  ///< "left right"
    std::vector<added_token> added;

    /// A member of "model", or null.
    [[nodiscard]] const json& model(std::string_view key) const { return member(member(rest, "model"), key); }
    /// A member of the file, or null.
    [[nodiscard]] const json& get(std::string_view key) const { return member(rest, key); }
    [[nodiscard]] static const json& member(const json& object, std::string_view key) {
        static const json nothing;
        if (!object.is_object()) return nothing;
        const auto at = object.find(key);
        return at == object.end() ? nothing : *at;
    }
};

/// Reads a file of at most 256 MiB; memory beside the file: the tokens' and merges' texts. Errors: not_found, io, limit,
/// bad_utf8, bad_value, bad_type, bad_count, duplicate; unsupported (a model that is no BPE).
[[nodiscard]] inline result<tokenizer_json> read_tokenizer_json(const std::filesystem::path& path);

namespace detail {

/// Keeps what is inside model.vocab and model.merges to itself and hands all else to a json_builder.
class tokenizer_events : public json_events {
public:
    json_builder tree;
    std::vector<std::pair<std::uint32_t, std::string>> vocab;
    std::vector<std::string> merges;

    bool null() { return aside() ? odd() : pass(tree.null()); }
    bool boolean(bool value) { return aside() ? odd() : pass(tree.boolean(value)); }
    bool number_integer(json::number_integer_t value) {
        if (!aside()) return pass(tree.number_integer(value));
        return value < 0 ? odd() : number_unsigned(static_cast<json::number_unsigned_t>(value));
    }
    bool number_unsigned(json::number_unsigned_t value) {
        if (!aside()) return pass(tree.number_unsigned(value));
        if (where_ != section::vocab || inside_ != 1) return odd();
        if (value >= max_pieces) return refuse(errc::bad_value, concat("the token ", quoted(token_, 40), " has the id ", value));
        vocab.emplace_back(static_cast<std::uint32_t>(value), std::move(token_));
        return true;
    }
    bool number_float(json::number_float_t value, const std::string& digits) {
        return aside() ? odd() : pass(tree.number_float(value, digits));
    }
    bool string(std::string& value) {
        if (!aside()) return pass(tree.string(value));
        if (where_ != section::merges) return odd();
        if (inside_ == 1) return add_merge(std::move(value));
        if (parts_ == 2) return odd();
        if (value.find(' ') != std::string::npos) return refuse(errc::unsupported, "a merge has a part with a space in it");
        (parts_++ == 0 ? token_ : (token_ += ' ')) += value;
        return true;
    }
    bool start_object(std::size_t count) { return start(true, count); }
    bool start_array(std::size_t count) { return start(false, count); }
    bool end_object() { return end(true); }
    bool end_array() { return end(false); }
    bool key(std::string& name) {
        if (aside()) {
            token_ = std::move(name);
            return true;
        }
        if (depth_ == 1) in_model_ = name == "model";
        next_ = depth_ != 2 || !in_model_ ? section::none
                : name == "vocab"         ? section::vocab
                : name == "merges"        ? section::merges
                                          : section::none;
        return pass(tree.key(name));
    }

private:
    enum class section : std::uint8_t { none, vocab, merges };

    [[nodiscard]] bool aside() const noexcept { return where_ != section::none; }
    bool odd() { return refuse(errc::bad_type, "its vocabulary or merges are not of the form that BPE models have"); }
    bool pass(bool ok) {
        if (!ok && tree.problem) problem = tree.problem;
        return ok;
    }
    bool add_merge(std::string merge) {
        if (merges.size() >= max_pieces) return refuse(errc::limit, concat("there are more than ", max_pieces, " merges"));
        merges.push_back(std::move(merge));
        return true;
    }
    bool start(bool object, std::size_t count) {
        if (aside()) {
            if (where_ != section::merges || object || inside_ != 1) return odd();
            ++inside_;
            parts_ = 0;
            token_.clear();
            return true;
        }
        // A Unigram vocabulary is an array; it stays in the tree's place as a null, and the kind of model tells.
        if (next_ != section::none) {
            if (object != (next_ == section::vocab))
                return refuse(errc::unsupported, "its model is no BPE; only BPE models can be converted");
            where_ = std::exchange(next_, section::none);
            inside_ = 1;
            return pass(tree.null());
        }
        ++depth_;
        return pass(object ? tree.start_object(count) : tree.start_array(count));
    }
    bool end(bool object) {
        if (!aside()) {
            --depth_;
            return pass(object ? tree.end_object() : tree.end_array());
        }
        if (--inside_ == 0) {
            where_ = section::none;
            return true;
        }
        return parts_ == 2 ? add_merge(std::move(token_)) : odd();
    }

    unsigned depth_ = 0, inside_ = 0, parts_ = 0;
    section where_ = section::none, next_ = section::none;
    bool in_model_ = false;
    std::string token_;
};

/// The tokens of "added_tokens" (or of what has its form). Errors: bad_type.
[[nodiscard]] inline result<added_token> read_added(const json& entry, std::uint64_t id) {
    const auto wrong = [](std::string_view what) {
        return error{errc::bad_type, concat("an added token has no ", what, " that can be used")};
    };
    if (id >= max_pieces) return wrong("id");
    const json& text = tokenizer_json::member(entry, "content");
    if (!text.is_string()) return wrong("text");
    const auto is = [&](std::string_view key) {
        const json& flag = tokenizer_json::member(entry, key);
        return flag.is_boolean() && flag.get<bool>();
    };
    return added_token{static_cast<std::uint32_t>(id), text.get<std::string>(), is("special"),
                       is("lstrip") || is("rstrip") || is("single_word")};
}

}  // namespace detail

inline result<tokenizer_json> read_tokenizer_json(const std::filesystem::path& path) {
    const auto within = [&](error e) { return std::move(e).within(quoted(path.string())); };
    detail::tokenizer_events events;
    {
        auto text = read_text_file(path, std::uint64_t{256} << 20);
        if (!text) return std::move(text).error();
        if (auto ok = read_json(*text, "the file", events); !ok) return within(std::move(ok).error());
    }
    tokenizer_json out;
    out.rest = std::move(events.tree).take();
    if (!out.get("model").is_object()) return within({errc::bad_type, "it has no 'model'"});
    if (out.model("type").is_string() && out.model("type") != "BPE") {
        return within({errc::unsupported, concat("its model is of the kind ", quoted(out.model("type").get<std::string>(), 40),
                                                 "; only BPE models can be converted")});
    }
    if (events.vocab.empty()) return within({errc::bad_count, "its vocabulary is empty"});
    std::uint32_t largest = 0;
    for (const auto& [id, text] : events.vocab) largest = std::max(largest, id);
    if (largest >= 2 * events.vocab.size() + 65536)
        return within({errc::bad_value, concat("its ids go up to ", largest, " for ", events.vocab.size(), " tokens")});
    out.vocab.resize(largest + 1);
    for (auto& [id, text] : events.vocab) {
        if (!out.vocab[id].empty()) return within({errc::duplicate, concat("two tokens have the id ", id)});
        if (text.empty()) return within({errc::bad_value, concat("the token ", id, " has no text")});
        out.vocab[id] = std::move(text);
    }
    out.merges = std::move(events.merges);
    for (const auto& entry : out.get("added_tokens")) {
        const json& id = tokenizer_json::member(entry, "id");
        auto token = detail::read_added(entry, id.is_number_unsigned() ? id.get<std::uint64_t>() : ~std::uint64_t{0});
        if (!token) return within(std::move(token).error());
        out.added.push_back(std::move(*token));
    }
    return out;
}

}  // namespace colibri::convert
