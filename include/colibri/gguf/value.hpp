// One metadata value of any type, kept as the bytes that the file has.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "colibri/core/escape.hpp"
#include "colibri/gguf/value_bytes.hpp"
#include "colibri/gguf/value_type.hpp"
#include "colibri/io/byte_reader.hpp"

namespace colibri::gguf {

/// A metadata value: a number, a bool, a text, or an array of any of these or of arrays. An array is one block of
/// memory with the file's own encoding (and the place of each element, 4 bytes, when elements vary in size), so a
/// vocabulary of 262,144 texts costs two heap blocks.
class value {
public:
    /// The number 0 of type u8.
    value() : bytes_(1, '\0') {}

    template <class T>
    requires std::is_arithmetic_v<T>
    [[nodiscard]] static value of(T number) {
        value out(value_type_of<T>, value_type_of<T>, 1);
        out.put(number);
        return out;
    }
    [[nodiscard]] static value of(std::string_view text) {
        value out(value_type::string, value_type::string, 1);
        out.bytes_ = text;
        return out;
    }
    /// An array of numbers or bools.
    template <class T>
    requires std::is_arithmetic_v<T>
    [[nodiscard]] static value array(std::span<const T> numbers) {
        value out(value_type::array, value_type_of<T>, numbers.size());
        for (const T number : numbers) out.put(number);
        return out;
    }
    /// An array of texts, from any range of things that convert to string_view.
    template <class Range>
    [[nodiscard]] static value strings(const Range& texts) {
        value out(value_type::array, value_type::string, 0);
        for (const auto& text : texts) {
            const std::string_view view = text;
            out.starts_.push_back(static_cast<std::uint32_t>(out.bytes_.size()));
            out.put(static_cast<std::uint64_t>(view.size()));
            out.bytes_ += view;
            ++out.count_;
        }
        return out;
    }
    /// An array of arrays. Precondition: all of `arrays` are arrays.
    [[nodiscard]] static value arrays(std::span<const value> arrays) {
        value out(value_type::array, value_type::array, arrays.size());
        for (const value& inner : arrays) {
            out.starts_.push_back(static_cast<std::uint32_t>(out.bytes_.size()));
            inner.encode(out.bytes_);
        }
        return out;
    }

    [[nodiscard]] value_type type() const noexcept { return type_; }
    [[nodiscard]] bool is_array() const noexcept { return type_ == value_type::array; }
    /// Type of an array's elements; type() of anything else.
    [[nodiscard]] value_type element_type() const noexcept { return element_; }
    /// Elements of an array; 1 for anything else.
    [[nodiscard]] std::size_t size() const noexcept { return count_; }

    /// The text. Precondition: type() is string.
    [[nodiscard]] std::string_view text() const noexcept { return bytes_; }
    /// Element `i` of an array of texts. Preconditions: element_type() is string, i < size().
    [[nodiscard]] std::string_view text_at(std::size_t i) const noexcept {
        const std::size_t begin = starts_[i] + sizeof(std::uint64_t);
        return std::string_view(bytes_).substr(begin, end_of(i) - begin);
    }
    /// The bytes of number or bool `i` as the file has them. Preconditions: fixed_bytes(element_type()) is not 0, i <
    /// size().
    [[nodiscard]] const char* number_bytes(std::size_t i) const noexcept {
        return bytes_.data() + i * fixed_bytes(element_);
    }
    /// Element `i` of an array as a value of its own (copied). Precondition: i < size().
    [[nodiscard]] value element(std::size_t i) const;

    /// The value as a T: bool, any integer or float type, std::string_view (a view of this object) or std::string.
    /// Integers of any width convert when they fit. Errors: bad_type, bad_value; they don't name the key.
    template <class T>
    [[nodiscard]] result<T> as() const {
        if (is_array()) return detail::wrong_type("a single value", type_);
        return at<T>(0);
    }
    /// Element `i` of an array as a T. Errors: bad_type, bad_value, invalid_argument (i not below size()).
    template <class T>
    [[nodiscard]] result<T> at(std::size_t i) const {
        if (i >= count_) {
            return error{errc::invalid_argument, concat("element ", i, " was asked for, but there are ", count_)};
        }
        if constexpr (std::is_arithmetic_v<T>) {
            if (fixed_bytes(element_) == 0) return detail::wrong_type(detail::wanted_text<T>, element_);
            return detail::convert_number<T>(element_, number_bytes(i));
        } else {
            if (element_ != value_type::string) return detail::wrong_type("a text", element_);
            return T(is_array() ? text_at(i) : text());
        }
    }
    /// All elements of an array, converted as `at` does. Errors: bad_type (no array, or another element type),
    /// bad_value.
    template <class T>
    [[nodiscard]] result<std::vector<T>> to_vector() const {
        if (!is_array()) return detail::wrong_type("an array", type_);
        std::vector<T> out;
        out.reserve(count_);
        for (std::size_t i = 0; i < count_; ++i) {
            auto element = at<T>(i);
            if (!element) {
                auto e = std::move(element).error();
                e.message = concat("element ", i, " ", e.message);
                return e;
            }
            out.push_back(std::move(*element));
        }
        return out;
    }

    /// Appends the value as a file has it behind the type number.
    void encode(std::string& out) const;

    /// Equal type and equal bytes.
    [[nodiscard]] friend bool operator==(const value& a, const value& b) noexcept {
        return a.type_ == b.type_ && a.element_ == b.element_ && a.count_ == b.count_ && a.bytes_ == b.bytes_;
    }

    /// Reads a value of `type` with everything checked against what is left; Reader is byte_reader or source_reader.
    /// Errors: truncated, bad_type, bad_count, overflow, bad_value, limit, io.
    template <class Reader>
    [[nodiscard]] static result<value> decode(Reader& in, value_type type) {
        value out(type, type, 1);
        auto ok = type == value_type::array ? out.decode_array(in) : out.decode_single(in);
        if (!ok) return std::move(ok).error();
        out.bytes_.shrink_to_fit();
        out.starts_.shrink_to_fit();
        return out;
    }

private:
    value(value_type type, value_type element, std::size_t count) : type_(type), element_(element), count_(count) {}

    template <class T>
    void put(T number) {
        char raw[sizeof(T)];
        std::memcpy(raw, &number, sizeof(T));
        bytes_.append(raw, sizeof(T));
    }
    [[nodiscard]] std::size_t end_of(std::size_t i) const noexcept {
        return i + 1 < starts_.size() ? starts_[i + 1] : bytes_.size();
    }
    template <class Reader>
    [[nodiscard]] result<void> decode_single(Reader& in);
    template <class Reader>
    [[nodiscard]] result<void> decode_array(Reader& in);

    value_type type_ = value_type::u8;
    value_type element_ = value_type::u8;
    std::size_t count_ = 1;
    std::string bytes_;                  ///< text, number, or the elements as the file has them
    std::vector<std::uint32_t> starts_;  ///< where in bytes_ each text or inner array begins
};

template <class Reader>
result<void> value::decode_single(Reader& in) {
    if (type_ != value_type::string) {
        const std::uint64_t at = in.offset();
        if (auto ok = in.append(bytes_, fixed_bytes(type_), "a value"); !ok) return ok;
        if (type_ == value_type::boolean && static_cast<unsigned char>(bytes_[0]) > 1) {
            return error{
                errc::bad_value,
                concat("a bool is ", static_cast<unsigned>(static_cast<unsigned char>(bytes_[0])), ", not 0 or 1"), at};
        }
        return {};
    }
    auto length = detail::read_length(in);
    if (!length) return std::move(length).error();
    return in.append(bytes_, *length, "a text");
}

template <class Reader>
result<void> value::decode_array(Reader& in) {
    auto header = detail::read_array_header(in);
    if (!header) return std::move(header).error();
    element_ = header->first;
    count_ = static_cast<std::size_t>(header->second);
    return detail::read_elements(in, element_, count_, bytes_, &starts_, 1);
}

inline value value::element(std::size_t i) const {
    if (!is_array()) return *this;
    if (element_ == value_type::string) return of(text_at(i));
    if (const std::size_t each = fixed_bytes(element_); each != 0) {
        value out(element_, element_, 1);
        out.bytes_.assign(bytes_, i * each, each);
        return out;
    }
    const auto inner = std::string_view(bytes_).substr(starts_[i], end_of(i) - starts_[i]);
    byte_reader in(std::as_bytes(std::span(inner.data(), inner.size())));
    auto out = decode(in, value_type::array);  // these bytes were checked when they were read or written
    return out ? std::move(*out) : value();
}

inline void value::encode(std::string& out) const {
    if (is_array()) {
        detail::append_number(out, static_cast<std::uint32_t>(element_));
        detail::append_number(out, static_cast<std::uint64_t>(count_));
    } else if (type_ == value_type::string) {
        detail::append_number(out, static_cast<std::uint64_t>(bytes_.size()));
    }
    out += bytes_;
}

}  // namespace colibri::gguf
