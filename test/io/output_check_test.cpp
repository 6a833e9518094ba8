#include "colibri/io/output_check.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "support/scratch.hpp"

using namespace colibri;

TEST_CASE("an output may not be an input, by any name") {
    const scratch::folder folder;
    const std::vector<std::filesystem::path> inputs = {folder.put("a", "1"), folder.put("b", "2")};
    std::filesystem::create_symlink("b", folder.path() / "soft");
    std::filesystem::create_hard_link(inputs[1], folder.path() / "hard");
    std::filesystem::create_directory_symlink(folder.path(), folder.path() / "here");
    for (const auto* name : {"a", "b", "soft", "hard", "here/b", "../" }) {
        CAPTURE(name);
        auto got = check_output(folder.path() / name, inputs, true);
        REQUIRE(!got);
        CHECK(got.error().code == (name[0] == '.' ? errc::not_a_file : errc::invalid_argument));
    }
    CHECK(check_output(folder.path() / "soft", inputs, true).error().text().find("is the input") != std::string::npos);
}

TEST_CASE("an existing file needs consent") {
    const scratch::folder folder;
    const auto there = folder.put("a", "1");
    CHECK(check_output(folder.path() / "new", {}, false));
    CHECK(check_output(there, {}, true));
    CHECK(check_output(there, {}, false).error().text().find("--force") != std::string::npos);
    CHECK(check_output("/dev/null", {}, true).error().code == errc::not_a_file);
}
