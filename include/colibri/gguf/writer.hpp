// Writes GGUF files, version 3: header first, then tensor data as it comes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "colibri/gguf/container.hpp"
#include "colibri/io/atomic_writer.hpp"

namespace colibri::gguf {

/// Writes one file that appears under its name when it is complete. The tensors' types and shapes are given at the
/// start, their bytes afterwards, in any pieces; so a file larger than memory can be written. One thread at a time.
class writer {
public:
    /// Checks everything that a reader would and writes the header. Of `tensors` the name, type, n_dims and dims count.
    /// Alignment is 'general.alignment' of `meta` (u32), else 32. Errors: bad_value, bad_utf8, bad_count, bad_type,
    /// bad_alignment, duplicate, bad_shape, overflow; those of atomic_writer.
    [[nodiscard]] static result<writer> create(const std::filesystem::path& path, const metadata& meta,
                                               std::vector<tensor_info> tensors, write_options options = {});

    /// The tensors with the offsets and sizes that they have in the file.
    [[nodiscard]] std::span<const tensor_info> tensors() const noexcept { return tensors_; }
    /// The tensor whose bytes come next, or null when all are written.
    [[nodiscard]] const tensor_info* next() const noexcept {
        return current_ < tensors_.size() ? &tensors_[current_] : nullptr;
    }

    /// Where the file will be, links followed.
    [[nodiscard]] const std::filesystem::path& path() const noexcept { return out_.path(); }

    /// Writes the next bytes of next(); when it is complete the padding is added and the tensor behind it is next.
    /// Errors: invalid_argument (more bytes than it has left), io.
    [[nodiscard]] result<void> write(std::span<const std::byte> bytes) {
        const tensor_info* tensor = next();
        if (bytes.empty()) return {};
        if (tensor == nullptr || bytes.size() > tensor->bytes - done_) {
            return error{errc::invalid_argument,
                         concat(bytes.size(), " bytes are too many for what is left of the tensor ",
                                tensor == nullptr ? std::string("list") : quoted(tensor->name))};
        }
        if (auto ok = out_.write(bytes); !ok) return ok;
        done_ += bytes.size();
        if (done_ < tensor->bytes) return {};
        ++current_;
        done_ = 0;
        return pad();
    }

    /// Puts all bytes on the disk, so that `finish` only has to give the file its name. Errors: as `finish`.
    [[nodiscard]] result<void> seal() {
        if (auto ok = complete(); !ok) return ok;
        return out_.seal();
    }

    /// Puts the file under its name. Errors: invalid_argument (bytes of a tensor are missing), io.
    [[nodiscard]] result<void> finish() {
        if (auto ok = complete(); !ok) return ok;
        return out_.commit();
    }

private:
    explicit writer(atomic_writer out) : out_(std::move(out)) {}

    [[nodiscard]] result<void> complete() const {
        const tensor_info* tensor = next();
        if (tensor == nullptr) return {};
        return error{errc::invalid_argument,
                     concat("the tensor ", quoted(tensor->name), " lacks ", tensor->bytes - done_, " bytes")};
    }

    /// Zeros up to the next multiple of the alignment.
    [[nodiscard]] result<void> pad() {
        static constexpr std::byte zeros[4096] = {};
        std::uint64_t left = round_up(out_.written(), alignment_) - out_.written();
        while (left != 0) {
            const auto now = static_cast<std::size_t>(std::min<std::uint64_t>(left, sizeof zeros));
            if (auto ok = out_.write(std::span(zeros, now)); !ok) return ok;
            left -= now;
        }
        return {};
    }

    atomic_writer out_;
    std::vector<tensor_info> tensors_;
    std::size_t current_ = 0;
    std::uint64_t done_ = 0;  // bytes written of the current tensor
    std::uint64_t alignment_ = default_alignment;
};

namespace detail {

inline void append_text(std::string& out, std::string_view text) {
    append_number(out, static_cast<std::uint64_t>(text.size()));
    out += text;
}

/// Appends all keys. Errors: bad_value, bad_utf8, bad_count.
[[nodiscard]] inline result<void> append_keys(std::string& out, const metadata& meta) {
    for (const auto& [key, value] : meta.entries()) {
        if (auto ok = check_name("key", key, error::no_offset); !ok) return ok;
        if (key.size() > max_key_size)
            return error{errc::bad_count, concat("the key ", quoted(key), " is longer than ", max_key_size, " bytes")};
        append_text(out, key);
        append_number(out, static_cast<std::uint32_t>(value.type()));
        value.encode(out);
    }
    return {};
}

/// Appends one entry of the tensor list; its data begins `offset` bytes behind the start of all data.
inline void append_tensor(std::string& out, const tensor_info& tensor, std::uint64_t offset) {
    append_text(out, tensor.name);
    append_number(out, static_cast<std::uint32_t>(tensor.n_dims));
    for (unsigned i = 0; i < tensor.n_dims; ++i) append_number(out, tensor.dims[i]);
    append_number(out, static_cast<std::uint32_t>(tensor.type));
    append_number(out, offset);
}

[[nodiscard]] inline std::string header_start(std::uint32_t version, std::size_t tensors, std::size_t keys) {
    std::string out = "GGUF";
    append_number(out, version);
    append_number(out, static_cast<std::uint64_t>(tensors));
    append_number(out, static_cast<std::uint64_t>(keys));
    return out;
}

/// Header bytes without the padding; `tensors` get sizes, and offsets from the start of the data, in their order.
[[nodiscard]] inline result<std::string> encode_header(const metadata& meta, std::uint64_t alignment,
                                                       std::vector<tensor_info>& tensors) {
    std::string out = header_start(3, tensors.size(), meta.size());
    if (auto ok = append_keys(out, meta); !ok) return std::move(ok).error();
    std::uint64_t offset = 0;
    for (auto& tensor : tensors) {
        const auto named = [&](error e) { return std::move(e).within(concat("tensor ", quoted(tensor.name))); };
        if (auto ok = check_name("tensor name", tensor.name, error::no_offset); !ok) return std::move(ok).error();
        if (tensor.name.size() > max_tensor_name) {
            return named({errc::bad_value, concat("its name is longer than ", max_tensor_name, " bytes")});
        }
        if (tensor.n_dims > max_dims)
            return named({errc::bad_shape, concat("it has more than ", max_dims, " dimensions")});
        for (unsigned i = tensor.n_dims; i < max_dims; ++i) {
            if (tensor.dims[i] != 1)
                return named({errc::bad_shape, "a dimension beyond its number of dimensions is not 1"});
        }
        auto bytes = tensor_bytes(tensor.type, tensor.dims, tensor.n_dims);
        if (!bytes) return named(std::move(bytes).error());
        tensor.bytes = *bytes;
        tensor.offset = offset;
        tensor.part = 0;
        append_tensor(out, tensor, offset);
        const auto end = checked_add(offset, *bytes);
        if (!end || *end > (~std::uint64_t{0} >> 1) - alignment)
            return named({errc::overflow, "the tensors are larger than any file"});
        offset = round_up(*end, alignment);
    }
    std::vector<std::string_view> names;
    names.reserve(tensors.size());
    for (const auto& tensor : tensors) names.push_back(tensor.name);
    std::ranges::sort(names);
    if (const auto twice = std::ranges::adjacent_find(names); twice != names.end()) {
        return error{errc::duplicate, "the tensor is there twice", error::no_offset, concat("tensor ", quoted(*twice))};
    }
    return out;
}

}  // namespace detail

inline result<writer> writer::create(const std::filesystem::path& path, const metadata& meta,
                                     std::vector<tensor_info> tensors, write_options options) {
    const auto within = [&](error e) { return std::move(e).within(quoted(path.string())); };
    auto alignment = detail::read_alignment(meta);
    if (!alignment) return within(std::move(alignment).error());
    auto header = detail::encode_header(meta, *alignment, tensors);
    if (!header) return within(std::move(header).error());
    const std::uint64_t data = round_up<std::uint64_t>(header->size(), *alignment);
    std::uint64_t end = data;
    for (auto& tensor : tensors) {
        tensor.offset += data;
        end = round_up(tensor.offset + tensor.bytes, *alignment);
    }
    options.expected_size = end;
    auto out = atomic_writer::create(path, options);
    if (!out) return std::move(out).error();
    writer made(std::move(*out));
    made.alignment_ = *alignment;
    made.tensors_ = std::move(tensors);
    if (auto ok = made.out_.write(*header); !ok) return std::move(ok).error();
    if (auto ok = made.pad(); !ok) return std::move(ok).error();
    return made;
}

}  // namespace colibri::gguf
