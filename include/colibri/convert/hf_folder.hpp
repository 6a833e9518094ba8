// The small files of a Hugging Face folder.
#pragma once

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "colibri/convert/json.hpp"

namespace colibri::convert {

/// The JSON file of that name, or null where there is none. Errors: as read_json_file, and bad_type if it is no object.
[[nodiscard]] inline result<json> read_optional_json(const std::filesystem::path& folder, std::string_view name) {
    const auto path = folder / name;
    std::error_code problem;
    if (!std::filesystem::exists(path, problem)) return json();
    auto tree = read_json_file(path);
    if (tree && !tree->is_object())
        return error{errc::bad_type, "the file is no JSON object", error::no_offset, quoted(path.string())};
    return tree;
}

/// Reads values of one JSON object (a config.json) and remembers the first problem.
class config_reader {
public:
    /// `name`: what errors call the object.
    config_reader(const json& object, std::string name) : object_(&object), name_(std::move(name)) {}

    /// The value, or null where it is missing or null.
    [[nodiscard]] const json* find(std::string_view key) const {
        if (!object_->is_object()) return nullptr;
        const auto at = object_->find(key);
        return at == object_->end() || at->is_null() ? nullptr : &*at;
    }
    [[nodiscard]] bool has(std::string_view key) const { return find(key) != nullptr; }

    /// A whole number from `least` to `most`; `otherwise` where it is missing, an error if there is none.
    [[nodiscard]] std::uint32_t count(std::string_view key, std::optional<std::uint32_t> otherwise = {}, std::uint32_t least = 1,
                                      std::uint32_t most = std::numeric_limits<std::int32_t>::max()) {
        const json* value = find(key);
        if (value == nullptr) {
            if (!otherwise) fail(errc::missing_key, key, "is missing");
            return otherwise.value_or(least);
        }
        if (value->is_number_unsigned() && value->get<std::uint64_t>() >= least && value->get<std::uint64_t>() <= most)
            return static_cast<std::uint32_t>(value->get<std::uint64_t>());
        fail(errc::bad_value, key, concat("is ", shown(*value), ", not a whole number from ", least, " to ", most));
        return least;
    }
    /// A finite number.
    [[nodiscard]] double number(std::string_view key, std::optional<double> otherwise = {}) {
        const json* value = find(key);
        if (value == nullptr) {
            if (!otherwise) fail(errc::missing_key, key, "is missing");
            return otherwise.value_or(0.0);
        }
        if (value->is_number() && std::isfinite(value->get<double>())) return value->get<double>();
        fail(errc::bad_type, key, concat("is ", shown(*value), ", not a number"));
        return 0.0;
    }
    [[nodiscard]] bool truth(std::string_view key, bool otherwise) {
        const json* value = find(key);
        if (value == nullptr) return otherwise;
        if (value->is_boolean()) return value->get<bool>();
        fail(errc::bad_type, key, concat("is ", shown(*value), ", not true or false"));
        return otherwise;
    }
    [[nodiscard]] std::string text(std::string_view key, std::string_view otherwise = {}) {
        const json* value = find(key);
        if (value == nullptr) return std::string(otherwise);
        if (value->is_string()) return value->get<std::string>();
        fail(errc::bad_type, key, concat("is ", shown(*value), ", not a text"));
        return {};
    }

    /// Says that the value of `key` is wrong: "'key' in config.json MESSAGE".
    void fail(errc code, std::string_view key, std::string_view message) {
        if (!problem_) problem_ = error{code, concat(quoted(key), " in ", name_, " ", message)};
    }
    [[nodiscard]] const std::optional<error>& problem() const noexcept { return problem_; }
    [[nodiscard]] const json& object() const noexcept { return *object_; }
    [[nodiscard]] const std::string& name() const noexcept { return name_; }

    /// A value for a message.
    [[nodiscard]] static std::string shown(const json& value) {
        return escaped(value.dump(-1, ' ', false, json::error_handler_t::replace), 80);
    }

private:
    const json* object_;
    std::string name_;
    std::optional<error> problem_;
};

}  // namespace colibri::convert
