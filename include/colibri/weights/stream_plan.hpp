// What a streamed store keeps in memory, what it reads for every sweep, and what it caches: arithmetic over a file's directory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "colibri/core/checked.hpp"
#include "colibri/gguf/file.hpp"
#include "colibri/io/read_job.hpp"
#include "colibri/quant/panel_layout.hpp"
#include "colibri/weights/resident_plan.hpp"
#include "colibri/weights/store.hpp"

namespace colibri::weights {

/// Bytes of one of a file's parts.
struct file_range {
    std::uint32_t part = 0;
    std::uint64_t offset = 0;
    std::size_t bytes = 0;

    /// Memory that a direct read of it takes.
    [[nodiscard]] std::size_t room() const noexcept { return read_job::room(offset, bytes); }
};

/// Rows of a matrix that are held, or read, as one. A multiple of 16 unless they are the last.
struct stream_piece {
    std::uint32_t group = 0;
    std::uint32_t slot = 0;  ///< of the group
    tensor_id tensor = 0;
    std::uint64_t first_row = 0;
    std::uint64_t rows = 0;
    file_range source;
    bool pinned = false;
    std::size_t place = 0;  ///< pinned: position in stream_plan::pinned
};

/// A layer's experts: all tensors of a group, by slices.
struct expert_layer {
    group_id group = 0;
    std::size_t cache = 0;               ///< position in stream_plan::caches
    std::size_t first_unit = 0;          ///< number of its expert 0 in that cache
    std::vector<file_range> first;       ///< by slot: expert 0; the others follow at multiples of its size
    std::vector<std::size_t> place;      ///< by slot: where its room begins in an expert's memory
};

/// Experts of one size share memory.
struct expert_cache_plan {
    std::size_t slot_bytes = 0;  ///< of one expert, all its tensors, with room for direct reads
    std::size_t units = 0;       ///< experts in all its layers together
    std::size_t largest = 0;     ///< experts of one layer
    std::size_t slots = 0;       ///< experts that are held
    std::size_t offset = 0;      ///< in memory
};

/// Sizes that are chosen where they are 0.
struct stream_sizes {
    std::size_t piece = 0;  ///< bytes read at once, about
    std::size_t ring = 0;   ///< bytes that are read ahead
    std::uint64_t memory = 0;  ///< bytes for weights in all, in place of what a budget leaves
};

/// Everything lies in one block of memory: pinned tensors, rows, ring, expert caches.
struct stream_plan {
    std::vector<stream_piece> pieces;             ///< of groups used whole, in the order of a sweep
    std::vector<std::size_t> first_piece;         ///< by group, and one more: its pieces are [first_piece[g], first_piece[g + 1])
    std::vector<resident_tensor> pinned;
    std::vector<expert_layer> experts;            ///< in the order of a sweep
    std::vector<expert_cache_plan> caches;

    std::size_t pinned_bytes = 0;   ///< at the beginning of the memory
    std::size_t row_offset = 0;     ///< of row_capacity rows of row_bytes, and of staging for reads
    std::size_t row_bytes = 0;      ///< of the widest table's row
    std::size_t row_capacity = 0;
    std::size_t staging_offset = 0;
    std::size_t staging_room = 0;   ///< of one of row_reads
    std::size_t ring_offset = 0;
    std::size_t ring_bytes = 0;
    std::size_t cache_bytes = 0;
    std::size_t bytes = 0;          ///< of memory

    std::vector<demand> demands;    ///< by group

    std::uint64_t dense_bytes = 0;     ///< file bytes of groups used whole
    std::uint64_t streamed_bytes = 0;  ///< read for each sweep that uses everything, whole blocks of the disk

    static constexpr std::size_t row_reads = 16;  ///< that run at once

    /// Whether a group isn't used in every sweep.
    [[nodiscard]] bool some_sweeps(group_id group) const noexcept { return demands[group] == demand::some_sweeps; }

    /// Fits everything into `memory` bytes. Errors: out_of_memory (with the smallest that would do, in `smallest` too if given),
    /// overflow and bad_shape with the tensor's name.
    [[nodiscard]] static inline result<stream_plan> make(const gguf::file& file, const std::vector<group>& groups,
                                                         std::uint64_t memory, const stream_sizes& sizes = {},
                                                         std::uint64_t* smallest = nullptr);
};

namespace detail {

/// Builds a plan step by step.
class stream_planner {
public:
    stream_planner(const gguf::file& file, const std::vector<group>& groups) : file_(file), groups_(groups) {}

    [[nodiscard]] result<stream_plan> plan(std::uint64_t memory, const stream_sizes& sizes, std::uint64_t* smallest) {
        if (auto ok = add_experts(); !ok) return std::move(ok).error();
        const std::size_t piece = sizes.piece != 0 ? sizes.piece : piece_size(memory);
        if (auto ok = add_pieces(piece); !ok) return std::move(ok).error();
        add_rows(memory);
        const std::uint64_t always = small_ + row_memory() + least_caches() + 2 * read_job::alignment;  // borders
        std::uint64_t ring = 0;
        if (always + large_ > memory) {
            const std::uint64_t least = 2 * widest_room_;
            ring = sizes.ring != 0 ? std::max<std::uint64_t>(sizes.ring, least) : ring_size(memory);
            if (always + ring > memory) ring = least;
            if (always + ring > memory) return too_small(piece, always + ring, memory, sizes, smallest);
        }
        pin(memory - always - ring, ring != 0);
        place(memory, static_cast<std::size_t>(ring));
        if (smallest != nullptr) *smallest = always + 2 * widest_room_;
        return std::move(out_);
    }

private:
    static constexpr std::size_t least_piece = std::size_t{64} << 10;
    static constexpr std::size_t most_piece = std::size_t{4} << 20;
    static constexpr std::size_t most_ring = std::size_t{64} << 20;
    static constexpr std::size_t least_slots = 16;

    /// Large reads use a disk best; a small budget can't spare several of them.
    [[nodiscard]] static std::size_t piece_size(std::uint64_t memory) noexcept {
        return static_cast<std::size_t>(std::clamp<std::uint64_t>(memory / 128, least_piece, most_piece));
    }
    /// Reads go on while a layer computes: a 32nd of the memory, at least 3 pieces; of a small one up to a sixth, since a disk
    /// needs some MiB asked for at once to be fast.
    [[nodiscard]] std::uint64_t ring_size(std::uint64_t memory) const noexcept {
        const std::uint64_t wanted = std::max(memory / 32, std::min<std::uint64_t>(memory / 6, std::uint64_t{4} << 20));
        return std::max<std::uint64_t>(3 * widest_room_, std::min<std::uint64_t>(wanted, most_ring));
    }

    [[nodiscard]] result<stream_plan> too_small(std::size_t piece, std::uint64_t needed, std::uint64_t memory,
                                                const stream_sizes& sizes, std::uint64_t* smallest) const {
        if (piece > least_piece && sizes.piece == 0) {
            return stream_planner(file_, groups_).plan(memory, {least_piece, sizes.ring, 0}, smallest);
        }
        if (smallest != nullptr) *smallest = needed;
        return error{errc::out_of_memory, concat("streaming the weights takes at least ", (needed >> 20) + 1, " MiB for them, and ",
                                                 memory >> 20, " MiB are left beside context and activations")};
    }

    [[nodiscard]] error named(error problem, const gguf::tensor_info& info) const {
        return std::move(problem).within(concat("tensor ", quoted(info.name)));
    }

    [[nodiscard]] result<void> add_experts() {
        for (group_id g = 0; g < groups_.size(); ++g) {
            if (groups_[g].how != access::experts) continue;
            expert_layer layer;
            layer.group = g;
            std::size_t bytes = 0;
            std::uint64_t count = 0;
            for (const auto id : groups_[g].tensors) {
                const auto& info = file_.tensors()[id];
                auto dims = shape::make(info.dims);
                if (!dims) return named(std::move(dims).error(), info);
                count = dims->slices();
                const auto slice = static_cast<std::size_t>(info.bytes / count);
                layer.first.push_back({info.part, info.offset, slice});
                layer.place.push_back(bytes);
                // Any expert's room: its offset in a block of the disk differs from the first one's.
                bytes += round_up(slice, read_job::alignment) + read_job::alignment;
            }
            std::size_t at = 0;
            while (at < out_.caches.size() && out_.caches[at].slot_bytes != bytes) ++at;
            if (at == out_.caches.size()) out_.caches.push_back({bytes, 0, 0, 0, 0});
            auto& cache = out_.caches[at];
            layer.cache = at;
            layer.first_unit = cache.units;
            cache.units += static_cast<std::size_t>(count);
            cache.largest = std::max(cache.largest, static_cast<std::size_t>(count));
            out_.experts.push_back(std::move(layer));
        }
        return {};
    }

    [[nodiscard]] result<void> add_pieces(std::size_t target) {
        for (group_id g = 0; g < groups_.size(); ++g) {
            out_.first_piece.push_back(out_.pieces.size());
            out_.demands.push_back(groups_[g].when);
            if (groups_[g].how != access::whole) continue;
            for (std::size_t slot = 0; slot < groups_[g].tensors.size(); ++slot) {
                const auto& info = file_.tensors()[groups_[g].tensors[slot]];
                auto dims = shape::make(info.dims);
                if (!dims) return named(std::move(dims).error(), info);
                const auto row = static_cast<std::size_t>(info.row_bytes());
                const std::uint64_t count = std::max<std::uint64_t>(1, (info.bytes + target / 2) / target);
                const std::uint64_t step = round_up((info.rows() + count - 1) / count, std::uint64_t{quant::panel_rows});
                const bool small = groups_[g].when == demand::once || info.bytes <= target / 4;
                for (std::uint64_t first = 0; first < info.rows(); first += step) {
                    const std::uint64_t rows = std::min(step, info.rows() - first);
                    stream_piece piece;
                    piece.group = g;
                    piece.slot = static_cast<std::uint32_t>(slot);
                    piece.tensor = groups_[g].tensors[slot];
                    piece.first_row = first;
                    piece.rows = rows;
                    piece.source = {info.part, info.offset + first * row, static_cast<std::size_t>(rows) * row};
                    piece.pinned = small;
                    auto held = held_bytes(info, rows);
                    if (!held) return named(std::move(held).error(), info);
                    (small ? small_ : large_) += *held;
                    if (!small) widest_room_ = std::max(widest_room_, piece.source.room());
                    if (groups_[g].when != demand::once) out_.dense_bytes += piece.source.bytes;
                    out_.pieces.push_back(piece);
                    held_.push_back(*held);
                }
            }
        }
        out_.first_piece.push_back(out_.pieces.size());
        return {};
    }

    [[nodiscard]] static result<std::size_t> held_bytes(const gguf::tensor_info& info, std::uint64_t rows) {
        std::size_t bytes = static_cast<std::size_t>(rows * info.row_bytes());
        if (becomes_panels(info.type, panel_choice::same_size)) {
            auto dims = shape::make({info.dims[0], rows});
            if (!dims) return std::move(dims).error();
            auto panels = tensor_ref::panels_bytes(info.type, *dims);
            if (!panels) return std::move(panels).error();
            bytes = *panels;
        }
        const auto rounded = checked_round_up<std::size_t>(bytes, 64);
        if (!rounded) return error{errc::overflow, "larger than any memory"};
        return *rounded;
    }

    void add_rows(std::uint64_t memory) {
        for (const auto& group : groups_) {
            if (group.how != access::rows) continue;
            for (const auto id : group.tensors) {
                out_.row_bytes = std::max(out_.row_bytes, static_cast<std::size_t>(file_.tensors()[id].row_bytes()));
            }
        }
        if (out_.row_bytes == 0) return;
        out_.row_capacity = static_cast<std::size_t>(std::clamp<std::uint64_t>(memory / 256 / out_.row_bytes, 64, 4096));
        out_.staging_room = round_up(out_.row_bytes, read_job::alignment) + read_job::alignment;
    }

    [[nodiscard]] std::size_t row_memory() const noexcept {
        if (out_.row_bytes == 0) return 0;
        return round_up(out_.row_capacity * out_.row_bytes, read_job::alignment) + stream_plan::row_reads * out_.staging_room;
    }

    [[nodiscard]] std::uint64_t least_caches() const noexcept {
        std::uint64_t bytes = 0;
        for (const auto& cache : out_.caches) bytes += cache.slot_bytes * std::min(cache.units, least_slots);
        return bytes;
    }

    /// Chooses pieces of `budget` bytes in all, spread evenly over the sweep so that reads find time beside them everywhere.
    void pin(std::uint64_t budget, bool some_streamed) {
        std::uint64_t seen = 0;
        std::uint64_t spent = 0;
        const double share = large_ == 0 ? 0.0 : static_cast<double>(budget) / static_cast<double>(large_);
        for (std::size_t i = 0; i < out_.pieces.size(); ++i) {
            if (out_.pieces[i].pinned) continue;
            seen += held_[i];
            const double wanted = share * static_cast<double>(seen) + 0.5 * static_cast<double>(held_[i]);
            if (some_streamed && (static_cast<double>(spent + held_[i]) > wanted || spent + held_[i] > budget)) continue;
            out_.pieces[i].pinned = true;
            spent += held_[i];
        }
        for (std::size_t i = 0; i < out_.pieces.size(); ++i) {  // what rounding left
            if (out_.pieces[i].pinned || spent + held_[i] > budget) continue;
            out_.pieces[i].pinned = true;
            spent += held_[i];
        }
    }

    void place(std::uint64_t memory, std::size_t ring) {
        for (std::size_t i = 0; i < out_.pieces.size(); ++i) {
            auto& piece = out_.pieces[i];
            if (!piece.pinned) {
                out_.streamed_bytes += piece.source.room();
                continue;
            }
            const auto& info = file_.tensors()[piece.tensor];
            resident_tensor held;
            held.id = piece.tensor;
            // Vectors are read as the one row that they are.
            held.dims = shape::make({info.dims[0], piece.rows}).value();
            held.how = becomes_panels(info.type, panel_choice::same_size) ? layout::panels : layout::file;
            held.offset = out_.pinned_bytes;
            held.bytes = held.how == layout::panels ? tensor_ref::panels_bytes(info.type, held.dims).value() : piece.source.bytes;
            held.first_row = piece.first_row;
            piece.place = out_.pinned.size();
            out_.pinned.push_back(held);
            out_.pinned_bytes += held_[i];
        }
        constexpr std::size_t block = read_job::alignment;
        out_.row_offset = round_up(out_.pinned_bytes, block);
        out_.staging_offset = out_.row_offset + round_up(out_.row_capacity * out_.row_bytes, block);
        out_.ring_offset = out_.row_offset + row_memory();
        out_.ring_bytes = ring / block * block;
        std::size_t at = out_.ring_offset + out_.ring_bytes;
        std::uint64_t left = memory > at ? memory - at : 0;
        std::uint64_t wanted = 0;
        for (const auto& cache : out_.caches) wanted += std::uint64_t{cache.slot_bytes} * cache.units;
        for (auto& cache : out_.caches) {
            const std::uint64_t all = std::uint64_t{cache.slot_bytes} * cache.units;
            const double share = static_cast<double>(all) / static_cast<double>(wanted);
            const auto mine = static_cast<std::uint64_t>(static_cast<double>(left) * share) / cache.slot_bytes;
            cache.slots = static_cast<std::size_t>(
                std::clamp<std::uint64_t>(mine, std::min(cache.units, least_slots), cache.units));
            cache.offset = at;
            at += cache.slots * cache.slot_bytes;
            out_.cache_bytes += cache.slots * cache.slot_bytes;
        }
        out_.bytes = at;
    }

    const gguf::file& file_;
    const std::vector<group>& groups_;
    stream_plan out_;
    std::vector<std::size_t> held_;  // by piece: bytes if pinned
    std::uint64_t small_ = 0;        // bytes that are always pinned
    std::uint64_t large_ = 0;        // bytes of the other pieces, if all were
    std::size_t widest_room_ = 0;
};

}  // namespace detail

inline result<stream_plan> stream_plan::make(const gguf::file& file, const std::vector<group>& groups, std::uint64_t memory,
                                             const stream_sizes& sizes, std::uint64_t* smallest) {
    return detail::stream_planner(file, groups).plan(memory, sizes, smallest);
}

}  // namespace colibri::weights
