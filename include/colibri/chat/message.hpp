// What is said in a chat.
#pragma once

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "colibri/chat/jinja/value.hpp"

namespace colibri {

/// One message: who says what.
struct message {
    std::string role;                         ///< "system", "user", "assistant", "tool", ...
    std::string content;
    jinja::value extra = jinja::value::none();  ///< dict of further members (tool_calls, name, reasoning_content); one named
                                                ///< "content" stands in for `content` (parts, or none)
};

/// The roles whose names are the program's own words; every other role is somebody's text.
inline constexpr std::string_view known_roles[] = {"system", "user", "assistant", "tool", "developer", "function", "ipython"};

/// A role as a value. Templates put roles into control tokens ("<|user|>"), so the known ones are trusted: they can only be
/// one of a handful of fixed words, whoever chose among them.
[[nodiscard]] inline jinja::value role_value(std::string_view role) {
    const bool known = std::ranges::find(known_roles, role) != std::end(known_roles);
    return known ? jinja::value::trusted(role) : jinja::value(role);
}

/// The messages as templates see them: dicts with role, content and what else there is. All content is untrusted.
[[nodiscard]] inline jinja::value to_value(const std::vector<message>& messages) {
    std::vector<jinja::value> out;
    out.reserve(messages.size());
    for (const message& m : messages) {
        std::vector<jinja::value::pair> members{{"role", role_value(m.role)}, {"content", m.content}};
        if (m.extra.is_dict()) members.insert(members.end(), m.extra.members().begin(), m.extra.members().end());
        out.push_back(jinja::value::dict(std::move(members)));
    }
    return jinja::value::list(std::move(out));
}

}  // namespace colibri
