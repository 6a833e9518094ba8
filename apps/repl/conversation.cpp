#include "repl/conversation.hpp"

#include <nlohmann/json.hpp>

#include "colibri/core/concat.hpp"
#include "colibri/core/escape.hpp"
#include "colibri/text/utf8.hpp"
#include "repl/json_value.hpp"

namespace colibri::repl {
namespace {

using json = nlohmann::ordered_json;

constexpr std::string_view format_name = "colibri-conversation";
constexpr int format_version = 1;

std::optional<std::string> text_of(const json& value) {
    if (value.is_string()) return value.get<std::string>();
    if (value.is_boolean()) return value.get<bool>() ? "on" : "off";
    if (value.is_number_unsigned()) return concat(value.get<std::uint64_t>());
    if (value.is_number_integer()) return concat(value.get<std::int64_t>());
    if (value.is_number_float()) return concat(value.get<double>());
    return std::nullopt;
}

error bad(std::string_view where, std::string_view what) {
    return error{errc::bad_value, concat(what, "; nothing was changed"), error::no_offset, std::string(where)};
}

result<void> load_setting(const std::string& name, const json& value, options& given) {
    const auto* row = find_option(name);
    const std::string where = concat("setting ", quoted(name));
    if (row == nullptr || !row->settable) return bad(where, "is unknown here");
    const bool list =
        std::holds_alternative<std::vector<std::string> options::*>(row->target) || row->name == "logit-bias";
    if (value.is_array() != list) return bad(where, list ? "must be a list" : "must be one value");
    const json values = list ? value : json::array({value});
    for (const auto& each : values) {
        const auto text = text_of(each);
        if (!text) return bad(where, "must be a text, a number, true or false");
        if (auto ok = set_option(given, *row, *text); !ok) return bad(where, ok.error().message);
    }
    return {};
}

result<conversation> load_messages(const json& file) {
    conversation talk;
    if (const auto model = file.find("model"); model != file.end() && model->is_string()) talk.model = *model;
    if (const auto system = file.find("system"); system != file.end() && !system->is_null()) {
        if (!system->is_string()) return bad("\"system\"", "must be a text or null");
        talk.system = system->get<std::string>();
    }
    const auto messages = file.find("messages");
    if (messages == file.end() || !messages->is_array()) return bad("\"messages\"", "must be a list");
    for (std::size_t i = 0; i < messages->size(); ++i) {
        const auto& message = (*messages)[i];
        const std::string where = concat("message ", i + 1);
        const bool shaped = message.is_object() && message.contains("role") && message["role"].is_string() &&
                            message.contains("content") && message["content"].is_string();
        if (!shaped) return bad(where, "must have a \"role\" and a \"content\", both texts");
        chat_message loaded{message["role"], message["content"]};
        if (loaded.role != (i % 2 == 0 ? "user" : "assistant")) {
            return bad(where,
                       concat("has the role ", quoted(loaded.role), "; roles must be user and assistant in turn"));
        }
        talk.messages.push_back(std::move(loaded));
    }
    return talk;
}

json parse(std::string_view text) { return json::parse(text, nullptr, false); }

bool has_marker(const json& file) {
    return file.is_object() && file.contains("format") && file["format"] == format_name;
}

}  // namespace

std::string save_conversation(const conversation& talk, const options& given) {
    json file{{"format", format_name}, {"version", format_version}, {"model", text::replace_ill_formed(talk.model)}};
    file["system"] = talk.system ? json(text::replace_ill_formed(*talk.system)) : json(nullptr);
    file["messages"] = json::array();
    for (const auto& message : talk.messages) {
        file["messages"].push_back({{"role", message.role}, {"content", text::replace_ill_formed(message.content)}});
    }
    file["settings"] = json::object();
    for (const auto& row : all_options()) {
        if (!row.settable) continue;
        const auto values = given_values(given, row);
        if (values.empty()) continue;
        const std::string name(row.name);
        if (std::holds_alternative<std::vector<std::string> options::*>(row.target) || row.name == "logit-bias") {
            file["settings"][name] = values;
        } else {
            file["settings"][name] = json_value(values.front());
        }
    }
    return file.dump(2) + "\n";
}

result<conversation> load_conversation(std::string_view text, options& given) {
    const json file = parse(text);
    if (!has_marker(file)) {
        return error{errc::bad_magic, "this is no conversation that /save has written; nothing was changed"};
    }
    if (!file.contains("version") || file["version"] != format_version) {
        return error{errc::bad_version,
                     concat("the conversation has version ",
                            file.contains("version") ? escaped(file["version"].dump(), 20) : "none",
                            " and this program reads version ", format_version, "; nothing was changed")};
    }
    auto talk = load_messages(file);
    if (!talk) return talk;
    options changed = given;
    for (const auto& row : all_options()) {
        if (row.settable) unset_option(changed, row);
    }
    if (const auto settings = file.find("settings"); settings != file.end()) {
        if (!settings->is_object()) return bad("\"settings\"", "must be an object");
        for (const auto& [name, value] : settings->items()) {
            if (auto ok = load_setting(name, value, changed); !ok) return std::move(ok).error();
        }
    }
    given = std::move(changed);
    return talk;
}

bool is_saved_conversation(std::string_view text) { return has_marker(parse(text)); }

}  // namespace colibri::repl
