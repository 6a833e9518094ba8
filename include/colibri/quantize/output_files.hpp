// Into which files a plan goes, and everything that speaks against writing them.
#pragma once

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "colibri/core/checked.hpp"
#include "colibri/core/concat.hpp"
#include "colibri/core/error.hpp"
#include "colibri/core/escape.hpp"
#include "colibri/gguf/file.hpp"
#include "colibri/gguf/writer.hpp"
#include "colibri/io/file_handle.hpp"
#include "colibri/quantize/plan.hpp"

namespace colibri::quantize {

/// One file of the output.
struct output_file {
    std::filesystem::path path;
    gguf::metadata meta;
    std::vector<gguf::tensor_info> tensors;
    std::uint64_t bytes = 0;  ///< of the whole file
};

/// How an output is split.
struct split_choice {
    bool keep = false;            ///< as the input is
    std::uint64_t max_bytes = 0;  ///< of a file's tensors, if there is more than one of them; 0: no limit
};

namespace detail {

/// Numbers the files that the tensors of a plan go to; returns how many there are.
[[nodiscard]] inline unsigned number_files(plan& work, const split_choice& split) {
    unsigned file = 0;
    std::uint64_t bytes = 0;
    std::optional<unsigned> part;
    for (auto& tensor : work.tensors) {
        const bool is_full = split.max_bytes != 0 && bytes != 0 && bytes + tensor.target.bytes > split.max_bytes;
        const bool is_next = split.keep && part && *part != tensor.source.part;
        if (is_full || is_next) {
            ++file;
            bytes = 0;
        }
        part = tensor.source.part;
        bytes += round_up(tensor.target.bytes, gguf::default_alignment);
        tensor.file = file;
    }
    return file + 1;
}

/// "name-00001-of-00003.gguf" for "name.gguf", or for any part's name.
[[nodiscard]] inline std::filesystem::path part_path(const std::filesystem::path& out, unsigned number, unsigned count) {
    std::string stem = out.filename().string();
    if (stem.ends_with(".gguf")) stem.resize(stem.size() - 5);
    constexpr std::size_t tail = 15;  // "-00001-of-00003"
    const auto are_digits = [&](std::size_t at) { return stem.find_first_not_of("0123456789", at) >= at + 5; };
    if (stem.size() > tail) {
        const std::size_t at = stem.size() - tail;
        if (stem[at] == '-' && are_digits(at + 1) && stem.compare(at + 6, 4, "-of-") == 0 && are_digits(at + 10)) stem.resize(at);
    }
    const auto five = [](unsigned n) {
        std::string digits = concat(n);
        return std::string(digits.size() < 5 ? 5 - digits.size() : 0, '0') + digits;
    };
    return out.parent_path() / concat(stem, "-", five(number + 1), "-of-", five(count), ".gguf");
}

}  // namespace detail

/// The files of a plan, each with its metadata and its size. Sets the `file` of its tensors. Errors: bad_count (too many files), those of
/// gguf::writer.
[[nodiscard]] inline result<std::vector<output_file>> output_files(plan& work, const std::filesystem::path& path, const split_choice& split) {
    const unsigned count = detail::number_files(work, split);
    constexpr unsigned most = 65535;
    if (count > most) return error{errc::bad_count, concat("the model would fall into ", count, " files, more than ", most, "; allow larger ones")};
    std::vector<output_file> out(count);
    for (unsigned i = 0; i < count; ++i) {
        auto& file = out[i];
        file.path = count == 1 ? path : detail::part_path(path, i, count);
        if (i == 0) {
            file.meta = work.meta;
        } else if (const auto* alignment = work.meta.find("general.alignment")) {
            file.meta.set("general.alignment", *alignment);
        }
        if (count == 1) continue;
        file.meta.set("split.no", static_cast<std::uint16_t>(i));
        file.meta.set("split.count", static_cast<std::uint16_t>(count));
        file.meta.set("split.tensors.count", static_cast<std::int32_t>(work.tensors.size()));
    }
    for (const auto& tensor : work.tensors) out[tensor.file].tensors.push_back(tensor.target);
    for (auto& file : out) {
        auto alignment = gguf::detail::read_alignment(file.meta);
        if (!alignment) return std::move(alignment).error();
        auto tensors = file.tensors;
        auto header = gguf::detail::encode_header(file.meta, *alignment, tensors);
        if (!header) return std::move(header).error();
        file.bytes = round_up<std::uint64_t>(header->size(), *alignment);
        for (const auto& tensor : tensors) file.bytes += round_up<std::uint64_t>(tensor.bytes, *alignment);
    }
    return out;
}

/// Refuses outputs that are among the inputs (also through links), that exist (without `force`), or that have no room on their disk.
/// Errors: invalid_argument, not_a_file, not_found (no such folder), io.
[[nodiscard]] inline result<void> check_outputs(std::span<const output_file> files, std::span<const std::filesystem::path> inputs, bool force) {
    std::uint64_t bytes = 0;
    for (const auto& file : files) {
        bytes += file.bytes;
        struct stat there {};
        if (::stat(file.path.c_str(), &there) != 0) {
            if (errno == ENOENT) continue;
            return colibri::detail::system_error("write", file.path, errno);
        }
        for (const auto& input : inputs) {
            struct stat given {};
            if (::stat(input.c_str(), &given) == 0 && given.st_dev == there.st_dev && given.st_ino == there.st_ino) {
                return error{errc::invalid_argument, concat("the output ", quoted(file.path.string()), " is the same file as the input ",
                                                            quoted(input.string()), "; choose another name")};
            }
        }
        if (!S_ISREG(there.st_mode)) {
            return error{errc::not_a_file, concat(quoted(file.path.string()), " is ", S_ISDIR(there.st_mode) ? "a directory" : "a device or pipe",
                                                  ", not a file that can be written")};
        }
        if (!force) {
            return error{errc::invalid_argument, concat("the output ", quoted(file.path.string()), " exists; give --force to replace it")};
        }
    }
    const auto folder = files[0].path.has_parent_path() ? files[0].path.parent_path() : std::filesystem::path(".");
    struct statvfs disk {};
    if (::statvfs(folder.c_str(), &disk) != 0) {
        if (errno != ENOENT) return colibri::detail::system_error("write to", folder, errno);
        return error{errc::not_found, concat("can't write ", quoted(files[0].path.string()), ": its folder does not exist")};
    }
    const auto free = static_cast<std::uint64_t>(disk.f_bavail) * static_cast<std::uint64_t>(disk.f_frsize);
    if (free < bytes) {
        return error{errc::io, concat("the disk of ", quoted(folder.string()), " has ", free, " bytes left, but ", bytes,
                                      " are needed; free some space or choose another folder")};
    }
    return {};
}

}  // namespace colibri::quantize
