// Error values: what is wrong, where, and what to do about it.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "colibri/core/concat.hpp"

namespace colibri {

/// Kind of a failure. The message says the rest; programs map kinds to exit codes.
enum class errc : std::uint8_t {
    io,                ///< the operating system refused: open, read, write, sync
    not_found,         ///< no such file
    not_a_file,        ///< a directory, a device, or another kind of file than asked for
    truncated,         ///< bytes end before the structure does
    bad_magic,         ///< the file is of another kind
    bad_version,       ///< a version that nobody defined, or another byte order
    overflow,          ///< a count, length or product that no file of this size can hold
    bad_type,          ///< an unknown or unsupported type number
    bad_count,         ///< a count that contradicts another one
    bad_offset,        ///< an offset outside the data or not aligned
    bad_alignment,     ///< an alignment that is not usable
    duplicate,         ///< the same key or name twice
    bad_shape,         ///< dimensions that don't fit
    bad_value,         ///< a value outside its range
    bad_utf8,          ///< text that is not UTF-8 where UTF-8 is needed
    missing_key,       ///< a metadata key that the reader needs
    missing_tensor,    ///< a tensor that the architecture needs
    split,             ///< parts of a split model that don't belong together or are missing
    unsupported,       ///< well formed, but nothing here can run it
    out_of_memory,     ///< the budget or the machine is too small
    context_full,      ///< more tokens than the context holds
    canceled,          ///< stopped on request
    invalid_argument,  ///< the caller's value is outside its range
    template_syntax,   ///< a chat template that doesn't parse
    template_runtime,  ///< a chat template that failed while it ran
    limit,             ///< a limit on steps, depth or output was reached
};

/// Short stable name of a kind, as used in JSON output and tests ("bad-offset").
[[nodiscard]] constexpr std::string_view name(errc code) noexcept {
    switch (code) {
        case errc::io: return "io";
        case errc::not_found: return "not-found";
        case errc::not_a_file: return "not-a-file";
        case errc::truncated: return "truncated";
        case errc::bad_magic: return "bad-magic";
        case errc::bad_version: return "bad-version";
        case errc::overflow: return "overflow";
        case errc::bad_type: return "bad-type";
        case errc::bad_count: return "bad-count";
        case errc::bad_offset: return "bad-offset";
        case errc::bad_alignment: return "bad-alignment";
        case errc::duplicate: return "duplicate";
        case errc::bad_shape: return "bad-shape";
        case errc::bad_value: return "bad-value";
        case errc::bad_utf8: return "bad-utf8";
        case errc::missing_key: return "missing-key";
        case errc::missing_tensor: return "missing-tensor";
        case errc::split: return "split";
        case errc::unsupported: return "unsupported";
        case errc::out_of_memory: return "out-of-memory";
        case errc::context_full: return "context-full";
        case errc::canceled: return "canceled";
        case errc::invalid_argument: return "invalid-argument";
        case errc::template_syntax: return "template-syntax";
        case errc::template_runtime: return "template-runtime";
        case errc::limit: return "limit";
    }
    return "unknown";
}

/// A failure as a value. `message` is one sentence without a final newline, already safe for a terminal.
struct error {
    static constexpr std::uint64_t no_offset = ~std::uint64_t{0};

    errc code = errc::io;
    std::string message;
    std::uint64_t offset = no_offset;  ///< byte offset in the file the message is about, if it has one
    std::string context = {};          ///< file, tensor, key or line that was being read

    /// One line for a person: "context: message (at byte N)".
    [[nodiscard]] std::string text() const {
        std::string out;
        if (!context.empty()) out = concat(context, ": ");
        out += message;
        if (offset != no_offset) out += concat(" (at byte ", offset, ")");
        return out;
    }

    /// The same error, seen from further out; an existing context is kept behind the new one.
    [[nodiscard]] error within(std::string_view outer) && {
        context = context.empty() ? std::string(outer) : concat(outer, ": ", context);
        return std::move(*this);
    }
};

/// Thrown by `result<T>::value()` only; nothing else in the library throws on bad input.
class exception : public std::runtime_error {
public:
    explicit exception(colibri::error e) : std::runtime_error(e.text()), error_(std::move(e)) {}
    [[nodiscard]] const colibri::error& error() const noexcept { return error_; }

private:
    colibri::error error_;
};

/// Either a T or an `error`. Test it, then use `*r`; or call `value()`, which throws `exception` on an error.
template <class T>
class [[nodiscard]] result {
public:
    using value_type = T;

    result(T value) : state_(std::in_place_index<0>, std::move(value)) {}                 // NOLINT: implicit by design
    result(colibri::error e) : state_(std::in_place_index<1>, std::move(e)) {}            // NOLINT: implicit by design

    [[nodiscard]] bool has_value() const noexcept { return state_.index() == 0; }
    explicit operator bool() const noexcept { return has_value(); }

    [[nodiscard]] T& operator*() & { return *std::get_if<0>(&state_); }
    [[nodiscard]] const T& operator*() const& { return *std::get_if<0>(&state_); }
    [[nodiscard]] T&& operator*() && { return std::move(*std::get_if<0>(&state_)); }
    [[nodiscard]] T* operator->() { return std::get_if<0>(&state_); }
    [[nodiscard]] const T* operator->() const { return std::get_if<0>(&state_); }

    [[nodiscard]] colibri::error& error() & { return *std::get_if<1>(&state_); }
    [[nodiscard]] const colibri::error& error() const& { return *std::get_if<1>(&state_); }
    [[nodiscard]] colibri::error&& error() && { return std::move(*std::get_if<1>(&state_)); }

    [[nodiscard]] T& value() & {
        if (!has_value()) throw exception(error());
        return **this;
    }
    [[nodiscard]] const T& value() const& {
        if (!has_value()) throw exception(error());
        return **this;
    }
    [[nodiscard]] T value() && {
        if (!has_value()) throw exception(std::move(*this).error());
        return std::move(**this);
    }
    template <class U>
    [[nodiscard]] T value_or(U&& other) const& {
        return has_value() ? **this : static_cast<T>(std::forward<U>(other));
    }

private:
    std::variant<T, colibri::error> state_;
};

/// Success without a value, or an `error`. `return {};` is success.
template <>
class [[nodiscard]] result<void> {
public:
    using value_type = void;

    result() = default;
    result(colibri::error e) : failed_(true), error_(std::move(e)) {}  // NOLINT: implicit by design

    [[nodiscard]] bool has_value() const noexcept { return !failed_; }
    explicit operator bool() const noexcept { return has_value(); }
    [[nodiscard]] colibri::error& error() & { return error_; }
    [[nodiscard]] const colibri::error& error() const& { return error_; }
    [[nodiscard]] colibri::error&& error() && { return std::move(error_); }
    void value() const {
        if (failed_) throw exception(error_);
    }

private:
    bool failed_ = false;
    colibri::error error_;
};

}  // namespace colibri
