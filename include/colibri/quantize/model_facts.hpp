// What mixtures ask about a model.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>

#include "colibri/gguf/metadata.hpp"
#include "colibri/gguf/tensor_info.hpp"
#include "colibri/quantize/tensor_role.hpp"

namespace colibri::quantize {

/// Facts from a file's header. What a file doesn't say, or says wrongly, is 0: a container that isn't a model can be quantised too.
struct model_facts {
    std::string architecture;
    std::uint32_t blocks = 0;
    std::uint32_t experts = 0;
    std::uint32_t query_heads_per_kv = 0;  ///< of the first layer
    std::uint32_t unused_blocks = 0;       ///< at the end: what predicts further tokens, which ordinary use leaves out
    std::uint32_t attention_values = 0;    ///< tensors of role attention_v
    bool is_70b = false;                   ///< 80 layers whose values' projections are shared by many heads
    bool is_tied = true;                   ///< the embeddings are the output head as well

    /// Reads them. `tensors` may have any order.
    [[nodiscard]] static model_facts of(const gguf::metadata& meta, std::span<const gguf::tensor_info> tensors) {
        model_facts out;
        out.architecture = meta.get_or<std::string>("general.architecture", "").value_or(std::string());
        const auto number = [&](std::string_view key) {
            return first_number(meta, concat(out.architecture, ".", key));
        };
        out.blocks = number("block_count");
        out.experts = number("expert_count");
        out.unused_blocks = number("nextn_predict_layers");
        const std::uint32_t heads = number("attention.head_count");
        // Without a number of its own every query head has its key.
        const bool has_kv = meta.contains(concat(out.architecture, ".attention.head_count_kv"));
        const std::uint32_t kv_heads = has_kv ? number("attention.head_count_kv") : heads;
        out.query_heads_per_kv = kv_heads == 0 ? 0 : heads / kv_heads;
        const std::string& a = out.architecture;
        out.is_70b = (a == "llama" && out.blocks == 80 && heads != kv_heads) || (a == "jais2" && out.blocks == 68) ||
                     (out.blocks == 80 && (a == "qwen2" || a == "deci" || a == "olmo"));
        for (const auto& tensor : tensors) {
            const auto role = role_of(tensor.name);
            if (role == tensor_role::attention_v) ++out.attention_values;
            if (role == tensor_role::output) out.is_tied = false;
        }
        if (out.blocks == 0) {
            for (const auto& tensor : tensors) {
                if (const auto block = block_of(tensor.name); block && *block < 0xffff) out.blocks = std::max(out.blocks, *block + 1);
            }
        }
        return out;
    }

private:
    /// A number, or the first one of an array.
    [[nodiscard]] static std::uint32_t first_number(const gguf::metadata& meta, std::string_view key) {
        const gguf::value* found = meta.find(key);
        return found == nullptr || found->size() == 0 ? 0 : found->at<std::uint32_t>(0).value_or(0u);
    }
};

}  // namespace colibri::quantize
