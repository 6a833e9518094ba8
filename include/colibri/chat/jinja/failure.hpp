// Why a template stopped, and how that becomes an error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "colibri/core/concat.hpp"
#include "colibri/core/error.hpp"
#include "colibri/core/escape.hpp"

namespace colibri::jinja {

/// What stopped a template.
enum class failure_kind : std::uint8_t {
    syntax,     ///< it doesn't parse
    raise,      ///< it called raise_exception: the message is its own
    undefined,  ///< it used something that isn't there
    type,       ///< an operation on a value of the wrong type, or a value out of range
    security,   ///< it tried to change its input or to reach inside the interpreter
    limit,      ///< it asked for more steps, depth or memory than allowed
    continuation,  ///< it ran, but leaves nothing to continue: the last message is not in its text
};

/// Short stable name of a kind ("syntax").
[[nodiscard]] constexpr std::string_view name(failure_kind kind) noexcept {
    switch (kind) {
        case failure_kind::syntax: return "syntax";
        case failure_kind::raise: return "raise";
        case failure_kind::undefined: return "undefined";
        case failure_kind::type: return "type";
        case failure_kind::security: return "security";
        case failure_kind::limit: return "limit";
        case failure_kind::continuation: return "continue";
    }
    return "unknown";
}

/// What stopped a template, and in which line of its source (from 1; 0 if unknown). `message` may hold text from the
/// template and from the conversation: escape it before it is shown.
struct failure {
    failure_kind kind = failure_kind::type;
    std::string message = {};
    std::size_t line = 0;
};

/// The failure as one sentence, safe for a terminal. Codes: template_syntax, limit, else template_runtime.
[[nodiscard]] inline error to_error(const failure& why) {
    const std::string line = why.line == 0 ? std::string{} : concat(" in line ", why.line);
    const std::string message = escaped(why.message, 1000);
    switch (why.kind) {
        case failure_kind::syntax:
            return {errc::template_syntax, concat("the chat template has a mistake", line, ": ", message)};
        case failure_kind::raise:
            return {errc::template_runtime, concat("the chat template refuses this conversation: ", message)};
        case failure_kind::limit:
            return {errc::limit, concat("the chat template was stopped", line, ": ", message)};
        default: return {errc::template_runtime, concat("the chat template failed", line, ": ", message)};
    }
}

namespace detail {

/// Carries a failure up to `program::parse` or `program::render`, which make a result of it; never leaves the library.
struct stopped {
    failure what;
};

template <class... Parts>
[[noreturn]] void fail(failure_kind kind, const Parts&... parts) {
    throw stopped{{kind, concat(parts...), 0}};
}

template <class... Parts>
[[noreturn]] void fail_type(const Parts&... parts) {
    fail(failure_kind::type, parts...);
}

template <class... Parts>
[[noreturn]] void fail_limit(const Parts&... parts) {
    fail(failure_kind::limit, parts...);
}

}  // namespace detail
}  // namespace colibri::jinja
