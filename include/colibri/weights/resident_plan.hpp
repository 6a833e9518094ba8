// Which tensors become panels, and where each lies in the memory of a resident store.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "colibri/core/checked.hpp"
#include "colibri/gguf/file.hpp"
#include "colibri/quant/panel_layout.hpp"
#include "colibri/weights/store.hpp"

namespace colibri::weights {

/// The place of a tensor, or of some rows of a matrix, in one block of memory.
struct resident_tensor {
    tensor_id id = 0;
    shape dims;                   ///< of what is held
    colibri::layout how = layout::file;
    std::size_t offset = 0;       ///< a multiple of 64
    std::size_t bytes = 0;
    std::uint64_t first_row = 0;  ///< of the tensor
};

/// Whether matrices of a type that panels would make larger become panels too: faster, and up to 2.12 times as large (IQ1_S).
enum class panel_choice { all, same_size };

/// Whether matrices of this type become panels when they are held.
[[nodiscard]] constexpr bool becomes_panels(dtype type, panel_choice choice) noexcept {
    return quant::has_panels(type) && (choice == panel_choice::all || !quant::has_wide_panels(type));
}

/// Places of all tensors that some group names, in the order of the groups, each once. Matrices of quantised types that a group
/// uses whole or by experts become panels, for all groups; what is only looked up by rows, and floats, stays as in the file.
struct resident_plan {
    std::vector<resident_tensor> tensors;
    std::vector<std::uint32_t> place_of;  ///< by tensor_id: position in `tensors`
    std::size_t bytes = 0;                ///< of memory, for all

    /// Errors: overflow, and those of `shape::make` and `tensor_ref::panels_bytes`, with the tensor's name.
    [[nodiscard]] static inline result<resident_plan> make(const gguf::file& file, const std::vector<group>& groups,
                                                             panel_choice choice = panel_choice::all);
};

inline result<resident_plan> resident_plan::make(const gguf::file& file, const std::vector<group>& groups, panel_choice choice) {
    constexpr std::uint32_t nowhere = ~std::uint32_t{0};
    resident_plan out;
    out.place_of.assign(file.tensors().size(), nowhere);
    for (const auto& group : groups) {
        for (const auto id : group.tensors) {
            const auto& info = file.tensors()[id];
            if (out.place_of[id] == nowhere) {
                auto dims = shape::make(info.dims);
                if (!dims) return std::move(dims).error().within(concat("tensor ", quoted(info.name)));
                out.place_of[id] = static_cast<std::uint32_t>(out.tensors.size());
                out.tensors.push_back({id, *dims});
            }
            if (group.how != access::rows && becomes_panels(info.type, choice)) out.tensors[out.place_of[id]].how = layout::panels;
        }
    }
    for (auto& tensor : out.tensors) {
        const auto& info = file.tensors()[tensor.id];
        tensor.offset = out.bytes;
        tensor.bytes = static_cast<std::size_t>(info.bytes);
        if (tensor.how == layout::panels) {
            auto bytes = tensor_ref::panels_bytes(info.type, tensor.dims);
            if (!bytes) return std::move(bytes).error().within(concat("tensor ", quoted(info.name)));
            tensor.bytes = *bytes;
        }
        const auto end = checked_add<std::size_t>(out.bytes, tensor.bytes);
        const auto rounded = end ? checked_round_up<std::size_t>(*end, 64) : std::nullopt;
        if (!rounded) return error{errc::overflow, "the tensors together are larger than any memory"};
        out.bytes = *rounded;
    }
    return out;
}

}  // namespace colibri::weights
