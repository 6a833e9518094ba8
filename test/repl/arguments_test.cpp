#include "repl/arguments.hpp"

#include <doctest/doctest.h>

#include <string>

#include "repl/suggest.hpp"
#include "support/scratch.hpp"

using namespace colibri::repl;

namespace {

arguments parsed(std::vector<std::string_view> words) {
    auto args = parse_arguments(words);
    REQUIRE_MESSAGE(args, (args ? std::string() : args.error().text()));
    return *args;
}

std::string refusal(std::vector<std::string_view> words) {
    const auto args = parse_arguments(words);
    REQUIRE(!args);
    CHECK(args.error().message.find('\n') == std::string::npos);
    return args.error().message;
}

using names = std::vector<std::string>;

}  // namespace

TEST_CASE("arguments: commands, and a model alone") {
    CHECK(parsed({}).which == command::help);
    CHECK(parsed({"--version"}).which == command::version);
    CHECK(parsed({"--help"}).which == command::help);
    CHECK(parsed({"help", "run"}).names == names{"run"});
    CHECK(parsed({"run", "-m", "x", "file"}).which == command::run);
    CHECK(parsed({"plan", "-m", "x", "--probe"}).given.probe);
    CHECK(parsed({"model.gguf"}).which == command::chat);
    CHECK(parsed({"model.gguf", "-n", "5"}).names == names{"model.gguf"});
    CHECK(parsed({"-m", "model.gguf"}).given.model == "model.gguf");
    CHECK(parsed({"run", "--help"}).help);
    const scratch::folder folder;
    const auto file = folder.put("ru", "");
    CHECK(parsed({file.native()}).which == command::chat);
}

TEST_CASE("arguments: every way to write an option") {
    const auto args = parsed({"run", "-m", "m", "--predict", "5", "--temp=0", "-ub", "64", "-ctk", "q8_0", "-t4", "-c",
                              "2048", "--no-mmap", "--json", "-sys", "Be brief."});
    CHECK(args.given.model == "m");
    CHECK(args.given.predict == 5);
    CHECK(args.given.sampling.temperature == 0.0f);
    CHECK(args.given.ubatch == 64);
    CHECK(args.given.cache_k == "q8_0");
    CHECK(!args.given.cache_v);
    CHECK(args.given.threads == 4);
    CHECK(args.given.context == 2048);
    CHECK(args.given.mmap == false);
    CHECK(args.given.json);
    CHECK(args.given.system == "Be brief.");
    CHECK(args.names.empty());
}

TEST_CASE("arguments: values arrive as they are") {
    const auto args = parsed({"run", "-p", "--temp", "-m", "-", "--stop", "[a,b]", "--stop=--", "--system=", "--seed",
                              "-1", "--", "-x", "--raw"});
    CHECK(args.given.prompt == "--temp");
    CHECK(args.given.model == "-");
    CHECK(args.given.stops == names{"[a,b]", "--"});
    CHECK(args.given.system == "");
    CHECK(!args.given.sampling.seed);
    CHECK(!args.given.raw);
    CHECK(args.names == names{"-x", "--raw"});
    CHECK(parsed({"run", "-p", ""}).given.prompt == "");
    CHECK(parsed({"run", "-"}).names == names{"-"});
}

TEST_CASE("arguments: switches and their opposites; the last one wins") {
    CHECK(parsed({"run", "--mmap", "--no-mmap"}).given.mmap == false);
    CHECK(parsed({"run", "--no-mmap", "--mmap"}).given.mmap == true);
    CHECK(!parsed({"run"}).given.mmap);
    CHECK(parsed({"run", "-n", "3", "-n", "4"}).given.predict == 4);
}

TEST_CASE("arguments: refusals say what is wrong and what may have been meant") {
    CHECK(refusal({"run", "--tmp", "1"}) == "there is no option '--tmp'; did you mean --temp?");
    CHECK(refusal({"run", "--top_k", "1"}) == "there is no option '--top_k'; did you mean --top-k?");
    CHECK(refusal({"run", "--temperature=1"}) == "there is no option '--temperature'; did you mean --temp?");
    CHECK(refusal({"run", "--zzzzzz"}) == "there is no option '--zzzzzz'");
    CHECK(refusal({"run", "-x"}) == "there is no option '-x'");
    CHECK(refusal({"run", "-temp", "1"}) == "there is no option '-temp'; did you mean --temp?");
    CHECK(refusal({"run", "-n"}) == "-n needs a value: -n N");
    CHECK(refusal({"run", "-n", "many"}) == "-n: a whole number of at least -1 is needed, not 'many'");
    CHECK(refusal({"run", "--raw=1"}) == "--raw takes no value");
    CHECK(refusal({"chat", "--json"}) == "--json does nothing here; it belongs to run, tokenize, inspect, plan, eval, imatrix, convert");
    CHECK(refusal({"tokenise"}) == "'tokenise' is neither a command nor a file; did you mean tokenize?");
    CHECK(refusal({"completion", "--temp", "1"}).find("--temp does nothing here") == 0);
}

TEST_CASE("help: every option of a command is in its help, with its default") {
    for (const auto& c : all_commands()) {
        const auto help = help_text(c.which, false);
        CAPTURE(c.name);
        CHECK(help.find("Usage: colibri ") == 0);
        CHECK(help.find('\x1b') == std::string::npos);
        if (c.which != command::help) CHECK(overview_text(false).find(c.usage) != std::string::npos);
        for (const auto& row : all_options()) {
            CAPTURE(row.name);
            const auto name = "--" + std::string(row.name) + (row.value.empty() ? "" : " " + std::string(row.value));
            const auto left = row.short_name.empty() ? "\n  " + name : ", " + name;
            const auto at = help.find(left);
            const bool listed =
                at != std::string::npos && (help[at + left.size()] == ' ' || help[at + left.size()] == '\n');
            CHECK(listed == ((row.commands & c.bits) != 0));
        }
        for (std::size_t at = 0; at < help.size();) {
            const auto end = help.find('\n', at);
            CHECK(end - at <= 100);
            at = end + 1;
        }
    }
    CHECK(help_text(command::run, true).find("\x1b[1m") != std::string::npos);
    CHECK(overview_text(false).find("130 interrupted") != std::string::npos);
}

TEST_CASE("completion scripts hold every command and option") {
    for (const auto* shell : {"bash", "zsh", "fish"}) {
        const auto script = completion_script(shell);
        REQUIRE(script);
        for (const auto& row : all_options()) CHECK(script->find(row.name) != std::string::npos);
        for (const auto& c : all_commands()) CHECK(script->find(c.name) != std::string::npos);
    }
    const auto none = completion_script("tcsh");
    REQUIRE(!none);
    CHECK(none.error().message == "there is no completion for 'tcsh'; known are bash, zsh, fish");
}

TEST_CASE("suggestions") {
    CHECK(edit_distance("", "abc") == 3);
    CHECK(edit_distance("kitten", "sitting") == 3);
    CHECK(edit_distance("ab", "ba") == 1);
    CHECK(edit_distance("same", "same") == 0);
    const std::string_view known[] = {"help", "save", "load", "set", "system", "stats"};
    CHECK(nearest("hlep", known) == "help");
    CHECK(nearest("sav", known) == "save");
    CHECK(nearest("sys", known) == "system");
    CHECK(nearest("statistics", known) == std::nullopt);
    CHECK(nearest("quux", known) == std::nullopt);
    CHECK(suggestion("laod", known, "/") == "; did you mean /load?");
    CHECK(suggestion("quux", known, "/").empty());
}
