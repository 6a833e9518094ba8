// The variables of a running template.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "colibri/chat/jinja/ast.hpp"

namespace colibri::jinja::detail {

/// Which scope: its place and its serial number, since places are used again.
struct scope_mark {
    std::size_t place = 0;
    std::uint64_t serial = 0;
};

/// A stack of scopes. The first is the template's own; every other one sees its parent, which need not be the one below: a
/// macro sees what it was defined in, not what calls it.
class scopes {
public:
    explicit scopes(std::size_t symbols) : own_(symbols) { open(0); }

    /// A new scope on top that sees `parent`.
    scope_mark open(std::size_t parent) {
        scopes_.push_back({variables_.size(), parent, ++serial_});
        return {scopes_.size() - 1, serial_};
    }
    void close() {
        variables_.resize(scopes_.back().first);
        scopes_.pop_back();
    }
    /// Forgets the variables of the top scope.
    void clear() { variables_.resize(scopes_.back().first); }

    [[nodiscard]] std::size_t top() const noexcept { return scopes_.size() - 1; }
    [[nodiscard]] scope_mark here() const noexcept { return mark(top()); }
    [[nodiscard]] scope_mark mark(std::size_t place) const noexcept { return {place, scopes_[place].serial}; }
    /// Place of a scope, or 0 if it is gone.
    [[nodiscard]] std::size_t place_of(const scope_mark& mark) const noexcept {
        return mark.place < scopes_.size() && scopes_[mark.place].serial == mark.serial ? mark.place : 0;
    }

    void set(meter& m, symbol_id name, value v) {
        if (scopes_.size() == 1) {
            own_[name] = std::move(v);
            return;
        }
        m.step((variables_.size() - scopes_.back().first) / 16);
        for (std::size_t i = scopes_.back().first; i < variables_.size(); ++i) {
            if (variables_[i].first != name) continue;
            variables_[i].second = std::move(v);
            return;
        }
        variables_.emplace_back(name, std::move(v));
    }

    /// The variable, or null; valid until the next change.
    [[nodiscard]] const value* find(meter& m, symbol_id name) const {
        for (std::size_t place = top(); place != 0; place = scopes_[place].parent) {
            const std::size_t end = place + 1 < scopes_.size() ? scopes_[place + 1].first : variables_.size();
            m.step((end - scopes_[place].first) / 16);
            for (std::size_t i = scopes_[place].first; i < end; ++i) {
                if (variables_[i].first == name) return &variables_[i].second;
            }
        }
        return own_[name] ? &*own_[name] : nullptr;
    }

private:
    struct scope {
        std::size_t first;   ///< of its variables
        std::size_t parent;  ///< place of the scope that it sees
        std::uint64_t serial;
    };

    std::vector<std::optional<value>> own_;  ///< of the first scope, by symbol
    std::vector<std::pair<symbol_id, value>> variables_;
    std::vector<scope> scopes_;
    std::uint64_t serial_ = 0;
};

}  // namespace colibri::jinja::detail
