// What a fuzzer does with bytes that may be a chat template or JSON: parses, renders, and looks at what comes out.
#pragma once

#include <cstdlib>
#include <string>
#include <string_view>

#include "colibri/chat/jinja/json.hpp"
#include "colibri/chat/jinja/program.hpp"
#include "colibri/chat/jinja/tojson.hpp"

namespace fuzz {

/// Stops the program, for a fuzzer to notice; `what` is seen in its stack or debugger.
inline void must_hold(bool sound, [[maybe_unused]] const char* what) {
    if (!sound) std::abort();
}

/// A character for private use that stands for what users write.
inline constexpr std::string_view users = "\xEE\x80\x80";

[[nodiscard]] inline const colibri::jinja::value& jinja_variables() {
    using colibri::jinja::value;
    static const value variables = [] {
        const value parts = value::list({value::object({{"type", "text"}, {"text", std::string(users)}})});
        const value call = value::object({{"id", "1"}, {"function", value::object({{"name", std::string(users)}, {"arguments", parts}})}});
        return value::object({
            {"messages", value::list({value::object({{"role", "system"}, {"content", std::string(users) + " a"}}),
                                      value::object({{"role", "user"}, {"content", "<" + std::string(users) + "> b\nc"}}),
                                      value::object({{"role", "assistant"}, {"content", value()}, {"tool_calls", value::list({call})}}),
                                      value::object({{"role", "tool"}, {"content", parts}})})},
            {"tools", value::list({call})},
            {"add_generation_prompt", true},
            {"bos_token", value::trusted("<s>")},
            {"eos_token", value::trusted("</s>")},
            {"x", std::string(users) + std::string(users)},
            {"n", 3},
            {"f", -1.5},
            {"d", value::object({{"k", 1}, {"items", std::string(users)}})},
        });
    }();
    return variables;
}

/// Renders the bytes as a template. True if they are one.
inline bool jinja_target(std::string_view bytes) {
    using namespace colibri::jinja;
    limits allowed;
    allowed.steps = 100'000;
    allowed.steps_per_value = 0;
    allowed.memory = std::size_t{8} << 20;
    allowed.output = std::size_t{2} << 20;
    failure why;
    const auto parsed = program::parse(bytes, allowed, &why);
    if (!parsed) {
        must_hold(why.kind == failure_kind::syntax || why.kind == failure_kind::limit, "parsing fails by syntax or by a limit");
        must_hold(why.line > 0 || why.kind == failure_kind::limit, "a mistake has a line");
        return false;
    }
    const auto text = parsed->render(jinja_variables(), {civil_time{2026, 7, 4, 15, 6, 7}, allowed}, &why);
    if (!text) {
        must_hold(!why.message.empty() || why.kind == failure_kind::raise, "a failure says something");
        for (const char c : text.error().text())
            must_hold(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f, "an error is safe to print");
        return true;
    }
    std::size_t at = 0;
    for (std::size_t i = 0; i < text->runs.size(); ++i) {
        const auto& run = text->runs[i];
        must_hold(run.begin == at && run.end > at, "runs follow each other");
        must_hold(i == 0 || run.trusted != text->runs[i - 1].trusted, "neighbouring runs differ");
        at = run.end;
    }
    must_hold(at == text->text.size() && at <= allowed.output, "runs cover the text");
    // The template can't write the users' character itself, except by an escape: so it is never trusted.
    if (bytes.find(users.front()) == bytes.npos && bytes.find('\\') == bytes.npos) {
        for (const auto& run : text->runs) {
            const std::string_view part = std::string_view(text->text).substr(run.begin, run.end - run.begin);
            must_hold(!run.trusted || part.find(users.front()) == part.npos, "what users write is untrusted");
        }
    }
    return true;
}

/// Reads the bytes as JSON; what is written from it reads back the same. True if they are JSON.
inline bool json_target(std::string_view bytes) {
    using namespace colibri::jinja;
    const auto read = parse_json(bytes);
    if (!read) {
        must_hold(!read.error().message.empty() && read.error().offset <= bytes.size(), "an error says where");
        return false;
    }
    const auto once = to_json(*read);
    must_hold(once.has_value(), "what was read can be written");
    const auto again = parse_json(*once);
    must_hold(again.has_value() && to_json(*again).value() == *once, "what was written reads back the same");
    return true;
}

}  // namespace fuzz
