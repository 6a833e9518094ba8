// Hashes of a model's tensors, as a list that can be kept and compared.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "colibri/core/sha256.hpp"
#include "colibri/core/thread_pool.hpp"
#include "colibri/gguf/tensor_reader.hpp"

namespace colibri::gguf {

/// SHA-256 of each tensor's bytes in the file's order, and of all of them one behind the other. Neither names, types nor metadata
/// count.
struct model_hashes {
    std::vector<sha256::digest> tensors;
    sha256::digest whole{};
};

/// Reads all tensors once. `watch` gets bytes. Errors: truncated, io, canceled.
[[nodiscard]] result<model_hashes> hash_tensors(const file& model, thread_pool& pool, const progress_fn& watch = {});

/// One line of a list of hashes; texts are escaped.
struct hash_line {
    std::string hash;
    std::string name;  ///< "FILE:TENSOR", "FILE", or "TENSOR"
};

/// The list as lines "sha256    HASH  FILE:TENSOR" and at the end "sha256    HASH  FILE", which other tools read too.
[[nodiscard]] std::string hash_list_text(const file& model, const model_hashes& hashes);

/// Reads a list; lines of other algorithms, comments (#) and empty lines don't count. Errors: bad_value (with the line's number;
/// also when no line has a SHA-256).
[[nodiscard]] result<std::vector<hash_line>> parse_hash_list(std::string_view text);

/// What a list says of a model.
struct hash_comparison {
    std::vector<std::size_t> differing;  ///< indices of tensors
    std::vector<std::size_t> unlisted;   ///< tensors that the list doesn't have, unless it has only the whole
    std::vector<std::string> missing;    ///< names in the list, without a tensor
    std::optional<bool> whole;           ///< whether the whole is the same; without: the list doesn't say

    [[nodiscard]] bool same() const noexcept { return differing.empty() && unlisted.empty() && missing.empty() && whole.value_or(true); }
};
[[nodiscard]] hash_comparison compare_hashes(const file& model, const model_hashes& hashes, std::span<const hash_line> list);

namespace detail {

inline constexpr std::size_t whole_name = 4096;  // bytes of a name that are shown

/// The line's name without the file in front.
[[nodiscard]] inline std::string_view tensor_of_line(const file& model, std::string_view name, std::string_view file_name) {
    if (!file_name.empty() && name.size() > file_name.size() && name.starts_with(file_name) && name[file_name.size()] == ':') {
        return name.substr(file_name.size() + 1);
    }
    std::string_view rest = name;
    while (model.find(rest) == nullptr) {
        const auto colon = rest.find(':');
        if (colon == std::string_view::npos) return name;
        rest.remove_prefix(colon + 1);
    }
    return rest;
}

}  // namespace detail

inline result<model_hashes> hash_tensors(const file& model, thread_pool& pool, const progress_fn& watch) {
    auto in = tensor_reader::open(model);
    if (!in) return std::move(in).error();
    model_hashes out;
    out.tensors.resize(model.tensors().size());
    sha256 open;  // of the tensor that goes on in the next window: the last piece's
    sha256 whole;
    auto swept = sweep_tensors(*in, model.tensors(), watch, [&](std::span<const tensor_piece> pieces) -> result<void> {
        const sha256 carried = open;
        pool.for_chunks(pieces.size() + 1, 1, [&](std::size_t begin, std::size_t end, unsigned) {
            for (std::size_t i = begin; i < end; ++i) {
                if (i == 0) {  // the longest job first
                    for (const auto& piece : pieces) whole.update(piece.bytes);
                    continue;
                }
                const tensor_piece& piece = pieces[i - 1];
                sha256 hash = piece.is_first() ? sha256() : carried;
                hash.update(piece.bytes);
                if (piece.is_last()) out.tensors[piece.index] = hash.finish();
                else open = hash;  // only the last piece can be broken off
            }
        });
        return {};
    });
    if (!swept) return std::move(swept).error();
    out.whole = whole.finish();
    return out;
}

inline std::string hash_list_text(const file& model, const model_hashes& hashes) {
    const std::string name = escaped(model.parts()[0].path.string(), detail::whole_name);
    std::string out;
    for (std::size_t i = 0; i < hashes.tensors.size(); ++i) {
        out += concat("sha256    ", hex_text(hashes.tensors[i]), "  ", name, ":", escaped(model.tensors()[i].name), "\n");
    }
    return out + concat("sha256    ", hex_text(hashes.whole), "  ", name, "\n");
}

inline result<std::vector<hash_line>> parse_hash_list(std::string_view text) {
    std::vector<hash_line> out;
    for (std::size_t number = 1; !text.empty(); ++number) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        std::string_view line = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        if (line.ends_with('\r')) line.remove_suffix(1);
        if (line.empty() || line[0] == '#') continue;
        const auto word = [&] {
            const std::size_t length = std::min(line.find(' '), line.size());
            const std::string_view got = line.substr(0, length);
            line.remove_prefix(std::min(line.find_first_not_of(' ', length), line.size()));
            return got;
        };
        const auto refuse = [&](std::string_view what) {
            return error{errc::bad_value, concat("line ", number, " ", what, "; lines have the form 'sha256  HASH  FILE:TENSOR'")};
        };
        const std::string_view kind = word();
        if (kind == "xxh64" || kind == "sha1" || kind == "uuid") continue;
        if (kind != "sha256") return refuse("is not a line of a list of hashes");
        hash_line one{std::string(word()), std::string(line)};
        if (one.hash.size() != 64 || one.hash.find_first_not_of("0123456789abcdef") != std::string::npos) {
            return refuse("has no SHA-256, which is 64 digits in lower case");
        }
        if (one.name.empty()) return refuse("names nothing");
        out.push_back(std::move(one));
    }
    if (out.empty()) return error{errc::bad_value, "there is no SHA-256 in the list"};
    return out;
}

inline hash_comparison compare_hashes(const file& model, const model_hashes& hashes, std::span<const hash_line> list) {
    hash_comparison out;
    // The line of the whole has the file's name alone; names of tensors begin with it.
    std::vector<std::string_view> sorted;
    for (const auto& line : list) sorted.push_back(line.name);
    std::ranges::sort(sorted);
    const auto heads = [&](std::string_view name) {
        const std::string start = concat(name, ":");
        const auto at = std::ranges::lower_bound(sorted, std::string_view(start));
        return at != sorted.end() && at->starts_with(start);
    };
    std::string_view file_name;
    for (const auto& line : list) {
        if (model.find(line.name) != nullptr) continue;
        if (heads(line.name) || line.name.ends_with(".gguf")) file_name = line.name;
    }
    std::vector<bool> listed(model.tensors().size());
    std::vector<std::pair<std::string, std::size_t>> names;  // escaped, as the list has them
    for (std::size_t i = 0; i < listed.size(); ++i) names.emplace_back(escaped(model.tensors()[i].name), i);
    std::ranges::sort(names);
    bool any_tensor = false;
    for (const auto& line : list) {
        if (line.name == file_name) {
            out.whole = line.hash == hex_text(hashes.whole);
            continue;
        }
        any_tensor = true;
        const std::string_view name = detail::tensor_of_line(model, line.name, file_name);
        const auto at = std::ranges::lower_bound(names, name, {}, [](const auto& entry) -> std::string_view { return entry.first; });
        if (at == names.end() || at->first != name) {
            out.missing.emplace_back(name);
            continue;
        }
        listed[at->second] = true;
        if (line.hash != hex_text(hashes.tensors[at->second])) out.differing.push_back(at->second);
    }
    for (std::size_t i = 0; any_tensor && i < listed.size(); ++i) {
        if (!listed[i]) out.unlisted.push_back(i);
    }
    return out;
}

}  // namespace colibri::gguf
