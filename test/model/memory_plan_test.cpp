#include "colibri/model/memory_plan.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include "colibri/gguf/edit.hpp"
#include "colibri/model/plan_changes.hpp"
#include "support/scratch.hpp"
#include "support/tiny_models.hpp"

using namespace colibri;

namespace {

/// Header of a tiny model that says it was trained for 8192 tokens.
model long_model(const scratch::folder& folder) {
    const auto path = folder.path() / "long.gguf";
    std::filesystem::copy_file(tiny::path("llama"), path);
    gguf::metadata_edit edit;
    edit.set.push_back(gguf::parse_edit("llama.context_length=u32:8192", gguf::file::open(path).value().meta()).value());
    REQUIRE(gguf::edit_metadata(path, edit));
    return model::open_header(path).value();
}

}  // namespace

TEST_CASE("memory plan: a context that nobody asked for gives way to resident weights, one that was given doesn't") {
    const scratch::folder folder;
    const auto m = long_model(folder);
    memory_request request;
    request.process = std::uint64_t{50} << 20;
    request.use.threads = 1;
    request.use.sequences = 32;  // 16 KiB of cache for each token of the context
    request.how = weights::holding::resident;
    request.use.context = 2048;
    const auto least = smallest_budget(m, request);
    request.use.context = 8192;
    const auto roomy = smallest_budget(m, request);
    REQUIRE(roomy > least + (std::uint64_t{1} << 20));

    request.how = weights::holding::automatic;
    request.memory = least;
    const auto given = plan_memory(m, request);
    REQUIRE(!given);
    CHECK(given.error().code == errc::out_of_memory);
    CHECK(given.error().message.find("context of 8192 tokens") != std::string::npos);
    request.use.context = 0;
    const auto smaller = plan_memory(m, request).value();
    CHECK(smaller.how == weights::holding::resident);
    CHECK(smaller.context == 2048);
    REQUIRE(smaller.notes.size() == 1);
    CHECK(smaller.notes[0].starts_with("context 2048 instead of 8192"));

    request.memory = roomy;
    const auto whole = plan_memory(m, request).value();
    CHECK(whole.how == weights::holding::resident);
    CHECK(whole.context == 8192);
    CHECK(whole.notes.empty());
}
