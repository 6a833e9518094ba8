// Run-time objects: what a running template makes besides plain values.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "colibri/chat/jinja/meter.hpp"
#include "colibri/chat/jinja/value_core.hpp"

namespace colibri::jinja::detail {

class machine;
class iterator;

/// Arguments of a call, by position and by name.
struct arguments {
    std::vector<value> positional = {};
    std::vector<std::pair<string, value>> named = {};

    [[nodiscard]] bool empty() const noexcept { return positional.empty() && named.empty(); }
};

/// A run-time object. The defaults say: no attributes, not callable, not iterable, true.
class object {
public:
    object() = default;
    object(const object&) = delete;
    object& operator=(const object&) = delete;
    virtual ~object() = default;

    [[nodiscard]] virtual std::string_view type_name() const noexcept = 0;
    /// Attribute `name`, or nothing.
    [[nodiscard]] virtual std::optional<value> attribute(machine&, std::string_view) { return std::nullopt; }
    /// self[key], or nothing.
    [[nodiscard]] virtual std::optional<value> item(machine&, const value&) { return std::nullopt; }
    /// self[start:stop:step], or nothing.
    [[nodiscard]] virtual std::optional<value> slice(machine&, const value&, const value&, const value&) {
        return std::nullopt;
    }
    [[nodiscard]] virtual bool callable() const noexcept { return false; }
    [[nodiscard]] virtual value call(machine&, const arguments&) { fail_type("a ", type_name(), " can't be called"); }
    /// An iterator over it, or null.
    [[nodiscard]] virtual std::shared_ptr<iterator> iterate(machine&) { return nullptr; }
    [[nodiscard]] virtual std::optional<std::size_t> length(machine&) { return std::nullopt; }
    [[nodiscard]] virtual bool sequence() const noexcept { return false; }
    [[nodiscard]] virtual bool truth(machine& m) { return length(m).value_or(1) != 0; }
    virtual void print(machine&, string_builder& out) {
        out.append("<", origin::trusted);
        out.append(type_name(), origin::trusted);
        out.append(">", origin::trusted);
    }

    /// Drops every value that it holds: called at the end of a run for objects that were kept.
    virtual void let_go() noexcept {}

    std::uint32_t depth = 1;
    memory_charge charge = {};
};

/// Something that yields values once, one by one. Lazy filters are iterators over iterators.
class iterator : public object, public std::enable_shared_from_this<iterator> {
public:
    [[nodiscard]] std::string_view type_name() const noexcept override { return "generator"; }
    /// The next value, or nothing at the end.
    [[nodiscard]] virtual std::optional<value> next(machine&) = 0;
    /// How many values are still to come, where that is known without looking.
    [[nodiscard]] virtual std::optional<std::size_t> left() const noexcept { return std::nullopt; }
    [[nodiscard]] std::shared_ptr<iterator> iterate(machine&) override { return shared_from_this(); }
};

}  // namespace colibri::jinja::detail
