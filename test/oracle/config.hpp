// What the oracle knows of architectures.
#pragma once

#include <array>
#include <cmath>
#include <stdexcept>
#include <string>

#include "oracle/file.hpp"

namespace oracle {

using Eigen::Index;

/// Sizes and constants of a model; per layer what differs from layer to layer.
struct config {
    std::string arch;
    Index layers = 0;
    Index hidden = 0;
    Index heads = 0;
    Index kv_heads = 0;
    Index head = 0;        ///< size of a query and key head
    Index value_head = 0;  ///< size of a value head
    Index experts = 0;     ///< 0: one dense feed-forward
    Index experts_used = 0;
    Index window = 0;  ///< a window layer's position i sees j with i - j < window
    double epsilon = 0;
    double attention_cap = 0;  ///< 0: none
    double logit_cap = 0;
    double embedding_scale = 1;
    double attention_scale = 0;
    bool gelu = false;  ///< tanh-GELU in place of SiLU

    Index rope_size = 0;       ///< elements of a head that are rotated
    bool rope_halves = false;  ///< pairs (i, i + size / 2) in place of (2i, 2i + 1)
    double rope_base = 0;
    double rope_base_local = 0;
    std::string rope_scaling;  ///< none, linear, yarn
    double rope_factor = 1;
    double yarn_original = 0;
    double yarn_fast = 32;
    double yarn_slow = 1;
    double yarn_magnitude = 1;

    [[nodiscard]] bool is_gemma() const { return arch == "gemma2" || arch == "gemma3"; }
    [[nodiscard]] bool has_window(Index layer) const {
        if (window == 0) return false;
        if (arch == "gemma2") return layer % 2 == 0;
        return arch == "gemma3" && layer % 6 != 5;
    }
    [[nodiscard]] bool rotates(Index layer) const { return arch != "smollm3" || layer % 4 != 3; }
    [[nodiscard]] bool local_rope(Index layer) const { return arch == "gemma3" && has_window(layer); }
};

/// The architectures that the oracle can run.
inline constexpr std::array<const char*, 6> architectures{"llama", "qwen2", "qwen3", "gemma2", "gemma3", "smollm3"};

[[nodiscard]] inline bool knows(const std::string& arch) {
    for (const char* one : architectures) {
        if (arch == one) return true;
    }
    return false;
}

[[nodiscard]] inline config read_config(const file& from) {
    config c;
    c.arch = from.text("general.architecture", "");
    if (!knows(c.arch)) throw std::runtime_error("oracle: unknown architecture " + c.arch);
    const auto key = [&](const char* name) { return c.arch + "." + name; };
    c.layers = from.count(key("block_count"));
    c.hidden = from.count(key("embedding_length"));
    c.heads = from.count(key("attention.head_count"));
    c.kv_heads = from.count(key("attention.head_count_kv"), c.heads);
    c.head = from.count(key("attention.key_length"), c.hidden / c.heads);
    c.value_head = from.count(key("attention.value_length"), c.hidden / c.heads);
    c.experts = from.count(key("expert_count"), 0);
    c.experts_used = from.count(key("expert_used_count"), 0);
    c.window = from.count(key("attention.sliding_window"), 0);
    c.epsilon = from.number(key("attention.layer_norm_rms_epsilon"));
    c.attention_cap = from.number(key("attn_logit_softcapping"), 0);
    c.logit_cap = from.number(key("final_logit_softcapping"), 0);
    c.attention_scale = 1 / std::sqrt(static_cast<double>(c.head));
    if (c.is_gemma()) {
        c.embedding_scale = std::sqrt(static_cast<double>(c.hidden));
        c.gelu = true;
        const bool is_27b = c.layers == (c.arch == "gemma2" ? 46 : 62);
        if (is_27b) c.attention_scale = 1 / std::sqrt(static_cast<double>(c.hidden) / static_cast<double>(c.heads));
    }

    c.rope_size = from.count(key("rope.dimension_count"), c.head);
    c.rope_halves = c.arch == "qwen2" || c.arch == "qwen3" || c.is_gemma();
    c.rope_base = from.number(key("rope.freq_base"), 10000);
    c.rope_base_local = from.number(key("rope.freq_base_swa"), 10000);
    c.rope_scaling = from.text(key("rope.scaling.type"), "none");
    c.rope_factor = from.number(key("rope.scaling.factor"), 1);
    c.yarn_original = from.number(key("rope.scaling.original_context_length"), from.number(key("context_length")));
    c.yarn_fast = from.number(key("rope.scaling.yarn_beta_fast"), 32);
    c.yarn_slow = from.number(key("rope.scaling.yarn_beta_slow"), 1);
    c.yarn_magnitude = from.number(key("rope.scaling.attn_factor"), 0.1 * std::log(c.rope_factor) + 1);
    return c;
}

}  // namespace oracle
