// A model's chat templates: in tokenizer_config.json, as one or as a list, or in files of their own.
#pragma once

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "colibri/convert/hf_folder.hpp"
#include "colibri/convert/tokenizer_json.hpp"
#include "colibri/gguf/metadata.hpp"

namespace colibri::convert {

/// Templates by name; the usual one is called "default". Files win over the configuration, as they do in the source's own
/// software. Errors: those of reading; bad_type (a template that is no text).
[[nodiscard]] inline result<std::map<std::string, std::string>> read_chat_templates(const std::filesystem::path& folder,
                                                                                    const json& tokenizer_config);

/// Writes `tokenizer.chat_template`, and the others as `tokenizer.chat_template.NAME` with a list of their names.
inline void write_chat_templates(const std::map<std::string, std::string>& templates, gguf::metadata& out) {
    std::vector<std::string> others;
    for (const auto& [name, text] : templates) {
        if (name == "default") continue;
        out.set(concat("tokenizer.chat_template.", name), text);
        others.push_back(name);
    }
    if (!others.empty()) out.set("tokenizer.chat_templates", gguf::value::strings(others));
    if (const auto usual = templates.find("default"); usual != templates.end()) out.set("tokenizer.chat_template", usual->second);
}

namespace detail {

/// Names become parts of keys.
[[nodiscard]] inline bool is_template_name(std::string_view name) noexcept {
    return !name.empty() && name.size() <= 64 &&
           name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.") == std::string_view::npos;
}

[[nodiscard]] inline result<void> read_template_member(const json& member, std::map<std::string, std::string>& out) {
    const auto wrong = [] {
        return error{errc::bad_type, "the member 'chat_template' is neither a text nor a list of named texts"};
    };
    if (member.is_null()) return {};
    if (member.is_string()) {
        out["default"] = member.get<std::string>();
        return {};
    }
    if (!member.is_array()) return wrong();
    for (const auto& one : member) {
        const json& name = tokenizer_json::member(one, "name");
        const json& text = tokenizer_json::member(one, "template");
        if (!name.is_string() || !text.is_string() || !is_template_name(name.get_ref<const std::string&>())) return wrong();
        out[name.get<std::string>()] = text.get<std::string>();
    }
    return {};
}

}  // namespace detail

inline result<std::map<std::string, std::string>> read_chat_templates(const std::filesystem::path& folder,
                                                                      const json& tokenizer_config) {
    namespace fs = std::filesystem;
    constexpr std::uint64_t most = std::uint64_t{4} << 20;
    std::map<std::string, std::string> out;
    std::error_code problem;
    if (auto ok = detail::read_template_member(tokenizer_json::member(tokenizer_config, "chat_template"), out); !ok)
        return std::move(ok).error().within(quoted((folder / "tokenizer_config.json").string()));
    auto old = read_optional_json(folder, "chat_template.json");
    if (!old) return std::move(old).error();
    if (auto ok = detail::read_template_member(tokenizer_json::member(*old, "chat_template"), out); !ok)
        return std::move(ok).error().within(quoted((folder / "chat_template.json").string()));
    std::vector<std::pair<std::string, fs::path>> files;
    if (fs::exists(folder / "chat_template.jinja", problem)) files.emplace_back("default", folder / "chat_template.jinja");
    for (const auto& entry : fs::directory_iterator(folder / "additional_chat_templates", problem)) {
        if (entry.path().extension() == ".jinja" && detail::is_template_name(entry.path().stem().string()))
            files.emplace_back(entry.path().stem().string(), entry.path());
    }
    for (const auto& [name, path] : files) {
        auto text = read_text_file(path, most);
        if (!text) return std::move(text).error();
        if (!text::is_utf8(*text))
            return error{errc::bad_utf8, "the template is not UTF-8", error::no_offset, quoted(path.string())};
        out[name] = std::move(*text);
    }
    return out;
}

}  // namespace colibri::convert
