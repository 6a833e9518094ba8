// Which type each tensor of a model gets in a named mixture.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "colibri/quantize/mixture_name.hpp"
#include "colibri/quantize/model_facts.hpp"
#include "colibri/quantize/tensor_role.hpp"

namespace colibri::quantize {

/// A type whose blocks fit rows of `columns`: `type` itself, the nearest one with blocks of 32, or F16.
[[nodiscard]] constexpr dtype fitting_type(dtype type, std::uint64_t columns) noexcept {
    const auto fits = [&](dtype t) {
        const auto row = find_dtype(static_cast<std::uint32_t>(t));
        return row && columns % row->block_size == 0;
    };
    if (fits(type)) return type;
    dtype nearest = type;
    switch (type) {
        case dtype::iq1_s:
        case dtype::iq1_m:
        case dtype::iq2_xxs:
        case dtype::iq2_xs:
        case dtype::iq2_s:
        case dtype::iq3_xxs:
        case dtype::iq3_s:
        case dtype::iq4_xs: nearest = dtype::iq4_nl; break;
        case dtype::q1_0:
        case dtype::q2_0:
        case dtype::q2_k:
        case dtype::q3_k:
        case dtype::tq1_0:
        case dtype::tq2_0:
        case dtype::nvfp4: nearest = dtype::q4_0; break;
        case dtype::q4_k: nearest = dtype::q5_0; break;
        case dtype::q5_k: nearest = dtype::q5_1; break;
        case dtype::q6_k: nearest = dtype::q8_0; break;
        default: break;
    }
    return fits(nearest) ? nearest : dtype::f16;
}

/// Whether this tensor would come out as noise without importance weights, so that it isn't written without.
[[nodiscard]] constexpr bool wants_importance(std::string_view tensor, dtype type, mixture kind) noexcept {
    const auto role = role_of(tensor);
    if (role == tensor_role::embedding || role == tensor_role::output) return false;
    switch (type) {
        case dtype::iq1_s:
        case dtype::iq1_m:
        case dtype::iq2_xxs:
        case dtype::iq2_xs:
        case dtype::iq2_s:
        case dtype::iq3_xxs: return true;
        case dtype::q2_k: return kind == mixture::q2_k_s;
        default: return false;
    }
}

/// Gives types to the tensors of one model, which are asked for in the order of `goes_before`: some rules count.
class type_chooser {
public:
    type_chooser(mixture kind, const model_facts& facts, bool has_importance)
        : kind_(kind), facts_(facts), has_importance_(has_importance) {}

    /// The mixture's type for a tensor that is_quantisable, before `fitting_type`. Precondition: the mixture's base type is quantised.
    [[nodiscard]] dtype choose(const gguf::tensor_info& tensor);

    /// The order in which a model's tensors are counted: those outside blocks by name, then block by block.
    [[nodiscard]] static bool goes_before(std::string_view a, std::string_view b) noexcept {
        const auto place = [](std::string_view name) -> std::int64_t {
            const auto block = block_of(name);
            return block ? static_cast<std::int64_t>(*block) : -1;
        };
        const auto pa = place(a);
        const auto pb = place(b);
        return pa != pb ? pa < pb : a < b;
    }

private:
    [[nodiscard]] bool is(std::initializer_list<mixture> kinds) const noexcept {
        return std::find(kinds.begin(), kinds.end(), kind_) != kinds.end();
    }
    [[nodiscard]] bool is_two_bit() const noexcept {
        return is({mixture::iq2_xxs, mixture::iq2_xs, mixture::iq2_s, mixture::iq2_m, mixture::iq1_s, mixture::iq1_m});
    }
    [[nodiscard]] bool is_falcon() const noexcept { return facts_.architecture == "falcon"; }
    [[nodiscard]] bool shares_values() const noexcept { return facts_.query_heads_per_kv >= 4; }
    /// Mixtures of eight experts, whose attention is small beside them.
    [[nodiscard]] bool has_eight_experts() const noexcept { return facts_.experts == 8; }

    /// The first and last eighth of the layers, and every third one between.
    [[nodiscard]] static bool is_worth_more(std::uint32_t layer, std::uint32_t layers) noexcept {
        return layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2;
    }
    /// The layer that rules mean: with experts that of the name, else how many such tensors came before.
    [[nodiscard]] std::uint32_t layer_of(const gguf::tensor_info& tensor, std::uint32_t counted) const noexcept {
        return facts_.experts > 1 ? block_of(tensor.name).value_or(counted) : counted;
    }

    [[nodiscard]] dtype head(std::uint64_t columns, dtype base) const noexcept;
    [[nodiscard]] dtype embedding(dtype base) const noexcept;
    [[nodiscard]] dtype of_two_bits(tensor_role role, dtype base) noexcept;
    [[nodiscard]] dtype values(dtype base) noexcept;
    [[nodiscard]] dtype keys_or_queries(tensor_role role, dtype base) const noexcept;
    [[nodiscard]] dtype attention_output(dtype base) const noexcept;
    [[nodiscard]] dtype down(const gguf::tensor_info& tensor, dtype base) noexcept;
    [[nodiscard]] dtype up_or_gate(std::uint32_t layer, dtype base) const noexcept;

    mixture kind_;
    model_facts facts_;
    bool has_importance_;
    std::uint32_t values_seen_ = 0;
    std::uint32_t downs_seen_ = 0;
    std::uint32_t ups_seen_ = 0;
    std::uint32_t gates_seen_ = 0;
};

inline dtype type_chooser::choose(const gguf::tensor_info& tensor) {
    const dtype base = base_type(kind_);
    const auto role = role_of(tensor.name);
    if (role == tensor_role::output || (role == tensor_role::embedding && facts_.is_tied)) return head(tensor.dims[0], base);
    if (kind_ == mixture::mxfp4_moe) return tensor.dims[2] > 1 ? dtype::mxfp4 : dtype::q8_0;
    if (role == tensor_role::embedding) return embedding(base);
    if (is_two_bit()) return of_two_bits(role, base);
    switch (role) {
        case tensor_role::attention_v: return values(base);
        case tensor_role::attention_k:
        case tensor_role::attention_q: return keys_or_queries(role, base);
        case tensor_role::attention_output: return attention_output(base);
        case tensor_role::ffn_down: return down(tensor, base);
        case tensor_role::ffn_gate: return up_or_gate(layer_of(tensor, gates_seen_++), base);
        case tensor_role::ffn_up: return up_or_gate(layer_of(tensor, ups_seen_++), base);
        default: return base;
    }
}

inline dtype type_chooser::head(std::uint64_t columns, dtype base) const noexcept {
    const auto row = find_dtype(static_cast<std::uint32_t>(base));
    if (kind_ == mixture::mxfp4_moe || is_falcon() || columns % row->block_size != 0 || base == dtype::q8_0) return dtype::q8_0;
    return is_two_bit() || kind_ == mixture::iq3_xxs ? dtype::q5_k : dtype::q6_k;
}

inline dtype type_chooser::embedding(dtype base) const noexcept {
    if (is({mixture::iq2_xxs, mixture::iq2_xs, mixture::iq1_s, mixture::iq1_m})) return dtype::q2_k;
    if (is({mixture::iq2_s, mixture::iq2_m, mixture::iq3_xxs})) return dtype::iq3_s;
    if (is({mixture::tq1_0, mixture::tq2_0, mixture::q2_0})) return dtype::q4_k;
    return base;
}

inline dtype type_chooser::of_two_bits(tensor_role role, dtype base) noexcept {
    const bool is_larger = is({mixture::iq2_s, mixture::iq2_m});
    const dtype better = is_larger ? dtype::iq3_s : dtype::q2_k;
    switch (role) {
        case tensor_role::attention_v: return shares_values() || facts_.experts >= 4 ? dtype::q4_k : better;
        case tensor_role::attention_k: return has_eight_experts() ? dtype::q4_k : base;
        case tensor_role::ffn_down: return downs_seen_++ < facts_.blocks / 8 ? better : base;
        case tensor_role::attention_output:
            if (has_eight_experts()) return dtype::q5_k;
            return is_larger ? dtype::iq3_s : is({mixture::iq1_s, mixture::iq1_m}) ? dtype::iq2_xxs : base;
        default: return base;
    }
}

inline dtype type_chooser::values(dtype base) noexcept {
    const std::uint32_t layer = values_seen_++;
    if (has_eight_experts()) return dtype::q8_0;
    dtype out = base;
    switch (kind_) {
        case mixture::q2_k: out = shares_values() ? dtype::q4_k : dtype::q3_k; break;
        case mixture::q2_k_s:
        case mixture::iq3_xs:
        case mixture::iq3_s: out = shares_values() ? dtype::q4_k : base; break;
        case mixture::iq3_xxs: out = shares_values() ? dtype::q4_k : has_importance_ ? dtype::iq3_xxs : dtype::iq3_s; break;
        case mixture::iq3_m: out = dtype::q4_k; break;
        case mixture::q3_k_m: out = layer < 2 ? dtype::q5_k : dtype::q4_k; break;
        case mixture::q3_k_l: out = dtype::q5_k; break;
        case mixture::iq4_nl:
        case mixture::iq4_xs: out = shares_values() ? dtype::q5_k : base; break;
        case mixture::q4_k_m:
        case mixture::q5_k_m: out = is_worth_more(layer, facts_.attention_values) ? dtype::q6_k : base; break;
        case mixture::q4_k_s: out = layer < 4 ? dtype::q5_k : base; break;
        default: break;
    }
    // There they are an eighth of the queries' projection: more bits cost next to nothing.
    if (facts_.is_70b && (out == dtype::q3_k || out == dtype::q4_k)) out = dtype::q5_k;
    return out;
}

inline dtype type_chooser::keys_or_queries(tensor_role role, dtype base) const noexcept {
    if (role == tensor_role::attention_k && has_eight_experts()) return dtype::q8_0;
    if (kind_ == mixture::iq3_xs) return dtype::iq3_xxs;
    return kind_ == mixture::iq3_xxs ? dtype::iq2_s : base;
}

inline dtype type_chooser::attention_output(dtype base) const noexcept {
    if (is_falcon()) return kind_ == mixture::q3_k_l ? dtype::q4_k : base;
    if (has_eight_experts()) {
        const bool is_small = is({mixture::q2_k, mixture::iq3_xs, mixture::iq3_xxs, mixture::q3_k_s, mixture::q3_k_m, mixture::iq4_nl,
                                  mixture::q4_k_s, mixture::q4_k_m, mixture::iq3_s, mixture::iq3_m, mixture::iq4_xs});
        return is_small ? dtype::q5_k : base;
    }
    switch (kind_) {
        case mixture::q2_k: return dtype::q3_k;
        case mixture::iq3_xxs: return dtype::iq3_s;
        case mixture::q3_k_m:
        case mixture::iq3_m: return dtype::q4_k;
        case mixture::q3_k_l: return dtype::q5_k;
        default: return base;
    }
}

inline dtype type_chooser::down(const gguf::tensor_info& tensor, dtype base) noexcept {
    const std::uint32_t layers = facts_.blocks;
    const std::uint32_t layer = layer_of(tensor, downs_seen_++);
    const bool is_early = layer < layers / 8;
    const bool is_better = is_worth_more(layer, layers);
    switch (kind_) {
        case mixture::q2_k: return dtype::q3_k;
        case mixture::q2_k_s: return is_early ? dtype::q4_k : base;
        case mixture::iq3_xxs: return has_importance_ ? base : is_early ? dtype::q4_k : dtype::q3_k;
        case mixture::q3_k_m:
            if (layer < layers / 16) return dtype::q5_k;
            return !is_falcon() || is_better ? dtype::q4_k : dtype::q3_k;
        case mixture::iq3_m: return is_early || (has_eight_experts() && is_better) ? dtype::q4_k : base;
        case mixture::q3_k_l: return is_falcon() ? dtype::q4_k : dtype::q5_k;
        case mixture::q4_k_m:
            if (!is_falcon()) return is_better ? dtype::q6_k : base;
            return layer < layers / 16 ? dtype::q6_k : is_better ? dtype::q5_k : dtype::q4_k;
        case mixture::iq4_nl:
        case mixture::iq4_xs: return is_early && !has_importance_ ? dtype::q5_k : base;
        case mixture::q5_k_m: return is_better ? dtype::q6_k : base;
        case mixture::q4_k_s: return is_early && !is_falcon() ? dtype::q5_k : base;
        // With importance weights the first layers can go wild in types without a minimum.
        case mixture::q4_0: return is_early && has_importance_ ? dtype::q4_1 : base;
        case mixture::q5_0: return is_early && has_importance_ ? dtype::q5_1 : base;
        default: return base;
    }
}

inline dtype type_chooser::up_or_gate(std::uint32_t layer, dtype base) const noexcept {
    const bool is_middle = layer >= facts_.blocks / 8 && layer < 7 * facts_.blocks / 8;
    return kind_ == mixture::iq3_xs && is_middle ? dtype::iq3_xxs : base;
}

}  // namespace colibri::quantize
