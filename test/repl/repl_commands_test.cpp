#include "repl/repl_commands.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <string>

#include "repl/options.hpp"
#include "support/scratch.hpp"

using namespace colibri::repl;
using names = std::vector<std::string>;

TEST_CASE("commands: all that are promised, each with its help") {
    for (const auto* name :
         {"help", "set", "show", "system", "undo", "retry", "clear", "save", "load", "stats", "quit"}) {
        CHECK(find_repl_command(name) != nullptr);
        CHECK(repl_help().find(std::string("/") + name) != std::string::npos);
    }
    CHECK(all_repl_commands().size() == 11);
    CHECK(find_repl_command("bye") == find_repl_command("quit"));
    CHECK(find_repl_command("showcase") == nullptr);
    CHECK(find_repl_command("s") == nullptr);
}

TEST_CASE("commands: an unknown one is told") {
    const auto told = unknown_repl_command("hlep");
    CHECK(told.find("there is no command '/hlep'; did you mean /help?") == 0);
    CHECK(told.find("//hlep") != std::string::npos);
}

TEST_CASE("completion: commands and their words") {
    auto found = complete_repl_input("/s");
    CHECK(found.applies);
    CHECK(found.begin == 1);
    CHECK(found.candidates == names{"save ", "set ", "show ", "stats", "system "});
    CHECK(complete_repl_input("/xyz").candidates.empty());
    CHECK(complete_repl_input("/xyz").applies);
    found = complete_repl_input("/set top_");
    CHECK(found.begin == 5);
    CHECK(found.candidates == names{"top_k ", "top_n_sigma ", "top_p "});
    CHECK(complete_repl_input("/show m").candidates == names{"messages", "model"});
    CHECK(complete_repl_input("/set temp ").candidates.empty());
}

TEST_CASE("completion: text is not completed, so Tab is a tab there") {
    for (const auto text : {"", "hello", "/usr/bin", "hello /s", "/system be", "/nope x", "/s\n"}) {
        CAPTURE(text);
        CHECK(!complete_repl_input(text).applies);
    }
}

TEST_CASE("completion: paths behind /load and /save") {
    const scratch::folder folder;
    folder.put("chat one.json", "");
    folder.put("chat two.json", "");
    folder.put(".hidden", "");
    folder.put("sub/deep.json", "");
    folder.put("bad\nname", "");
    const auto line = "/load " + folder.path().string() + "/";
    auto found = complete_repl_input(line);
    CHECK(found.begin == line.size());
    CHECK(found.candidates == names{"chat one.json", "chat two.json", "sub/"});
    CHECK(complete_repl_input(line + "chat t").candidates == names{"chat two.json"});
    CHECK(complete_repl_input(line + "sub/").candidates == names{"deep.json"});
    CHECK(complete_repl_input(line + ".").candidates == names{".hidden"});
    CHECK(complete_repl_input(line + "none").candidates.empty());
    CHECK(complete_repl_input("/save /no/such/folder/x").candidates.empty());
    ::setenv("HOME", folder.path().c_str(), 1);
    CHECK(complete_repl_input("/save ~/su").candidates == names{"sub/"});
}

TEST_CASE("settable names are options") {
    for (const auto& name : settable_names()) {
        CAPTURE(name);
        CHECK((name == "history" || name == "system" || (find_option(name) != nullptr && find_option(name)->settable)));
    }
}
