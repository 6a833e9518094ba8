// The least time that a model's work can take on a machine of which bandwidth and arithmetic are known.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "colibri/kv/kv_type.hpp"
#include "colibri/model/model.hpp"

namespace colibri {

/// What a machine can do at best, per second (see simd/machine.hpp for how to measure it).
struct machine_limits {
    double bandwidth = 0.0;     ///< bytes read
    double integer_peak = 0.0;  ///< multiply-adds of 8-bit codes
    double float_peak = 0.0;    ///< multiply-adds of floats
};

/// Work that can't be avoided.
struct work {
    double bytes = 0.0;           ///< of weights and of the KV cache, read once in each sweep
    double integer_madds = 0.0;   ///< multiply-adds with quantised weights
    double float_madds = 0.0;     ///< multiply-adds with float weights and of attention
    double seconds = 0.0;         ///< the least time, sweep by sweep: reading or computing, whichever takes longer
    double cache_bytes = 0.0;     ///< of `bytes`, those of the KV cache

    work& operator+=(const work& other) noexcept {
        bytes += other.bytes;
        integer_madds += other.integer_madds;
        float_madds += other.float_madds;
        seconds += other.seconds;
        cache_bytes += other.cache_bytes;
        return *this;
    }
};

/// Counts the work of a model's sweeps. Activations, norms and writing the cache aren't counted, nor are rows of the embedding:
/// the limit is a little better than what any program could reach. Thread-safe; allocates nothing.
class roofline {
public:
    roofline(const model& m, kv_type cache_k, kv_type cache_v, const machine_limits& machine) : model_(m), machine_(machine) {
        const auto& h = m.params();
        const auto& tensors = m.tensors();
        for (weights::group_id id = 0; id < tensors.groups.size(); ++id) {
            if (id == tensors.embedding || id == tensors.small) continue;
            const auto& group = tensors.groups[id];
            auto& sum = id == tensors.head ? head_ : group.how == weights::access::experts ? experts_ : dense_;
            for (const auto tensor : group.tensors) add(sum, m.file().tensors()[tensor]);
        }
        head_rows_ = h.kv_heads * (static_cast<double>(row_bytes_of(cache_k, h.head_k)) +
                                   static_cast<double>(row_bytes_of(cache_v, h.head_v)));
        head_madds_ = static_cast<double>(h.heads) * (h.head_k + h.head_v);
    }

    /// One sweep over `tokens` tokens in each of `sequences` sequences that have `past` tokens before them, with the logits of
    /// `outputs` tokens.
    [[nodiscard]] work sweep(std::uint32_t tokens, std::uint32_t past, std::uint32_t sequences, std::uint32_t outputs) const noexcept {
        const double n = static_cast<double>(tokens) * sequences;
        work w;
        add_weights(w, dense_, 1.0, n);
        if (outputs != 0) add_weights(w, head_, 1.0, outputs);
        const auto& h = model_.params();
        if (h.experts != 0) {
            // Tokens that choose by chance reach this share of all experts.
            const double share = static_cast<double>(h.experts_used) / h.experts;
            add_weights(w, experts_, 1.0 - std::pow(1.0 - share, n), n * share);
        }
        for (const auto& layer : model_.config().layers) {
            const double window = layer.window == 0 ? 4294967296.0 : layer.window;
            double seen = 0.0;  // positions that the tokens of a sequence attend to
            for (std::uint32_t t = 0; t < tokens; ++t) seen += std::min(window, static_cast<double>(past) + t + 1);
            const double held = std::min(static_cast<double>(past) + tokens, window + tokens - 1);
            w.cache_bytes += held * sequences * head_rows_;
            w.float_madds += seen * sequences * head_madds_;
        }
        w.bytes += w.cache_bytes;
        const double reading = w.bytes / machine_.bandwidth;
        w.seconds = std::max(reading, w.integer_madds / machine_.integer_peak + w.float_madds / machine_.float_peak);
        return w;
    }

    /// A prompt of `tokens` tokens behind `past` others in ubatches; logits of the last token only.
    [[nodiscard]] work prompt(std::uint32_t tokens, std::uint32_t past, std::uint32_t ubatch) const noexcept {
        work sum;
        for (std::uint32_t done = 0; done < tokens;) {
            const std::uint32_t n = std::min(ubatch, tokens - done);
            sum += sweep(n, past + done, 1, done + n == tokens ? 1 : 0);
            done += n;
        }
        return sum;
    }

    /// `tokens` tokens, one after the other, in each of `sequences` sequences at once.
    [[nodiscard]] work decode(std::uint32_t tokens, std::uint32_t past, std::uint32_t sequences = 1) const noexcept {
        work sum;
        for (std::uint32_t t = 0; t < tokens; ++t) sum += sweep(1, past + t, sequences, sequences);
        return sum;
    }

    /// Bytes that one decoded token reads in an empty context.
    [[nodiscard]] double bytes_per_token() const noexcept { return sweep(1, 0, 1, 1).bytes; }

private:
    struct matrices {
        double bytes = 0.0;
        double integer_weights = 0.0;
        double float_weights = 0.0;
    };

    static void add(matrices& sum, const gguf::tensor_info& tensor) noexcept {
        const bool is_float = tensor.type == dtype::f32 || tensor.type == dtype::f16 || tensor.type == dtype::bf16;
        (is_float ? sum.float_weights : sum.integer_weights) += static_cast<double>(tensor.elements());
        sum.bytes += static_cast<double>(tensor.bytes);
    }

    static void add_weights(work& w, const matrices& m, double read, double uses) noexcept {
        w.bytes += m.bytes * read;
        w.integer_madds += m.integer_weights * uses;
        w.float_madds += m.float_weights * uses;
    }

    model model_;
    machine_limits machine_;
    matrices dense_, head_, experts_;
    double head_rows_ = 0.0;   ///< bytes of one position in one layer's cache
    double head_madds_ = 0.0;  ///< multiply-adds of one token with one position in one layer
};

}  // namespace colibri
