// Writes a model as one GGUF file or as a set of them.
#pragma once

#include <filesystem>
#include <span>
#include <utility>
#include <vector>

#include "colibri/gguf/split_plan.hpp"
#include "colibri/gguf/writer.hpp"

namespace colibri::gguf {

/// As `writer`, for tensors whose `part` says which file they go to (see plan_split; `tensors()` of a split `file` have theirs).
/// All parts are given their place on the disk at the start and appear at `finish`, the first one last: a set that was broken off
/// can't be opened, and a set of before is either whole or can't be opened. Move-only; one thread at a time.
class shard_writer {
public:
    /// `path` is the file's name, or for several parts what shard_paths makes of it. The first part gets all of `meta`, the others
    /// only the keys that number them and the alignment; keys 'split.*' of `meta` are replaced.
    /// Errors: invalid_argument (parts descend, one of them has no tensor, or there are too many); those of writer::create.
    [[nodiscard]] static result<shard_writer> create(const std::filesystem::path& path, metadata meta,
                                                     std::vector<tensor_info> tensors, const write_options& options = {});

    /// The tensors with their offsets and sizes in their parts' files.
    [[nodiscard]] std::span<const tensor_info> tensors() const noexcept { return tensors_; }
    /// The files that will appear.
    [[nodiscard]] std::span<const std::filesystem::path> paths() const noexcept { return paths_; }
    /// The tensor whose bytes come next, or null when all are written.
    [[nodiscard]] const tensor_info* next() const noexcept { return current_ < tensors_.size() ? &tensors_[current_] : nullptr; }

    /// Writes the next bytes of next(). Errors: invalid_argument (more bytes than it has left), io.
    [[nodiscard]] result<void> write(std::span<const std::byte> bytes) {
        if (bytes.empty()) return {};
        if (current_ == tensors_.size()) return writers_.back().write(bytes);  // which says what is wrong
        writer& out = writers_[tensors_[current_].part];
        const tensor_info* before = out.next();
        if (auto ok = out.write(bytes); !ok) return ok;
        if (out.next() == before) return {};
        ++current_;
        return out.next() == nullptr ? out.seal() : result<void>();
    }

    /// Puts the files under their names. Errors: invalid_argument (bytes of a tensor are missing), io.
    [[nodiscard]] result<void> finish();

private:
    shard_writer() = default;

    std::vector<writer> writers_;
    std::vector<tensor_info> tensors_;
    std::vector<std::filesystem::path> paths_;
    std::size_t current_ = 0;
};

namespace detail {

/// Metadata of part `number`, with the keys that number it.
[[nodiscard]] inline metadata shard_metadata(const metadata& whole, unsigned number, unsigned count, std::size_t tensors) {
    metadata out;
    if (number == 0) out = whole;
    else if (const value* alignment = whole.find("general.alignment")) out.set("general.alignment", *alignment);
    if (count > 1) {
        out.set("split.no", static_cast<std::uint16_t>(number));
        out.set("split.count", static_cast<std::uint16_t>(count));
        out.set("split.tensors.count", static_cast<std::int32_t>(tensors));
    }
    return out;
}

}  // namespace detail

inline result<shard_writer> shard_writer::create(const std::filesystem::path& path, metadata meta,
                                                 std::vector<tensor_info> tensors, const write_options& options) {
    remove_split_keys(meta);
    const auto refuse = [](std::string message) { return error{errc::invalid_argument, std::move(message)}; };
    std::vector<std::vector<tensor_info>> parts(1);
    for (const auto& tensor : tensors) {
        // The first part may be metadata alone, as some sets are cut; a later one without tensors would be a mistake.
        if (tensor.part + 1 < parts.size() || tensor.part > parts.size() || tensor.part >= max_parts) {
            return refuse(concat("the tensor ", quoted(tensor.name), " is for part ", tensor.part + 1, ", behind part ", parts.size(),
                                 "; parts have to follow each other"));
        }
        if (tensor.part == parts.size()) parts.emplace_back();
        parts.back().push_back(tensor);
    }
    std::vector<std::string_view> names;
    for (const auto& tensor : tensors) names.push_back(tensor.name);
    std::ranges::sort(names);
    if (const auto twice = std::ranges::adjacent_find(names); twice != names.end()) {
        return error{errc::duplicate, "the tensor is there twice", error::no_offset, concat("tensor ", quoted(*twice))};
    }
    shard_writer out;
    const auto count = static_cast<unsigned>(parts.size());
    out.paths_ = shard_paths(path, count);
    for (unsigned i = 0; i < count; ++i) {
        auto made = writer::create(out.paths_[i], detail::shard_metadata(meta, i, count, tensors.size()), parts[i], options);
        if (!made) return std::move(made).error();
        for (tensor_info tensor : made->tensors()) {
            tensor.part = i;
            out.tensors_.push_back(std::move(tensor));
        }
        out.writers_.push_back(std::move(*made));
    }
    return out;
}

inline result<void> shard_writer::finish() {
    for (auto& part : writers_) {
        if (auto ok = part.seal(); !ok) return ok;
    }
    // Without its first part a set can't be opened, so old and new parts are never taken for one model.
    if (writers_.size() > 1 && ::unlink(writers_[0].path().c_str()) != 0 && errno != ENOENT) {
        return colibri::detail::system_error("replace", paths_[0], errno);
    }
    for (std::size_t i = writers_.size(); i-- > 0;) {
        if (auto ok = writers_[i].finish(); !ok) return ok;
    }
    return {};
}

}  // namespace colibri::gguf
