// A conversation with a model: messages in, answers out.
#pragma once

#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "colibri/chat/message.hpp"
#include "colibri/chat/template.hpp"
#include "colibri/sampling/metadata.hpp"
#include "colibri/session/generation.hpp"
#include "colibri/session/sampler_for.hpp"
#include "colibri/session/session.hpp"

namespace colibri {

/// How to chat; 0 and empty mean: the model's own or a default.
struct chat_options {
    std::uint32_t context = 0;             ///< tokens; see session_options
    std::uint32_t batch = 2048;
    std::uint32_t ubatch = 0;              ///< tokens in one sweep; see session_options
    unsigned threads = 0;
    unsigned threads_batch = 0;
    kv_type cache_k = kv_type::f16;
    kv_type cache_v = kv_type::f16;
    std::string system = {};               ///< system message; empty: none
    std::string template_name = {};        ///< a built-in template in place of the file's (see chat_template::named)
    std::string template_source = {};      ///< Jinja text in place of the file's template
    sampling::params sampling = {};        ///< goes before what the file recommends
    std::uint32_t max_tokens = 0;          ///< per answer; 0: until the model ends or the context is full
    std::vector<std::string> stops = {};   ///< texts that end an answer
};

/// A model, its template, the messages so far, and a cache of what was evaluated: each turn evaluates only what is new. What a
/// user typed never becomes a control token. Move-only while no answer is under way; one thread at a time.
class chat {
public:
    class answer;

    /// As `open`, but throws `exception` on an error.
    explicit chat(model m, const chat_options& options = {}) : chat(open(std::move(m), options).value()) {}

    /// Parses the template, plans and allocates the session. A model without a template gets a plain form ("User: ...").
    /// Errors: template_syntax, not_found (no built-in template of that name), those of session::make and sampling::resolve.
    [[nodiscard]] static inline result<chat> open(model m, const chat_options& options = {});

    /// Adds a user's message and answers it. If the prompt can't be evaluated (the answer's first `next` tells why), the message is
    /// taken back. What has been generated, finished or not, stays as the assistant's message.
    [[nodiscard]] inline answer ask(std::string text);

    /// Answers to the messages as they stand.
    [[nodiscard]] inline answer reply();

    [[nodiscard]] const std::vector<message>& messages() const noexcept { return messages_; }
    /// Replaces the conversation; what the cache holds of it is used.
    void set_messages(std::vector<message> messages) { messages_ = std::move(messages); }
    /// Takes back the last question and its answer; false if there is none.
    inline bool undo();
    /// Takes back the last answer alone; false if there is none.
    inline bool undo_answer();
    /// Forgets everything but the system message.
    inline void clear();
    [[nodiscard]] const std::string& system() const noexcept { return system_; }
    void set_system(std::string text) { system_ = std::move(text); }

    /// What the model will read for the messages as they stand: text with its origins, and tokens.
    /// Errors: template_runtime and others of the template.
    [[nodiscard]] inline result<marked_text> prompt_text() const;
    [[nodiscard]] inline result<std::vector<text::token_id>> prompt_tokens() const;

    /// Changes sampling from the next answer on. Errors: invalid_argument.
    [[nodiscard]] inline result<void> configure(const sampling::params& given);
    [[nodiscard]] const sampling::settings& sampling() const noexcept { return sampler_.used(); }

    /// Asked between tokens and ubatches; outlives its use. Null: none.
    void set_cancel(const cancel_flag* flag) noexcept { cancel_ = flag; }
    /// Told how much of a prompt has been evaluated.
    void set_progress(progress_fn watch) { watch_ = std::move(watch); }
    void set_max_tokens(std::uint32_t tokens) noexcept { max_tokens_ = tokens; }
    void set_stops(std::vector<std::string> stops) { stops_ = std::move(stops); }

    [[nodiscard]] colibri::session& session() noexcept { return session_; }
    [[nodiscard]] const colibri::session& session() const noexcept { return session_; }
    [[nodiscard]] const model& source() const noexcept { return session_.source(); }
    /// Whether the file has a template; without one the plain form is used.
    [[nodiscard]] bool has_template() const noexcept { return has_template_; }
    /// Sentences that the user should see: the model's and the session's, and what is said of the template.
    [[nodiscard]] const std::vector<std::string>& notes() const noexcept { return notes_; }

private:
    chat(colibri::session s, chat_template t, sampling::sampler sampler)
        : session_(std::move(s)), template_(std::move(t)), sampler_(std::move(sampler)) {}

    colibri::session session_;
    chat_template template_;
    sampling::sampler sampler_;
    bool has_template_ = true;
    std::vector<std::string> notes_;
    std::string system_;
    std::vector<message> messages_;
    std::uint32_t max_tokens_ = 0;
    std::vector<std::string> stops_;
    const cancel_flag* cancel_ = nullptr;
    progress_fn watch_;
};

/// The pieces of one answer as they are generated: an input range of string_view, or `next`. Ends with the chat at the latest.
/// Dropped before its end, it leaves what was generated so far as the answer.
class chat::answer {
public:
    answer(const answer&) = delete;
    answer& operator=(const answer&) = delete;
    ~answer() { keep(); }

    /// The next piece of text, or nothing at the end. Errors: those of the template, the prompt and the generation.
    [[nodiscard]] result<std::optional<std::string_view>> next() {
        if (problem_) {
            auto problem = std::move(*problem_);
            problem_.reset();
            return problem;
        }
        if (!generation_) return std::optional<std::string_view>();
        auto piece = generation_->next();
        if (piece && *piece) text_ += **piece;
        else keep();
        return piece;
    }

    /// Why it ended; `failed` also when the prompt couldn't be evaluated.
    [[nodiscard]] finish_reason reason() const noexcept { return generation_ ? generation_->reason() : finish_reason::failed; }
    [[nodiscard]] const std::string& text() const noexcept { return text_; }
    /// Tokens generated so far, an end token not included.
    [[nodiscard]] std::span<const text::token_id> tokens() const noexcept {
        return generation_ ? std::span<const text::token_id>(generation_->tokens()) : std::span<const text::token_id>();
    }

    /// Advancing throws `exception` on an error.
    [[nodiscard]] piece_iterator<answer> begin() { return piece_iterator<answer>(this); }
    [[nodiscard]] std::default_sentinel_t end() const noexcept { return {}; }

private:
    friend class chat;

    /// `asked`: the last message was added for this answer and goes when the prompt fails.
    answer(chat& owner, bool asked) : owner_(owner) {
        auto tokens = owner.prompt_tokens();
        result<void> ready = tokens ? owner.session_.prompt(*tokens, 0, owner.watch_, owner.cancel_) : result<void>(std::move(tokens).error());
        if (!ready) {
            problem_ = std::move(ready).error();
            if (asked) owner.messages_.pop_back();
            return;
        }
        owner.sampler_.forget_text();
        owner.sampler_.accept(owner.session_.tokens());
        generation_options options;
        options.max_tokens = owner.max_tokens_;
        options.stops = owner.stops_;
        for (const auto& stop : owner.template_.stops()) options.stops.push_back(stop);
        options.cancel = owner.cancel_;
        generation_.emplace(owner.session_, owner.sampler_, std::move(options));
    }

    void keep() {
        if (!generation_ || std::exchange(kept_, true)) return;
        generation_->cancel();
        owner_.messages_.push_back({"assistant", text_});
    }

    chat& owner_;
    std::optional<generation> generation_;
    std::optional<error> problem_;
    std::string text_;
    bool kept_ = false;
};

inline result<chat> chat::open(model m, const chat_options& options) {
    const auto& meta = m.meta();
    bool has_template = true;
    std::string source = options.template_source;
    if (source.empty() && options.template_name.empty()) {
        auto own = meta.get_or<std::string>("tokenizer.chat_template", {});
        if (!own) return std::move(own).error();
        source = *std::move(own);
        has_template = !source.empty();
    }
    auto parsed = !source.empty() ? chat_template::parse(std::move(source))
                                  : chat_template::named(has_template ? options.template_name : std::string(plain_template));
    if (!parsed) return std::move(parsed).error();

    session_options wanted;
    wanted.context = options.context;
    wanted.batch = options.batch;
    wanted.ubatch = options.ubatch;
    wanted.threads = options.threads;
    wanted.threads_batch = options.threads_batch;
    wanted.cache_k = options.cache_k;
    wanted.cache_v = options.cache_v;
    auto sampler = make_sampler(m, options.sampling);
    if (!sampler) return std::move(sampler).error();
    auto made = session::make(std::move(m), wanted);
    if (!made) return std::move(made).error();
    chat out(*std::move(made), *std::move(parsed), *std::move(sampler));
    out.has_template_ = has_template;
    out.system_ = options.system;
    out.max_tokens_ = options.max_tokens;
    out.stops_ = options.stops;
    out.notes_ = out.source().notes();
    out.notes_.insert(out.notes_.end(), out.session_.notes().begin(), out.session_.notes().end());
    if (!has_template) out.notes_.push_back("the model has no chat template; the plain form 'User: ... Assistant: ...' is used");
    return out;
}

inline chat::answer chat::ask(std::string text) {
    messages_.push_back({"user", std::move(text)});
    return answer(*this, true);
}

inline chat::answer chat::reply() { return answer(*this, false); }

inline bool chat::undo_answer() {
    if (messages_.empty() || messages_.back().role != "assistant") return false;
    messages_.pop_back();
    return true;
}

inline bool chat::undo() {
    undo_answer();
    if (messages_.empty() || messages_.back().role != "user") return false;
    messages_.pop_back();
    return true;
}

inline void chat::clear() {
    messages_.clear();
    session_.clear();
}

inline result<marked_text> chat::prompt_text() const {
    std::vector<message> all;
    if (!system_.empty()) all.push_back({"system", system_});
    all.insert(all.end(), messages_.begin(), messages_.end());
    const auto& vocabulary = source().tokenizer();
    template_options how;
    how.add_generation_prompt = true;
    how.bos_text = vocabulary.bytes(vocabulary.bos());
    how.eos_text = vocabulary.bytes(vocabulary.eos());
    return template_.render(all, how);
}

inline result<std::vector<text::token_id>> chat::prompt_tokens() const {
    auto rendered = prompt_text();
    if (!rendered) return std::move(rendered).error();
    const auto& vocabulary = source().tokenizer();
    std::vector<text::piece> pieces;
    for (const auto& run : rendered->runs) {
        pieces.push_back({std::string_view(rendered->text).substr(run.begin, run.end - run.begin), run.trusted});
    }
    auto tokens = vocabulary.encode(pieces, false);
    // BOS once, whether or not the template writes it; never EOS, since an answer is to follow.
    if (vocabulary.adds_bos() && vocabulary.bos() != text::no_token && (tokens.empty() || tokens.front() != vocabulary.bos())) {
        tokens.insert(tokens.begin(), vocabulary.bos());
    }
    return tokens;
}

inline result<void> chat::configure(const sampling::params& given) {
    auto sampler = make_sampler(source(), given);
    if (!sampler) return std::move(sampler).error();
    sampler_ = *std::move(sampler);
    return {};
}

}  // namespace colibri
