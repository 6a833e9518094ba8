// Weights in memory of our own: quantised matrices as panels, the rest as in the file.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "colibri/core/buffer.hpp"
#include "colibri/io/memory_limits.hpp"
#include "colibri/io/memory_lock.hpp"
#include "colibri/weights/resident_loader.hpp"

namespace colibri::weights {

/// Reads all tensors of its groups when it is opened and hands out views into them; a lease costs nothing. One block of memory,
/// in huge pages where the system has them. The file is not needed any more.
class resident_store final : public store {
public:
    /// `groups`: what the model will ask for; the tensors' types are supported ones. `lock`: keep all pages in memory (mlock); what
    /// the system doesn't allow becomes a sentence in `notes`.
    /// Errors: io, not_found, truncated (a file has become shorter), out_of_memory (more than is free), canceled.
    [[nodiscard]] static result<std::unique_ptr<store>> open(const gguf::file& file, const std::vector<group>& groups, bool lock,
                                                             std::vector<std::string>& notes, const load_options& options = {},
                                                             panel_choice choice = panel_choice::all) {
        auto plan = resident_plan::make(file, groups, choice);
        if (!plan) return std::move(plan).error();
        if (auto ok = check_memory(plan->bytes, lock); !ok) return std::move(ok).error();
        std::unique_ptr<resident_store> out(new resident_store);
        auto memory = aligned_buffer::allocate(plan->bytes);
        if (!memory) return std::move(memory).error();
        out->memory_ = *std::move(memory);
        if (auto ok = load_tensors(file, plan->tensors, out->memory_.data(), options); !ok) return std::move(ok).error();
        for (const auto& group : groups) {
            std::vector<tensor_ref> refs;
            for (const auto id : group.tensors) {
                const auto& tensor = plan->tensors[plan->place_of[id]];
                const auto& info = file.tensors()[id];
                const std::span<const std::byte> bytes(out->memory_.data() + tensor.offset, tensor.bytes);
                auto ref = tensor.how == layout::panels ? tensor_ref::make_panels(info.type, tensor.dims, bytes)
                                                        : tensor_ref::make(info.type, tensor.dims, bytes);
                if (!ref) return std::move(ref).error().within(concat("tensor ", quoted(info.name)));
                refs.push_back(*ref);
            }
            out->groups_.push_back(std::move(refs));
        }
        if (lock) {
            if (auto ok = lock_memory({out->memory_.data(), out->memory_.size()}); !ok) {
                notes.push_back(concat("the weights are not locked in memory: ", ok.error().message));
            }
        }
        return std::unique_ptr<store>(std::move(out));
    }

    [[nodiscard]] result<lease> acquire(group_id group, std::span<const std::uint32_t> parts) override {
        return lease(this, group, groups_[group], parts);
    }

    [[nodiscard]] holding how() const noexcept override { return holding::resident; }
    [[nodiscard]] memory_use memory() const noexcept override { return {0, memory_.size(), 0, 0, 0}; }

protected:
    void release(group_id) noexcept override {}

private:
    resident_store() = default;

    /// What a small context, activations and logits take besides: weights that leave less end a process under a limit.
    static constexpr std::uint64_t reserve = std::uint64_t{32} << 20;

    [[nodiscard]] static result<void> check_memory(std::uint64_t needed, bool lock) {
        const std::uint64_t free = read_memory_limits().free();
        if (free >= reserve && needed <= free - reserve) return {};
        return error{errc::out_of_memory,
                     concat("the weights take ", needed >> 20, " MiB, the rest at least ", reserve >> 20, ", and only ", free >> 20,
                            " MiB of memory are free; ",
                            lock ? "without --mlock and with --weights mapped" : "with --weights mapped",
                            " the file is mapped and needs no memory of its own")};
    }

    aligned_buffer memory_;
    std::vector<std::vector<tensor_ref>> groups_;
};

}  // namespace colibri::weights
