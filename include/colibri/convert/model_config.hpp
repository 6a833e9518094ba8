// config.json: which architecture it is, and its sizes and constants as GGUF's metadata keys.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "colibri/convert/hf_folder.hpp"
#include "colibri/core/math.hpp"
#include "colibri/gguf/metadata.hpp"

namespace colibri::convert {

/// What distinguishes the families that can be converted.
struct model_family {
    std::string_view hf_class;      ///< "LlamaForCausalLM"
    std::string_view architecture;  ///< the GGUF's
    bool permuted = false;          ///< q and k rows are stored for RoPE over neighbouring pairs
    bool experts = false;
    bool gemma = false;       ///< norms stored as 1 + w, norms behind attention and feed-forward, GELU, tied head
    bool head_norms = false;  ///< RMS norm of query and key heads
    bool nested = false;      ///< the text model's values are in "text_config", its tensors below "language_model."
};

inline constexpr std::array model_families = {
    model_family{.hf_class = "LlamaForCausalLM", .architecture = "llama", .permuted = true},
    model_family{.hf_class = "MistralForCausalLM", .architecture = "llama", .permuted = true},
    model_family{.hf_class = "MixtralForCausalLM", .architecture = "llama", .permuted = true, .experts = true},
    model_family{.hf_class = "Qwen2ForCausalLM", .architecture = "qwen2"},
    model_family{.hf_class = "Qwen3ForCausalLM", .architecture = "qwen3", .head_norms = true},
    model_family{.hf_class = "Qwen3Model", .architecture = "qwen3", .head_norms = true},
    model_family{.hf_class = "Gemma2ForCausalLM", .architecture = "gemma2", .gemma = true},
    model_family{.hf_class = "Gemma3ForCausalLM", .architecture = "gemma3", .gemma = true, .head_norms = true},
    model_family{.hf_class = "Gemma3ForConditionalGeneration",
                 .architecture = "gemma3",
                 .gemma = true,
                 .head_norms = true,
                 .nested = true},
    model_family{.hf_class = "SmolLM3ForCausalLM", .architecture = "smollm3", .permuted = true},
};

/// Sizes that the tensors' shapes follow from.
struct model_sizes {
    model_family family;
    std::uint32_t layers = 0, hidden = 0, feed_forward = 0, heads = 0, kv_heads = 0, head = 0, experts = 0;
    std::uint32_t context = 0, vocabulary = 0;
    bool tied = false;                ///< the head is the embedding
    bool tied_is_said = false;        ///< by the configuration itself
    std::vector<float> rope_factors;  ///< llama3's scaling: one a pair, or empty
};

/// Finds the family. Errors: unsupported, with the list of what can be converted; missing_key.
[[nodiscard]] inline result<model_family> find_family(const json& config);

/// Writes the keys of a model's sizes and constants; what the GGUF can't say is added to `notes`. Errors: missing_key, bad_type,
/// bad_value (each names the key of config.json); unsupported (a feature that the engine's code for this architecture doesn't
/// have).
[[nodiscard]] inline result<model_sizes> describe_model(const json& config, const model_family& family, gguf::metadata& out,
                                                        std::vector<std::string>& notes);

namespace detail {

class model_describer {
public:
    model_describer(config_reader in, const model_family& family, gguf::metadata& out, std::vector<std::string>& notes)
        : in_(std::move(in)), out_(out), notes_(notes) {
        sizes_.family = family;
    }

    [[nodiscard]] result<model_sizes> run() {
        read_sizes();
        read_rope();
        if (sizes_.family.gemma) read_gemma();
        else read_plain();
        check_layers();
        if (in_.problem()) return *in_.problem();
        return std::move(sizes_);
    }

private:
    [[nodiscard]] std::string key(std::string_view suffix) const { return concat(sizes_.family.architecture, ".", suffix); }
    template <class T>
    void put(std::string_view suffix, T value) {
        out_.set(key(suffix), value);
    }
    void put_float(std::string_view suffix, double value) { out_.set(key(suffix), static_cast<float>(value)); }
    void unsupported(std::string_view name, std::string_view why) { in_.fail(errc::unsupported, name, why); }
    /// What transformers takes where the configuration of a text model inside another says nothing.
    [[nodiscard]] std::optional<std::uint32_t> nested_default(std::uint32_t value) const {
        return sizes_.family.nested ? std::optional(value) : std::nullopt;
    }

    void read_sizes();
    void read_rope();
    void llama3_factors(config_reader& rope, double base);
    void read_plain();
    void read_gemma();
    void check_layers();

    config_reader in_;
    gguf::metadata& out_;
    std::vector<std::string>& notes_;
    model_sizes sizes_;
};

inline void model_describer::read_sizes() {
    auto& s = sizes_;
    s.layers = in_.count("num_hidden_layers", {}, 1, 4096);
    s.context = in_.count("max_position_embeddings", nested_default(131072));
    s.hidden = in_.count("hidden_size", {}, 1, 1u << 20);
    s.feed_forward = in_.count("intermediate_size", {}, 1, 1u << 24);
    s.heads = in_.count("num_attention_heads", nested_default(8), 1, 65536);
    s.kv_heads = in_.count("num_key_value_heads", s.family.nested ? 4 : s.heads, 1, 65536);
    const bool has_head = in_.has("head_dim") || s.family.nested;
    s.head = in_.count("head_dim", s.family.nested ? 256 : s.hidden / std::max(1u, s.heads), 2, 65536);
    s.vocabulary = in_.count("vocab_size", nested_default(262208), 1, 1u << 22);
    if (in_.problem()) return;
    if (s.heads % s.kv_heads != 0)
        in_.fail(errc::bad_value, "num_attention_heads",
                 concat("is ", s.heads, ", no multiple of 'num_key_value_heads', ", s.kv_heads));
    if (!in_.has("head_dim") && !s.family.nested && s.hidden % s.heads != 0)
        in_.fail(errc::bad_value, "hidden_size", concat("is ", s.hidden, ", no multiple of 'num_attention_heads', ", s.heads));
    if (s.head % 2 != 0) in_.fail(errc::bad_value, "head_dim", concat("is ", s.head, ", which is odd"));
    put("block_count", s.layers);
    put("context_length", s.context);
    put("embedding_length", s.hidden);
    put("feed_forward_length", s.feed_forward);
    put("attention.head_count", s.heads);
    put("attention.head_count_kv", s.kv_heads);
    put_float("attention.layer_norm_rms_epsilon", in_.number("rms_norm_eps", s.family.gemma ? 1e-6 : std::optional<double>()));
    if (has_head) {
        put("attention.key_length", s.head);
        put("attention.value_length", s.head);
    }
    if (s.family.permuted) {
        put("vocab_size", s.vocabulary);
        put("rope.dimension_count", s.head);
    }
    if (s.family.experts) {
        s.experts = in_.count("num_local_experts", {}, 1, 65536);
        put("expert_count", s.experts);
        put("expert_used_count", in_.count("num_experts_per_tok", {}, 1, s.experts));
    }
    s.tied_is_said = in_.has("tie_word_embeddings");
    s.tied = in_.truth("tie_word_embeddings", s.family.gemma);
    if (in_.has("quantization_config"))
        unsupported("quantization_config", "says that the weights are quantised; only float weights can be converted");
    if (in_.number("partial_rotary_factor", 1.0) != 1.0)
        unsupported("partial_rotary_factor", "is not 1, which this architecture's code doesn't do");
}

/// Both ways to write it: "rope_theta" and "rope_scaling", or "rope_parameters" (of gemma3: one a kind of layer).
inline void model_describer::read_rope() {
    const json* parameters = in_.find("rope_parameters");
    const json* scaling = in_.find("rope_scaling");
    const bool gemma3 = sizes_.family.architecture == "gemma3";
    for (const json* object : {parameters, scaling}) {
        if (object != nullptr && !object->is_object())
            return in_.fail(errc::bad_type, object == parameters ? "rope_parameters" : "rope_scaling", "is no object");
    }
    double base = in_.number("rope_theta", gemma3 ? 1e6 : 10000.0);
    double local = in_.number("rope_local_base_freq", 10000.0);
    static const json nothing = json::object();
    config_reader rope(parameters != nullptr ? *parameters
                       : scaling != nullptr  ? *scaling
                                             : nothing,
                       concat(parameters != nullptr ? "rope_parameters" : "rope_scaling", " of ", in_.name()));
    if (parameters != nullptr && (rope.has("full_attention") || rope.has("sliding_attention"))) {
        for (const std::string_view kind : {"sliding_attention", "full_attention"}) {
            const json* one = rope.find(kind);
            config_reader read(one != nullptr && one->is_object() ? *one : nothing, concat(kind, " in ", rope.name()));
            double& its_base = kind == "full_attention" ? base : local;
            its_base = read.number("rope_theta", its_base);
            if (kind == "sliding_attention") {
                if (read.text("rope_type", "default") != "default")
                    in_.fail(errc::unsupported, "rope_parameters",
                             "scales RoPE in sliding-window layers, which can't be run here");
                if (read.problem()) return in_.fail(errc::bad_value, "rope_parameters", "has values of a wrong type");
            } else {
                rope = std::move(read);
            }
        }
    }
    base = rope.number("rope_theta", base);
    // gemma2's files have no such key: 10000 is what readers take without one.
    if (sizes_.family.architecture != "gemma2" || base != 10000.0) put_float("rope.freq_base", base);
    if (gemma3) put_float("rope.freq_base_swa", local);
    if (!(base > 0.0)) in_.fail(errc::bad_value, "rope_theta", concat("is ", base, ", not above 0"));
    const auto type = rope.text("rope_type", rope.text("type", "default"));
    if (type == "linear") {
        put("rope.scaling.type", "linear");
        put_float("rope.scaling.factor", rope.number("factor"));
    } else if (type == "yarn") {
        put("rope.scaling.type", "yarn");
        put_float("rope.scaling.factor", rope.number("factor"));
        put("rope.scaling.original_context_length", rope.count("original_max_position_embeddings", sizes_.context));
        if (rope.has("beta_fast")) put_float("rope.scaling.yarn_beta_fast", rope.number("beta_fast"));
        if (rope.has("beta_slow")) put_float("rope.scaling.yarn_beta_slow", rope.number("beta_slow"));
        if (rope.has("attention_factor")) put_float("rope.scaling.attn_factor", rope.number("attention_factor"));
        if (rope.has("mscale") || rope.has("mscale_all_dim"))
            unsupported("rope_scaling", "has 'mscale', which this architecture's code doesn't know");
        if (rope.has("truncate") && !rope.truth("truncate", true))
            unsupported("rope_scaling", "has 'truncate' false, which this architecture's code doesn't know");
    } else if (type == "llama3") {
        llama3_factors(rope, base);
    } else if (type == "dynamic") {
        notes_.push_back("RoPE is scaled only beyond the trained context (dynamic), which the GGUF doesn't say");
    } else if (type != "default") {
        unsupported("rope_scaling", concat("is of the kind ", quoted(type, 40), "; linear, llama3 and yarn can be run here"));
    }
    if (rope.problem()) in_.fail(rope.problem()->code, "rope_scaling", concat("can't be used: ", rope.problem()->message));
}

/// The scaling of Llama 3.1: pairs that turn fast stay, slow ones are stretched, between them a blend. Stored as what each
/// frequency is divided by, rounded as the published files are: the divisor's reciprocal is blended in double precision.
inline void model_describer::llama3_factors(config_reader& rope, double base) {
    const double factor = rope.number("factor", 8.0), low = rope.number("low_freq_factor", 1.0),
                 high = rope.number("high_freq_factor", 4.0);
    const double original = rope.number("original_max_position_embeddings", 8192.0);
    if (!(factor > 0.0) || !(low > 0.0) || !(high > low) || !(original > 0.0)) {
        return in_.fail(errc::bad_value, "rope_scaling", "has factors that contradict each other");
    }
    for (std::uint32_t i = 0; i < sizes_.head; i += 2) {
        const double frequency = 1.0 / math::pow(base, static_cast<double>(i) / sizes_.head);
        const double length = 2.0 * std::numbers::pi / frequency;
        double divisor = 1.0;
        if (length > original / low) {
            divisor = factor;
        } else if (length >= original / high) {
            const double smooth = (original / length - low) / (high - low);
            divisor = 1.0 / ((1.0 - smooth) / factor + smooth);
        }
        sizes_.rope_factors.push_back(static_cast<float>(divisor));
    }
}

inline void model_describer::read_plain() {
    const auto act = in_.text("hidden_act", "silu");
    if (act != "silu") unsupported("hidden_act", concat("is ", quoted(act, 40), ", but this architecture's code computes silu"));
    const std::string_view architecture = sizes_.family.architecture;
    const bool switched = architecture != "llama";
    if (in_.has("sliding_window") && (!switched || in_.truth("use_sliding_window", false))) {
        const auto window = in_.count("sliding_window");
        notes_.push_back(concat("attention to the last ", window,
                                " positions only (sliding_window) can't be run by this architecture's code: "
                                "answers differ once a context is longer"));
    }
}

inline void model_describer::read_gemma() {
    const auto act = in_.text("hidden_activation", in_.text("hidden_act", "gelu_pytorch_tanh"));
    // Early Gemma configurations say "gelu" and mean the tanh form.
    if (act != "gelu_pytorch_tanh" && act != "gelu")
        unsupported("hidden_activation",
                    concat("is ", quoted(act, 40), ", but this architecture's code computes gelu_pytorch_tanh"));
    if (!sizes_.tied) unsupported("tie_word_embeddings", "is false, but this architecture's head is the embedding");
    const bool gemma2 = sizes_.family.architecture == "gemma2";
    if (gemma2) {
        put_float("attn_logit_softcapping", in_.number("attn_logit_softcapping", 50.0));
        put_float("final_logit_softcapping", in_.number("final_logit_softcapping", 30.0));
    } else if (in_.has("attn_logit_softcapping") || in_.has("final_logit_softcapping")) {
        if (in_.has("final_logit_softcapping")) put_float("final_logit_softcapping", in_.number("final_logit_softcapping"));
        if (in_.has("attn_logit_softcapping")) put_float("attn_logit_softcapping", in_.number("attn_logit_softcapping"));
    }
    put("attention.sliding_window",
        in_.count("sliding_window", gemma2 || sizes_.family.nested ? 4096 : std::optional<std::uint32_t>(), 1));
    // The engine takes 1/sqrt(head), and for the 27B sizes, known by their layers, 1/sqrt(hidden / heads).
    const double scalar = in_.number("query_pre_attn_scalar", sizes_.head);
    const bool largest = sizes_.layers == (gemma2 ? 46u : 62u);
    const double expected = largest ? static_cast<double>(sizes_.hidden) / sizes_.heads : sizes_.head;
    if (scalar != expected)
        unsupported("query_pre_attn_scalar", concat("is ", scalar, ", but this architecture's code computes with ", expected));
    if (in_.truth("use_bidirectional_attention", false))
        unsupported("use_bidirectional_attention", "is true, but this architecture's code attends to what came before only");
}

/// Which layers are special is fixed by the architecture; a configuration that says otherwise can't be run.
inline void model_describer::check_layers() {
    const std::string_view architecture = sizes_.family.architecture;
    if (const json* types = in_.find("layer_types"); types != nullptr && sizes_.family.gemma) {
        if (!types->is_array() || types->size() != sizes_.layers)
            return in_.fail(errc::bad_value, "layer_types", concat("is no list of ", sizes_.layers, " layers"));
        const std::uint32_t period = architecture == "gemma2" ? 2 : 6;
        for (std::uint32_t i = 0; i < sizes_.layers; ++i) {
            const std::string_view expected = i % period == period - 1 ? "full_attention" : "sliding_attention";
            if ((*types)[i] != expected)
                return unsupported("layer_types",
                                   concat("has another kind of layer ", i, " than this architecture's code (", expected, ")"));
        }
    }
    if (const json* pattern = in_.find("sliding_window_pattern"); pattern != nullptr && architecture == "gemma3" && *pattern != 6)
        unsupported("sliding_window_pattern", "is not 6, which this architecture's code takes");
    if (architecture != "smollm3") return;
    if (const json* rotated = in_.find("no_rope_layers")) {
        for (std::uint32_t i = 0; i < rotated->size() && rotated->is_array(); ++i) {
            if ((*rotated)[i] != (i % 4 == 3 ? 0 : 1))
                return unsupported("no_rope_layers", "is not every fourth layer, as this architecture's code takes it");
        }
    } else if (in_.count("no_rope_layer_interval", 4u) != 4) {
        unsupported("no_rope_layer_interval", "is not 4, which this architecture's code takes");
    }
}

}  // namespace detail

inline result<model_family> find_family(const json& config) {
    const auto classes = config.find("architectures");
    if (classes == config.end() || !classes->is_array() || classes->empty() || !(*classes)[0].is_string())
        return error{errc::missing_key, "config.json has no 'architectures' that would say what kind of model this is"};
    const auto& wanted = (*classes)[0].get_ref<const std::string&>();
    std::string known;
    for (const auto& family : model_families) {
        if (family.hf_class == wanted) return family;
        known += concat(known.empty() ? "" : ", ", family.hf_class);
    }
    return error{errc::unsupported,
                 concat("models of the class ", quoted(wanted, 80), " can't be converted yet; these can: ", known)};
}

inline result<model_sizes> describe_model(const json& config, const model_family& family, gguf::metadata& out,
                                          std::vector<std::string>& notes) {
    const json* values = &config;
    if (family.nested) {
        const auto inner = config.find("text_config");
        if (inner == config.end() || !inner->is_object())
            return error{errc::missing_key, "config.json has no 'text_config' with the text model's sizes"};
        values = &*inner;
    }
    if (config.contains("quantization_config") && !config["quantization_config"].is_null())
        return error{errc::unsupported,
                     "the weights are quantised ('quantization_config' in config.json); only float weights can be converted"};
    return detail::model_describer(config_reader(*values, family.nested ? "text_config of config.json" : "config.json"), family,
                                   out, notes)
        .run();
}

}  // namespace colibri::convert
