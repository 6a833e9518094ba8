// The bytes of a model's tensors, piece by piece, whatever their size.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "colibri/core/progress.hpp"
#include "colibri/gguf/file.hpp"

namespace colibri::gguf {

/// The open files of a model. Reads from several threads at once are fine.
class tensor_reader {
public:
    /// Opens all parts. Errors: not_found, not_a_file, io; truncated (a part has become shorter since its header was read).
    [[nodiscard]] static result<tensor_reader> open(const file& model) {
        tensor_reader out;
        for (const auto& part : model.parts()) {
            auto opened = file_reader::open(part.path);
            if (!opened) return std::move(opened).error();
            if ((*opened)->size() < part.size) {
                return error{errc::truncated, "the file became shorter while it was read", (*opened)->size(), quoted(part.path.string())};
            }
            out.parts_.push_back(std::move(*opened));
        }
        return out;
    }

    /// Fills `out` with the bytes of `tensor` from its byte `at` on. Errors: truncated, io.
    [[nodiscard]] result<void> read(const tensor_info& tensor, std::uint64_t at, std::span<std::byte> out) {
        return read_part(tensor.part, tensor.offset + at, out);
    }
    /// The same at an offset of a part's file.
    [[nodiscard]] result<void> read_part(unsigned part, std::uint64_t offset, std::span<std::byte> out) {
        auto ok = parts_[part]->read_at(offset, out);
        if (!ok) return std::move(ok).error().within(quoted(parts_[part]->path().string()));
        return {};
    }

private:
    std::vector<std::unique_ptr<file_reader>> parts_;
};

/// Some bytes of one tensor, of whole blocks.
struct tensor_piece {
    const tensor_info* tensor = nullptr;
    std::size_t index = 0;  ///< of the tensor in the list that was swept
    std::uint64_t at = 0;   ///< of the first byte, in the tensor
    std::span<const std::byte> bytes;

    [[nodiscard]] bool is_first() const noexcept { return at == 0; }
    [[nodiscard]] bool is_last() const noexcept { return at + bytes.size() == tensor->bytes; }
};

/// Bytes of tensors that a sweep holds at once.
inline constexpr std::size_t sweep_window = std::size_t{8} << 20;

/// Reads all of `tensors` in their order through a window of 8 MiB and calls `use(pieces)`, a result<void>, for each window full
/// (a span of tensor_piece, one for each tensor that has bytes in it). `watch` gets bytes. Errors: those of reading and of
/// `use`; canceled.
template <class Use>
[[nodiscard]] result<void> sweep_tensors(tensor_reader& in, std::span<const tensor_info> tensors, const progress_fn& watch, Use&& use) {
    progress done;
    for (const auto& tensor : tensors) done.total += tensor.bytes;
    std::vector<std::byte> window(static_cast<std::size_t>(std::min<std::uint64_t>(sweep_window, done.total)));
    std::vector<tensor_piece> pieces;
    std::size_t filled = 0;
    const auto hand_over = [&]() -> result<void> {
        if (pieces.empty()) return {};
        if (auto ok = use(std::span<const tensor_piece>(pieces)); !ok) return ok;
        done.done += filled;
        filled = 0;
        pieces.clear();
        if (watch && !watch(done)) return error{errc::canceled, "the work was stopped"};
        return {};
    };
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        const tensor_info& tensor = tensors[i];
        const auto kind = find_dtype(static_cast<std::uint32_t>(tensor.type));
        const std::size_t block = kind ? kind->block_bytes : 1;
        for (std::uint64_t at = 0; at < tensor.bytes;) {
            const auto room = (window.size() - filled) / block * block;
            const auto now = static_cast<std::size_t>(std::min<std::uint64_t>(room, tensor.bytes - at));
            if (now == 0) {
                if (auto ok = hand_over(); !ok) return ok;
                continue;
            }
            const std::span<std::byte> place = std::span(window).subspan(filled, now);
            if (auto ok = in.read(tensor, at, place); !ok) {
                return std::move(ok).error().within(concat("tensor ", quoted(tensor.name)));
            }
            pieces.push_back({&tensor, i, at, place});
            filled += now;
            at += now;
        }
    }
    return hand_over();
}

}  // namespace colibri::gguf
