// Weights larger than memory: a part of every layer is held, the rest read ahead of its use, experts are cached.
#pragma once

#include <algorithm>
#include <memory>
#include <mutex>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "colibri/core/buffer.hpp"
#include "colibri/io/memory_lock.hpp"
#include "colibri/io/read_queue.hpp"
#include "colibri/weights/expert_cache.hpp"
#include "colibri/weights/resident_loader.hpp"
#include "colibri/weights/row_cache.hpp"
#include "colibri/weights/stream_plan.hpp"
#include "colibri/weights/sweep_ring.hpp"

namespace colibri::weights {

/// How a streamed store works.
struct stream_options {
    std::uint64_t memory = 0;    ///< bytes of memory that it may take in all
    stream_sizes sizes = {};     ///< of reads; 0: chosen
    read_queue_options reading = {};
    bool lock = false;           ///< keep its memory from being swapped out (mlock)
    load_options loading = {};   ///< of what is held
};

/// Holds as much as fits: of matrices that each sweep uses the same fraction everywhere, as panels; the rest is read with large direct
/// reads that run ahead of the computation, across the end of a sweep too, and multiplied from the file's layout. Experts stay in a
/// cache, in the file's layout. Rows of tables are read when they are looked up. Bits don't depend on any of it.
class streamed_store final : public store {
public:
    /// `groups`: what the model will ask for, in the order of a sweep; the tensors' types are supported ones.
    /// Errors: io, not_found, truncated, out_of_memory (with the smallest memory that would do), canceled, limit (no threads).
    [[nodiscard]] static result<std::unique_ptr<store>> open(const gguf::file& file, const std::vector<group>& groups,
                                                             const stream_options& options, std::vector<std::string>& notes) {
        auto plan = stream_plan::make(file, groups, options.memory, options.sizes);
        if (!plan) return std::move(plan).error();
        std::unique_ptr<streamed_store> out(new streamed_store);
        out->plan_ = *std::move(plan);
        if (auto ok = out->fill(file, groups, options); !ok) return std::move(ok).error();
        if (options.lock) {
            if (auto ok = lock_memory({out->memory_.data(), out->memory_.size()}); !ok) {
                notes.push_back(concat("the weights are not locked in memory: ", ok.error().message));
            }
        }
        return std::unique_ptr<store>(std::move(out));
    }

    [[nodiscard]] result<lease> acquire(group_id group, std::span<const std::uint32_t> parts) override {
        auto& g = groups_[group];
        if (g.how == access::rows) {
            for (std::size_t slot = 0; slot < g.tables.size(); ++slot) {
                if (auto ok = rows_->fetch(g.tables[slot], parts, cancel_); !ok) return std::move(ok).error().within(g.names[slot]);
            }
        } else if (g.how == access::experts) {
            const auto& layer = plan_.experts[g.expert_layer];
            if (auto ok = caches_[layer.cache]->want(layer, parts, cancel_); !ok) return std::move(ok).error();
        }
        return lease(this, group, g.tensors, parts);
    }

    [[nodiscard]] holding how() const noexcept override { return holding::streamed; }
    [[nodiscard]] memory_use memory() const noexcept override {
        return {0, plan_.pinned_bytes, plan_.bytes - plan_.pinned_bytes - plan_.cache_bytes, plan_.cache_bytes, plan_.streamed_bytes};
    }
    [[nodiscard]] store_statistics statistics() const noexcept override {
        const auto read = queue_->stats();
        store_statistics out{read.bytes_read, read.wait_seconds, 0, 0, sweeps_};
        for (const auto& cache : caches_) {
            out.expert_hits += cache->hits();
            out.expert_misses += cache->misses();
        }
        return out;
    }
    [[nodiscard]] const stream_plan& plan() const noexcept { return plan_; }

protected:
    [[nodiscard]] result<void> begin_sweep(bool everything, const cancel_flag* cancel) override {
        busy_.lock();
        if (auto ok = queue_->check_unchanged(); !ok) {
            busy_.unlock();
            return ok;
        }
        cancel_ = cancel;
        if (ring_) ring_->use_everything(everything);
        for (auto& cache : caches_) cache->tick();
        ++sweeps_;
        return {};
    }
    void end_sweep() noexcept override {
        cancel_ = nullptr;
        busy_.unlock();
    }

    void release(group_id group) noexcept override {
        const auto& g = groups_[group];
        if (g.how == access::experts) caches_[plan_.experts[g.expert_layer].cache]->end();
        else if (g.how == access::whole && ring_) ring_->release();
    }

    [[nodiscard]] result<std::size_t> take(group_id group, std::span<const tensor_ref>, std::size_t& given, std::size_t slots,
                                           std::span<row_piece> out) override {
        if (ring_) ring_->release();
        std::size_t n = 0;
        const std::size_t first = plan_.first_piece[group];
        const std::size_t end = plan_.first_piece[group + 1];
        for (; n < out.size() && first + given < end; ++given) {
            const auto& piece = plan_.pieces[first + given];
            if (piece.slot >= slots) break;
            tensor_ref rows = refs_[first + given];
            if (!piece.pinned) {
                const std::size_t index = ring_index_[first + given];
                // A product now with what is there, rather than one later with all.
                if (n != 0 && !ring_->ready(index)) break;
                auto bytes = ring_->take(index, cancel_);
                // One that went wrong is asked for again by the next call, when nothing is held.
                if (!bytes && n != 0) break;
                if (!bytes) return std::move(bytes).error().within(groups_[group].names[piece.slot]);
                rows = rows.at(*bytes);
            }
            out[n++] = {piece.slot, static_cast<std::size_t>(piece.first_row), rows};
        }
        return n;
    }

    [[nodiscard]] result<void> decode_row(group_id group, std::span<const tensor_ref> tensors, std::size_t slot, std::uint32_t row,
                                          std::span<float> out) override {
        const auto& g = groups_[group];
        if (g.how == access::rows) {
            if (out.size() != tensors[slot].columns()) {
                return error{errc::bad_count, concat("a row has ", tensors[slot].columns(), " values, not ", out.size())};
            }
            auto bytes = rows_->row(g.tables[slot], row, cancel_);
            if (!bytes) return std::move(bytes).error().within(g.names[slot]);
            return quant::decode_row(tensors[slot].type(), *bytes, out);
        }
        for (std::size_t i = plan_.first_piece[group]; i < plan_.first_piece[group + 1]; ++i) {
            const auto& piece = plan_.pieces[i];
            if (piece.slot != slot || row < piece.first_row || row >= piece.first_row + piece.rows) continue;
            if (piece.pinned) return decode_row_of(refs_[i], row - static_cast<std::uint32_t>(piece.first_row), out);
        }
        return error{errc::invalid_argument, concat("row ", row, " of a tensor that isn't held")};
    }

    [[nodiscard]] result<std::optional<std::uint32_t>> next_expert(group_id group, std::span<const std::uint32_t>, std::size_t&,
                                                                   bool in_order) override {
        const auto& g = groups_[group];
        auto next = caches_[plan_.experts[g.expert_layer].cache]->next(in_order, cancel_);
        if (!next) return std::move(next).error().within(g.names[0]);
        return next;
    }

    [[nodiscard]] tensor_ref expert(group_id group, std::span<const tensor_ref> tensors, std::size_t slot,
                                    std::uint32_t) const noexcept override {
        return tensors[slot].at(caches_[plan_.experts[groups_[group].expert_layer].cache]->bytes(slot));
    }

private:
    struct held_group {
        access how = access::whole;
        std::vector<tensor_ref> tensors;  // type and shape; of experts: one expert's
        std::vector<std::string> names;   // for messages
        std::vector<row_table> tables;    // access::rows
        std::size_t expert_layer = 0;     // access::experts
    };

    streamed_store() = default;

    [[nodiscard]] result<void> fill(const gguf::file& file, const std::vector<group>& groups, const stream_options& options) {
        auto memory = aligned_buffer::allocate(std::max<std::size_t>(plan_.bytes, std::size_t{4} << 20));
        if (!memory) return std::move(memory).error();
        memory_ = *std::move(memory);
        if (auto ok = load_tensors(file, plan_.pinned, memory_.data(), options.loading); !ok) return ok;
        std::vector<std::filesystem::path> paths;
        for (const auto& part : file.parts()) paths.push_back(part.path);
        auto queue = read_queue::open(paths, options.reading);
        if (!queue) return std::move(queue).error();
        queue_ = *std::move(queue);
        if (auto ok = make_groups(file, groups); !ok) return ok;
        if (auto ok = make_pieces(file); !ok) return ok;
        rows_ = std::make_unique<row_cache>(*queue_, plan_, memory_.data());
        for (const auto& cache : plan_.caches) {
            caches_.push_back(std::make_unique<expert_cache>(
                *queue_, cache, plan_.experts.front().first.size(),
                std::span<std::byte>(memory_.data() + cache.offset, cache.slots * cache.slot_bytes)));
        }
        return {};
    }

    [[nodiscard]] result<void> make_groups(const gguf::file& file, const std::vector<group>& groups) {
        std::size_t layers = 0;
        for (const auto& group : groups) {
            held_group out;
            out.how = group.how;
            if (group.how == access::experts) out.expert_layer = layers++;
            for (const auto id : group.tensors) {
                const auto& info = file.tensors()[id];
                auto dims = shape::make(info.dims);
                if (!dims) return std::move(dims).error().within(concat("tensor ", quoted(info.name)));
                if (group.how == access::experts) *dims = dims->slice();
                auto ref = shape_only(info.type, *dims, info.bytes / (group.how == access::experts ? info.dims[2] * info.dims[3] : 1));
                if (!ref) return std::move(ref).error().within(concat("tensor ", quoted(info.name)));
                out.tensors.push_back(*ref);
                out.names.push_back(concat("tensor ", quoted(info.name)));
                if (group.how == access::rows) {
                    out.tables.push_back({id, info.part, info.offset, static_cast<std::size_t>(info.row_bytes())});
                }
            }
            groups_.push_back(std::move(out));
        }
        return {};
    }

    /// A tensor whose bytes come later: `at` gives it some. They are not looked at before.
    [[nodiscard]] result<tensor_ref> shape_only(dtype type, const shape& dims, std::uint64_t bytes) const {
        return tensor_ref::make(type, dims, {memory_.data(), static_cast<std::size_t>(bytes)});
    }

    [[nodiscard]] result<void> make_pieces(const gguf::file& file) {
        std::vector<ring_piece> streamed;
        ring_index_.resize(plan_.pieces.size());
        std::vector<bool> some(groups_.size());
        for (std::size_t i = 0; i < plan_.pieces.size(); ++i) {
            const auto& piece = plan_.pieces[i];
            const auto& info = file.tensors()[piece.tensor];
            result<tensor_ref> ref = error{};
            if (piece.pinned) {
                const auto& held = plan_.pinned[piece.place];
                const std::span<const std::byte> bytes(memory_.data() + held.offset, held.bytes);
                ref = held.how == layout::panels ? tensor_ref::make_panels(info.type, held.dims, bytes)
                                                 : tensor_ref::make(info.type, held.dims, bytes);
            } else {
                auto dims = shape::make({info.dims[0], piece.rows});
                if (!dims) return std::move(dims).error();
                ref = shape_only(info.type, *dims, piece.source.bytes);
                ring_index_[i] = streamed.size();
                streamed.push_back({piece.source, quant::block_alignment(info.type), plan_.some_sweeps(piece.group)});
            }
            if (!ref) return std::move(ref).error().within(concat("tensor ", quoted(info.name)));
            refs_.push_back(*ref);
        }
        if (!streamed.empty()) {
            ring_ = std::make_unique<sweep_ring>(*queue_, std::move(streamed),
                                                 std::span<std::byte>(memory_.data() + plan_.ring_offset, plan_.ring_bytes));
        }
        return {};
    }

    stream_plan plan_;
    aligned_buffer memory_;  // outlives what reads into it
    std::unique_ptr<read_queue> queue_;
    std::vector<held_group> groups_;
    std::vector<tensor_ref> refs_;         // by piece
    std::vector<std::size_t> ring_index_;  // by piece
    std::unique_ptr<sweep_ring> ring_;
    std::unique_ptr<row_cache> rows_;
    std::vector<std::unique_ptr<expert_cache>> caches_;
    std::mutex busy_;                      // held by a sweep
    const cancel_flag* cancel_ = nullptr;  // of that sweep
    std::uint64_t sweeps_ = 0;
};

}  // namespace colibri::weights
