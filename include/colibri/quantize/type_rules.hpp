// Types that a person wants for tensors by name, whatever the mixture says.
#pragma once

#include <optional>
#include <regex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "colibri/core/concat.hpp"
#include "colibri/core/error.hpp"
#include "colibri/core/escape.hpp"
#include "colibri/quantize/mixture_name.hpp"

namespace colibri::quantize {

/// Rules "REGEX=TYPE" in their order; the first that is found in a tensor's name counts.
class type_rules {
public:
    /// Bytes of an expression at most.
    static constexpr std::size_t longest_rule = 1000;

    /// Adds a rule: a regular expression (ECMAScript; case doesn't matter), '=', and a tensor type.
    /// Errors: invalid_argument (no '=', no such type, not a regular expression).
    [[nodiscard]] result<void> add(std::string_view text) {
        const auto equals = text.rfind('=');
        if (equals == std::string_view::npos || equals == 0) {
            return error{errc::invalid_argument, concat(quoted(text), " is no rule; write REGEX=TYPE, for example attn_v=Q8_0")};
        }
        auto type = parse_tensor_type(text.substr(equals + 1));
        if (!type) return std::move(type).error();
        const std::string pattern(text.substr(0, equals));
        if (pattern.size() > longest_rule) {  // the library's compiler of expressions calls itself for each bracket
            return error{errc::invalid_argument, concat(quoted(pattern, 60), " is longer than the ", longest_rule, " bytes that a rule may have")};
        }
        try {
            rules_.push_back({std::regex(pattern, std::regex::ECMAScript | std::regex::icase), pattern, *type, false});
        } catch (const std::regex_error&) {
            return error{errc::invalid_argument, concat(quoted(pattern), " is no regular expression")};
        }
        return {};
    }

    /// Adds all rules of a text, with white space between them; a line that begins with '#' is a remark. Errors: as `add`.
    [[nodiscard]] result<void> add_all(std::string_view text) {
        while (!text.empty()) {
            const auto end = std::min(text.find('\n'), text.size());
            std::string_view line = text.substr(0, end);
            text.remove_prefix(std::min(end + 1, text.size()));
            if (line.starts_with('#')) continue;
            while (!line.empty()) {
                const auto begin = std::min(line.find_first_not_of(" \t\r"), line.size());
                line.remove_prefix(begin);
                const auto stop = std::min(line.find_first_of(" \t\r"), line.size());
                if (stop == 0) break;
                if (auto ok = add(line.substr(0, stop)); !ok) return ok;
                line.remove_prefix(stop);
            }
        }
        return {};
    }

    [[nodiscard]] bool empty() const noexcept { return rules_.empty(); }

    /// The type for a tensor, or nothing. Errors: limit (the expression takes too long on this name).
    [[nodiscard]] result<std::optional<dtype>> find(const std::string& tensor) {
        for (auto& one : rules_) {
            try {
                if (!std::regex_search(tensor, one.expression)) continue;
            } catch (const std::regex_error&) {
                return error{errc::limit, concat("the expression ", quoted(one.pattern), " is too complex")};
            }
            one.used = true;
            return std::optional(one.type);
        }
        return std::optional<dtype>();
    }

    /// A rule that no name has matched so far, or null.
    [[nodiscard]] const std::string* unused() const noexcept {
        for (const auto& one : rules_) {
            if (!one.used) return &one.pattern;
        }
        return nullptr;
    }

private:
    struct rule {
        std::regex expression;
        std::string pattern;
        dtype type;
        bool used;
    };
    std::vector<rule> rules_;
};

}  // namespace colibri::quantize
