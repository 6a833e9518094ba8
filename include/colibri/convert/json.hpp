// JSON from outside: bounded in depth, each key once, errors as values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "colibri/core/error.hpp"
#include "colibri/core/escape.hpp"
#include "colibri/io/file_reader.hpp"
#include "colibri/text/utf8.hpp"

namespace colibri::convert {

using json = nlohmann::json;

/// Deepest nesting that is read; published files need 8.
inline constexpr std::size_t max_json_depth = 64;
/// Most values that a tree may have; published files need a twentieth.
inline constexpr std::size_t max_json_values = std::size_t{1} << 21;

/// Hands the parts of a JSON text to `sax` (nlohmann's interface; its calls return false to stop after `sax.problem` was set).
/// `what` stands for the text in messages; `base` is added to byte offsets. Errors: bad_utf8, bad_value (not JSON), and
/// what `sax` says.
template <class Sax>
[[nodiscard]] result<void> read_json(std::string_view text, std::string_view what, Sax& sax, std::uint64_t base = 0);

/// The whole text as a tree. Errors: bad_utf8, bad_value, duplicate (names the key), limit (too deep or too many values).
[[nodiscard]] inline result<json> parse_json(std::string_view text, std::string_view what);

/// All bytes of a file of at most `most` bytes. Errors: not_found, not_a_file, io, limit.
[[nodiscard]] inline result<std::string> read_text_file(const std::filesystem::path& path, std::uint64_t most);

/// A file as a tree; its name is the context of errors. Errors: as parse_json and read_text_file.
[[nodiscard]] inline result<json> read_json_file(const std::filesystem::path& path, std::uint64_t most = std::uint64_t{32} << 20);

/// What nlohmann's parser calls; a base for readers of one format. Members that aren't overridden refuse what they get.
struct json_events {
    std::optional<error> problem;

    bool refuse(errc code, std::string message) {
        problem = error{code, std::move(message)};
        return false;
    }
    bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) {
        if (!problem) problem = error{errc::bad_value, "it is no valid JSON", position};
        return false;
    }
    bool binary(json::binary_t&) { return refuse(errc::bad_value, "it holds binary data"); }
};

/// Makes a tree from events.
class json_builder : public json_events {
public:
    [[nodiscard]] json take() && { return std::move(root_); }

    bool null() { return put(nullptr); }
    bool boolean(bool value) { return put(value); }
    bool number_integer(json::number_integer_t value) { return put(value); }
    bool number_unsigned(json::number_unsigned_t value) { return put(value); }
    bool number_float(json::number_float_t value, const std::string&) { return put(value); }
    bool string(std::string& value) { return put(std::move(value)); }
    bool start_object(std::size_t) { return open(json::object()); }
    bool start_array(std::size_t) { return open(json::array()); }
    bool end_object() { return close(); }
    bool end_array() { return close(); }
    bool key(std::string& name) {
        if (open_.back()->contains(name)) {
            return refuse(errc::duplicate, concat("the key ", quoted(name), " is there twice in one object"));
        }
        key_ = name;
        return true;
    }

private:
    template <class Value>
    json* place(Value&& value) {
        if (open_.empty()) {
            root_ = std::forward<Value>(value);
            return &root_;
        }
        json& parent = *open_.back();
        if (parent.is_array()) {
            parent.push_back(std::forward<Value>(value));
            return &parent.back();
        }
        json& slot = parent[key_];
        slot = std::forward<Value>(value);
        return &slot;
    }
    template <class Value>
    bool put(Value&& value) {
        if (!counted()) return false;
        place(json(std::forward<Value>(value)));
        return true;
    }
    bool open(json container) {
        if (open_.size() >= max_json_depth) {
            return refuse(errc::limit, concat("it nests deeper than ", max_json_depth, " levels"));
        }
        if (!counted()) return false;
        open_.push_back(place(std::move(container)));
        return true;
    }
    bool counted() {
        return ++values_ <= max_json_values || refuse(errc::limit, concat("it has more than ", max_json_values, " values"));
    }
    bool close() {
        open_.pop_back();
        return true;
    }

    json root_;
    std::vector<json*> open_;  // an array's elements don't move while a child is open
    std::string key_;
    std::size_t values_ = 0;
};

template <class Sax>
result<void> read_json(std::string_view text, std::string_view what, Sax& sax, std::uint64_t base) {
    for (std::size_t at = 0; at < text.size();) {
        const auto read = text::decode_utf8(text, at);
        if (!read.valid) return error{errc::bad_utf8, concat(what, " is not UTF-8"), base + at};
        at += read.size;
    }
    if (json::sax_parse(text.begin(), text.end(), &sax)) return {};
    error e = sax.problem ? std::move(*sax.problem) : error{errc::bad_value, "it is no valid JSON"};
    if (e.offset != error::no_offset) e.offset += base;
    e.message = concat(what, " can't be used: ", e.message);
    return e;
}

inline result<json> parse_json(std::string_view text, std::string_view what) {
    json_builder builder;
    if (auto ok = read_json(text, what, builder); !ok) return std::move(ok).error();
    return std::move(builder).take();
}

inline result<std::string> read_text_file(const std::filesystem::path& path, std::uint64_t most) {
    auto file = file_reader::open(path);
    if (!file) return std::move(file).error();
    if ((*file)->size() > most) {
        return error{errc::limit, concat("the file has ", (*file)->size(), " bytes, more than the ", most, " that are read"),
                     error::no_offset, quoted(path.string())};
    }
    std::string out(static_cast<std::size_t>((*file)->size()), '\0');
    if (auto ok = (*file)->read_at(0, std::as_writable_bytes(std::span(out))); !ok) return std::move(ok).error();
    return out;
}

inline result<json> read_json_file(const std::filesystem::path& path, std::uint64_t most) {
    auto text = read_text_file(path, most);
    if (!text) return std::move(text).error();
    auto tree = parse_json(*text, "the file");
    if (!tree) return std::move(tree).error().within(quoted(path.string()));
    return tree;
}

}  // namespace colibri::convert
