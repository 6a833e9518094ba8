// A model file, opened and checked: everything about it that doesn't change while it runs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "colibri/gguf/file.hpp"
#include "colibri/gguf/kind.hpp"
#include "colibri/model/architectures.hpp"
#include "colibri/model/memory_plan.hpp"
#include "colibri/model/rope.hpp"
#include "colibri/model/tensors.hpp"
#include "colibri/quant/rows.hpp"
#include "colibri/text/tokenizer.hpp"
#include "colibri/weights/open_store.hpp"

namespace colibri {

/// Told of the experts, ascending, that a step of a mixture needs in a layer.
using expert_watch = std::function<void(std::uint32_t layer, std::span<const std::uint32_t> experts)>;

/// How to hold a model's weights.
struct model_options {
    weights::holding holding = weights::holding::automatic;
    bool lock = false;               ///< keep the weights in memory (mlock); refused when memory is too small for them
    std::uint64_t memory = 0;        ///< bytes that the process may take in all; 0: what is free, less a margin
    session_options use = {};        ///< what memory is left for: sizes of the session to come
    weights::load_options loading = {};  ///< of resident weights: threads, progress in bytes of the file, cancelling
    weights::stream_sizes streaming = {};  ///< of reads ahead; 0: chosen
    read_queue_options reading = {};     ///< of streamed weights
    expert_watch on_experts = {};    ///< called in the thread that evaluates
    std::string pre_tokenizer = {};  ///< splitting rule to use where the file names none or an unknown one
};

/// A model ready to run. A cheap handle: copies share one model, which is closed with the last of them. Const members may be used
/// from several threads; evaluation needs an `evaluator` (or `session`, `chat`) per thread of work.
class model {
public:
    /// Opens a GGUF model (the first part of a split one), checks metadata and tensors, reads the vocabulary, and makes weights
    /// reachable. Errors: io, not_found and all kinds of damage, each naming the key, tensor or byte; unsupported with what the
    /// file is instead.
    [[nodiscard]] static inline result<model> open(const std::filesystem::path& path, const model_options& options = {});

    /// The same without reaching for the weights: for what can be said from the header alone. `weights()` may not be called then,
    /// nor a session made.
    [[nodiscard]] static inline result<model> open_header(const std::filesystem::path& path, const model_options& options = {});

    [[nodiscard]] const std::filesystem::path& path() const noexcept { return state_->path; }
    [[nodiscard]] const gguf::file& file() const noexcept { return state_->file; }
    [[nodiscard]] const gguf::metadata& meta() const noexcept { return state_->file.meta(); }
    [[nodiscard]] const hparams& params() const noexcept { return state_->params; }
    [[nodiscard]] const decoder_config& config() const noexcept { return state_->config; }
    [[nodiscard]] const decoder_tensors& tensors() const noexcept { return state_->tensors; }
    [[nodiscard]] const text::tokenizer& tokenizer() const noexcept { return *state_->tokenizer; }
    [[nodiscard]] const rope_frequencies& rope() const noexcept { return state_->rope; }
    [[nodiscard]] const rope_frequencies& local_rope() const noexcept { return state_->local_rope; }
    [[nodiscard]] weights::store& weights() const noexcept { return *state_->store; }
    /// How memory is spent, decided when the model was opened.
    [[nodiscard]] const memory_plan& memory() const noexcept { return state_->memory; }
    [[nodiscard]] const expert_watch& on_experts() const noexcept { return state_->on_experts; }

    /// Sentences that the user should see: what was done in place of what was asked for.
    [[nodiscard]] const std::vector<std::string>& notes() const noexcept { return state_->notes; }

    /// The file's general.name (else its file name), escaped for a terminal.
    [[nodiscard]] inline std::string title() const;

private:
    struct state {
        std::filesystem::path path;
        gguf::file file;
        hparams params;
        decoder_config config;
        decoder_tensors tensors;
        std::unique_ptr<weights::store> store;
        std::optional<text::tokenizer> tokenizer;
        rope_frequencies rope;
        rope_frequencies local_rope;
        memory_plan memory;
        expert_watch on_experts;
        std::vector<std::string> notes;

        explicit state(gguf::file f) : file(std::move(f)) {}

        [[nodiscard]] inline result<void> open_weights(const model_options& options);
    };
    /// All but the weights. `requests`: vectors that are wanted from them.
    [[nodiscard]] static inline result<std::shared_ptr<state>> read_header(const std::filesystem::path& path,
                                                                           const model_options& options,
                                                                           std::vector<vector_request>& requests);
    explicit model(std::shared_ptr<state> s) : state_(std::move(s)) {}

    std::shared_ptr<state> state_;
};

inline result<void> model::state::open_weights(const model_options& options) {
    on_experts = options.on_experts;
    weights::store_options how{memory.how, options.lock, {}, options.loading, memory.panels};
    how.streaming.memory = memory.weights;
    how.streaming.sizes = options.streaming;
    how.streaming.reading = options.reading;
    auto opened = weights::open_store(file, tensors.groups, how, notes);
    // What is free can be gone a moment later, or be forbidden to this process.
    if (!opened && opened.error().code == errc::out_of_memory && options.holding == weights::holding::automatic) {
        how.how = memory.how = weights::holding::mapped;
        opened = weights::open_store(file, tensors.groups, how, notes);
    }
    if (!opened) return std::move(opened).error();
    store = *std::move(opened);
    return {};
}

inline result<std::shared_ptr<model::state>> model::read_header(const std::filesystem::path& path, const model_options& options,
                                                                std::vector<vector_request>& requests) {
    auto file = gguf::file::open(path);
    if (!file) return std::move(file).error();
    const std::string context = escaped(path.string());
    // A file without tensors goes on: what it lacks is named below.
    if (gguf::kind_of(*file) != gguf::file_kind::vocabulary) {
        if (auto ok = gguf::require_model(*file); !ok) {
            auto e = std::move(ok).error();
            const auto named = file->meta().get_or<std::string>("general.architecture", {}).value_or(std::string());
            if (!named.empty()) e.message += concat(" (general.architecture is ", quoted(named, 64), ")");
            return e;
        }
    }
    auto s = std::make_shared<state>(*std::move(file));
    s->path = path;

    const auto architecture_name = s->file.meta().get<std::string>("general.architecture");
    if (!architecture_name) return error(architecture_name.error()).within(context);
    const auto row = find_architecture(*architecture_name);
    if (!row) return error(row.error()).within(context);
    auto params = read_hparams(s->file.meta());
    if (!params) return std::move(params).error().within(context);
    s->params = *std::move(params);
    auto config = row->configure(s->params);
    if (!config) return std::move(config).error().within(context);
    s->config = *std::move(config);
    if (s->params.experts > 0 && !s->config.experts_allowed) {
        return error{errc::unsupported, concat("a model of experts under the architecture ", quoted(row->name),
                                               " is not known here"), error::no_offset, context};
    }

    if (auto found = find_decoder_tensors(s->file, s->params, s->config, s->tensors, requests); !found) {
        return std::move(found).error().within(context);
    }
    text::tokenizer_options vocabulary_options;
    vocabulary_options.pre = options.pre_tokenizer;
    auto tokenizer = text::tokenizer::open(s->file.meta(), vocabulary_options);
    if (!tokenizer) return std::move(tokenizer).error().within(context);
    s->tokenizer.emplace(*std::move(tokenizer));
    if (s->tokenizer->pre_is_guessed()) {
        s->notes.push_back("the file doesn't name its pre-tokenizer (tokenizer.ggml.pre); 'default' is used, and if that is wrong the "
                           "answers get worse");
    }
    if (s->tokenizer->size() > s->params.vocabulary) {
        return error{errc::bad_shape, concat("tensor 'token_embd.weight' has ", s->params.vocabulary, " rows for ",
                                             s->tokenizer->size(), " tokens in 'tokenizer.ggml.tokens'; the file is damaged"),
                     error::no_offset, context};
    }

    memory_request wanted{options.holding, options.memory, options.use, options.streaming};
    auto memory = plan_memory(s->file, s->params, s->config, s->tensors.groups, wanted);
    if (!memory) return std::move(memory).error().within(context);
    s->memory = *std::move(memory);
    return s;
}

inline result<model> model::open_header(const std::filesystem::path& path, const model_options& options) {
    std::vector<vector_request> requests;
    auto s = read_header(path, options, requests);
    if (!s) return std::move(s).error();
    return model(*std::move(s));
}

inline result<model> model::open(const std::filesystem::path& path, const model_options& options) {
    std::vector<vector_request> requests;
    auto header = read_header(path, options, requests);
    if (!header) return std::move(header).error();
    auto s = *std::move(header);
    const std::string context = escaped(path.string());
    if (auto ok = s->open_weights(options); !ok) return std::move(ok).error().within(context);
    auto lease = s->store->acquire(s->tensors.small);
    if (!lease) return std::move(lease).error().within(context);
    for (std::size_t i = 0; i < requests.size(); ++i) {
        const auto& tensor = (*lease)[i];
        requests[i].target->resize(tensor.columns());
        if (auto done = lease->decode_row(i, 0, *requests[i].target); !done) {
            return std::move(done).error().within(context);
        }
    }
    for (const float factor : s->tensors.rope_factors) {
        if (!(factor > 0.0f)) {
            return error{errc::bad_value, concat("tensor 'rope_freqs.weight' holds ", factor, "; factors must be above 0"),
                         error::no_offset, context};
        }
    }
    s->rope = make_rope_frequencies(s->params, s->params.rope_base, true, s->tensors.rope_factors);
    s->local_rope = make_rope_frequencies(s->params, s->params.rope_base_local, false, {});
    return model(std::move(s));
}

inline std::string model::title() const {
    const auto name = meta().get<std::string>("general.name");
    return escaped(name && !name->empty() ? *name : path().filename().string());
}

}  // namespace colibri
