// The header of a .safetensors file: names, types, shapes and places of its tensors, everything checked.
//
// A file is the header's length (u64), the header (a JSON object), and the tensors' data, which has no holes.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "colibri/convert/json.hpp"
#include "colibri/core/checked.hpp"
#include "colibri/io/byte_source.hpp"

namespace colibri::convert {

/// Types of a safetensors file's elements. Only the floats of 16 bits and more are weights that can be converted.
enum class element : std::uint8_t {
    f64,
    f32,
    f16,
    bf16,
    i64,
    u64,
    i32,
    u32,
    i16,
    u16,
    i8,
    u8,
    boolean,
    f8_e4m3,
    f8_e5m2,
    f8_e8m0,
    f6_e2m3,
    f6_e3m2,
    f4,
    c64
};

/// An element's name in the header and its size.
struct element_info {
    element type;
    std::string_view name;
    std::uint32_t bits;
};

inline constexpr std::array element_table = {
    element_info{element::f64, "F64", 64},        element_info{element::f32, "F32", 32},
    element_info{element::f16, "F16", 16},        element_info{element::bf16, "BF16", 16},
    element_info{element::i64, "I64", 64},        element_info{element::u64, "U64", 64},
    element_info{element::i32, "I32", 32},        element_info{element::u32, "U32", 32},
    element_info{element::i16, "I16", 16},        element_info{element::u16, "U16", 16},
    element_info{element::i8, "I8", 8},           element_info{element::u8, "U8", 8},
    element_info{element::boolean, "BOOL", 8},    element_info{element::f8_e4m3, "F8_E4M3", 8},
    element_info{element::f8_e5m2, "F8_E5M2", 8}, element_info{element::f8_e8m0, "F8_E8M0", 8},
    element_info{element::f6_e2m3, "F6_E2M3", 6}, element_info{element::f6_e3m2, "F6_E3M2", 6},
    element_info{element::f4, "F4", 4},           element_info{element::c64, "C64", 64},
};

[[nodiscard]] constexpr std::string_view name(element type) noexcept {
    for (const auto& row : element_table) {
        if (row.type == type) return row.name;
    }
    return "?";
}
[[nodiscard]] constexpr std::uint32_t bits_of(element type) noexcept {
    for (const auto& row : element_table) {
        if (row.type == type) return row.bits;
    }
    return 0;
}

/// One tensor of a file. `shape` is in the order of the header, the row's length last; an empty one is a single number.
struct stored_tensor {
    std::string name;
    element type = element::f32;
    std::vector<std::uint64_t> shape;
    std::uint64_t offset = 0;  ///< of its first byte in the file
    std::uint64_t bytes = 0;

    [[nodiscard]] std::uint64_t elements() const noexcept {
        std::uint64_t n = 1;
        for (const auto dim : shape) n *= dim;
        return n;
    }
};

/// "[320, 64]".
[[nodiscard]] inline std::string shape_text(const std::vector<std::uint64_t>& shape) {
    std::string out = "[";
    for (const auto dim : shape) out += concat(out.size() == 1 ? "" : ", ", dim);
    return out + "]";
}

/// Reads and checks the header: size of types and shapes against the ranges of data, which must cover the file without
/// holes or overlaps. The tensors come in the order of their data. Memory: the header's size (at most 100 MB), twice.
/// Errors: truncated, bad_magic, bad_count, bad_value, bad_utf8, bad_type, bad_shape, bad_offset, overflow, duplicate,
/// missing_key, limit, io; those about a tensor name it.
[[nodiscard]] inline result<std::vector<stored_tensor>> read_safetensors(byte_source& source);

namespace detail {

inline constexpr std::uint64_t max_header = 100'000'000;  // the format's own limit
inline constexpr std::size_t max_shape = 8;
inline constexpr std::size_t max_name = 4096;

/// Takes the header's events: an object of objects.
class safetensors_events : public json_events {
public:
    [[nodiscard]] std::vector<stored_tensor>& tensors() noexcept { return tensors_; }

    bool null() { return unexpected(); }
    bool boolean(bool) { return unexpected(); }
    bool number_integer(json::number_integer_t value) {
        if (value >= 0) return number_unsigned(static_cast<std::uint64_t>(value));
        if (!in_list()) return unexpected();
        return field_ == field::shape ? bad(errc::bad_shape, concat("its shape has the dimension ", value))
                                      : bad(errc::bad_offset, concat("it begins or ends at the offset ", value));
    }
    bool number_unsigned(json::number_unsigned_t value) {
        if (!in_list()) return unexpected();
        if (field_ == field::shape && tensor().shape.size() == max_shape) {
            return bad(errc::bad_shape, concat("its shape has more than ", max_shape, " dimensions"));
        }
        if (field_ == field::offsets && offsets_.size() == 2) return bad(errc::bad_count, "it has more than two 'data_offsets'");
        (field_ == field::shape ? tensor().shape : offsets_).push_back(value);
        return true;
    }
    bool number_float(json::number_float_t, const std::string& digits) {
        if (!in_list()) return unexpected();
        const std::string_view what = field_ == field::shape ? "shape" : "data_offsets";
        if (digits.find_first_not_of("-0123456789") == std::string::npos) {
            return bad(errc::overflow, concat("the number ", escaped(digits, 40), " in its '", what, "' is beyond 64 bits"));
        }
        return bad(errc::bad_type, concat("the number ", escaped(digits, 40), " in its '", what, "' is not a whole one"));
    }
    bool string(std::string& value) {
        if (depth_ == 2 && in_metadata_) return true;
        if (depth_ != 2 || field_ != field::type) return unexpected();
        for (const auto& row : element_table) {
            if (row.name != value) continue;
            tensor().type = row.type;
            return true;
        }
        return bad(errc::bad_type, concat("its dtype is ", quoted(value, 40), ", which is not known"));
    }
    bool start_object(std::size_t) {
        if (depth_ == 1) {
            begin_tensor();
        } else if (depth_ != 0) {
            return unexpected();
        }
        ++depth_;
        return true;
    }
    bool end_object() {
        --depth_;
        return depth_ != 1 || in_metadata_ || finish_tensor();
    }
    bool start_array(std::size_t) {
        if (depth_ == 0) return refuse(errc::bad_value, "it is not an object");
        if (depth_ != 2 || in_metadata_ || (field_ != field::shape && field_ != field::offsets)) return unexpected();
        ++depth_;
        return true;
    }
    bool end_array() {
        --depth_;
        return true;
    }
    bool key(std::string& name) {
        if (depth_ == 1) {
            in_metadata_ = name == "__metadata__";
            if (name.size() > max_name)
                return refuse(errc::bad_value, concat("a tensor's name is longer than ", max_name, " bytes"));
            name_ = name;
            return true;
        }
        if (in_metadata_) return true;
        const field which = name == "dtype"          ? field::type
                            : name == "shape"        ? field::shape
                            : name == "data_offsets" ? field::offsets
                                                     : field::none;
        if (which == field::none) return bad(errc::bad_value, concat("it has the unknown field ", quoted(name, 40)));
        const unsigned bit = 1u << static_cast<unsigned>(which);
        if ((seen_ & bit) != 0) return bad(errc::duplicate, concat("it has the field ", quoted(name), " twice"));
        seen_ |= bit;
        field_ = which;
        return true;
    }

private:
    enum class field : unsigned { none, type, shape, offsets };

    [[nodiscard]] stored_tensor& tensor() noexcept { return tensors_.back(); }
    [[nodiscard]] bool in_list() const noexcept { return depth_ == 3; }
    bool bad(errc code, std::string message) {
        refuse(code, concat("tensor ", quoted(name_), ": ", message));
        return false;
    }
    bool unexpected() {
        if (depth_ == 0) return refuse(errc::bad_value, "it is not an object");
        if (in_metadata_) return refuse(errc::bad_type, "'__metadata__' must be an object of texts");
        if (depth_ == 1) return bad(errc::bad_type, "its entry is not an object");
        const std::string_view what = field_ == field::type ? "dtype" : field_ == field::shape ? "shape" : "data_offsets";
        return bad(errc::bad_type, concat("its '", what, "' is of the wrong type"));
    }
    void begin_tensor() {
        if (in_metadata_) return;
        tensors_.emplace_back();
        tensor().name = name_;
        offsets_.clear();
        seen_ = 0;
        field_ = field::none;
    }
    bool finish_tensor() {
        const std::pair<field, std::string_view> needed[] = {
            {field::type, "dtype"}, {field::shape, "shape"}, {field::offsets, "data_offsets"}};
        for (const auto& [which, name] : needed) {
            if ((seen_ & (1u << static_cast<unsigned>(which))) == 0)
                return bad(errc::missing_key, concat("it has no '", name, "'"));
        }
        if (offsets_.size() != 2) return bad(errc::bad_count, "it has not two 'data_offsets'");
        if (offsets_[1] < offsets_[0]) return bad(errc::bad_offset, "its data ends before it begins");
        tensor().offset = offsets_[0];
        tensor().bytes = offsets_[1] - offsets_[0];
        std::uint64_t bits = bits_of(tensor().type);
        bool empty = false;
        for (const auto dim : tensor().shape) empty = empty || dim == 0;
        for (const auto dim : tensor().shape) {
            if (empty) break;
            const auto product = checked_mul(bits, dim);
            if (!product)
                return bad(errc::overflow, concat("its shape ", shape_text(tensor().shape), " is larger than any file"));
            bits = *product;
        }
        if (empty) bits = 0;
        if (bits % 8 != 0 || bits / 8 != tensor().bytes) {
            return bad(errc::bad_shape, concat("its shape ", shape_text(tensor().shape), " of ", convert::name(tensor().type),
                                               " takes ", bits / 8, " bytes, but its data has ", tensor().bytes));
        }
        return true;
    }

    std::vector<stored_tensor> tensors_;
    std::string name_;
    std::vector<std::uint64_t> offsets_;
    unsigned depth_ = 0, seen_ = 0;
    field field_ = field::none;
    bool in_metadata_ = false;
};

/// What a file is that begins with these bytes, if it is of a known other kind.
[[nodiscard]] inline std::string_view other_kind(std::string_view start) noexcept {
    if (start.starts_with("GGUF")) return "a GGUF file, which needs no conversion";
    if (start.starts_with("PK\x03\x04")) return "a PyTorch or zip file; only .safetensors files can be converted";
    if (start.starts_with("version ")) return "a pointer of Git LFS in place of the file; fetch the file itself";
    if (start.starts_with("\x80\x02")) return "a pickle; only .safetensors files can be converted";
    return {};
}

/// Refuses names that come twice and data with holes or overlaps; offsets become those in the file.
[[nodiscard]] inline result<void> place_tensors(std::vector<stored_tensor>& tensors, std::uint64_t data, std::uint64_t size) {
    const auto named = [](const stored_tensor& t, errc code, std::string message, std::uint64_t at) {
        return error{code, concat("tensor ", quoted(t.name), ": ", message), at};
    };
    std::vector<std::string_view> names;
    names.reserve(tensors.size());
    for (const auto& tensor : tensors) names.push_back(tensor.name);
    std::ranges::sort(names);
    if (const auto twice = std::ranges::adjacent_find(names); twice != names.end())
        return error{errc::duplicate, concat("tensor ", quoted(*twice), " is there twice")};
    std::ranges::stable_sort(tensors, [](const stored_tensor& a, const stored_tensor& b) {
        return a.offset != b.offset ? a.offset < b.offset : a.bytes < b.bytes;
    });
    const std::uint64_t there = size - data;
    std::uint64_t end = 0;
    for (auto& tensor : tensors) {
        if (tensor.offset > there || tensor.bytes > there - tensor.offset) {
            const bool beyond_all = tensor.offset > (~std::uint64_t{0} >> 1);
            return named(tensor, beyond_all ? errc::overflow : errc::truncated,
                         concat("its data ends ", tensor.offset + tensor.bytes,
                                " bytes behind the header, but the file has only ", there, " there"),
                         size);
        }
        if (tensor.offset < end)
            return named(tensor, errc::bad_offset, "its data overlaps that of another one", data + tensor.offset);
        if (tensor.offset > end) return named(tensor, errc::bad_offset, "there is a hole in front of its data", data + end);
        end = tensor.offset + tensor.bytes;
        tensor.offset += data;
    }
    if (end != there)
        return error{errc::bad_count, concat("there are ", there - end, " bytes behind the last tensor"), data + end};
    return {};
}

}  // namespace detail

inline result<std::vector<stored_tensor>> read_safetensors(byte_source& source) {
    const std::uint64_t size = source.size();
    char start[8] = {};
    const auto first = static_cast<std::size_t>(std::min<std::uint64_t>(size, sizeof start));
    if (auto ok = source.read_at(0, std::as_writable_bytes(std::span(start, first))); !ok) return std::move(ok).error();
    if (const auto kind = detail::other_kind({start, first}); !kind.empty())
        return error{errc::bad_magic, concat("it is ", kind), 0};
    if (size < sizeof start) return error{errc::truncated, concat("the file has ", size, " bytes, too few for a header"), size};
    std::uint64_t length = 0;
    std::memcpy(&length, start, sizeof length);
    if (length == 0) return error{errc::bad_value, "the header length is 0", 0};
    if (length > detail::max_header) {
        return error{errc::bad_count,
                     concat("the header length is ", length, ", more than the format allows (", detail::max_header,
                            "); this is no safetensors file"),
                     0};
    }
    if (length > size - sizeof start) {
        return error{errc::truncated,
                     concat("the header length is ", length, ", but only ", size - sizeof start,
                            " bytes follow; the file is damaged or was not copied to its end"),
                     0};
    }
    std::string header(static_cast<std::size_t>(length), '\0');
    if (auto ok = source.read_at(sizeof start, std::as_writable_bytes(std::span(header))); !ok) return std::move(ok).error();
    if (header[0] != '{')
        return error{errc::bad_value, "the header doesn't begin with '{'; this is no safetensors file", sizeof start};
    detail::safetensors_events events;
    if (auto ok = read_json(header, "the header", events, sizeof start); !ok) return std::move(ok).error();
    if (auto ok = detail::place_tensors(events.tensors(), sizeof start + length, size); !ok) return std::move(ok).error();
    return std::move(events.tensors());
}

}  // namespace colibri::convert
