// Metadata of a GGUF file changed, with the tensors left as they are.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "colibri/core/number.hpp"
#include "colibri/core/progress.hpp"
#include "colibri/gguf/file.hpp"
#include "colibri/gguf/writer.hpp"

namespace colibri::gguf {

/// Changes of metadata: first the keys that go, then those that are set (in their place, new ones at the end).
struct metadata_edit {
    std::vector<std::string> remove;
    std::vector<metadata::entry> set;
};

/// A change "KEY=TYPE:VALUE" as `edit.set` has it. TYPE is a type's name (u8 ... f64, bool, string or str), or int or float, which
/// keep the type that the key has in `meta` if it fits (else i32, i64 or u64 as the number needs; f32); TYPE[] is an array, its
/// elements separated by commas. A text is everything behind the colon. Errors: bad_value.
[[nodiscard]] result<metadata::entry> parse_edit(std::string_view text, const metadata& meta);

/// `meta` with the changes. Errors: missing_key (a key to remove isn't there), invalid_argument (keys that say how the file is laid
/// out: general.alignment, split.*).
[[nodiscard]] result<metadata> edited(const metadata& meta, const metadata_edit& edit);

/// How a file was changed.
enum class edit_way : std::uint8_t {
    none,       ///< it has these values already
    in_place,   ///< within one sector of the disk, which is written whole or not at all
    rewritten,  ///< a new file took the old one's place, or `output`'s
};

/// Changes the metadata of one file (a split model's are in its first part). If all that differs lies in 512 bytes that a disk
/// writes as one, they are changed in place; otherwise a copy with the new header takes the file's name when it is complete, so
/// that at no moment a half-changed file is there. With `output` the copy is made under that name and `path` stays. `watch` gets
/// bytes. Errors: as `edited`; those of reading and writing; io (the file was changed meanwhile); canceled.
[[nodiscard]] result<edit_way> edit_metadata(const std::filesystem::path& path, const metadata_edit& edit,
                                             const std::filesystem::path& output = {}, const progress_fn& watch = {});

namespace detail {

[[nodiscard]] inline error bad_edit(std::string_view text, std::string_view what) {
    return error{errc::bad_value,
                 concat(quoted(text), " ", what, "; write KEY=TYPE:VALUE, such as general.name=string:My model or some.count=u32:5")};
}

/// The number or bool that `text` is, of a type with a fixed size. Errors: bad_value (without the key).
[[nodiscard]] inline result<value> parse_single(std::string_view text, value_type type) {
    if (type == value_type::string) {
        if (!is_utf8(text)) return error{errc::bad_value, concat("the text ", quoted(text), " is not UTF-8")};
        return value::of(text);
    }
    if (type == value_type::boolean) {
        if (text == "true" || text == "1") return value::of(true);
        if (text == "false" || text == "0") return value::of(false);
        return error{errc::bad_value, concat(quoted(text), " is neither true nor false")};
    }
    const char zeros[8] = {};
    return visit_number(type, zeros, [&]<class Number>(Number) -> result<value> {
        if constexpr (std::same_as<Number, bool>) {
            return error{errc::bad_value, "arrays of arrays can't be written here"};
        } else {
            const auto number = parse_number<Number>(text);
            if (!number) return error{errc::bad_value, concat(quoted(text), " is no number of type ", name(type))};
            return value::of(*number);
        }
    });
}

/// An array of `text`'s elements. Errors: bad_value.
[[nodiscard]] inline result<value> parse_elements(std::string_view text, value_type type) {
    const bool utf8 = is_utf8(text);
    std::vector<std::string_view> words;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find(','), text.size());
        words.push_back(text.substr(0, end));
        if (end + 1 == text.size()) words.emplace_back();  // "a," has two elements
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    if (type == value_type::string) {
        if (!utf8) return error{errc::bad_value, "the texts are not UTF-8"};
        return value::strings(words);
    }
    const char zeros[8] = {};
    return visit_number(type, zeros, [&]<class Number>(Number) -> result<value> {
        std::vector<value> parsed;
        for (const std::string_view word : words) {
            auto one = parse_single(word, type);
            if (!one) return one;
            parsed.push_back(std::move(*one));
        }
        const auto numbers = std::make_unique<Number[]>(parsed.size());
        for (std::size_t i = 0; i < parsed.size(); ++i) numbers[i] = load<Number>(parsed[i].number_bytes(0));
        return value::array(std::span<const Number>(numbers.get(), parsed.size()));
    });
}

/// The type that "int" or "float" means for this key and number.
[[nodiscard]] inline value_type loose_type(std::string_view word, const value* old, std::string_view text) {
    const auto fits = [&](value_type type) { return static_cast<bool>(parse_single(text, type)); };
    if (word == "float") return old != nullptr && is_float(old->type()) ? old->type() : value_type::f32;
    if (old != nullptr && is_integer(old->type()) && fits(old->type())) return old->type();
    for (const value_type type : {value_type::i32, value_type::i64}) {
        if (fits(type)) return type;
    }
    return value_type::u64;
}

}  // namespace detail

inline result<metadata::entry> parse_edit(std::string_view text, const metadata& meta) {
    const auto equals = text.find('=');
    if (equals == std::string_view::npos || equals == 0) return detail::bad_edit(text, "has no key with '=' behind it");
    const std::string_view key = text.substr(0, equals);
    const std::string_view rest = text.substr(equals + 1);
    const auto colon = rest.find(':');
    if (colon == std::string_view::npos) return detail::bad_edit(text, "has no type with ':' behind it");
    std::string_view word = rest.substr(0, colon);
    const std::string_view written = rest.substr(colon + 1);
    const bool array = word.ends_with("[]");
    if (array) word.remove_suffix(2);
    const auto named = [&](error e) {
        e.message = concat("the value for ", quoted(key), ": ", e.message);
        return e;
    };
    value_type type = value_type::array;
    if (word == "str") word = "string";
    if (!array && (word == "int" || word == "float")) {
        type = detail::loose_type(word, meta.find(key), written);
    } else {
        for (std::uint32_t number = 0; is_value_type(number); ++number) {
            if (name(static_cast<value_type>(number)) == word) type = static_cast<value_type>(number);
        }
    }
    if (type == value_type::array) return detail::bad_edit(text, concat("has the unknown type ", quoted(word)));
    auto parsed = array ? detail::parse_elements(written, type) : detail::parse_single(written, type);
    if (!parsed) return named(std::move(parsed).error());
    return metadata::entry{std::string(key), std::move(*parsed)};
}

inline result<metadata> edited(const metadata& meta, const metadata_edit& edit) {
    const auto refused = [](std::string_view key) -> result<void> {
        if (key == "general.alignment") {
            return error{errc::invalid_argument, "the key 'general.alignment' says how the file is laid out and can't be changed alone"};
        }
        if (key.starts_with("split.")) {
            return error{errc::invalid_argument,
                         concat("the key ", quoted(key), " says which part of a model this file is; split or merge it instead")};
        }
        return {};
    };
    metadata out = meta;
    for (const auto& key : edit.remove) {
        if (auto ok = refused(key); !ok) return std::move(ok).error();
        if (!out.remove(key)) return error{errc::missing_key, concat("there is no key ", quoted(key), " to remove")};
    }
    for (const auto& entry : edit.set) {
        if (auto ok = refused(entry.key); !ok) return std::move(ok).error();
        out.set(entry.key, entry.value);
    }
    return out;
}

namespace detail {

inline constexpr std::size_t sector = 512;

/// The header with other metadata, padded; the tensors stay where they are behind the start of the data.
[[nodiscard]] inline result<std::string> header_with(const metadata& meta, const container& old) {
    std::string out = header_start(old.where.version, old.tensors.size(), meta.size());
    if (auto ok = append_keys(out, meta); !ok) return std::move(ok).error();
    for (const auto& tensor : old.tensors) append_tensor(out, tensor, tensor.offset - old.where.data_offset);
    out.resize(static_cast<std::size_t>(round_up<std::uint64_t>(out.size(), old.where.alignment)));
    return out;
}

/// Writes `header` where it differs from `old`, if that is in one sector; false if it isn't.
[[nodiscard]] inline result<bool> change_in_place(const std::filesystem::path& path, std::string_view old, std::string_view header) {
    if (old.size() != header.size()) return false;
    const auto first = static_cast<std::size_t>(std::ranges::mismatch(old, header).in1 - old.begin());
    std::size_t last = header.size();
    if (first == last) return true;
    while (last > first && old[last - 1] == header[last - 1]) --last;
    if (first / sector != (last - 1) / sector) return false;
    int descriptor = -1;
    do {
        descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    } while (descriptor < 0 && errno == EINTR);
    const unique_fd handle(descriptor);
    if (!handle.is_open()) return colibri::detail::system_error("write", path, errno);
    std::string now(old.size(), '\0');
    if (auto ok = colibri::detail::pread_all(handle.get(), path, 0, std::as_writable_bytes(std::span(now))); !ok) return std::move(ok).error();
    if (now != old) return error{errc::io, concat(quoted(path.string()), " was changed meanwhile; nothing was written")};
    const std::string_view bytes = header.substr(first, last - first);
    ::ssize_t put = -1;
    do {
        put = ::pwrite(handle.get(), bytes.data(), bytes.size(), static_cast<::off_t>(first));
    } while (put < 0 && errno == EINTR);
    if (put != static_cast<::ssize_t>(bytes.size())) return colibri::detail::system_error("write", path, put < 0 ? errno : ENOSPC);
    if (::fsync(handle.get()) != 0) return colibri::detail::system_error("write", path, errno);
    return true;
}

}  // namespace detail

inline result<edit_way> edit_metadata(const std::filesystem::path& path, const metadata_edit& edit, const std::filesystem::path& output,
                                      const progress_fn& watch) {
    const auto within = [&](error e) { return std::move(e).within(quoted(path.string())); };
    auto source = file_reader::open(path);
    if (!source) return std::move(source).error();
    auto old = read_container(**source);
    if (!old) return within(std::move(old).error());
    auto meta = edited(old->meta, edit);
    if (!meta) return within(std::move(meta).error());
    auto header = detail::header_with(*meta, *old);
    if (!header) return within(std::move(header).error());
    std::string before(static_cast<std::size_t>(std::min(old->where.data_offset, old->where.size)), '\0');
    if (auto ok = (*source)->read_at(0, std::as_writable_bytes(std::span(before))); !ok) return within(std::move(ok).error());
    if (output.empty()) {
        if (*meta == old->meta) return edit_way::none;
        auto done = detail::change_in_place(path, before, *header);
        if (!done) return std::move(done).error();
        if (*done) return edit_way::in_place;
    }
    auto opened = open_for_reading(path);
    if (!opened) return std::move(opened).error();
    const std::uint64_t data = old->where.size - before.size();
    const std::uint64_t total = header->size() + data;
    auto out = atomic_writer::create(output.empty() ? path : output, {.expected_size = total});
    if (!out) return std::move(out).error();
    if (auto ok = out->write(*header); !ok) return std::move(ok).error();
    // Blocks can be shared between files if they begin at the same place in a block of both.
    constexpr std::uint64_t block = 4096, at_once = std::uint64_t{64} << 20;
    for (std::uint64_t at = before.size(); at < old->where.size;) {
        const std::uint64_t end = at == before.size() ? round_up(at + 1, block) : at + at_once;
        const std::uint64_t now = std::min(end, old->where.size) - at;
        if (auto ok = out->copy(opened->handle.get(), at, now); !ok) return std::move(ok).error();
        at += now;
        if (watch && !watch({out->written(), total})) return error{errc::canceled, "the work was stopped"};
    }
    if (auto ok = out->commit(); !ok) return std::move(ok).error();
    return edit_way::rewritten;
}

}  // namespace colibri::gguf
