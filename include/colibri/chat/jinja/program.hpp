// A template of the Jinja language as published chat templates use it: parse once, render often.
#pragma once

#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "colibri/chat/jinja/failure.hpp"
#include "colibri/chat/jinja/evaluate.hpp"
#include "colibri/chat/jinja/interpreter.hpp"
#include "colibri/chat/jinja/parser.hpp"
#include "colibri/chat/jinja/statements.hpp"
#include "colibri/chat/marked_text.hpp"
#include "colibri/core/checked.hpp"
#include "colibri/core/error.hpp"

namespace colibri::jinja {

namespace detail {

/// Values in `v`, itself included, down to a depth.
[[nodiscard]] inline std::uint64_t count_values(const value& v, std::uint32_t depth) noexcept {
    std::uint64_t out = 1;
    if (depth == 0) return out;
    if (v.is_list()) {
        for (const value& item : v.items()) out += count_values(item, depth - 1);
    } else if (v.is_dict()) {
        for (const auto& [key, item] : v.members()) out += count_values(item, depth - 1);
    }
    return out;
}

}  // namespace detail

/// What a run needs besides its variables.
struct render_options {
    std::optional<civil_time> now = {};  ///< what strftime_now shows; nothing: this machine's local time
    jinja::limits limits = {};
};

/// A parsed template. Blocks trim the line break behind them and the blanks before them (trim_blocks, lstrip_blocks); a line
/// break at the very end of the source is dropped. Strings count in code points; values print as Python prints them.
/// There is no way out: no files, no other templates, no attributes but those listed here, and nothing of the input changes.
/// Not supported: urlize, pprint, random, xmlattr, wordwrap, filesizeformat; integers beyond 64 bits stop with kind limit.
/// Immutable and cheap to copy; several threads may render one program at a time.
class program {
public:
    /// Parses `source`. Codes: template_syntax, limit; `why` (if given) gets kind, message and line.
    [[nodiscard]] static result<program> parse(std::string_view source, const limits& allowed = {}, failure* why = nullptr) {
        return guarded<program>(why, [](const detail::stopped&) { return std::size_t{0}; }, [&] {
            if (source.size() > allowed.source) detail::fail_limit("it has more than ", allowed.source, " bytes");
            return program(std::make_shared<const detail::syntax_tree>(detail::parser(source, allowed).parse()));
        });
    }

    /// Runs the template with the members of the dict `variables`. Text in them keeps its origin through everything that the
    /// template does with it. Codes: template_runtime, limit; `why` (if given) gets kind, message and line.
    [[nodiscard]] result<marked_text> render(const value& variables, const render_options& options = {},
                                             failure* why = nullptr) const {
        std::optional<detail::interpreter> run;
        return guarded<marked_text>(why, [&](const detail::stopped&) { return run ? run->line() : 0; }, [&] {
            limits allowed = options.limits;
            const auto more = checked_mul(allowed.steps_per_value, detail::count_values(variables, allowed.value_depth));
            allowed.steps = checked_add(allowed.steps, more.value_or(~std::uint64_t{0})).value_or(~std::uint64_t{0});
            run.emplace(*tree_, variables, allowed, options.now ? *options.now : local_time_now());
            return run->run();
        });
    }

private:
    explicit program(std::shared_ptr<const detail::syntax_tree> tree) : tree_(std::move(tree)) {}

    template <class T, class Line, class F>
    static result<T> guarded(failure* why, Line&& line, F&& f) {
        failure reason;
        try {
            return f();
        } catch (detail::stopped& stop) {
            if (stop.what.line == 0) stop.what.line = line(stop);
            reason = std::move(stop.what);
        } catch (const std::bad_alloc&) {
            reason = {failure_kind::limit, "there is not enough memory"};
        } catch (const std::length_error&) {
            reason = {failure_kind::limit, "there is not enough memory"};
        }
        if (why != nullptr) *why = reason;
        return to_error(reason);
    }

    std::shared_ptr<const detail::syntax_tree> tree_;
};

}  // namespace colibri::jinja
