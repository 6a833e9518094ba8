// The bytes of metadata values: reading them with every count checked, and putting them together.
#pragma once

#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "colibri/core/error.hpp"
#include "colibri/gguf/value_type.hpp"

namespace colibri::gguf {

/// How deep arrays may be nested; published files have one level.
inline constexpr unsigned max_array_depth = 64;

namespace detail {

/// The error of a count or length that needs more bytes than are left: truncated when the whole file could hold it,
/// overflow when no file could.
template <class Reader>
[[nodiscard]] error too_many(const Reader& in, std::string_view what, std::uint64_t count, std::uint64_t at) {
    constexpr std::uint64_t no_file = std::uint64_t{1} << 40;
    const bool possible = count <= in.offset() + in.remaining();
    return error{possible          ? errc::truncated
                 : count < no_file ? errc::bad_count
                                   : errc::overflow,
                 concat(what, " ", count, " is more than the ", in.remaining(), " bytes left can hold"), at};
}

/// The same of a text's length, which is never called an overflow.
template <class Reader>
[[nodiscard]] error refused_length(const Reader& in, std::uint64_t length, std::uint64_t at) {
    auto e = too_many(in, "the text length", length, at);
    if (e.code == errc::overflow) e.code = errc::bad_count;
    return e;
}

/// Reads the length of a text and refuses one that isn't there.
template <class Reader>
[[nodiscard]] result<std::uint64_t> read_length(Reader& in) {
    const std::uint64_t at = in.offset();
    auto length = in.template read<std::uint64_t>("the text length");
    if (length && *length > in.remaining()) return refused_length(in, *length, at);
    return length;
}

template <class T>
void append_number(std::string& out, T number) {
    char raw[sizeof(T)];
    std::memcpy(raw, &number, sizeof(T));
    out.append(raw, sizeof(T));
}

/// Reads elements behind an array's header into `out`, and where each begins into `starts` if they vary in size.
template <class Reader>
[[nodiscard]] result<void> read_elements(Reader& in, value_type element, std::uint64_t count, std::string& out,
                                         std::vector<std::uint32_t>* starts, unsigned depth);

/// Reads an array's element type and count. The count is possible for the bytes left when this succeeds.
template <class Reader>
[[nodiscard]] result<std::pair<value_type, std::uint64_t>> read_array_header(Reader& in) {
    const std::uint64_t at = in.offset();
    auto number = in.template read<std::uint32_t>("the element type of an array");
    if (!number) return std::move(number).error();
    if (!is_value_type(*number)) {
        return error{errc::bad_type, concat("it is an array of the unknown value type ", *number), at};
    }
    const auto element = static_cast<value_type>(*number);
    const std::uint64_t count_at = in.offset();
    auto count = in.template read<std::uint64_t>("the array length");
    if (!count) return std::move(count).error();
    const std::uint64_t least = element == value_type::string  ? 8
                                : element == value_type::array ? 12
                                                               : fixed_bytes(element);
    if (*count > in.remaining() / least) return too_many(in, "the array length", *count, count_at);
    if (auto ok = in.need(*count * least, "an array"); !ok) return std::move(ok).error();
    return std::pair{element, *count};
}

template <class Reader>
result<void> read_elements(Reader& in, value_type element, std::uint64_t count, std::string& out,
                           std::vector<std::uint32_t>* starts, unsigned depth) {
    if (element == value_type::array && depth >= max_array_depth) {
        return error{errc::bad_value, concat("arrays are nested deeper than the limit (depth ", max_array_depth, ")"),
                     in.offset()};
    }
    const std::uint64_t begin = in.offset();
    if (const std::size_t each = fixed_bytes(element); each != 0) {
        const std::size_t old = out.size();
        if (auto ok = in.append(out, count * each, "an array"); !ok) return ok;
        if (element != value_type::boolean) return {};
        for (std::size_t i = old; i < out.size(); ++i) {
            if (static_cast<unsigned char>(out[i]) > 1) {
                return error{
                    errc::bad_value,
                    concat("a bool is ", static_cast<unsigned>(static_cast<unsigned char>(out[i])), ", not 0 or 1"),
                    begin + (i - old)};
            }
        }
        return {};
    }
    for (std::uint64_t i = 0; i < count; ++i) {
        if (out.size() > std::numeric_limits<std::uint32_t>::max()) {
            return error{errc::limit, "an array is larger than 4 GiB", in.offset()};
        }
        if (starts != nullptr) starts->push_back(static_cast<std::uint32_t>(out.size()));
        if (element == value_type::string) {
            std::uint64_t length = 0;
            if (!in.take(length)) {
                auto got = read_length(in);
                if (!got) return std::move(got).error();
                length = *got;
            } else if (length > in.remaining()) {
                return refused_length(in, length, in.offset() - sizeof length);
            }
            append_number(out, length);
            if (in.take(out, length)) continue;
            if (auto ok = in.append(out, length, "a text"); !ok) return ok;
        } else {
            auto inner = read_array_header(in);
            if (!inner) return std::move(inner).error();
            append_number(out, static_cast<std::uint32_t>(inner->first));
            append_number(out, inner->second);
            if (auto ok = read_elements(in, inner->first, inner->second, out, nullptr, depth + 1); !ok) return ok;
        }
    }
    return {};
}

}  // namespace detail
}  // namespace colibri::gguf
