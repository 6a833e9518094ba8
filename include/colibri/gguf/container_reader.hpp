// Reads one GGUF container: header, metadata and tensor list, everything checked.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "colibri/gguf/container.hpp"
#include "colibri/gguf/foreign.hpp"
#include "colibri/io/byte_reader.hpp"

namespace colibri::gguf {

/// What `read_container` may take.
struct container_limits {
    /// Header bytes at most; the largest published ones (262,144 tokens with merges) have about 20 MB.
    std::uint64_t header_bytes = std::uint64_t{128} << 20;
};

/// Reads and checks everything before the tensor data, and that the data is all there. Every count, length, offset and
/// product is checked against the bytes that are there before anything is allocated for it. Errors: truncated,
/// bad_magic, bad_version, overflow, bad_type, bad_count, bad_offset, bad_alignment, duplicate, bad_shape, bad_value,
/// bad_utf8, limit, io; messages name the key or tensor, not the file. Source: ggml's docs/gguf.md.
[[nodiscard]] result<container> read_container(byte_source& source, const container_limits& limits = {});

namespace detail {

/// Reads the parts of one container in their order.
class container_parser {
public:
    container_parser(byte_source& source, const container_limits& limits)
        : source_(source), in_(source, limits.header_bytes) {}

    [[nodiscard]] result<container> run() {
        out_.where.size = source_.size();
        using step_type = result<void> (container_parser::*)();
        for (const step_type step : {&container_parser::header, &container_parser::keys, &container_parser::alignment,
                                     &container_parser::tensors, &container_parser::names, &container_parser::places,
                                     &container_parser::overlaps}) {
            if (auto ok = (this->*step)(); !ok) return std::move(ok).error();
        }
        return std::move(out_);
    }

private:
    static constexpr std::uint64_t header_size = 24;
    static constexpr std::uint64_t least_key = 8 + 1 + 4 + 1;         // length, 1 byte, type, 1 byte
    static constexpr std::uint64_t least_tensor = 8 + 1 + 4 + 4 + 8;  // length, 1 byte, n_dims 0, type, offset

    [[nodiscard]] result<void> header();
    [[nodiscard]] result<void> foreign() const;
    [[nodiscard]] result<void> keys();
    [[nodiscard]] result<void> key();
    [[nodiscard]] result<void> alignment();
    [[nodiscard]] result<void> tensors();
    [[nodiscard]] result<void> tensor(tensor_info& info);
    [[nodiscard]] result<void> names();
    [[nodiscard]] result<void> places();
    [[nodiscard]] result<void> overlaps();

    [[nodiscard]] static std::string label(const tensor_info& info) { return concat("tensor ", quoted(info.name)); }

    byte_source& source_;
    source_reader in_;
    std::uint64_t n_tensors_ = 0;
    std::uint64_t n_keys_ = 0;
    std::uint64_t alignment_field_ = 0;         // where the type of 'general.alignment' stands in the file
    std::vector<std::uint64_t> offset_fields_;  // where the offset of each tensor stands in the file
    container out_;
};

inline result<void> container_parser::foreign() const {
    std::vector<std::byte> head(static_cast<std::size_t>(std::min<std::uint64_t>(source_.size(), foreign_head_size)));
    if (auto ok = source_.read_at(0, head); !ok) return ok;
    const std::string kind = describe_foreign(head);
    if (!kind.empty()) return error{errc::bad_magic, concat("this is not a GGUF file but ", kind), 0};
    const std::string_view magic(reinterpret_cast<const char*>(head.data()), std::min<std::size_t>(4, head.size()));
    return error{errc::bad_magic, concat("this is not a GGUF file: its magic is ", quoted(magic), " instead of 'GGUF'"),
                 0};
}

inline result<void> container_parser::header() {
    const std::uint64_t size = source_.size();
    if (size == 0) return error{errc::truncated, "this is an empty file; download or copy it again", 0};
    char magic[4] = {};
    const auto got = static_cast<std::size_t>(std::min<std::uint64_t>(size, sizeof magic));
    if (auto ok = source_.read_at(0, std::as_writable_bytes(std::span(magic).first(got))); !ok) return ok;
    if (std::string_view("GGUF").substr(0, got) != std::string_view(magic, got)) return foreign();
    if (size < header_size) {
        return error{errc::truncated,
                     concat("the file ends inside the GGUF header: it has ", size, " of ", header_size,
                            " bytes; download or copy it again"),
                     size};
    }
    auto version = in_.read<std::uint32_t>("the magic");
    if (version) version = in_.read<std::uint32_t>("the version");
    if (!version) return std::move(version).error();
    if (*version != 2 && *version != 3) {
        const std::uint32_t swapped = __builtin_bswap32(*version);
        if (swapped >= 1 && swapped <= 3) {
            return error{errc::bad_version, "this is a big-endian GGUF file; get the little-endian one or convert it",
                         4};
        }
        if (*version == 1) {
            return error{errc::bad_version,
                         "this is a GGUF file of version 1, which is too old; convert the model again", 4};
        }
        return error{
            errc::bad_version,
            concat("the GGUF version is ", *version, ", but only 2 and 3 are known; the file is damaged or too new"),
            4};
    }
    out_.where.version = *version;
    auto n_tensors = in_.read<std::uint64_t>("the tensor count");
    auto n_keys = n_tensors ? in_.read<std::uint64_t>("the metadata count") : std::move(n_tensors);
    if (!n_keys) return std::move(n_keys).error();
    n_tensors_ = *n_tensors;
    n_keys_ = *n_keys;
    if (n_tensors_ > in_.remaining() / least_tensor) {
        return error{errc::bad_count,
                     concat("the tensor count ", n_tensors_, " is more than ", size, " bytes can hold"), 8};
    }
    if (n_keys_ > in_.remaining() / least_key) {
        return error{errc::bad_count, concat("the metadata count ", n_keys_, " is more than ", size, " bytes can hold"),
                     16};
    }
    return {};
}

inline result<void> container_parser::keys() {
    for (std::uint64_t i = 0; i < n_keys_; ++i) {
        if (auto ok = key(); !ok) {
            auto e = std::move(ok).error();
            if (e.context.empty()) e.context = concat("key ", i, " (the metadata count is ", n_keys_, ")");
            return e;
        }
    }
    return {};
}

inline result<void> container_parser::key() {
    const std::uint64_t at = in_.offset();
    auto length = in_.read<std::uint64_t>("a key length");
    if (!length) return std::move(length).error();
    if (*length > max_key_size || *length > in_.remaining()) {
        return error{errc::bad_count,
                     concat("the key length ", *length, " is more than ",
                            std::min<std::uint64_t>(max_key_size, in_.remaining()), " bytes"),
                     at};
    }
    std::string text;
    if (auto ok = in_.append(text, *length, "a key"); !ok) return ok;
    if (auto ok = check_name("key", text, at); !ok) return ok;
    const auto named = [&](error e) { return std::move(e).within(concat("key ", quoted(text))); };
    if (out_.meta.contains(text)) return named({errc::duplicate, "the key is there twice", at});
    const std::uint64_t type_at = in_.offset();
    auto type = in_.read<std::uint32_t>("the value type");
    if (!type) return named(std::move(type).error());
    if (!is_value_type(*type))
        return named({errc::bad_type, concat("the value has the unknown type ", *type), type_at});
    auto found = value::decode(in_, static_cast<value_type>(*type));
    if (!found) return named(std::move(found).error());
    if (text == "general.alignment") alignment_field_ = type_at;
    out_.meta.insert(std::move(text), std::move(*found));
    return {};
}

inline result<void> container_parser::alignment() {
    auto found = read_alignment(out_.meta);
    if (!found) {
        auto e = std::move(found).error();
        e.offset = alignment_field_ + (e.code == errc::bad_type ? 0 : sizeof(std::uint32_t));
        return e;
    }
    out_.where.alignment = *found;
    return {};
}

inline result<void> container_parser::tensors() {
    for (std::uint64_t i = 0; i < n_tensors_; ++i) {
        tensor_info info;
        if (auto ok = tensor(info); !ok) {
            auto e = std::move(ok).error();
            if (!e.context.empty()) return e;
            if (info.name.empty()) {
                e.context =
                    concat("tensor ", i, " (the tensor count is ", n_tensors_, ", the metadata count ", n_keys_, ")");
            } else {
                e.context = label(info);
            }
            return e;
        }
        out_.tensors.push_back(std::move(info));
    }
    return {};
}

inline result<void> container_parser::tensor(tensor_info& info) {
    const std::uint64_t at = in_.offset();
    auto length = in_.read<std::uint64_t>("the length of a tensor's name");
    if (!length) return std::move(length).error();
    if (*length > max_tensor_name) {
        const bool fits = *length <= in_.remaining();
        return error{fits ? errc::bad_value : errc::bad_count,
                     concat("its name has ", *length, " bytes, more than the ", max_tensor_name, " that are allowed"),
                     at};
    }
    std::string text;
    if (auto ok = in_.append(text, *length, "a tensor's name"); !ok) return ok;
    if (auto ok = check_name("tensor name", text, at); !ok) return ok;
    info.name = std::move(text);

    const std::uint64_t dims_at = in_.offset();
    auto n_dims = in_.read<std::uint32_t>("its number of dimensions");
    if (!n_dims) return std::move(n_dims).error();
    if (*n_dims > max_dims) {
        return error{errc::bad_shape, concat("it has ", *n_dims, " dimensions, more than ", max_dims), dims_at};
    }
    info.n_dims = *n_dims;
    for (unsigned i = 0; i < info.n_dims; ++i) {
        auto dim = in_.read<std::uint64_t>("its dimensions");
        if (!dim) return std::move(dim).error();
        info.dims[i] = *dim;
    }
    const std::uint64_t type_at = in_.offset();
    auto type = in_.read<std::uint32_t>("its type");
    if (!type) return std::move(type).error();
    if (!find_dtype(*type)) return error{errc::bad_type, unknown_dtype_text(*type), type_at};
    info.type = static_cast<dtype>(*type);
    auto bytes = tensor_bytes(info.type, info.dims, info.n_dims);
    if (!bytes) {
        auto e = std::move(bytes).error();
        e.offset = dims_at + 4;
        return e;
    }
    info.bytes = *bytes;
    offset_fields_.push_back(in_.offset());
    auto offset = in_.read<std::uint64_t>("its offset");
    if (!offset) return std::move(offset).error();
    info.offset = *offset;
    return {};
}

inline result<void> container_parser::names() {
    std::vector<const tensor_info*> sorted;
    sorted.reserve(out_.tensors.size());
    for (const auto& info : out_.tensors) sorted.push_back(&info);
    std::ranges::sort(sorted, {}, [](const tensor_info* info) -> const std::string& { return info->name; });
    const auto twice = std::ranges::adjacent_find(
        sorted, {}, [](const tensor_info* info) -> const std::string& { return info->name; });
    if (twice == sorted.end()) return {};
    return error{errc::duplicate, "the tensor is there twice", error::no_offset, label(**twice)};
}

inline result<void> container_parser::places() {
    const std::uint64_t size = source_.size();
    const std::uint64_t step = out_.where.alignment;
    const std::uint64_t data = round_up(in_.offset(), step);  // both far below 2^63: a file's offset, and at most 2^30
    out_.where.data_offset = data;
    for (std::size_t i = 0; i < out_.tensors.size(); ++i) {
        tensor_info& info = out_.tensors[i];
        const auto refuse = [&](errc code, std::string message) {
            return error{code, std::move(message), offset_fields_[i], label(info)};
        };
        if (info.offset % step != 0) {
            return refuse(errc::bad_offset,
                          concat("its offset ", info.offset, " is not a multiple of the alignment ", step));
        }
        const auto begin = checked_add(info.offset, data);
        if (!begin) return refuse(errc::overflow, concat("its offset ", info.offset, " is larger than any file"));
        const auto end = checked_add(*begin, info.bytes);
        if (!end || *begin > ~std::uint64_t{0} >> 1) {
            return refuse(errc::bad_offset, concat("its offset ", info.offset, " is larger than any file"));
        }
        if (*end > size) {
            return refuse(errc::truncated,
                          concat("its data would be bytes ", *begin, " to ", *end, ", but the file has only ", size,
                                 "; it is incomplete or damaged, download or copy it again"));
        }
        info.offset = *begin;
    }
    return {};
}

inline result<void> container_parser::overlaps() {
    std::vector<std::uint32_t> order(out_.tensors.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::uint32_t>(i);
    std::ranges::stable_sort(order, {}, [&](std::uint32_t i) { return out_.tensors[i].offset; });
    for (std::size_t i = 1; i < order.size(); ++i) {
        const tensor_info& before = out_.tensors[order[i - 1]];
        const tensor_info& after = out_.tensors[order[i]];
        if (before.offset + before.bytes > after.offset) {
            return error{errc::bad_offset, concat("its data begins inside that of ", label(before)),
                         offset_fields_[order[i]], label(after)};
        }
    }
    return {};
}

}  // namespace detail

inline result<container> read_container(byte_source& source, const container_limits& limits) {
    return detail::container_parser(source, limits).run();
}

}  // namespace colibri::gguf
