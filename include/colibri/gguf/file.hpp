// A model's GGUF file, or all files of a split one, as one list of tensors.
#pragma once

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "colibri/gguf/container_reader.hpp"
#include "colibri/io/file_reader.hpp"

namespace colibri::gguf {

/// How `file::open` goes about it.
struct open_options {
    container_limits limits = {};
    bool whole = true;  ///< false: only the named file, even if it is one part of a split model
};

/// The name of part `number` (from 0) of `count`, made from the name of any part "…-00001-of-00003.gguf"; nothing when
/// the name doesn't end that way or names another count.
[[nodiscard]] inline std::optional<std::filesystem::path> split_path(const std::filesystem::path& any_part,
                                                                     unsigned number, unsigned count) {
    const auto five = [](unsigned n) {
        std::string digits = concat(n);
        return std::string(digits.size() < 5 ? 5 - digits.size() : 0, '0') + digits;
    };
    const std::string name = any_part.filename().string();
    const std::string tail = concat("-of-", five(count), ".gguf");
    if (!name.ends_with(tail) || name.size() < tail.size() + 6) return std::nullopt;
    const std::string_view front(name.data(), name.size() - tail.size());
    const std::string_view digits = front.substr(front.size() - 5);
    if (front[front.size() - 6] != '-' || digits.find_first_not_of("0123456789") != std::string_view::npos)
        return std::nullopt;
    return any_part.parent_path() / concat(front.substr(0, front.size() - 5), five(number + 1), tail);
}

/// Metadata and tensor list of a model; holds no weights and no open file. Of a split model the metadata is the first
/// part's. Immutable after `open`, so threads may share it.
class file {
public:
    /// Reads the headers of a model. Naming a later part of a split model opens the whole from its first part.
    /// Errors: those of read_container, with the file as context; not_found, not_a_file, io; split (a part is missing
    /// or doesn't belong to the others).
    [[nodiscard]] static result<file> open(const std::filesystem::path& path, const open_options& options = {}) {
        file out;
        if (auto ok = out.add(path, options); !ok) return std::move(ok).error();
        if (options.whole) {
            if (auto ok = out.add_others(options); !ok) return std::move(ok).error();
        }
        return out.indexed();
    }

    /// The same of one container that is in memory or elsewhere; `name` stands for the file in errors.
    [[nodiscard]] static result<file> read(byte_source& source, std::string_view name,
                                           const open_options& options = {}) {
        file out;
        if (auto ok = out.add(source, name, options); !ok) return std::move(ok).error();
        return out.indexed();
    }

    [[nodiscard]] const metadata& meta() const noexcept { return meta_; }
    [[nodiscard]] std::span<const tensor_info> tensors() const noexcept { return tensors_; }
    [[nodiscard]] std::span<const part> parts() const noexcept { return parts_; }

    /// The tensor of that name, or null. O(log n).
    [[nodiscard]] const tensor_info* find(std::string_view name) const noexcept {
        const auto at = std::ranges::lower_bound(by_name_, name, {},
                                                 [&](std::uint32_t i) -> std::string_view { return tensors_[i].name; });
        return at == by_name_.end() || tensors_[*at].name != name ? nullptr : &tensors_[*at];
    }

    /// Bytes of all tensors together, without padding.
    [[nodiscard]] std::uint64_t tensor_bytes() const noexcept {
        std::uint64_t sum = 0;
        for (const auto& tensor : tensors_) sum += tensor.bytes;
        return sum;
    }

private:
    [[nodiscard]] result<void> add(const std::filesystem::path& path, const open_options& options) {
        auto reader = file_reader::open(path);
        if (!reader) return std::move(reader).error();
        if (auto ok = add(**reader, quoted(path.string()), options); !ok) return ok;
        parts_.back().path = path;
        return {};
    }
    [[nodiscard]] result<void> add(byte_source& source, std::string_view name, const open_options& options) {
        auto got = read_container(source, options.limits);
        if (!got) return std::move(got).error().within(name);
        const auto number = static_cast<unsigned>(parts_.size());
        (number == 0 ? meta_ : last_meta_) = std::move(got->meta);
        parts_.push_back(std::move(got->where));
        for (auto& tensor : got->tensors) {
            tensor.part = number;
            tensors_.push_back(std::move(tensor));
        }
        return {};
    }
    [[nodiscard]] result<void> add_others(const open_options& options);
    [[nodiscard]] result<file> indexed();

    metadata meta_;
    metadata last_meta_;  // of the later part that was read last; empty when done
    std::vector<tensor_info> tensors_;
    std::vector<part> parts_;
    std::vector<std::uint32_t> by_name_;
};

inline result<void> file::add_others(const open_options& options) {
    const std::filesystem::path named = parts_[0].path;
    const auto within = [](error e, const std::filesystem::path& path) {
        return std::move(e).within(quoted(path.string()));
    };
    auto count = meta_.get_or<std::uint32_t>("split.count", 1);
    auto number = count ? meta_.get_or<std::uint32_t>("split.no", 0) : count;
    if (!number) return within(std::move(number).error(), named);
    if (*count <= 1) return {};
    if (*number >= *count) {
        return within({errc::split, concat("the key 'split.no' is ", *number, ", but 'split.count' only ", *count)},
                      named);
    }
    const auto first = split_path(named, 0, *count);
    if (!first) {
        return within({errc::split,
                       concat("the file is part ", *number + 1, " of ", *count, " (key 'split.count'), but its file ",
                              "name doesn't end in -00001-of-... with that count; give all parts their names back")},
                      named);
    }
    if (*number != 0) {
        *this = file();
        if (auto ok = add(*first, options); !ok) {
            return within({errc::split, concat("this is part ", *number + 1, " of ", *count,
                                               "; the first part is needed: ", ok.error().text())},
                          named);
        }
    }
    for (unsigned i = 0; i < *count; ++i) {
        const auto path = *split_path(named, i, *count);
        if (i != 0) {
            if (auto ok = add(path, options); !ok) {
                return within(
                    {errc::split, concat("part ", i + 1, " of ", *count, " can't be used: ", ok.error().text())},
                    *first);
            }
        }
        const metadata& meta = i == 0 ? meta_ : last_meta_;
        auto its_count = meta.get<std::uint32_t>("split.count");
        auto its_number = its_count ? meta.get<std::uint32_t>("split.no") : its_count;
        if (!its_number) return within(std::move(its_number).error(), path);
        if (*its_count != *count || *its_number != i) {
            return within(
                {errc::split, concat("it should be part ", i + 1, " of ", *count, ", but says it is part ",
                                     *its_number + 1, " of ", *its_count, " (keys 'split.no' and 'split.count')")},
                path);
        }
    }
    auto total = meta_.get_or<std::uint64_t>("split.tensors.count", tensors_.size());
    if (!total) return within(std::move(total).error(), *first);
    if (*total != tensors_.size()) {
        return within({errc::split, concat("the key 'split.tensors.count' is ", *total, ", but the ", *count,
                                           " parts have ", tensors_.size(), " tensors")},
                      *first);
    }
    return {};
}

inline result<file> file::indexed() {
    last_meta_ = {};
    by_name_.resize(tensors_.size());
    for (std::size_t i = 0; i < by_name_.size(); ++i) by_name_[i] = static_cast<std::uint32_t>(i);
    const auto name_of = [&](std::uint32_t i) -> std::string_view { return tensors_[i].name; };
    std::ranges::sort(by_name_, {}, name_of);
    const auto twice = std::ranges::adjacent_find(by_name_, {}, name_of);
    if (twice != by_name_.end()) {
        return error{errc::split, concat("the tensor ", quoted(tensors_[*twice].name), " is in two parts"),
                     error::no_offset, quoted(parts_[0].path.string())};
    }
    return std::move(*this);
}

}  // namespace colibri::gguf
