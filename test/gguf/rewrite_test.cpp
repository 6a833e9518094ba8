#include "colibri/gguf/rewrite.hpp"

#include <doctest/doctest.h>

#include <string>

#include "support/made_gguf.hpp"
#include "support/scratch.hpp"

using namespace colibri;

namespace {

std::filesystem::path sample(const scratch::folder& folder) {
    gguf::metadata meta;
    meta.set("general.architecture", "test");
    meta.set("general.alignment", std::uint32_t{64});
    return made::gguf(folder.path() / "m.gguf", meta,
                      {{"a", dtype::f32, {300}}, {"b", dtype::q4_k, {256, 9}}, {"c", dtype::i8, {20u << 20}}, {"d", dtype::f16, {77}}});
}

}  // namespace

TEST_CASE("split and merged again, a file has the same bytes") {
    const scratch::folder folder;
    const auto path = sample(folder);
    const std::string before = scratch::read(path);
    const auto model = gguf::file::open(path).value();
    for (const gguf::split_limits limits : {gguf::split_limits{.max_tensors = 1}, {.parts = 2}, {.max_bytes = (20u << 20) + 1000}}) {
        const auto plan = gguf::plan_rewrite(model, path, limits).value();
        CHECK(plan.paths.size() >= 2);
        std::uint64_t seen = 0;
        REQUIRE(gguf::rewrite(model, plan, path, [&](const progress& p) {
            seen = p.done;
            return p.total == model.tensor_bytes();
        }));
        CHECK(seen == model.tensor_bytes());
        const auto parts = gguf::file::open(plan.paths.back()).value();
        CHECK(parts.parts().size() == plan.paths.size());
        const auto merged = folder.path() / "again.gguf";
        REQUIRE(gguf::rewrite(parts, gguf::plan_rewrite(parts, merged).value(), merged));
        CHECK(scratch::read(merged) == before);
        for (const auto& part : plan.paths) std::filesystem::remove(part);
    }
}

TEST_CASE("a stopped rewriting leaves nothing, and what was there stays") {
    const scratch::folder folder;
    const auto path = sample(folder);
    const auto model = gguf::file::open(path).value();
    const auto plan = gguf::plan_rewrite(model, path, {.parts = 3}).value();
    const auto old = folder.put(plan.paths[0].filename(), "old");
    auto stopped = gguf::rewrite(model, plan, path, [](const progress&) { return false; });
    CHECK(stopped.error().code == errc::canceled);
    CHECK(scratch::count(folder.path()) == 2);
    CHECK(scratch::read(old) == "old");
    std::filesystem::resize_file(path, 1u << 20);
    CHECK(gguf::rewrite(model, plan, path).error().code == errc::truncated);
    CHECK(scratch::count(folder.path()) == 2);
}
