#include "repl/conversation.hpp"

#include <doctest/doctest.h>

#include <string>

#include "repl/format.hpp"

using namespace colibri;
using namespace colibri::repl;

namespace {

options given_by(std::initializer_list<std::pair<const char*, const char*>> values) {
    options o;
    for (const auto& [name, value] : values) REQUIRE(set_option(o, *find_option(name), value));
    return o;
}

std::string problem(std::string_view json) {
    options o = given_by({{"temp", "0.5"}});
    const auto loaded = load_conversation(json, o);
    REQUIRE(!loaded);
    CHECK(loaded.error().message.find("nothing was changed") != std::string::npos);
    CHECK(o.sampling.temperature == 0.5f);
    return loaded.error().text();
}

}  // namespace

TEST_CASE("conversation: what is saved comes back") {
    const conversation talk{"a model", "Be \"brief\".", {{"user", "a\nb \u4e2d"}, {"assistant", "\\n\t{}"}}};
    const auto given = given_by({{"temp", "0.7"},
                                 {"seed", "18446744073709551615"},
                                 {"stop", "on"},
                                 {"stop", "[1]"},
                                 {"logit-bias", "3=-inf"},
                                 {"predict", "-1"},
                                 {"ignore-eos", "off"},
                                 {"samplers", "top_k;temp"},
                                 {"threads", "3"}});
    const auto saved = save_conversation(talk, given);
    CHECK(is_saved_conversation(saved));
    options loaded = given_by({{"top-k", "5"}, {"threads", "7"}});
    const auto back = load_conversation(saved, loaded);
    REQUIRE(back);
    CHECK(back->model == talk.model);
    CHECK(back->system == talk.system);
    CHECK(back->messages == talk.messages);
    for (const auto& row : all_options()) {
        CAPTURE(row.name);
        if (row.settable) CHECK(given_values(loaded, row) == given_values(given, row));
    }
    CHECK(loaded.threads == 7);  // not a setting
    CHECK(save_conversation(*back, loaded) == saved);
}

TEST_CASE("conversation: bytes of a model that are no UTF-8 don't spoil the file") {
    options none;
    const auto saved = save_conversation({"m\xff", std::nullopt, {{"user", "x"}, {"assistant", "\xff\xfe"}}}, none);
    const auto back = load_conversation(saved, none);
    REQUIRE(back);
    CHECK(back->messages[1].content == "\ufffd\ufffd");
    CHECK(!back->system);
}

TEST_CASE("conversation: an unanswered message may be the last") {
    options none;
    const auto back = load_conversation(
        R"({"format":"colibri-conversation","version":1,"messages":[{"role":"user","content":"x"}]})", none);
    REQUIRE(back);
    CHECK(back->messages.size() == 1);
}

TEST_CASE("conversation: what is damaged is refused by name") {
    const std::string head = R"({"format":"colibri-conversation","version":1,)";
    CHECK(problem("").find("no conversation") != std::string::npos);
    CHECK(problem("[]").find("no conversation") != std::string::npos);
    CHECK(problem(R"({"format":"colibri-conversation","messages":[]})").find("version none") != std::string::npos);
    CHECK(problem(R"({"format":"colibri-conversation","version":"9","messages":[]})").find("version") !=
          std::string::npos);
    CHECK(problem(head + R"("messages":{}})").find("\"messages\"") == 0);
    CHECK(problem(head + R"("messages":[{"role":"user"}]})").find("message 1") == 0);
    CHECK(problem(head + R"("messages":[{"role":"user","content":"x"},{"role":"user","content":"y"}]})")
              .find("message 2") == 0);
    CHECK(problem(head + R"("messages":[],"settings":[]})").find("\"settings\"") == 0);
    CHECK(problem(head + R"("messages":[],"settings":{"temp":{}}})").find("setting 'temp'") == 0);
    CHECK(problem(head + R"("messages":[],"settings":{"temp":0.2,"top-p":2}})").find("setting 'top-p'") == 0);
    CHECK(problem(head + R"("messages":[],"settings":{"prompt":"x"}})").find("setting 'prompt'") == 0);
    CHECK(problem(head + R"("messages":[],"settings":{"stop":"x"}})").find("must be a list") != std::string::npos);
    CHECK(!is_saved_conversation(R"({"format":"other"})"));
}

TEST_CASE("numbers for people") {
    CHECK(fixed(1.25, 1) == "1.2");
    CHECK(fixed(0.0, 2) == "0.00");
    CHECK(fixed(1234567.891, 1) == "1234567.9");
    CHECK(bytes_text(0) == "0 bytes");
    CHECK(bytes_text(1) == "1 byte");
    CHECK(bytes_text(1023) == "1023 bytes");
    CHECK(bytes_text(1024) == "1.00 KiB");
    CHECK(bytes_text(15 * 1024 * 1024) == "15.0 MiB");
    CHECK(bytes_text(std::uint64_t{180} << 20) == "180 MiB");
    CHECK(bytes_text(std::uint64_t{3} << 30) == "3.00 GiB");
    CHECK(counted(1, "token") == "1 token");
    CHECK(counted(0, "token") == "0 tokens");
}
