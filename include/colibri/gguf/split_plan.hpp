// Which tensor goes to which file of a split model.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "colibri/gguf/container.hpp"
#include "colibri/gguf/file.hpp"
#include "colibri/io/byte_size.hpp"

namespace colibri::gguf {

/// Most parts that a split model can have: the keys that number them have 16 bits.
inline constexpr unsigned max_parts = 65535;

/// How a model is cut. What is 0 sets no limit; with all at 0 everything goes to one file.
struct split_limits {
    std::uint64_t max_bytes = 0;    ///< of each file, its header counted
    std::uint64_t max_tensors = 0;  ///< in each file
    unsigned parts = 0;             ///< this many files, of about the same size; not together with the others
};

/// Bytes from "50G", "800M", "2000000", "4GiB": K, M and G are powers of 1000 here, as in other tools that split models and in
/// the limits of hosts; KiB, MiB and GiB are powers of 1024. Errors: bad_value.
[[nodiscard]] result<std::uint64_t> parse_shard_size(std::string_view text);

/// Sets `part` of each tensor; the order stays, so parts ascend. `meta` is what the first file's header will hold.
/// Errors: limit (the metadata alone, or one tensor, is larger than max_bytes), invalid_argument (more parts than tensors,
/// or than a split model may have), bad_alignment, bad_type.
[[nodiscard]] result<void> plan_split(const metadata& meta, std::vector<tensor_info>& tensors, const split_limits& limits);

/// The names of a model's `count` files: `path` itself for one, else "NAME-00001-of-00003.gguf" with the NAME of "NAME.gguf",
/// "NAME" or "NAME-00002-of-00007.gguf".
[[nodiscard]] std::vector<std::filesystem::path> shard_paths(const std::filesystem::path& path, unsigned count);

/// Removes the keys that say which part a file is.
inline void remove_split_keys(metadata& meta) {
    for (const std::string_view key : {"split.no", "split.count", "split.tensors.count"}) meta.remove(key);
}

namespace detail {

/// Header bytes of one key.
[[nodiscard]] inline std::uint64_t key_bytes(const metadata::entry& entry) {
    std::string encoded;
    entry.value.encode(encoded);
    return 8 + entry.key.size() + 4 + encoded.size();
}
/// Header bytes of one tensor.
[[nodiscard]] inline std::uint64_t entry_bytes(const tensor_info& tensor) {
    return 8 + tensor.name.size() + 4 + std::uint64_t{8} * tensor.n_dims + 4 + 8;
}

/// The size of a file that is filled tensor by tensor.
struct file_fill {
    std::uint64_t alignment = default_alignment;
    std::uint64_t header = 0;
    std::uint64_t data = 0;
    std::uint64_t tensors = 0;

    [[nodiscard]] file_fill with(const tensor_info& tensor) const {
        file_fill out = *this;
        out.header += entry_bytes(tensor);
        out.data += round_up(tensor.bytes, alignment);
        ++out.tensors;
        return out;
    }
    [[nodiscard]] std::uint64_t bytes() const { return round_up(header, alignment) + data; }
};

/// Cuts into `parts` files of about the same size: file i ends where the bytes so far come nearest to i+1 shares, while each
/// file gets at least one tensor.
inline void split_evenly(std::vector<tensor_info>& tensors, unsigned parts) {
    std::uint64_t total = 0;
    for (const auto& tensor : tensors) total += tensor.bytes;
    std::uint64_t before = 0;
    unsigned part = 0;
    std::uint64_t in_part = 0;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        const std::uint64_t share = total / parts * (part + 1);
        const std::uint64_t after = before + tensors[i].bytes;
        const bool nearer_without = after > share && after - share > share - std::min(share, before);
        const bool must = tensors.size() - i == parts - part - 1;  // one tensor for each file that is left
        if (part + 1 < parts && in_part != 0 && (nearer_without || must)) {
            ++part;
            in_part = 0;
        }
        tensors[i].part = part;
        ++in_part;
        before = after;
    }
}

}  // namespace detail

inline result<std::uint64_t> parse_shard_size(std::string_view text) {
    std::string_view rest = text;
    if (rest.ends_with("iB") || rest.ends_with("ib")) return parse_byte_size(text);
    if (rest.ends_with('B') || rest.ends_with('b')) rest.remove_suffix(1);
    const unsigned power = rest.empty() ? 0 : colibri::detail::unit_power(rest.back());
    if (power == 0) return parse_byte_size(text);
    const auto number = parse_number<double>(rest.substr(0, rest.size() - 1));
    const double bytes = number ? *number * std::pow(1000.0, power) : 0.0;
    if (!(bytes >= 1.0) || bytes > 1e18) {
        return error{errc::bad_value, concat(quoted(text), " is not a size; write for example 50G, 800M or 4GiB")};
    }
    return static_cast<std::uint64_t>(bytes);
}

inline result<void> plan_split(const metadata& meta, std::vector<tensor_info>& tensors, const split_limits& limits) {
    auto alignment = detail::read_alignment(meta);
    if (!alignment) return std::move(alignment).error();
    for (auto& tensor : tensors) tensor.part = 0;
    if (limits.parts != 0) {
        if (limits.parts > max_parts || limits.parts > std::max<std::size_t>(tensors.size(), 1)) {
            return error{errc::invalid_argument,
                         concat("a model of ", tensors.size(), " tensors can't be cut into ", limits.parts,
                                " files; each needs a tensor, and there may be ", max_parts)};
        }
        detail::split_evenly(tensors, limits.parts);
        return {};
    }
    if (limits.max_bytes == 0 && limits.max_tensors == 0) return {};
    // The keys of a part: its number and the counts (three short numbers), and the alignment if it isn't the usual one.
    constexpr std::uint64_t split_keys = (8 + 8 + 4 + 2) + (8 + 11 + 4 + 2) + (8 + 19 + 4 + 4);
    const std::uint64_t keys = 24 + split_keys + (*alignment == default_alignment ? 0 : 8 + 17 + 4 + 4);
    detail::file_fill fill{.alignment = *alignment, .header = 24 + split_keys};
    for (const auto& entry : meta.entries()) {
        if (!entry.key.starts_with("split.")) fill.header += detail::key_bytes(entry);
    }
    const auto fits = [&](const detail::file_fill& file) {
        return (limits.max_bytes == 0 || file.bytes() <= limits.max_bytes) &&
               (limits.max_tensors == 0 || file.tensors <= limits.max_tensors);
    };
    if (!fits(fill)) {
        return error{errc::limit, concat("the metadata alone takes ", fill.bytes(), " bytes, more than the ", limits.max_bytes,
                                         " that a file may have; allow larger files")};
    }
    unsigned part = 0;
    for (auto& tensor : tensors) {
        auto next = fill.with(tensor);
        if (!fits(next)) {
            next = detail::file_fill{.alignment = *alignment, .header = keys}.with(tensor);
            if (!fits(next)) {
                return error{errc::limit,
                             concat("the tensor ", quoted(tensor.name), " alone makes a file of ", next.bytes(),
                                    " bytes, more than the ", limits.max_bytes, " that are allowed; allow larger files")};
            }
            if (++part == max_parts) {
                return error{errc::invalid_argument,
                             concat("more than ", max_parts, " files would be needed; allow larger ones")};
            }
        }
        tensor.part = part;
        fill = next;
    }
    return {};
}

inline std::vector<std::filesystem::path> shard_paths(const std::filesystem::path& path, unsigned count) {
    if (count <= 1) return {path};
    std::string stem = path.filename().string();
    if (stem.ends_with(".gguf")) stem.resize(stem.size() - 5);
    constexpr std::string_view pattern = "-00000-of-00000";
    if (stem.size() > pattern.size()) {
        const std::string_view tail = std::string_view(stem).substr(stem.size() - pattern.size());
        const bool numbered = std::ranges::equal(tail, pattern, [](char c, char like) {
            return like == '0' ? c >= '0' && c <= '9' : c == like;
        });
        if (numbered) stem.resize(stem.size() - pattern.size());
    }
    std::vector<std::filesystem::path> out;
    const auto five = [](unsigned n) {
        const std::string digits = concat(n);
        return std::string(digits.size() < 5 ? 5 - digits.size() : 0, '0') + digits;
    };
    for (unsigned i = 1; i <= count; ++i) {
        out.push_back(path.parent_path() / concat(stem, "-", five(i), "-of-", five(count), ".gguf"));
    }
    return out;
}

}  // namespace colibri::gguf
