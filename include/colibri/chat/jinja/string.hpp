// The template language's string: immutable, shared, counted in code points, and every byte knows its origin.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "colibri/chat/jinja/meter.hpp"
#include "colibri/chat/marked_text.hpp"
#include "colibri/text/utf8.hpp"

namespace colibri::jinja {
namespace detail {

[[nodiscard]] constexpr bool is_continuation(char byte) noexcept {
    return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

/// Bytes of the character at `at` (< bytes.size()): its first byte and all continuation bytes behind it. For UTF-8 that is
/// one code point; ill-formed text falls into characters as well, none empty.
[[nodiscard]] inline std::size_t character_size(std::string_view bytes, std::size_t at) noexcept {
    std::size_t end = at + 1;
    while (end < bytes.size() && is_continuation(bytes[end])) ++end;
    return end - at;
}

/// Characters in `bytes`.
[[nodiscard]] inline std::size_t character_count(std::string_view bytes) noexcept {
    std::size_t count = !bytes.empty() && is_continuation(bytes.front()) ? 1 : 0;
    for (const char byte : bytes) count += is_continuation(byte) ? 0 : 1;
    return count;
}

/// The code point of one character; ill-formed ones are U+FFFD.
[[nodiscard]] inline char32_t code_of(std::string_view character) noexcept {
    const auto read = colibri::text::decode_utf8(character, 0);
    return read.valid && read.size == character.size() ? read.value : colibri::text::replacement_character;
}

struct string_data {
    std::string bytes = {};
    std::vector<std::size_t> flips = {};  ///< offsets where the origin changes
    origin first = origin::trusted;
    bool safe = false;
    std::size_t characters = 0;
    memory_charge charge = {};
};

}  // namespace detail

/// A string value. Copies share the bytes. Ordering and equality look at the bytes only, never at origins.
class string {
public:
    string() = default;  ///< empty
    string(std::string bytes, origin from) {
        if (bytes.empty()) return;
        auto data = std::make_shared<detail::string_data>();
        data->characters = detail::character_count(bytes);
        data->bytes = std::move(bytes);
        data->first = from;
        data_ = std::move(data);
    }
    explicit string(std::shared_ptr<const detail::string_data> data) noexcept : data_(std::move(data)) {}

    [[nodiscard]] std::string_view view() const noexcept { return data_ ? data_->bytes : std::string_view{}; }
    [[nodiscard]] std::size_t size() const noexcept { return data_ ? data_->bytes.size() : 0; }
    [[nodiscard]] bool empty() const noexcept { return size() == 0; }
    /// Code points.
    [[nodiscard]] std::size_t length() const noexcept { return data_ ? data_->characters : 0; }
    /// Came out of `safe` or `escape`: adding text to it escapes that text for HTML, as the language has it.
    [[nodiscard]] bool safe() const noexcept { return data_ && data_->safe; }

    /// Origin of the byte at `at`; of an empty string: trusted.
    [[nodiscard]] origin origin_at(std::size_t at) const noexcept {
        if (!data_) return origin::trusted;
        const auto& flips = data_->flips;
        const auto passed = static_cast<std::size_t>(std::upper_bound(flips.begin(), flips.end(), at) - flips.begin());
        return passed % 2 == 0 ? data_->first : other(data_->first);
    }
    /// True if all bytes have one origin.
    [[nodiscard]] bool uniform() const noexcept { return !data_ || data_->flips.empty(); }
    /// True if no byte is untrusted.
    [[nodiscard]] bool trusted() const noexcept {
        return !data_ || (data_->flips.empty() && data_->first == origin::trusted);
    }

    /// Calls f(bytes, origin) for each run in [begin, end), in order.
    template <class F>
    void for_each_run(std::size_t begin, std::size_t end, F&& f) const {
        if (!data_ || begin >= end) return;
        const auto& flips = data_->flips;
        auto next = std::upper_bound(flips.begin(), flips.end(), begin);
        origin from = (next - flips.begin()) % 2 == 0 ? data_->first : other(data_->first);
        while (begin < end) {
            const std::size_t stop = next == flips.end() ? end : std::min(end, *next);
            f(view().substr(begin, stop - begin), from);
            begin = stop;
            if (next != flips.end()) ++next;
            from = other(from);
        }
    }

    /// Byte offset of the character with this index; size() for length(). Constant time for ASCII, else a scan: the caller
    /// counts it.
    [[nodiscard]] std::size_t offset_of(std::size_t index) const noexcept {
        const std::string_view bytes = view();
        if (length() == bytes.size()) return std::min(index, bytes.size());
        std::size_t at = 0;
        while (index > 0 && at < bytes.size()) {
            at += detail::character_size(bytes, at);
            --index;
        }
        return at;
    }

    [[nodiscard]] bool operator==(const string& o) const noexcept { return view() == o.view(); }
    [[nodiscard]] bool operator==(std::string_view o) const noexcept { return view() == o; }

private:
    [[nodiscard]] static constexpr origin other(origin from) noexcept {
        return from == origin::trusted ? origin::untrusted : origin::trusted;
    }

    std::shared_ptr<const detail::string_data> data_;
};

namespace detail {

/// Puts a string together; the meter counts the work and bounds the size.
class string_builder {
public:
    explicit string_builder(meter& m) noexcept : meter_(&m), most_(m.allowed().memory) {}
    /// For the rendered text itself: at most limits::output bytes.
    [[nodiscard]] static string_builder for_output(meter& m) {
        string_builder out(m);
        out.most_ = m.allowed().output;
        return out;
    }

    [[nodiscard]] std::size_t size() const noexcept { return bytes_.size(); }
    [[nodiscard]] std::string_view view() const noexcept { return bytes_; }
    [[nodiscard]] meter& counter() const noexcept { return *meter_; }

    /// Room for `bytes` in all, so that a long text is copied once.
    void reserve(std::size_t bytes) {
        if (bytes > most_) too_large();
        meter_->need(bytes);
        bytes_.reserve(bytes);
    }
    void append(std::string_view bytes, origin from) {
        if (bytes.empty()) return;
        characters_ += character_count(bytes) - (joins(bytes) ? 1 : 0);
        put(bytes, from);
    }
    void append(const string& s) {
        if (s.empty()) return;
        characters_ += s.length() - (joins(s.view()) ? 1 : 0);
        s.for_each_run(0, s.size(), [&](std::string_view bytes, origin from) { put(bytes, from); });
    }
    /// Bytes [begin, end) of `s` with their origins.
    void append(const string& s, std::size_t begin, std::size_t end) {
        s.for_each_run(begin, end, [&](std::string_view bytes, origin from) { append(bytes, from); });
    }
    void append_code(char32_t code, origin from) {
        if (code < 0x80) {
            const char byte = static_cast<char>(code);
            return append(std::string_view(&byte, 1), from);
        }
        std::string bytes;
        colibri::text::append_utf8(bytes, code);
        append(bytes, from);
    }
    /// `unit`, `count` times.
    void append_repeated(std::string_view unit, std::size_t count, origin from) {
        if (unit.empty() || count == 0) return;
        if (count > most_ / unit.size()) too_large();
        grow(unit.size() * count);
        mark(from);
        const std::size_t joined = is_continuation(unit.front()) ? count - (bytes_.size() == 0 ? 1 : 0) : 0;
        characters_ += character_count(unit) * count - joined;
        if (unit.size() == 1) {
            bytes_.append(count, unit.front());
            return;
        }
        const std::size_t begin = bytes_.size(), end = begin + unit.size() * count;
        if (end > bytes_.capacity()) bytes_.reserve(std::max(end, bytes_.capacity() * 2));
        bytes_ += unit;
        while (bytes_.size() < end) bytes_.append(bytes_, begin, std::min(bytes_.size() - begin, end - bytes_.size()));
    }

    /// The string; the builder is empty afterwards.
    [[nodiscard]] string finish(bool safe = false) {
        if (bytes_.empty()) return {};
        meter_->step();
        auto data = std::make_shared<string_data>();
        data->charge = memory_charge(*meter_, sizeof(string_data) + bytes_.capacity() + flips_.size() * sizeof(std::size_t));
        data->bytes = std::exchange(bytes_, {});
        data->flips = std::exchange(flips_, {});
        data->first = first_;
        data->safe = safe;
        data->characters = std::exchange(characters_, 0);
        return string(std::move(data));
    }

    /// The text with its runs; the builder is empty afterwards.
    [[nodiscard]] marked_text finish_marked() {
        marked_text out;
        std::size_t begin = 0;
        bool trusted = first_ == origin::trusted;
        for (const std::size_t flip : flips_) {
            out.runs.push_back({begin, flip, trusted});
            begin = flip;
            trusted = !trusted;
        }
        if (begin < bytes_.size()) out.runs.push_back({begin, bytes_.size(), trusted});
        out.text = std::exchange(bytes_, {});
        flips_.clear();
        characters_ = 0;
        return out;
    }

private:
    [[noreturn]] void too_large() const { fail_limit("it makes a text of more than ", most_, " bytes"); }
    void grow(std::size_t more) {
        if (more > most_ || bytes_.size() > most_ - more) too_large();
        meter_->need(bytes_.size() + more + flips_.size() * sizeof(text_run));
        meter_->touch(more);
    }
    /// True if `bytes` begin inside of the last character.
    [[nodiscard]] bool joins(std::string_view bytes) const noexcept { return !bytes_.empty() && is_continuation(bytes.front()); }
    void put(std::string_view bytes, origin from) {
        grow(bytes.size());
        mark(from);
        bytes_ += bytes;
    }
    void mark(origin from) {
        if (bytes_.empty()) first_ = from;
        else if (from != last_) flips_.push_back(bytes_.size());
        last_ = from;
    }

    meter* meter_;
    std::size_t most_;
    std::string bytes_;
    std::vector<std::size_t> flips_;
    std::size_t characters_ = 0;
    origin first_ = origin::trusted;
    origin last_ = origin::trusted;
};

/// Bytes [begin, end) of `s` as a string of its own. `s` itself if that is all of it.
[[nodiscard]] inline string slice(meter& m, const string& s, std::size_t begin, std::size_t end) {
    if (begin == 0 && end == s.size()) return s;
    string_builder out(m);
    out.append(s, begin, end);
    return out.finish(s.safe());
}

}  // namespace detail
}  // namespace colibri::jinja
