// The REPL's commands that show and change things.
#include <algorithm>

#include "colibri/core/concat.hpp"
#include "colibri/core/escape.hpp"
#include "repl/display.hpp"
#include "repl/files.hpp"
#include "repl/format.hpp"
#include "repl/repl.hpp"
#include "repl/suggest.hpp"

namespace colibri::repl {
namespace {

std::string joined(const std::vector<std::string>& values) {
    std::string out;
    for (const auto& value : values) out += concat(out.empty() ? "" : ", ", quoted(value));
    return out;
}

// The name as /set shows it.
std::string setting_name(const option_row& row) {
    std::string name(row.name);
    std::replace(name.begin(), name.end(), '-', '_');
    return name;
}

std::string shown_value(const options& given, const option_row& row) {
    const auto values = given_values(given, row);
    if (values.empty()) return row.default_text.empty() ? "none" : std::string(row.default_text);
    return values.size() == 1 && row.value != "TEXT" ? values.front() : joined(values);
}

// The first line, cut where it gets long.
std::string shortened(std::string_view text) { return quoted(text.substr(0, text.find('\n')), 60); }

}  // namespace

void repl::set(std::string_view argument) {
    if (argument.empty()) return show_settings();
    const auto end = argument.find_first_of(" =\t");
    const auto name = argument.substr(0, end);
    if (end != std::string_view::npos) {
        const auto value = argument.find_first_not_of(" =\t", end);
        return set_to(name, value == std::string_view::npos ? std::string_view() : argument.substr(value));
    }
    if (name == "system") return system({});
    if (name == "history") return out_.say(concat("history ", past_.attached() ? "on" : "off"));
    if (const auto* row = find_option(name); row != nullptr && row->settable) {
        return out_.say(concat(setting_name(*row), " ", shown_value(given_, *row)));
    }
    set_to(name, {});
}

void repl::set_to(std::string_view name, std::string_view value) {
    if (name == "system") return system(value);
    if (name == "history") return set_history(value);
    const auto refuse = [&](std::string_view why) {
        out_.fail(why);
        went_wrong(exit_code::usage);
    };
    const auto* row = find_option(name);
    if (row == nullptr || !row->settable) {
        const auto names = settable_names();
        const std::vector<std::string_view> known(names.begin(), names.end());
        if (row != nullptr) return refuse(concat(quoted(name), " can only be chosen at the start of the program"));
        return refuse(concat("there is no setting ", quoted(name), suggestion(name, known), " (/set lists all)"));
    }
    options changed = given_;
    if (value == "default" || (value == "none" && given_values(options{}, *row).empty())) {
        unset_option(changed, *row);
    } else if (auto ok = set_option(changed, *row, value); !ok) {
        return refuse(concat(setting_name(*row), ": ", ok.error().message, "; it stays ", shown_value(given_, *row)));
    }
    if (auto ok = engine_.configure(changed); !ok) return refuse(ok.error().text());
    given_ = std::move(changed);
    out_.remark(concat(setting_name(*row), " ", shown_value(given_, *row)));
}

void repl::set_history(std::string_view value) {
    if (value == "on") {
        attach_history();
    } else if (value == "off") {
        past_.detach();
    } else {
        out_.fail(concat("history: on or off is needed, not ", quoted(value)));
        return went_wrong(exit_code::usage);
    }
    out_.remark(concat("history ", past_.attached() ? "on" : "off"));
}

void repl::show_settings() {
    std::string text;
    for (const auto& row : all_options()) {
        if (!row.settable) continue;
        std::string name = setting_name(row);
        std::string value = shown_value(given_, row);
        for (const auto& [key, number] : engine_.settings()) {
            if (key == name) value = number;
        }
        name.append(name.size() < 20 ? 20 - name.size() : 1, ' ');
        text += concat(name, value, given_values(given_, row).empty() ? "" : "  (set)", "\n");
    }
    out_.say(
        concat(text, "history             ", past_.attached() ? "on" : "off", "\nin force: ", engine_.sampling_text()));
}

void repl::show(std::string_view topic) {
    if (topic == "settings") return show_settings();
    if (topic == "system") return system({});
    if (topic == "model") return out_.say(engine_.description());
    if (topic == "template") {
        const auto text = engine_.template_text();
        return out_.say(text.empty() ? "the model has no chat template" : without_controls(text));
    }
    if (topic == "messages") {
        std::string text;
        for (const auto& message : engine_.messages()) {
            text += concat(text.empty() ? "" : "\n", message.role, ": ", without_controls(message.content));
        }
        return out_.say(text.empty() ? "there are no messages" : text);
    }
    std::string known;
    for (const auto each : show_topics) known += concat(known.empty() ? "" : ", ", each);
    if (!topic.empty()) {
        out_.fail(concat("there is no topic ", quoted(topic), suggestion(topic, show_topics), " (", known, ")"));
        return went_wrong(exit_code::usage);
    }
    out_.say(concat(engine_.description(), "\n", counted(engine_.messages().size(), "message"), ", context ",
                    engine_.used(), " of ", engine_.context(), " tokens\nin force: ", engine_.sampling_text(),
                    "\n/show takes one of ", known));
}

void repl::system(std::string_view text) {
    if (text.empty()) {
        return out_.say(engine_.system() ? without_controls(*engine_.system()) : "there is no system message");
    }
    if (engine_.raw()) {
        out_.fail("without a chat template (--raw) there is no system message");
        return went_wrong(exit_code::usage);
    }
    const bool none = text == "none" || text == "default";
    engine_.set_conversation(none ? std::optional<std::string>() : std::optional<std::string>(text),
                             engine_.messages());
    out_.remark(none ? "there is no system message now"
                     : "the system message is changed; it holds from the next answer on");
}

void repl::undo() {
    auto messages = engine_.messages();
    if (messages.empty()) {
        out_.remark("there is nothing to forget");
        return;
    }
    if (messages.back().role == "assistant") messages.pop_back();
    const std::string forgotten = messages.empty() ? std::string() : messages.back().content;
    if (!messages.empty()) messages.pop_back();
    engine_.set_conversation(engine_.system(), std::move(messages));
    has_figures_ = false;
    out_.remark(concat("forgotten: ", shortened(forgotten), " and its answer"));
}

void repl::retry() {
    const auto before = engine_.messages();
    auto messages = before;
    if (!messages.empty() && messages.back().role == "assistant") messages.pop_back();
    if (messages.empty()) {
        out_.remark("there is no message to answer");
        return;
    }
    const std::string text = std::move(messages.back().content);
    messages.pop_back();
    const std::size_t kept = messages.size();
    engine_.set_conversation(engine_.system(), std::move(messages));
    turn(text);
    if (engine_.messages().size() == kept) engine_.set_conversation(engine_.system(), before);
}

void repl::save(std::string_view name) {
    const auto refuse = [&](std::string_view why, exit_code code) {
        out_.fail(why);
        went_wrong(code);
    };
    if (name.empty()) return refuse("a file is needed: /save FILE", exit_code::usage);
    const auto path = expand_home(name);
    std::error_code problem;
    if (std::filesystem::is_regular_file(path, problem)) {
        const auto old = read_whole_file(path);
        if (old && !old->empty() && !is_saved_conversation(*old)) {
            return refuse(concat(quoted(path.string()),
                                 " exists and is something else than a saved conversation; "
                                 "choose another name"),
                          exit_code::io);
        }
    }
    const conversation talk{engine_.title(), engine_.system(), engine_.messages()};
    if (auto ok = replace_private_file(path, save_conversation(talk, given_)); !ok) {
        return refuse(ok.error().text(), exit_code::io);
    }
    out_.remark(concat("saved ", counted(talk.messages.size(), "message"), " to ", quoted(path.string())));
}

void repl::load(std::string_view name) {
    const auto refuse = [&](std::string_view why, exit_code code) {
        out_.fail(why);
        went_wrong(code);
    };
    if (name.empty()) return refuse("a file is needed: /load FILE", exit_code::usage);
    const auto path = expand_home(name);
    const auto bytes = read_whole_file(path);
    if (!bytes) return refuse(bytes.error().text(), exit_code::io);
    options changed = given_;
    auto talk = load_conversation(*bytes, changed);
    if (!talk) return refuse(std::move(talk).error().within(quoted(path.string())).text(), exit_code::io);
    if (talk->system && engine_.raw()) {
        return refuse(
            "the conversation has a system message, which needs a chat template; it can't be loaded with --raw",
            exit_code::usage);
    }
    if (auto ok = engine_.configure(changed); !ok) return refuse(ok.error().text(), exit_code::usage);
    given_ = std::move(changed);
    engine_.set_conversation(talk->system, talk->messages);
    has_figures_ = false;
    out_.remark(concat("loaded ", counted(talk->messages.size(), "message"),
                       talk->model.empty() || talk->model == engine_.title()
                           ? ""
                           : concat(", which were said with ", quoted(talk->model)),
                       talk->system ? ", system message " + shortened(*talk->system) : ""));
}

}  // namespace colibri::repl
