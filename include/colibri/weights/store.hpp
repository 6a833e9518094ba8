// Where weights are when a layer needs them: groups, leases, and the store that gives them out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "colibri/core/cancel.hpp"
#include "colibri/core/error.hpp"
#include "colibri/quant/panel.hpp"
#include "colibri/quant/rows.hpp"
#include "colibri/tensor/tensor_ref.hpp"

namespace colibri::weights {

/// Position of a tensor in gguf::file::tensors().
using tensor_id = std::uint32_t;

/// How a group's bytes are used, which is what a store needs to know to hold as few of them as possible.
enum class access : std::uint8_t {
    whole,    ///< every byte, each time
    rows,     ///< a few rows of a table (an embedding look-up)
    experts,  ///< a few slices along the last dimension (a mixture's experts)
};

/// Where weights are held.
enum class holding : std::uint8_t {
    automatic,  ///< resident where they fit into the budget, else streamed
    mapped,     ///< in the page cache: starts at once, shares memory with other processes; read again when it is too small
    resident,   ///< in memory of our own, read and packed for speed when the model is opened
    streamed,   ///< a part in memory of our own, the rest read ahead of each use; experts in a cache
};

/// Name for options and messages.
[[nodiscard]] constexpr std::string_view name(holding how) noexcept {
    switch (how) {
        case holding::automatic: return "auto";
        case holding::mapped: return "mapped";
        case holding::resident: return "resident";
        case holding::streamed: return "streamed";
    }
    return "?";
}

/// In which sweeps a group is used.
enum class demand : std::uint8_t {
    each_sweep,
    some_sweeps,  ///< in those that are announced to use everything (a head, whose logits aren't always wanted)
    once,         ///< outside sweeps, when the model is opened
};

/// Tensors that the model needs at the same time.
struct group {
    access how = access::whole;
    std::vector<tensor_id> tensors;
    demand when = demand::each_sweep;
};

/// Position of a group in the list a store was made with. The list is in the order of one sweep over the model, so a store
/// knows what comes next, across the end of the sweep too.
using group_id = std::uint32_t;

/// Bytes held by a store, for statistics. All in bytes.
struct memory_use {
    std::uint64_t mapped = 0;    ///< file bytes mapped; in memory only as far as the kernel keeps them
    std::uint64_t resident = 0;  ///< bytes in memory of our own, for good
    std::uint64_t buffers = 0;   ///< bytes that reads go to on their way
    std::uint64_t cache = 0;     ///< bytes of the expert cache
    std::uint64_t swept = 0;     ///< file bytes that are read for each sweep, experts aside
};

/// What a store has done since it was opened. Counts that never fall.
struct store_statistics {
    std::uint64_t bytes_read = 0;     ///< from files, after opening
    double wait_seconds = 0.0;        ///< the model waited for the disk
    std::uint64_t expert_hits = 0;    ///< experts asked for and found in memory
    std::uint64_t expert_misses = 0;  ///< and those that had to be read
    std::uint64_t sweeps = 0;         ///< passes over the model
};

/// Rows of a group's tensor that are in place.
struct row_piece {
    std::size_t slot = 0;       ///< of the group
    std::size_t first_row = 0;  ///< of the tensor
    tensor_ref rows;
};

class store;

/// Keeps a group's bytes in place while it lives. Move-only; ends before the store does, and before the next lease of the same
/// sweep begins. Not shared between threads.
class lease {
public:
    lease() = default;
    lease(store* owner, group_id group, std::span<const tensor_ref> tensors, std::span<const std::uint32_t> parts = {}) noexcept
        : owner_(owner), group_(group), tensors_(tensors), parts_(parts) {}
    lease(lease&& other) noexcept { *this = std::move(other); }
    lease& operator=(lease&& other) noexcept {
        if (this != &other) {
            end();
            owner_ = std::exchange(other.owner_, nullptr);
            group_ = other.group_;
            tensors_ = other.tensors_;
            parts_ = other.parts_;
            given_ = other.given_;
        }
        return *this;
    }
    ~lease() { end(); }

    /// The `slot`-th tensor of the group: its type and shape. Its bytes may be read where the store holds tensors in one piece
    /// (mapped, resident); use the functions below for all stores.
    [[nodiscard]] const tensor_ref& operator[](std::size_t slot) const noexcept { return tensors_[slot]; }

    /// access::whole: pieces, not given before, of the tensors in slots below `slots`, in order; as many as are in place and `out`
    /// (not empty) has room for, at least one unless all were given: then none. Pieces given before end with the call. All
    /// pieces of a tensor together are its rows, each once. Allocates nothing. Errors: io, truncated (the file changed), canceled.
    [[nodiscard]] inline result<std::size_t> take(std::size_t slots, std::span<row_piece> out);

    /// access::rows: decodes a row that was named in `acquire`, whatever the layout, to out.size() == columns() floats; with
    /// access::whole, one of a tensor in one piece. Allocates nothing. Errors: bad_count (another number of columns), io and
    /// others of reading.
    [[nodiscard]] inline result<void> decode_row(std::size_t slot, std::uint32_t row, std::span<float> out);

    /// access::experts: an expert, not given before, of those named in `acquire`; nothing when all were. The one given before ends
    /// with the call. `in_order`: the lowest number (the same for all calls of a lease); else one that is in place, if any is.
    /// Allocates nothing. Errors: io, truncated (the file changed), canceled.
    [[nodiscard]] inline result<std::optional<std::uint32_t>> next_expert(bool in_order);

    /// Expert `expert`, which `next_expert` gave last, of the `slot`-th tensor: a matrix.
    [[nodiscard]] inline tensor_ref expert(std::size_t slot, std::uint32_t expert) const noexcept;

private:
    inline void end() noexcept;

    store* owner_ = nullptr;
    group_id group_ = 0;
    std::span<const tensor_ref> tensors_;
    std::span<const std::uint32_t> parts_;
    std::size_t given_ = 0;  ///< pieces or experts
};

/// Gives leases. One implementation per way of holding weights; the model knows only this class.
class store {
public:
    store() = default;
    store(const store&) = delete;
    store& operator=(const store&) = delete;
    virtual ~store() = default;

    /// Makes a group's bytes reachable; those of access::rows are in place then. `parts`: the rows or experts that will be read,
    /// ascending, for access::rows and access::experts; they stay valid while the lease lives. Allocates nothing.
    /// Errors: io, truncated (the file changed), canceled.
    [[nodiscard]] virtual result<lease> acquire(group_id group, std::span<const std::uint32_t> parts = {}) = 0;

    [[nodiscard]] virtual memory_use memory() const noexcept = 0;
    [[nodiscard]] virtual store_statistics statistics() const noexcept { return {}; }
    [[nodiscard]] virtual holding how() const noexcept = 0;

    /// Row `row` of a tensor whose bytes are all there, in any layout, to out.size() == columns() floats. Errors: bad_count.
    [[nodiscard]] static inline result<void> decode_row_of(const tensor_ref& tensor, std::uint32_t row, std::span<float> out);

protected:
    friend class lease;
    friend class sweep;

    /// See `sweep`. Errors: truncated, io (a file was changed while it is in use).
    [[nodiscard]] virtual result<void> begin_sweep(bool, const cancel_flag*) { return {}; }
    virtual void end_sweep() noexcept {}

    virtual void release(group_id group) noexcept = 0;

    /// `given`: pieces that the lease has given. Here: each tensor in one piece.
    [[nodiscard]] virtual result<std::size_t> take(group_id, std::span<const tensor_ref> tensors, std::size_t& given,
                                                   std::size_t slots, std::span<row_piece> out) {
        std::size_t n = 0;
        for (; n < out.size() && given < slots; ++given) out[n++] = {given, 0, tensors[given]};
        return n;
    }
    [[nodiscard]] virtual result<void> decode_row(group_id, std::span<const tensor_ref> tensors, std::size_t slot,
                                                  std::uint32_t row, std::span<float> out) {
        return decode_row_of(tensors[slot], row, out);
    }
    /// Here: all are in place.
    [[nodiscard]] virtual result<std::optional<std::uint32_t>> next_expert(group_id, std::span<const std::uint32_t> parts,
                                                                           std::size_t& given, bool) {
        if (given == parts.size()) return std::optional<std::uint32_t>();
        return std::optional<std::uint32_t>(parts[given++]);
    }
    [[nodiscard]] virtual tensor_ref expert(group_id, std::span<const tensor_ref> tensors, std::size_t slot,
                                            std::uint32_t expert) const noexcept {
        return tensors[slot].slice(expert);
    }
};

/// One pass over a model's groups in the order that the store was made with: while it lives, nobody else's pass disturbs it.
class sweep {
public:
    sweep() = default;
    sweep(const sweep&) = delete;
    sweep& operator=(const sweep&) = delete;
    ~sweep() {
        if (owner_ != nullptr) owner_->end_sweep();
    }

    /// Waits for other passes. `everything`: groups of demand::some_sweeps will be used too. `cancel` ends waits for the disk; it
    /// outlives the sweep. Errors: truncated, io (a file was changed since it was opened).
    [[nodiscard]] result<void> begin(store& owner, bool everything, const cancel_flag* cancel) {
        if (auto ok = owner.begin_sweep(everything, cancel); !ok) return ok;
        owner_ = &owner;
        return {};
    }

private:
    store* owner_ = nullptr;
};

inline result<void> store::decode_row_of(const tensor_ref& tensor, std::uint32_t row, std::span<float> out) {
    if (tensor.layout() == layout::file) return quant::decode_row(tensor.type(), tensor.row(row), out);
    if (out.size() != tensor.columns()) {
        return error{errc::bad_count, concat("a row has ", tensor.columns(), " values, not ", out.size())};
    }
    const auto slice_rows = static_cast<std::size_t>(tensor.dims().dims()[1]);
    const std::size_t in_slice = row % slice_rows;
    const std::byte* panel = tensor.panel(row / slice_rows * tensor.slice_panels() + in_slice / quant::panel_rows);
    quant::decode_panel_row(tensor.type(), panel, in_slice % quant::panel_rows, out.size(), out.data());
    return {};
}

inline result<std::size_t> lease::take(std::size_t slots, std::span<row_piece> out) {
    return owner_->take(group_, tensors_, given_, slots, out);
}

inline result<void> lease::decode_row(std::size_t slot, std::uint32_t row, std::span<float> out) {
    return owner_->decode_row(group_, tensors_, slot, row, out);
}

inline result<std::optional<std::uint32_t>> lease::next_expert(bool in_order) {
    return owner_->next_expert(group_, parts_, given_, in_order);
}

inline tensor_ref lease::expert(std::size_t slot, std::uint32_t expert) const noexcept {
    return owner_->expert(group_, tensors_, slot, expert);
}

inline void lease::end() noexcept {
    if (owner_ != nullptr) std::exchange(owner_, nullptr)->release(group_);
}

}  // namespace colibri::weights
