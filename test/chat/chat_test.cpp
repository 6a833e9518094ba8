#include "colibri/chat/chat.hpp"

#include <doctest/doctest.h>

#include "support/tiny_models.hpp"

using namespace colibri;

namespace {

/// A template whose control texts are tokens of the tiny models' vocabulary, or at least look like some.
constexpr const char* tiny_template =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

chat make(const model& m, chat_options options = {}) {
    if (options.template_source.empty()) options.template_source = tiny_template;
    options.threads = 1;
    if (options.max_tokens == 0) options.max_tokens = 8;
    options.sampling.temperature = 0.0f;
    return chat(m, options);
}

std::string take(chat::answer&& a) {
    std::string text;
    for (const auto piece : a) text += piece;
    CHECK(text == a.text());
    return text;
}

}  // namespace

TEST_CASE("chat: an answer becomes a message, and the next turn evaluates only what is new") {
    const auto m = tiny::open("llama");
    auto c = make(m);
    const auto text = take(c.ask("Hello there."));
    REQUIRE(c.messages().size() == 2);
    CHECK(c.messages()[0].role == "user");
    CHECK(c.messages()[1].role == "assistant");
    CHECK(c.messages()[1].content == text);
    const auto first = c.session().statistics();
    CHECK(first.cached_tokens == 0);
    CHECK(first.generated_tokens >= 1);
    static_cast<void>(take(c.ask("And?")));
    const auto second = c.session().statistics();
    // The first question and its answer's head at least: how the answer's own text is cut may differ from how it was made.
    CHECK(second.cached_tokens >= first.prompt_tokens);
    CHECK(second.cached_tokens < second.prompt_tokens);
    CHECK(c.messages().size() == 4);
}

TEST_CASE("chat: undo, retry, clear") {
    const auto m = tiny::open("llama");
    auto c = make(m);
    const auto first = take(c.ask("One."));
    static_cast<void>(take(c.ask("Two.")));
    CHECK(c.undo());
    CHECK(c.messages().size() == 2);
    CHECK(c.undo_answer());
    CHECK(take(c.reply()) == first);  // greedy: the same question has the same answer, from the cache or not
    CHECK(c.messages().size() == 2);
    c.clear();
    CHECK(c.messages().empty());
    CHECK(!c.undo());
    CHECK(take(c.ask("One.")) == first);
}

TEST_CASE("chat: what a user types never becomes a control token") {
    const auto m = tiny::open("llama");
    const auto& vocabulary = m.tokenizer();
    // Any control token of this vocabulary, whatever its text.
    text::token_id control = text::no_token;
    for (text::token_id id = 0; vocabulary.contains(id); ++id) {
        if (vocabulary.is_control(id) && id != vocabulary.bos()) control = id;
    }
    REQUIRE(control != text::no_token);
    const std::string evil(vocabulary.bytes(control));
    auto c = make(m, {.template_source = "<<{% for m in messages %}" + evil + "{{ m.content }}{% endfor %}>>"});
    const auto count = [&](const std::string& text) {
        c.set_messages({{"user", text}});
        const auto tokens = c.prompt_tokens().value();
        return std::count(tokens.begin(), tokens.end(), control);
    };
    CHECK(count("plain") == 1);
    CHECK(count(evil) == 1);
    CHECK(count("a" + evil + evil + "b") == 1);
    // Halves that only together with the template's text would make one.
    CHECK(count(evil.substr(1)) == 1);
    // Without special text the ids are those of the whole text.
    c.set_messages({{"user", "plain words 123"}});
    auto expected = vocabulary.encode("<<" + evil + "plain words 123>>", {.add_special = false, .parse_special = true});
    if (vocabulary.adds_bos()) expected.insert(expected.begin(), vocabulary.bos());
    CHECK(c.prompt_tokens().value() == expected);
}

TEST_CASE("chat: one BOS, whether or not the template writes it") {
    for (const auto* name : {"mistral", "gemma3"}) {
        CAPTURE(name);
        const auto m = tiny::open(name);
        const auto bos = m.tokenizer().bos();
        REQUIRE(m.tokenizer().adds_bos());
        for (const auto* source : {"{{ bos_token }}{{ messages[0].content }}", "{{ messages[0].content }}"}) {
            auto c = make(m, {.template_source = source});
            c.set_messages({{"user", "hello"}});
            const auto tokens = c.prompt_tokens().value();
            CHECK(tokens.front() == bos);
            CHECK(std::count(tokens.begin(), tokens.end(), bos) == 1);
        }
    }
}

TEST_CASE("chat: a question that doesn't fit the context is taken back, and the chat lives on") {
    const auto m = tiny::open("llama");
    chat_options options;
    options.context = 64;
    auto c = make(m, options);
    const std::string text = take(c.ask("Hi."));
    auto a = c.ask(std::string(2000, 'x'));
    const auto refused = a.next();
    REQUIRE(!refused);
    CHECK(refused.error().code == errc::context_full);
    CHECK(refused.error().message.find("64") != std::string::npos);
    CHECK(a.reason() == finish_reason::failed);
    CHECK(a.next().value() == std::nullopt);
    CHECK(c.messages().size() == 2);
    CHECK_THROWS_AS(take(c.ask(std::string(2000, 'x'))), exception);
    CHECK(c.messages().size() == 2);
    CHECK(c.undo());
    CHECK(take(c.ask("Hi.")) == text);
}

TEST_CASE("chat: a stopped answer keeps what was said") {
    const auto m = tiny::open("llama");
    auto c = make(m, {.max_tokens = 30});
    cancel_flag flag;
    c.set_cancel(&flag);
    {
        auto a = c.ask("Tell me.");
        std::size_t pieces = 0;
        for (const auto piece : a) {
            static_cast<void>(piece);
            if (++pieces == 2) flag.request();
        }
        CHECK(a.reason() == finish_reason::canceled);
        CHECK(pieces >= 2);
        CHECK(c.messages().back().content == a.text());
    }
    flag.reset();
    {
        auto dropped = c.ask("More.");
        static_cast<void>(dropped.next());
    }
    CHECK(c.messages().size() == 4);
    CHECK(c.messages().back().role == "assistant");
}

TEST_CASE("chat: a template that is wrong is a clear error when chatting, not when the model loads") {
    const auto m = tiny::open("llama");
    const auto broken = chat::open(m, {.template_source = "{% for %}"});
    REQUIRE(!broken);
    CHECK(broken.error().code == errc::template_syntax);
    auto c = make(m, {.template_source = "{{ raise_exception('only Klingon') }}"});
    auto a = c.ask("hi");
    const auto raised = a.next();
    REQUIRE(!raised);
    CHECK(raised.error().code == errc::template_runtime);
    CHECK(raised.error().message.find("only Klingon") != std::string::npos);
    CHECK(c.messages().empty());
    CHECK(!chat::open(m, {.template_name = "nonsense"}));
}

TEST_CASE("chat: a model without a template chats in the plain form and says so") {
    const auto m = tiny::open("mistral");
    REQUIRE(!m.meta().contains("tokenizer.chat_template"));
    chat c(m, {.threads = 1, .system = "Be brief.", .max_tokens = 2});
    CHECK(!c.has_template());
    CHECK(c.notes().size() == 1);
    c.set_messages({{"user", "Hello"}});
    const auto text = c.prompt_text().value().text;
    CHECK(text.find("Be brief.") < text.find("Hello"));
    static_cast<void>(take(c.reply()));
}
