// A model without some of its layers.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "colibri/core/concat.hpp"
#include "colibri/core/error.hpp"
#include "colibri/core/escape.hpp"
#include "colibri/gguf/metadata.hpp"
#include "colibri/quantize/tensor_role.hpp"

namespace colibri::quantize {

/// Which layers stay, and their new numbers.
class layer_names {
public:
    layer_names(std::uint32_t layers, std::span<const std::uint32_t> gone) : numbers_(layers) {
        std::uint32_t next = 0;
        for (std::uint32_t i = 0; i < layers; ++i) {
            if (std::ranges::find(gone, i) == gone.end()) numbers_[i] = next++;
        }
        kept_ = next;
    }

    [[nodiscard]] std::uint32_t kept() const noexcept { return kept_; }
    [[nodiscard]] bool keeps(std::size_t layer) const noexcept { return numbers_[layer].has_value(); }

    /// The name that a tensor has afterwards; nothing if its layer goes.
    [[nodiscard]] std::optional<std::string> new_name(std::string_view tensor) const {
        const auto layer = block_of(tensor);
        if (!layer || *layer >= numbers_.size()) return std::string(tensor);
        if (!numbers_[*layer]) return std::nullopt;
        return concat("blk.", *numbers_[*layer], tensor.substr(tensor.find('.', 4)));
    }

private:
    std::vector<std::optional<std::uint32_t>> numbers_;
    std::uint32_t kept_ = 0;
};

namespace detail {

/// An array value; vector<bool> has no span.
template <class T>
[[nodiscard]] gguf::value array_of(const std::vector<T>& numbers) {
    if constexpr (std::same_as<T, bool>) {
        const auto bits = std::make_unique<bool[]>(numbers.size());
        std::ranges::copy(numbers, bits.get());
        return gguf::value::array(std::span<const bool>(bits.get(), numbers.size()));
    } else {
        return gguf::value::array(std::span<const T>(numbers));
    }
}

}  // namespace detail

/// Takes layers out of a model's metadata: their count, and the elements of arrays that have one for each layer. Returns how tensors are
/// named then. Errors: missing_key, bad_value, bad_type (no usable count of layers), invalid_argument (no such layer, or none left).
[[nodiscard]] inline result<layer_names> prune(gguf::metadata& meta, std::span<const std::uint32_t> gone) {
    auto architecture = meta.get<std::string>("general.architecture");
    if (!architecture) return std::move(architecture).error();
    const std::string key = concat(*architecture, ".block_count");
    auto count = meta.get<std::uint32_t>(key);
    if (!count) return std::move(count).error();
    for (const auto layer : gone) {
        if (layer < *count) continue;
        return error{errc::invalid_argument, concat("there is no layer ", layer, " to leave out; the model has ", *count, ", from 0")};
    }
    if (*count > (1u << 20)) {
        return error{errc::bad_value, concat("the metadata key ", quoted(key), " is ", *count, ", more layers than any model has")};
    }
    layer_names names(*count, gone);
    if (names.kept() == 0) return error{errc::invalid_argument, "no layer would be left"};
    std::vector<std::pair<std::string, gguf::value>> shorter;
    for (const auto& entry : meta.entries()) {
        const std::string& name = entry.key;
        const gguf::value& value = entry.value;
        const bool is_per_layer = name.starts_with(concat(*architecture, ".")) && value.is_array() && value.size() == *count;
        if (!is_per_layer || gguf::fixed_bytes(value.element_type()) == 0) continue;
        std::vector<std::size_t> kept;
        for (std::size_t i = 0; i < *count; ++i) {
            if (names.keeps(i)) kept.push_back(i);
        }
        shorter.emplace_back(name, gguf::detail::visit_number(value.element_type(), value.number_bytes(0), [&]<class T>(T) {
            std::vector<T> numbers;
            for (const auto i : kept) {
                gguf::detail::visit_number(value.element_type(), value.number_bytes(i), [&](auto number) { numbers.push_back(static_cast<T>(number)); });
            }
            return detail::array_of(numbers);
        }));
    }
    for (auto& [name, value] : shorter) meta.set(name, std::move(value));
    meta.set(key, names.kept());
    return names;
}

}  // namespace colibri::quantize
