// Chat templates: a conversation -> the text that a model reads.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "colibri/chat/builtin_templates.hpp"
#include "colibri/chat/jinja/program.hpp"
#include "colibri/chat/marked_text.hpp"
#include "colibri/chat/message.hpp"

namespace colibri {

/// What a chat template gets besides the messages.
struct template_options {
    bool add_generation_prompt = true;    ///< end with the head of an answer
    bool continue_final_message = false;  ///< leave the last message open, to be continued; without a generation prompt
    std::string bos_text = {};            ///< bos_token and eos_token: trusted
    std::string eos_text = {};
    jinja::value tools = {};              ///< list of tools, or none
    jinja::value documents = {};          ///< list of documents, or none
    jinja::value variables = {};          ///< dict of further variables (enable_thinking, ...); they win over all others
    std::optional<jinja::civil_time> now = {};  ///< what strftime_now shows; nothing: the local time
    jinja::limits limits = {};
};

/// A chat template, parsed. Immutable; several threads may render at a time.
class chat_template {
public:
    /// Parses Jinja source. Codes: template_syntax, limit; `why` (if given) gets kind, message and line.
    [[nodiscard]] static result<chat_template> parse(std::string source, jinja::failure* why = nullptr);
    /// One of the built-in templates by name. Code: not_found, naming them all.
    [[nodiscard]] static result<chat_template> named(std::string_view name);

    /// The conversation as text in which only the template's own words, bos, eos and known roles are trusted.
    /// Codes: template_runtime, limit; `why` (if given) gets kind, message and line.
    [[nodiscard]] result<marked_text> render(const std::vector<message>& messages, const template_options& options = {},
                                             jinja::failure* why = nullptr) const {
        return render_value(to_value(messages), options, why);
    }
    /// The same for a list of dicts, which go to the template as they stand: text in them has the origin it was made with.
    [[nodiscard]] result<marked_text> render_value(const jinja::value& messages, const template_options& options = {},
                                                   jinja::failure* why = nullptr) const;

    [[nodiscard]] const std::string& source() const noexcept { return source_; }
    /// Texts that end an answer although they are no tokens of the model; of built-in templates only.
    [[nodiscard]] const std::vector<std::string>& stops() const noexcept { return stops_; }

private:
    chat_template(std::string source, jinja::program program) : source_(std::move(source)), program_(std::move(program)) {}

    std::string source_;
    std::vector<std::string> stops_;
    jinja::program program_;
};

namespace detail {

/// Put behind the message that is to be continued: where it comes out, the text is cut. The blank tells whether the template
/// trims its messages.
inline constexpr std::string_view continuation_tag = "CONTINUE_FINAL_MESSAGE_TAG ";

/// `messages` with the tag behind the last one's text, and that text; nothing if there is no text to continue.
[[nodiscard]] inline std::optional<std::pair<jinja::value, std::string>> tag_last_message(const jinja::value& messages) {
    using jinja::value;
    if (!messages.is_list() || messages.items().empty()) return std::nullopt;
    const auto with_member = [](const value& dict, std::string_view key, value item) {
        std::vector<value::pair> members = dict.members();
        for (auto& [name, old] : members) {
            if (name.text() == key) old = std::move(item);
        }
        return value::dict(std::move(members));
    };
    const auto tagged = [](std::string_view text) { return value(concat(text, continuation_tag)); };
    std::vector<value> items = messages.items();
    const value* content = items.back().find("content");
    if (content == nullptr) return std::nullopt;
    if (const auto text = content->text()) {
        std::string wanted(*text);
        items.back() = with_member(items.back(), "content", tagged(wanted));
        return std::pair{value::list(std::move(items)), std::move(wanted)};
    }
    if (!content->is_list()) return std::nullopt;
    std::vector<value> parts = content->items();
    for (std::size_t i = parts.size(); i-- > 0;) {
        const value* text = parts[i].find("text");
        if (text == nullptr || !text->text()) continue;
        std::string wanted(*text->text());
        parts[i] = with_member(parts[i], "text", tagged(wanted));
        items.back() = with_member(items.back(), "content", value::list(std::move(parts)));
        return std::pair{value::list(std::move(items)), std::move(wanted)};
    }
    return std::nullopt;
}

[[nodiscard]] inline std::string_view without_blanks(std::string_view text) noexcept {
    const auto size_of_last = [&] {
        std::size_t last = text.size() - 1;
        while (last > 0 && jinja::detail::is_continuation(text[last])) --last;
        return text.size() - last;
    };
    const auto blank = [](std::string_view character) { return jinja::detail::is_space(jinja::detail::code_of(character)); };
    while (!text.empty() && blank(text.substr(text.size() - size_of_last()))) text.remove_suffix(size_of_last());
    while (!text.empty()) {
        const std::size_t size = jinja::detail::character_size(text, 0);
        if (!blank(text.substr(0, size))) break;
        text.remove_prefix(size);
    }
    return text;
}

/// Cuts a rendered text behind the message that is to be continued; false if that message isn't there.
[[nodiscard]] inline bool cut_at_tag(marked_text& rendered, std::string_view wanted) {
    const std::string_view bare = continuation_tag.substr(0, continuation_tag.size() - 1);
    const std::string_view text = rendered.text;
    const std::size_t at = text.rfind(bare);
    if (at == text.npos || text.find(without_blanks(wanted)) == text.npos) return false;
    std::size_t end = at;
    if (text.substr(at, continuation_tag.size()) != continuation_tag) {  // the template trims, and so do we
        const std::string_view kept = without_blanks(text.substr(0, at));
        end = kept.empty() ? 0 : static_cast<std::size_t>(kept.data() + kept.size() - text.data());
    }
    rendered.resize(end);
    return true;
}

}  // namespace detail

inline result<chat_template> chat_template::parse(std::string source, jinja::failure* why) {
    auto program = jinja::program::parse(source, {}, why);
    if (!program) return std::move(program).error();
    return chat_template(std::move(source), *std::move(program));
}

inline result<chat_template> chat_template::named(std::string_view name) {
    std::string known;
    for (const builtin_template& each : builtin_templates) {
        if (each.name != name) {
            known += concat(known.empty() ? "" : ", ", each.name);
            continue;
        }
        auto out = parse(std::string(each.source));
        if (out && !each.stop.empty()) out->stops_.emplace_back(each.stop);
        return out;
    }
    return error{errc::not_found, concat("there is no chat template named ", quoted(name), ": take one of ", known)};
}

inline result<marked_text> chat_template::render_value(const jinja::value& messages, const template_options& options,
                                                       jinja::failure* why) const {
    using jinja::value;
    std::optional<std::pair<value, std::string>> tagged;
    const auto not_there = [&](std::string_view message) -> error {
        if (why != nullptr) *why = {jinja::failure_kind::continuation, std::string(message), 0};
        return {errc::template_runtime, std::string(message)};
    };
    if (options.continue_final_message) {
        tagged = detail::tag_last_message(messages);
        if (!tagged) return not_there("there is no text in the last message that could be continued");
    }
    std::vector<value::pair> variables{
        {"messages", tagged ? tagged->first : messages},
        {"tools", options.tools},
        {"documents", options.documents},
        {"add_generation_prompt", options.add_generation_prompt && !options.continue_final_message},
        {"bos_token", value::trusted(options.bos_text)},
        {"eos_token", value::trusted(options.eos_text)},
    };
    if (options.variables.is_dict()) {
        const auto& more = options.variables.members();
        variables.insert(variables.end(), more.begin(), more.end());
    }
    auto rendered = program_.render(value::dict(std::move(variables)), {options.now, options.limits}, why);
    if (rendered && tagged && !detail::cut_at_tag(*rendered, tagged->second)) {
        return not_there("the chat template leaves the last message out, so it can't be continued");
    }
    return rendered;
}

}  // namespace colibri
