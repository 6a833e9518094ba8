// The types that a conversion can write, and which tensor gets which.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "colibri/convert/tensor_plan.hpp"

namespace colibri::convert {

/// What the weights become; `automatic`: what most of them are in the source.
enum class weight_type : std::uint8_t { automatic, f32, f16, bf16, q8_0 };

struct weight_type_info {
    weight_type which;
    std::string_view name;
    dtype type;
    std::uint32_t file_type;  ///< the value of general.file_type
};

inline constexpr std::array weight_types = {
    weight_type_info{weight_type::f32, "f32", dtype::f32, 0}, weight_type_info{weight_type::f16, "f16", dtype::f16, 1},
    weight_type_info{weight_type::bf16, "bf16", dtype::bf16, 32}, weight_type_info{weight_type::q8_0, "q8_0", dtype::q8_0, 7}};

/// The type of that name ("auto", "f16"), or nothing.
[[nodiscard]] constexpr std::optional<weight_type> parse_weight_type(std::string_view text) noexcept {
    if (text == "auto") return weight_type::automatic;
    for (const auto& row : weight_types) {
        if (row.name == text) return row.which;
    }
    return std::nullopt;
}
/// Precondition: not `automatic`.
[[nodiscard]] constexpr const weight_type_info& info_of(weight_type which) noexcept {
    for (const auto& row : weight_types) {
        if (row.which == which) return row;
    }
    return weight_types[0];
}

/// The type that has the most elements among the source's matrices; F64 counts as F32.
[[nodiscard]] inline weight_type dominating_type(const std::vector<planned_tensor>& tensors) {
    std::uint64_t f32 = 0, f16 = 0, bf16 = 0;
    for (const auto& tensor : tensors) {
        for (const auto* part : tensor.parts) {
            if (tensor.info.n_dims == 1) continue;
            auto& sum = part->stored.type == element::f16 ? f16 : part->stored.type == element::bf16 ? bf16 : f32;
            sum += part->stored.elements();
        }
    }
    return bf16 >= f16 && bf16 >= f32 ? weight_type::bf16 : f16 >= f32 ? weight_type::f16 : weight_type::f32;
}

/// Gives each tensor its type and size: vectors and routers stay F32, rows that are no multiple of 32 become F16 in place of
/// Q8_0. Errors: bad_shape, overflow.
[[nodiscard]] inline result<void> choose_types(std::vector<planned_tensor>& tensors, weight_type which) {
    for (auto& tensor : tensors) {
        auto type = tensor.keeps_f32 ? dtype::f32 : info_of(which).type;
        if (type == dtype::q8_0 && tensor.info.dims[0] % 32 != 0) type = dtype::f16;
        tensor.info.type = type;
        auto bytes = gguf::tensor_bytes(type, tensor.info.dims, tensor.info.n_dims);
        if (!bytes) return std::move(bytes).error().within(quoted(tensor.info.name));
        tensor.info.bytes = *bytes;
    }
    return {};
}

}  // namespace colibri::convert
