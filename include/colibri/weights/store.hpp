// Where weights are when a layer needs them: groups, leases, and the store that gives them out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

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
    automatic,  ///< resident where they fit into the free memory, else mapped
    mapped,     ///< in the page cache: starts at once, shares memory with other processes; read again when it is too small
    resident,   ///< in memory of our own, read and packed for speed when the model is opened
};

/// Tensors that the model needs at the same time.
struct group {
    access how = access::whole;
    std::vector<tensor_id> tensors;
};

/// Position of a group in the list a store was made with. The list is in the order of one sweep over the model, so a store
/// knows what comes next, across the end of the sweep too.
using group_id = std::uint32_t;

/// Bytes held by a store, for statistics. All in bytes.
struct memory_use {
    std::uint64_t mapped = 0;    ///< file bytes mapped; in memory only as far as the kernel keeps them
    std::uint64_t resident = 0;  ///< bytes in memory of our own
};

class store;

/// Keeps a group's bytes in place while it lives. Move-only; ends before the store does. Not shared between threads.
class lease {
public:
    lease() = default;
    lease(store* owner, group_id group, std::span<const tensor_ref> tensors) noexcept
        : owner_(owner), group_(group), tensors_(tensors) {}
    lease(lease&& other) noexcept
        : owner_(std::exchange(other.owner_, nullptr)), group_(other.group_), tensors_(other.tensors_) {}
    lease& operator=(lease&& other) noexcept {
        if (this != &other) {
            end();
            owner_ = std::exchange(other.owner_, nullptr);
            group_ = other.group_;
            tensors_ = other.tensors_;
        }
        return *this;
    }
    ~lease() { end(); }

    /// The `slot`-th tensor of the group. With access::whole all of it may be read; else use `row` and `expert`.
    [[nodiscard]] const tensor_ref& operator[](std::size_t slot) const noexcept { return tensors_[slot]; }

    /// Bytes of row `row` of the `slot`-th tensor, which has the file's layout; the row was named in `acquire` (or the access is
    /// whole).
    [[nodiscard]] inline std::span<const std::byte> row(std::size_t slot, std::uint32_t row) const noexcept;

    /// Decodes that row, whatever the layout, to out.size() == columns() floats. Allocates nothing. Errors: bad_count, truncated
    /// (another number of columns).
    [[nodiscard]] inline result<void> decode_row(std::size_t slot, std::uint32_t row, std::span<float> out) const;

    /// Expert `expert` of the `slot`-th tensor, a matrix; the expert was named in `acquire` (or the access is whole).
    [[nodiscard]] inline tensor_ref expert(std::size_t slot, std::uint32_t expert) const noexcept;

private:
    inline void end() noexcept;

    store* owner_ = nullptr;
    group_id group_ = 0;
    std::span<const tensor_ref> tensors_;
};

/// Gives leases. One implementation per way of holding weights; the model knows only this class.
class store {
public:
    store() = default;
    store(const store&) = delete;
    store& operator=(const store&) = delete;
    virtual ~store() = default;

    /// Waits until the group's bytes are in place. `parts`: the rows or experts that will be read, ascending, for access::rows
    /// and access::experts. Allocates nothing. Errors: io, truncated (the file changed), canceled.
    [[nodiscard]] virtual result<lease> acquire(group_id group, std::span<const std::uint32_t> parts = {}) = 0;

    [[nodiscard]] virtual memory_use memory() const noexcept = 0;

protected:
    friend class lease;
    virtual void release(group_id group) noexcept = 0;
    [[nodiscard]] virtual std::span<const std::byte> row_of(const tensor_ref& tensor, std::uint32_t row) const noexcept {
        return tensor.row(row);
    }
    [[nodiscard]] virtual tensor_ref expert_of(const tensor_ref& tensor, std::uint32_t expert) const noexcept {
        return tensor.slice(expert);
    }
};

inline std::span<const std::byte> lease::row(std::size_t slot, std::uint32_t row) const noexcept {
    return owner_->row_of(tensors_[slot], row);
}

inline result<void> lease::decode_row(std::size_t slot, std::uint32_t row, std::span<float> out) const {
    const tensor_ref& tensor = tensors_[slot];
    if (tensor.layout() == layout::file) return quant::decode_row(tensor.type(), this->row(slot, row), out);
    if (out.size() != tensor.columns()) {
        return error{errc::bad_count, concat("a row has ", tensor.columns(), " values, not ", out.size())};
    }
    const auto slice_rows = static_cast<std::size_t>(tensor.dims().dims()[1]);
    const std::size_t in_slice = row % slice_rows;
    const std::byte* panel = tensor.panel(row / slice_rows * tensor.slice_panels() + in_slice / quant::panel_rows);
    quant::decode_panel_row(tensor.type(), panel, in_slice % quant::panel_rows, out.size(), out.data());
    return {};
}

inline tensor_ref lease::expert(std::size_t slot, std::uint32_t expert) const noexcept {
    return owner_->expert_of(tensors_[slot], expert);
}

inline void lease::end() noexcept {
    if (owner_ != nullptr) std::exchange(owner_, nullptr)->release(group_);
}

}  // namespace colibri::weights
