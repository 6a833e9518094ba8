// Hyper-parameters of a decoder, read from metadata and checked before anything is sized by them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "colibri/core/error.hpp"
#include "colibri/core/escape.hpp"
#include "colibri/gguf/metadata.hpp"

namespace colibri {

/// How RoPE frequencies are stretched beyond the trained context.
enum class rope_scaling : std::uint8_t { none, linear, yarn };

/// Sizes and constants of one model. All counts are above 0 and small enough that products of two fit 64 bits.
struct hparams {
    std::string architecture;           ///< value of general.architecture
    std::uint32_t layers = 0;
    std::uint32_t hidden = 0;           ///< width of the residual stream
    std::uint32_t heads = 0;            ///< query heads
    std::uint32_t kv_heads = 0;         ///< key/value heads; divides `heads`
    std::uint32_t head_k = 0;           ///< width of a query or key head
    std::uint32_t head_v = 0;           ///< width of a value head
    std::uint32_t feed_forward = 0;     ///< inner width of the (or of each expert's) feed-forward
    std::uint32_t experts = 0;          ///< 0: dense
    std::uint32_t experts_used = 0;
    std::uint32_t vocabulary = 0;       ///< rows of the embedding
    std::uint32_t trained_context = 0;  ///< positions the model was trained for
    std::uint32_t window = 0;           ///< sliding window: i sees j with i - j < window; 0: everything
    float norm_epsilon = 1e-5f;

    std::uint32_t rope_dimensions = 0;  ///< leading elements of a head that are rotated
    float rope_base = 10000.0f;
    float rope_base_local = 10000.0f;   ///< base in sliding-window layers, where the architecture has its own
    rope_scaling scaling = rope_scaling::none;
    float scaling_factor = 1.0f;
    std::uint32_t scaling_original_context = 0;
    float yarn_beta_fast = 32.0f;
    float yarn_beta_slow = 1.0f;
    float yarn_attention_factor = 0.0f;  ///< 0: 0.1 ln(factor) + 1

    float attention_softcap = 0.0f;     ///< 0: off
    float logit_softcap = 0.0f;         ///< 0: off
};

namespace detail {

/// Reads `<architecture>.*` keys with ranges; remembers the first problem.
class hparam_reader {
public:
    hparam_reader(const gguf::metadata& meta, std::string prefix) : meta_(meta), prefix_(std::move(prefix)) {}

    [[nodiscard]] std::string key(std::string_view suffix) const { return concat(prefix_, ".", suffix); }

    /// A required count in 1..limit. An array (one value per layer) is accepted if all are equal.
    void count(std::string_view suffix, std::uint32_t& out, std::uint64_t limit) { integer(suffix, out, 1, limit, true); }

    /// An optional count; absent leaves `out` alone.
    void optional_count(std::string_view suffix, std::uint32_t& out, std::uint64_t limit, std::uint64_t least = 0) {
        if (meta_.find(key(suffix)) != nullptr) integer(suffix, out, least, limit, false);
    }

    /// An optional finite number in [least, most]; absent leaves `out` alone.
    void optional_number(std::string_view suffix, float& out, double least, double most) {
        if (problem_ || meta_.find(key(suffix)) == nullptr) return;
        const auto value = meta_.get<double>(key(suffix));
        if (!value) {
            fail(value.error());
            return;
        }
        if (!(*value >= least && *value <= most)) {
            fail({errc::bad_value, concat("the value of ", quoted(key(suffix)), " is ", *value, ", outside ", least, " to ",
                                          most, "; the file is damaged or of a kind that is not known here")});
            return;
        }
        out = static_cast<float>(*value);
    }

    /// From now on, arrays must have one value for each of `layers`.
    void expect_layers(std::uint32_t layers) { layers_ = layers; }

    void fail(error problem) {
        if (!problem_) {
            problem_ = true;
            error_ = std::move(problem);
        }
    }
    [[nodiscard]] bool failed() const noexcept { return problem_; }
    [[nodiscard]] error problem() && { return std::move(error_); }

private:
    void integer(std::string_view suffix, std::uint32_t& out, std::uint64_t least, std::uint64_t limit, bool required) {
        if (problem_) return;
        const auto name = key(suffix);
        const auto* found = meta_.find(name);
        if (found == nullptr) {
            if (required) fail({errc::missing_key, concat("the metadata has no ", quoted(name), ", which every model of this "
                                                          "architecture needs; the file is incomplete")});
            return;
        }
        std::uint64_t number = 0;
        if (found->is_array()) {
            const auto values = meta_.get_array<std::uint64_t>(name);
            if (!values) return fail(values.error());
            if (values->empty() || (layers_ != 0 && values->size() != layers_)) {
                return fail({errc::bad_count, concat(quoted(name), " is an array of ", values->size(), " for ", layers_,
                                                     " layers; the file is damaged")});
            }
            number = values->front();
            for (const auto other : *values) {
                if (other != number) {
                    return fail({errc::unsupported, concat(quoted(name), " differs from layer to layer, which this "
                                                           "architecture's code does not do")});
                }
            }
        } else {
            const auto value = meta_.get<std::uint64_t>(name);
            if (!value) return fail(value.error());
            number = *value;
        }
        if (number < least || number > limit) {
            return fail({errc::bad_value, concat("the value of ", quoted(name), " is ", number, ", outside ", least, " to ",
                                                 limit, "; the file is damaged")});
        }
        out = static_cast<std::uint32_t>(number);
    }

    const gguf::metadata& meta_;
    std::string prefix_;
    std::uint32_t layers_ = 0;
    bool problem_ = false;
    error error_;
};

}  // namespace detail

/// Reads the keys that all decoder architectures share (key names: ggml's docs/gguf.md). `vocabulary` stays 0 until the
/// embedding's shape is known. Errors: missing_key, bad_type, bad_value, bad_shape, each naming the key.
[[nodiscard]] inline result<hparams> read_hparams(const gguf::metadata& meta) {
    const auto architecture = meta.get<std::string>("general.architecture");
    if (!architecture) return architecture.error();
    hparams h;
    h.architecture = *architecture;
    constexpr std::uint64_t million = 1u << 20;
    detail::hparam_reader read(meta, *architecture);
    read.count("block_count", h.layers, 4096);
    read.expect_layers(h.layers);
    read.count("embedding_length", h.hidden, million);
    read.count("attention.head_count", h.heads, 65536);
    read.count("feed_forward_length", h.feed_forward, 16 * million);
    read.count("context_length", h.trained_context, std::uint64_t{1} << 31);
    h.kv_heads = h.heads;
    read.optional_count("attention.head_count_kv", h.kv_heads, 65536, 1);
    constexpr std::uint32_t most_experts = 65536;
    read.optional_count("expert_count", h.experts, ~std::uint32_t{0});
    read.optional_count("expert_used_count", h.experts_used, ~std::uint32_t{0});
    read.optional_count("attention.sliding_window", h.window, std::uint64_t{1} << 31);
    read.optional_number("attention.layer_norm_rms_epsilon", h.norm_epsilon, 0.0, 1.0);
    if (read.failed()) return std::move(read).problem();

    if (h.heads % h.kv_heads != 0) {
        return error{errc::bad_value, concat(quoted(read.key("attention.head_count")), " is ", h.heads, ", which is not a multiple of ",
                                             quoted(read.key("attention.head_count_kv")), ", ", h.kv_heads, "; the file is damaged")};
    }
    if (meta.find(read.key("attention.key_length")) == nullptr && h.hidden % h.heads != 0) {
        return error{errc::bad_value, concat(quoted(read.key("embedding_length")), " is ", h.hidden, ", which is not a multiple of ",
                                             quoted(read.key("attention.head_count")), ", ", h.heads, "; the file is damaged")};
    }
    h.head_k = h.hidden / h.heads;
    read.optional_count("attention.key_length", h.head_k, 65536, 1);
    h.head_v = h.hidden / h.heads;
    read.optional_count("attention.value_length", h.head_v, 65536, 1);
    h.rope_dimensions = h.head_k;
    read.optional_count("rope.dimension_count", h.rope_dimensions, 65536, 1);
    read.optional_number("rope.freq_base", h.rope_base, 1e-3, 1e30);
    read.optional_number("rope.freq_base_swa", h.rope_base_local, 1e-3, 1e30);
    read.optional_number("attn_logit_softcapping", h.attention_softcap, 0.0, 1e9);
    read.optional_number("final_logit_softcapping", h.logit_softcap, 0.0, 1e9);

    if (meta.find(read.key("rope.scaling.type")) != nullptr) {
        const auto type = meta.get<std::string>(read.key("rope.scaling.type"));
        if (!type) return type.error();
        if (*type == "linear") h.scaling = rope_scaling::linear;
        else if (*type == "yarn") h.scaling = rope_scaling::yarn;
        else if (*type != "none") {
            return error{errc::unsupported, concat("the RoPE scaling ", quoted(*type), " in ",
                                                   quoted(read.key("rope.scaling.type")),
                                                   " is not known here; none, linear and yarn are")};
        }
    }
    read.optional_number("rope.scaling.factor", h.scaling_factor, 1e-6, 1e6);
    // Files from 2023 have this key instead of type and factor.
    if (h.scaling == rope_scaling::none && meta.find(read.key("rope.scale_linear")) != nullptr) {
        read.optional_number("rope.scale_linear", h.scaling_factor, 1e-6, 1e6);
        h.scaling = rope_scaling::linear;
    }
    read.optional_count("rope.scaling.original_context_length", h.scaling_original_context, std::uint64_t{1} << 31);
    read.optional_number("rope.scaling.yarn_beta_fast", h.yarn_beta_fast, 0.0, 1e6);
    read.optional_number("rope.scaling.yarn_beta_slow", h.yarn_beta_slow, 0.0, 1e6);
    read.optional_number("rope.scaling.attn_factor", h.yarn_attention_factor, 0.0, 1e3);
    if (read.failed()) return std::move(read).problem();

    if (h.rope_dimensions > h.head_k || h.rope_dimensions % 2 != 0) {
        return error{errc::bad_value, concat(quoted(read.key("rope.dimension_count")), " is ", h.rope_dimensions,
                                             "; it must be even and at most the head size ", h.head_k, " (", quoted(read.key("attention.key_length")), ")")};
    }
    if (h.experts > most_experts || (h.experts > 0 && (h.experts_used == 0 || h.experts_used > h.experts))) {
        return error{errc::bad_value, concat(quoted(read.key("expert_used_count")), " is ", h.experts_used, " of ", h.experts, " in ",
                                             quoted(read.key("expert_count")), "; it must be 1 to all of at most ", most_experts)};
    }
    if (h.scaling == rope_scaling::yarn && h.scaling_original_context == 0) h.scaling_original_context = h.trained_context;
    return h;
}

}  // namespace colibri
