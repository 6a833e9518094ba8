// Runs a decoder: tokens in, logits out, keys and values kept.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "colibri/core/buffer.hpp"
#include "colibri/core/progress.hpp"
#include "colibri/core/thread_pool.hpp"
#include "colibri/kv/kv_cache.hpp"
#include "colibri/model/layer.hpp"
#include "colibri/model/matrix_products.hpp"
#include "colibri/model/model.hpp"

namespace colibri {

/// Sizes of an evaluator; fixed for its life.
struct evaluator_options {
    std::uint32_t context = 4096;      ///< positions per sequence
    std::uint32_t sequences = 1;
    std::uint32_t ubatch = 512;        ///< tokens evaluated in one sweep over the weights, at most
    std::uint32_t outputs = 1;         ///< tokens of one step whose logits can be asked for
    unsigned threads = 1;              ///< for steps of one token
    unsigned threads_batch = 0;        ///< for steps of several; 0: as `threads`
    unsigned processors = 0;           ///< most threads that run at once; 0: as the system says
    kv_type cache_k = kv_type::f16;
    kv_type cache_v = kv_type::f16;
    bool exact = false;                ///< products take F32 activations whatever the weights are; slower
    product_watch on_product = {};     ///< called before products with what they are taken of; costs nothing when empty
};

/// One token of a step.
struct batch_token {
    text::token_id token = 0;
    std::uint32_t position = 0;  ///< must be the next one of its sequence
    std::uint32_t sequence = 0;
    bool output = false;         ///< logits are wanted
};

/// A model with a KV cache and the memory that a step needs. One thread at a time. The bits of the logits depend on the tokens of
/// their sequence and the cache's formats alone: not on ubatch, threads, other sequences, or how weights are held.
class evaluator {
public:
    /// Allocates everything. Errors: invalid_argument, bad_shape (cache format), out_of_memory.
    [[nodiscard]] static inline result<evaluator> make(model m, const evaluator_options& options);

    /// Evaluates up to `ubatch` tokens; those of a sequence in order of position. On success their keys and values are in the
    /// cache and `logits(i)` are those of the i-th token with `output`. On an error nothing was appended.
    /// `cancel` is looked at in layers and in waits for the disk; `watch` is told of the layers done, after each.
    /// Errors: invalid_argument, context_full, canceled, io and others of the weights' store.
    [[nodiscard]] inline result<void> step(std::span<const batch_token> tokens, const cancel_flag* cancel = nullptr,
                                           const progress_fn& watch = {});

    /// Logits of the i-th output of the last step: `vocabulary` floats, valid until the next step.
    [[nodiscard]] std::span<float> logits(std::size_t i) noexcept {
        return logits_.as<float>().subspan(i * model_.params().vocabulary, model_.params().vocabulary);
    }

    [[nodiscard]] kv_store& kv() noexcept { return *kv_; }
    [[nodiscard]] const kv_store& kv() const noexcept { return *kv_; }
    [[nodiscard]] const model& source() const noexcept { return model_; }
    [[nodiscard]] const evaluator_options& options() const noexcept { return options_; }

    /// Bytes of scratch memory, the cache and the weights aside.
    [[nodiscard]] std::uint64_t scratch_bytes() const noexcept { return scratch_.bytes() + logits_.size() + exact_.bytes(); }

private:
    explicit evaluator(model m) : model_(std::move(m)) {}

    [[nodiscard]] inline result<void> check(std::span<const batch_token> tokens);
    [[nodiscard]] inline result<void> embed(std::span<const batch_token> tokens);
    [[nodiscard]] inline result<void> head(std::span<const batch_token> tokens, const cancel_flag* cancel);
    [[nodiscard]] product_extras extras() noexcept {
        return {options_.exact ? &exact_ : nullptr, options_.on_product ? &options_.on_product : nullptr};
    }

    model model_;
    evaluator_options options_;
    std::unique_ptr<kv_store> kv_;
    std::unique_ptr<thread_pool> pool_;
    layer_scratch scratch_;
    aligned_buffer logits_;
    exact_products exact_;
    std::vector<std::uint32_t> next_;   ///< per sequence: next position while a batch is checked
    std::vector<std::uint32_t> rows_;   ///< embedding rows of a batch, ascending
};

inline result<evaluator> evaluator::make(model m, const evaluator_options& options) {
    const auto& h = m.params();
    if (options.context == 0 || options.sequences == 0 || options.ubatch == 0 || options.threads == 0 || options.outputs == 0) {
        return error{errc::invalid_argument, "context, sequences, ubatch, outputs and threads must be above 0"};
    }
    evaluator out(std::move(m));
    out.options_ = options;
    out.options_.ubatch = std::min(options.ubatch, options.context * std::min(options.sequences, 65536u));
    out.options_.outputs = std::min(options.outputs, out.options_.ubatch);
    if (options.threads_batch == 0) out.options_.threads_batch = options.threads;
    const unsigned threads = std::max(options.threads, out.options_.threads_batch);
    const auto shape =
        detail::kv_shape_for(h, out.model_.config(), options.sequences, options.context, out.options_.ubatch);
    auto kv = make_kv_store(shape, options.cache_k, options.cache_v);
    if (!kv) return std::move(kv).error();
    out.kv_ = *std::move(kv);
    try {
        out.pool_ = std::make_unique<thread_pool>(threads, options.processors);
    } catch (const std::system_error&) {
        return error{errc::invalid_argument, concat("could not start ", threads, " threads; ask for fewer")};
    }
    auto scratch = layer_scratch::make(h, out.model_.config(), out.options_.ubatch, options.context, threads);
    if (!scratch) return std::move(scratch).error();
    out.scratch_ = *std::move(scratch);
    auto logits = aligned_buffer::allocate(std::size_t{out.options_.outputs} * h.vocabulary * sizeof(float));
    if (!logits) return std::move(logits).error();
    out.logits_ = *std::move(logits);
    if (options.exact) {
        auto exact = exact_products::make(std::max({std::size_t{h.hidden}, std::size_t{h.heads} * h.head_v, std::size_t{h.feed_forward}}));
        if (!exact) return std::move(exact).error();
        out.exact_ = *std::move(exact);
    }
    out.next_.resize(options.sequences);
    out.rows_.reserve(out.options_.ubatch);
    return out;
}

inline result<void> evaluator::check(std::span<const batch_token> tokens) {
    if (tokens.empty() || tokens.size() > options_.ubatch) {
        return error{errc::invalid_argument, concat("a step of ", tokens.size(), " tokens; it takes 1 to ", options_.ubatch)};
    }
    for (std::uint32_t s = 0; s < options_.sequences; ++s) next_[s] = kv_->length(s);
    std::size_t outputs = 0;
    for (const auto& t : tokens) {
        if (t.token < 0 || static_cast<std::uint32_t>(t.token) >= model_.params().vocabulary) {
            return error{errc::invalid_argument, concat("token ", t.token, " is outside the vocabulary of ",
                                                        model_.params().vocabulary)};
        }
        if (t.sequence >= options_.sequences) {
            return error{errc::invalid_argument, concat("sequence ", t.sequence, " of ", options_.sequences)};
        }
        if (t.position != next_[t.sequence]) {
            return error{errc::invalid_argument, concat("position ", t.position, " in sequence ", t.sequence, ", whose next one is ",
                                                        next_[t.sequence])};
        }
        if (t.position >= options_.context) {
            return error{errc::context_full, concat("the context of ", options_.context, " tokens is full")};
        }
        ++next_[t.sequence];
        outputs += t.output ? 1 : 0;
    }
    if (outputs > options_.outputs) {
        return error{errc::invalid_argument, concat("logits of ", outputs, " tokens are asked for in one step; this evaluator holds ",
                                                    options_.outputs)};
    }
    return {};
}

inline result<void> evaluator::embed(std::span<const batch_token> tokens) {
    const auto& h = model_.params();
    rows_.clear();
    for (const auto& t : tokens) rows_.push_back(static_cast<std::uint32_t>(t.token));
    std::sort(rows_.begin(), rows_.end());
    rows_.erase(std::unique(rows_.begin(), rows_.end()), rows_.end());
    auto lease = model_.weights().acquire(model_.tensors().embedding, rows_);
    if (!lease) return std::move(lease).error();
    const float scale = model_.config().embedding_scale;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
        float* x = scratch_.residual(i);
        if (auto ok = lease->decode_row(0, static_cast<std::uint32_t>(tokens[i].token), {x, h.hidden}); !ok) return ok;
        if (scale != 1.0f) simd::scale(x, scale, h.hidden);
    }
    return {};
}

inline result<void> evaluator::head(std::span<const batch_token> tokens, const cancel_flag* cancel) {
    const auto& h = model_.params();
    std::size_t outputs = 0;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
        if (!tokens[i].output) continue;
        simd::rms_norm(scratch_.residual(i), model_.tensors().output_norm.data(), scratch_.normed(outputs), h.hidden,
                       h.norm_epsilon);
        ++outputs;
    }
    if (outputs == 0) return {};
    const auto group = model_.tensors().head;
    auto lease = model_.weights().acquire(group);
    if (!lease) return std::move(lease).error();
    scratch_.input.assign(scratch_.normed(0), outputs, h.hidden, h.hidden);
    extras().tell(model_.tensors().groups[group].tensors, scratch_.input);
    const matrix_use use{0, logits_.as<float>().data(), h.vocabulary};
    if (auto ok = multiply(*lease, use, scratch_.input, *pool_, cancel, extras()); !ok) return ok;
    if (h.logit_softcap > 0.0f) {
        for (std::size_t i = 0; i < outputs; ++i) simd::softcap(logits(i).data(), h.logit_softcap, h.vocabulary);
    }
    return {};
}

inline result<void> evaluator::step(std::span<const batch_token> tokens, const cancel_flag* cancel, const progress_fn& watch) {
    if (auto ok = check(tokens); !ok) return ok;
    const bool outputs = std::any_of(tokens.begin(), tokens.end(), [](const batch_token& t) { return t.output; });
    weights::sweep sweep;
    if (auto ok = sweep.begin(model_.weights(), outputs, cancel); !ok) return ok;
    if (auto ok = embed(tokens); !ok) return ok;
    for (std::uint32_t s = 0; s < options_.sequences; ++s) kv_->claim(s, next_[s]);
    for (std::size_t i = 0; i < tokens.size(); ++i) scratch_.set_token(i, tokens[i].position, tokens[i].sequence);
    scratch_.plan_attention(tokens.size());
    scratch_.fill_rope(model_.rope(), model_.local_rope(), tokens.size());
    pool_->use(tokens.size() == 1 ? options_.threads : options_.threads_batch);
    layer_runner run{model_, *kv_, scratch_, *pool_, tokens.size(), cancel, extras()};
    for (std::uint32_t layer = 0; layer < model_.params().layers; ++layer) {
        if (cancel != nullptr && cancel->requested()) return canceled_step();
        if (auto ok = run.attention(layer); !ok) return ok;
        if (auto ok = run.feed_forward(layer); !ok) return ok;
        if (watch && !watch({layer + 1, model_.params().layers})) return canceled_step();
    }
    if (auto ok = head(tokens, cancel); !ok) return ok;
    for (std::uint32_t s = 0; s < options_.sequences; ++s) {
        if (next_[s] != kv_->length(s)) kv_->append(s, next_[s] - kv_->length(s));
    }
    return {};
}

}  // namespace colibri
