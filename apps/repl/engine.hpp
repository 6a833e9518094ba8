// The model and its conversation as the commands see them. Only engine.cpp knows the library's layers behind it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "colibri/core/cancel.hpp"
#include "colibri/core/error.hpp"
#include "colibri/core/progress.hpp"
#include "repl/conversation.hpp"
#include "repl/options.hpp"

namespace colibri::repl {

/// Why an answer ended.
enum class answer_end { end, stop, length, context, canceled };

/// Name for JSON and messages ("end").
[[nodiscard]] std::string_view name(answer_end how) noexcept;

/// Figures of the last answer. Times in seconds.
struct answer_figures {
    std::uint32_t prompt_tokens = 0;  ///< of the whole prompt, the conversation so far included
    std::uint32_t cached_tokens = 0;  ///< of these, evaluated before
    std::uint32_t generated_tokens = 0;
    double prompt_seconds = 0.0;
    double first_token_seconds = 0.0;
    double generation_seconds = 0.0;
    double prompt_rate = 0.0;      ///< evaluated tokens per second, 0 if none were
    double generation_rate = 0.0;  ///< tokens per second after the first

    // From here on nothing stands for unknown.
    std::optional<double> bytes_per_token;       ///< read from the disk for a token after the first
    std::optional<double> wait_seconds;          ///< that the disk was waited for
    std::optional<std::uint64_t> expert_hits;    ///< experts asked for and found in memory
    std::optional<std::uint64_t> expert_misses;  ///< and those that had to be read
    std::optional<double> limit_rate;            ///< what the machine's figures allow, in tokens per second after the first
    std::optional<double> predicted_rate;
    std::optional<double> predicted_prompt_rate;
    double predicted_bytes_per_token = 0.0;
};

/// Bytes held.
struct memory_figures {
    std::uint64_t weights = 0;    ///< in memory, or mapped
    std::string_view how;         ///< "mapped" (the kernel decides how much of them stays in memory), "resident", "streamed"
    std::uint64_t buffers = 0;    ///< of reads
    std::uint64_t cache = 0;      ///< of experts
    std::uint64_t swept = 0;      ///< read from the disk for each token, experts aside
    std::uint64_t kv = 0;
    std::uint64_t scratch = 0;
    std::uint64_t resident = 0;  ///< of the whole process (RSS)
    std::uint64_t peak = 0;      ///< the most that was ever resident
};

struct answer {
    std::string text;
    answer_end how = answer_end::end;
};

/// What an answer needs from its caller.
struct answer_hooks {
    std::function<bool(std::string_view)> piece = {};   ///< gets the text as it comes; false stops
    std::function<void(std::string_view)> prompt = {};  ///< gets what the model gets, before it is evaluated
    progress_fn progress = {};                          ///< evaluated tokens of the prompt
    const cancel_flag* cancel = nullptr;
};

/// What the model is opened for.
enum class engine_use {
    conversation,  ///< `ask`; a model without a template gets a plain form
    completion,    ///< `complete`; a model without a template goes on with the text
};

/// One model with one conversation. Errors of its members have the codes of the library.
class engine {
public:
    /// Opens options::model and makes room for its context. `loading` is told how many bytes of the weights are in memory.
    [[nodiscard]] static result<engine> open(const options& given, engine_use use, progress_fn loading = {});

    engine(engine&&) noexcept;
    engine& operator=(engine&&) noexcept;
    ~engine();

    /// What the user should know about choices made here ("context 2048 instead of 8192: ...").
    [[nodiscard]] const std::vector<std::string>& notes() const;

    [[nodiscard]] std::string title() const;
    /// Several lines about the model: architecture, size, training context, template.
    [[nodiscard]] std::string description() const;
    /// The chat template's text; empty if there is none.
    [[nodiscard]] std::string template_text() const;
    [[nodiscard]] std::uint32_t context() const;
    [[nodiscard]] std::uint32_t used() const;
    [[nodiscard]] unsigned threads() const;
    [[nodiscard]] std::uint64_t seed() const;
    /// The sampling that is in force, in one line.
    [[nodiscard]] std::string sampling_text() const;
    /// All settings of sampling that are numbers, by name, as text.
    [[nodiscard]] std::vector<std::pair<std::string, std::string>> settings() const;

    /// Sampling and limits from now on. On an error the old ones stay.
    [[nodiscard]] result<void> configure(const options& given);

    /// Whether texts go to the model as they are, without a template.
    [[nodiscard]] bool raw() const;

    /// The answer to one prompt, as the only message of a conversation or (raw) as it is.
    [[nodiscard]] result<answer> complete(std::string text, const answer_hooks& hooks);

    // The conversation of `chat`.
    [[nodiscard]] const std::vector<chat_message>& messages() const;
    [[nodiscard]] const std::optional<std::string>& system() const;
    void set_conversation(std::optional<std::string> system, std::vector<chat_message> messages);

    /// Adds a user's message and its answer. An answer that was stopped stays as far as it got. On an error, or when it
    /// was stopped before it began, the conversation is as before.
    [[nodiscard]] result<answer> ask(std::string text, const answer_hooks& hooks);

    [[nodiscard]] const answer_figures& figures() const;
    [[nodiscard]] memory_figures memory() const;

private:
    struct state;
    explicit engine(std::unique_ptr<state> s);
    std::unique_ptr<state> state_;
};

}  // namespace colibri::repl
