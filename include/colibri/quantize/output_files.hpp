// Into which files a plan goes, and everything that speaks against writing them.
#pragma once

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
#include "colibri/gguf/shard_writer.hpp"
#include "colibri/gguf/writer.hpp"
#include "colibri/io/file_handle.hpp"
#include "colibri/io/output_check.hpp"
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
    // A first file may be metadata alone.
    unsigned file = split.keep && !work.tensors.empty() && work.tensors[0].source.part != 0 ? 1 : 0;
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
        tensor.target.part = file;
    }
    return file + 1;
}

}  // namespace detail

/// The files of a plan, each with its metadata and its size. Sets the `part` of its targets. Errors: bad_count (too many files), those of
/// gguf::writer.
[[nodiscard]] inline result<std::vector<output_file>> output_files(plan& work, const std::filesystem::path& path, const split_choice& split) {
    const unsigned count = detail::number_files(work, split);
    if (count > gguf::max_parts) {
        return error{errc::bad_count, concat("the model would fall into ", count, " files, more than ", gguf::max_parts, "; allow larger ones")};
    }
    const auto paths = gguf::shard_paths(path, count);
    std::vector<output_file> out(count);
    for (unsigned i = 0; i < count; ++i) {
        out[i].path = paths[i];
        out[i].meta = gguf::detail::shard_metadata(work.meta, i, count, work.tensors.size());
    }
    for (const auto& tensor : work.tensors) out[tensor.target.part].tensors.push_back(tensor.target);
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
        if (auto ok = check_output(file.path, inputs, force); !ok) return ok;
    }
    const auto folder = files[0].path.has_parent_path() ? files[0].path.parent_path() : std::filesystem::path(".");
    struct statvfs disk {};
    if (::statvfs(folder.c_str(), &disk) != 0) return colibri::detail::system_error("write to", folder, errno);
    const auto free = static_cast<std::uint64_t>(disk.f_bavail) * static_cast<std::uint64_t>(disk.f_frsize);
    if (free < bytes) {
        return error{errc::io, concat("the disk of ", quoted(folder.string()), " has ", free, " bytes left, but ", bytes,
                                      " are needed; free some space or choose another folder")};
    }
    return {};
}

}  // namespace colibri::quantize
